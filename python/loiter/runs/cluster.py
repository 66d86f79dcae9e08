"""Many runs over a Dask cluster: one on this host, one that is running already, or jobs of a batch system.

A task is what a worker process does with a job (`worker.carry_out`): it finds the run in the store or carries it out
there. So all workers see the directory of the store, under the same name. One that dies takes only its present run with
it, which Dask gives to another. Dask itself is the extra `cluster` of the package.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from loiter.engine import Engine, Json
from loiter.errors import Fault, Interrupted, RunFault, UserFault
from loiter.runs import pool, worker
from loiter.runs.pool import Ledger, Observer
from loiter.runs.turn import Waiting
from loiter.runs.worker import Done, Failed, Job
from loiter.store import Store

if TYPE_CHECKING:
    from distributed import Client, Future

LOCAL = "local"
_BATCH = {
    "slurm": ("SLURMCluster", "sbatch"),
    "pbs": ("PBSCluster", "qsub"),
    "htcondor": ("HTCondorCluster", "condor_submit"),
}
"""Batch systems: the class of dask-jobqueue, and the command it submits with."""

NAMES = (LOCAL, *_BATCH)

_CONNECT_SECONDS = 10.0
_LOOK_SECONDS = 1.0
_MOST_SENT_PER_THREAD = 4
"""Runs handed to a thread of the cluster ahead of time, so that it need not wait for the next; the rest stay here."""


@contextlib.contextmanager
def connected(where: str | Client, workers: int | None) -> Iterator[Client]:
    """A client of the cluster that is named, which is started for it unless it is an address or a client.

    `workers` is the number of processes (`local`; default: one for each processor) or of jobs of the batch system.
    Raises `UserFault` where there is no such cluster.
    """
    try:
        import distributed
    except ModuleNotFoundError:
        raise UserFault("a cluster is Dask's, which is not installed: pip install 'loiter[cluster]'.") from None
    if isinstance(where, distributed.Client):
        yield where
        return
    if where in NAMES:
        import dask

        # How often a run is begun at most is the sweep's to say, the same here as for our own worker processes.
        with (
            dask.config.set({"distributed.scheduler.allowed-failures": worker.ATTEMPTS - 1}),
            _started(where, workers) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(where, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise UserFault(
            f"--cluster {where}: no scheduler of Dask there ({error}). Name one as tcp://HOST:PORT, or one of "
            f"{', '.join(NAMES)}."
        ) from None
    with client:
        yield client


@contextlib.contextmanager
def _started(where: str, workers: int | None) -> Iterator[Any]:
    if where == LOCAL:
        with _local(workers or pool.cpus()) as cluster:
            yield cluster
        return
    name, command = _BATCH[where]
    if shutil.which(command) is None:
        raise UserFault(f"--cluster {where}: no {command} on this host; start it where jobs are submitted from.")
    if workers is None:
        raise UserFault(f"--cluster {where}: --jobs says how many of its jobs to ask for.")
    import dask
    import dask_jobqueue

    if not (dask.config.get(f"jobqueue.{where}.cores") and dask.config.get(f"jobqueue.{where}.memory")):
        raise UserFault(
            f"--cluster {where}: what is a job? Dask's file jobqueue.yaml says its cores and memory (docs/sweeps.md)."
        )
    with getattr(dask_jobqueue, name)() as cluster:
        cluster.scale(jobs=workers)
        yield cluster


@contextlib.contextmanager
def _local(workers: int) -> Iterator[Any]:
    """Dask's cluster on this host. Its workers are programs of their own, for the reason that `pool` gives; each may
    take its part of the memory."""
    from distributed import LocalCluster
    from distributed.system import MEMORY_LIMIT

    with (
        LocalCluster(n_workers=0, dashboard_address=None, silence_logs=_SILENT) as cluster,
        tempfile.TemporaryFile() as said,
        _worker_programs(cluster.scheduler_address, workers, MEMORY_LIMIT // workers, said) as process,
    ):
        deadline = time.monotonic() + _START_SECONDS
        while len(cluster.scheduler_info["workers"]) < workers:
            if process.poll() is not None or time.monotonic() > deadline:
                said.seek(0)
                words = said.read().decode(errors="replace")[-_WORDS_KEPT:]
                raise RunFault(f"--cluster {LOCAL}: the workers did not start:\n{words}")
            time.sleep(_LOOK_SECONDS / 20)
        yield cluster


@contextlib.contextmanager
def _worker_programs(
    scheduler: str, workers: int, memory_bytes: int, said: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "distributed.cli.dask_worker", scheduler, "--nworkers", str(workers)]
    command += ["--nthreads", "1", "--memory-limit", str(memory_bytes), "--no-dashboard"]
    process = subprocess.Popen(
        command, stdout=said, stderr=said, env=os.environ | {"PYTHONPATH": pool.python_path()}, start_new_session=True
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_START_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


_SILENT = 60
"""Above every level of Python's logging: what a worker that dies has to say is said by us."""

_START_SECONDS = 60.0
_WORDS_KEPT = 2000


@dataclass
class _Sent:
    """The runs that the cluster has, and what it says of them."""

    jobs: dict[str, Job] = field(default_factory=dict)
    futures: dict[str, Future] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    news: queue.SimpleQueue[tuple[str, Json | None]] = field(default_factory=queue.SimpleQueue)
    """By task: facts on an active run, none of one that has ended."""


def execute(
    jobs: Sequence[Job],
    store: Store,
    engine: Engine,
    observer: Observer,
    client: Client,
    *,
    keep_going: bool = False,
) -> Ledger:
    """Runs the jobs and stores their results; returns what became of them."""
    waiting, ledger = Waiting(jobs, engine), Ledger(observer, keep_going)
    sent, topic = _Sent(), f"loiter-{uuid.uuid4().hex}"

    def heard(event: tuple[float, tuple[str, Json]]) -> None:
        sent.news.put(event[1])

    client.subscribe_topic(topic, heard)
    try:
        room, looked = 0, 0.0
        while waiting or sent.jobs:
            if time.monotonic() - looked > _LOOK_SECONDS:
                # Workers of a batch system come and go.
                room, looked = _MOST_SENT_PER_THREAD * sum(client.nthreads().values()), time.monotonic()
            while waiting and len(sent.jobs) < max(room, 1):
                _send(waiting.next(sent.jobs.values()), store, engine, client, topic, sent)
            with contextlib.suppress(queue.Empty):
                ended = _hear(*sent.news.get(timeout=_LOOK_SECONDS), sent, ledger)
                if ended is not None:
                    waiting.ended(ended)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted("interrupted") from None
    finally:
        with contextlib.suppress(Exception):  # a scheduler that is gone cannot cancel
            client.cancel(list(sent.futures.values()), force=True)
            client.unsubscribe_topic(topic)
    return ledger


def _send(job: Job, store: Store, engine: Engine, client: Client, topic: str, sent: _Sent) -> None:
    key = job.request.key(engine)
    task = f"loiter-{key}-{uuid.uuid4().hex[:8]}"
    future = client.submit(_carry_out, job, key, engine.name, store, topic, key=task, pure=False)
    sent.jobs[task], sent.futures[task] = job, future
    future.add_done_callback(lambda ended: sent.news.put((ended.key, None)))


def _hear(task: str, facts: Json | None, sent: _Sent, ledger: Ledger) -> Job | None:
    """Takes a piece of news; returns the job that has ended, if that is it."""
    job = sent.jobs.get(task)
    if job is None:
        return None
    if task not in sent.started:
        sent.started.add(task)
        ledger.observer.started(job)
    if facts is not None:
        if facts:
            ledger.observer.progress(job, facts)
        return None
    del sent.jobs[task]
    ledger.settle(job, _end(sent.futures.pop(task)))
    return job


def _end(future: Future) -> Done | Failed:
    from distributed import KilledWorker

    try:
        end = future.result()
    except KilledWorker:
        return Failed(
            RunFault(
                f"its worker process died, {worker.ATTEMPTS} times, as where memory runs out; fewer --jobs need less"
            )
        )
    except ModuleNotFoundError as error:
        return Failed(UserFault(f"a worker of the cluster has no module {error.name}; install this loiter there"))
    except Exception as error:
        # Whatever Dask makes of a worker or a scheduler that is gone.
        return Failed(RunFault(f"the cluster lost it: {type(error).__name__}: {error}"))
    assert isinstance(end, Done | Failed)
    return end


def _carry_out(job: Job, key: str, engine_name: str, store: Store, topic: str) -> Done | Failed:
    """A task, on a worker of the cluster."""
    from distributed import get_worker

    from loiter import engine as engines

    here = get_worker()
    task = str(here.get_current_task())

    def progress(facts: Json) -> bool:
        here.log_event(topic, (task, facts))
        known = here.state.tasks.get(task)
        return known is not None and known.state != "cancelled"

    here.log_event(topic, (task, {}))
    try:
        if job.request.key(engines.load(engine_name)) != key:
            raise UserFault(f"worker {here.address} has another loiter than this one; install the same there")
        if not store.root.is_dir():
            raise UserFault(
                f"worker {here.address} has no directory {store.root}; all workers must see the cache directory of "
                "this host, which LOITER_CACHE names"
            )
    except Fault as fault:
        return Failed(fault)
    return worker.carry_out(job, engine_name, store, progress)
