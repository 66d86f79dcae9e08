"""Sweeps on a cluster of Dask's: the same rows, workers that die, clusters that are not there, batch systems."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import dask
import pandas as pd
import pytest
from distributed import Client, LocalCluster

import fake_command
import loiter
from fake_native import ran
from loiter import store
from loiter.engine import Engine
from loiter.runs import cluster, memory, pool, worker
from loiter.runs.worker import Done, Failed, Job

GRID = {"core.contexts": [1, 2, 4], "argument.iterations": [5, 7]}
WORDS: dict[str, Any] = {"machine": "t1", "program": "spinloops", "place": {"add": 0}, "quiet": True}


@pytest.fixture(autouse=True)
def _own_store(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def client(engine: Engine, tmp_path: Path) -> Iterator[Client]:
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as here, Client(here) as client:
        yield client


def sweep(axes: Any = GRID, **words: Any) -> pd.DataFrame:
    return loiter.sweep(axes, **(WORDS | {"workers": 2} | words))


def test_a_cluster_gives_the_rows_that_we_give(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_cluster = sweep(cluster="local")
    assert on_cluster.error.isna().all()
    assert ran(log) == 6
    pd.testing.assert_frame_equal(sweep(), on_cluster)
    assert ran(log) == 0, "what a cluster has run is in the store"
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "another"))
    here = sweep()
    assert ran(log) == 6
    columns = [column for column in here.columns if column != "result"]
    pd.testing.assert_frame_equal(here[columns], on_cluster[columns])


class Needs:
    """A request that needs what others need, too."""

    def __init__(self, name: str, *shared: str) -> None:
        self._name, self._shared = name, shared

    def key(self, _engine: Engine) -> str:
        return self._name

    def shares(self, _engine: Engine) -> tuple[str, ...]:
        return self._shared


class OneAfterAnother:
    """A cluster of one thread, on which a run ends at once."""

    def __init__(self) -> None:
        self.submitted: list[str] = []

    def nthreads(self) -> dict[str, int]:
        return {"a worker": 1}

    def submit(self, _function: Any, job: Job, *_rest: Any, key: str, pure: bool) -> Any:
        assert not pure
        self.submitted.append(job.label)
        ended = Done(cast(Any, None))
        return SimpleNamespace(key=key, add_done_callback=lambda told: told(future(key)), result=lambda: ended)

    def subscribe_topic(self, _topic: str, _heard: Any) -> None: ...

    def unsubscribe_topic(self, _topic: str) -> None: ...

    def cancel(self, _futures: list[Any], force: bool) -> None:
        assert force


def future(key: str) -> Any:
    return SimpleNamespace(key=key)


def test_a_cluster_hands_out_in_turn(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_MOST_SENT_PER_THREAD", 1)
    needs = {
        "none.255": ("boot", "255"),
        "none.64": ("boot", "64"),
        "all.64": ("boot", "64"),
        "all.255": ("boot", "255"),
    }
    jobs = [Job(name, cast(Any, Needs(name, *shared)), weight=-at) for at, (name, shared) in enumerate(needs.items())]
    client = OneAfterAnother()
    ledger = cluster.execute(jobs, store.Store(tmp_path), engine, Mock(), cast(Any, client))
    assert not ledger.failures
    # By weight alone `none.64` would be second.
    assert client.submitted == ["none.255", "all.255", "none.64", "all.64"]


def test_the_run_of_a_worker_that_dies_is_given_to_another(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KILL_ONCE", str(tmp_path / "killed"))
    frame = sweep(cluster="local")
    assert (tmp_path / "killed").exists()
    assert frame.error.isna().all()
    assert ran(log) == 6, "none is run twice"


def test_a_run_that_fails_is_a_row_with_its_error(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_KILL", "mulx")
    monkeypatch.setenv("FAKE_EXIT", "sort")
    frame = sweep({"place": ["add=0", "mulx=0", "sort=0"]}, place=None, cluster="local")
    assert list(frame.error.isna()) == [True, False, False]
    assert "its worker process died, 3 times" in frame.error[1]
    assert "the program said so" in frame.error[2]


def test_a_client_and_an_address_are_clusters(log: Path, client: Client) -> None:
    sweep({"core.contexts": [1, 2]}, cluster=client)
    sweep({"core.contexts": [2, 4]}, cluster=client.scheduler.address)
    assert ran(log) == 3
    assert client.status == "running", "who has it closes it"


def test_a_worker_that_cannot_do_it_says_why(engine: Engine, client: Client, tmp_path: Path) -> None:
    request = loiter.request("t1", "spinloops", place={"add": 0})
    job, key = Job("one", request), request.key(engine)
    (tmp_path / "there").mkdir()
    for kept, asked, message in (
        (tmp_path / "there", "other", "has another loiter than this one"),
        (tmp_path / "away", key, "has no directory"),
    ):
        end = client.submit(cluster._carry_out, job, asked, engine.name, store.SharedStore(kept), "t").result()
        assert isinstance(end, Failed)
        assert isinstance(end.fault, loiter.UserFault)
        assert message in str(end.fault)


def test_clusters_that_are_not_there(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 1.0)
    for name, message in (
        ("tcp://127.0.0.1:1", r"--cluster tcp://127\.0\.0\.1:1: no scheduler of Dask there"),
        ("slrum", "--cluster slrum: no scheduler of Dask there"),
        ("slurm", "--cluster slurm: no sbatch on this host"),
        ("pbs", "--cluster pbs: no qsub on this host"),
        ("htcondor", "--cluster htcondor: no condor_submit on this host"),
    ):
        with pytest.raises(loiter.UserFault, match=message):
            sweep(cluster=name)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(loiter.UserFault, match=r"pip install 'loiter\[cluster\]'"):
        sweep(cluster="local")
    assert ran(log) == 0


def _batch_system(directory: Path) -> None:
    """Slurm's commands, for one host: a job is a process."""
    directory.mkdir()
    # The script is gone once it is submitted.
    (directory / "sbatch").write_text(
        '#!/bin/sh\ncp "$1" "$0.job"\nsetsid sh "$0.job" > "$0.log" 2>&1 < /dev/null &\necho "Submitted batch job $!"\n'
    )
    (directory / "scancel").write_text('#!/bin/sh\nfor job; do kill -9 -- "-$job"; done\n', encoding="utf-8")
    for path in directory.iterdir():
        path.chmod(0o755)


def test_a_batch_system_runs_it(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _batch_system(tmp_path / "bin")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
        with pytest.raises(loiter.UserFault, match="--jobs says how many"):
            sweep(cluster="slurm", workers=None)
        with pytest.raises(loiter.UserFault, match=r"what is a job\? .*jobqueue\.yaml"):
            sweep(cluster="slurm")
        patch.setenv("PYTHONPATH", pool.python_path())
        job = {"jobqueue.slurm.cores": 1, "jobqueue.slurm.processes": 1, "jobqueue.slurm.memory": "1GiB"}
        with dask.config.set(job):
            frame = sweep(cluster="slurm", workers=1)
    assert frame.error.isna().all()
    assert ran(log) == 6


def test_the_command_says_what_is_wrong(tmp_path: Path, log: Path) -> None:
    words = [*fake_command.words(tmp_path), "sweep", "-m", "t1", "-p", "spinloops", "--place", "add=0"]
    words += ["--grid", "core.contexts=1,2"]
    for more, status, message in (
        (["--cluster", "pbs"], 2, "no qsub on this host"),
        (["--cluster", "local"], 0, "wrote results/sweep/points.parquet"),
    ):
        done = subprocess.run([*words, *more], capture_output=True, text=True, timeout=120)
        assert done.returncode == status, done.stderr
        assert message in done.stderr + done.stdout
        assert "Traceback" not in done.stderr
    assert ran(log) == 2


class _Count:
    """How many runs are under way, at most."""

    def __init__(self) -> None:
        self.now = self.most = self.ended = 0

    def started(self, job: Job) -> None:
        self.now += 1
        self.most = max(self.most, self.now)

    def progress(self, job: Job, facts: Any) -> None: ...

    def finished(self, job: Job, done: Done) -> None:
        self.now -= 1
        self.ended += 1

    def failed(self, job: Job, fault: loiter.Fault) -> None:
        self.now -= 1


@pytest.mark.parametrize(("available_gib", "side_by_side"), [(10, 3), (3, 1)])
def test_runs_that_memory_does_not_hold_wait_for_each_other(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available_gib: int, side_by_side: int
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: available_gib << 30)
    monkeypatch.setattr(memory, "resident_bytes", lambda pid: 4 << 30)
    requests = [loiter.request("t1", "spinloops", place={"add": 0}, arguments={"iterations": n}) for n in range(1, 10)]
    jobs = [Job(f"run {number}", request) for number, request in enumerate(requests)]
    kept, first, rest = store.SharedStore(tmp_path / "runs"), _Count(), _Count()
    # Of one run its size is known; then they go by it.
    monkeypatch.setattr(pool, "_Work", _known_size)
    assert not pool.execute(jobs[:1], kept, engine, first, 3).failures
    assert not pool.execute(jobs[1:], kept, engine, rest, 3).failures
    assert (first.ended, rest.ended, rest.most) == (1, 8, side_by_side)


def _known_size(waiting: Any, ledger: Any, make: Any = pool._Work) -> Any:
    return make(waiting, ledger, largest_bytes=4 << 30)


def test_memory_of_this_host_and_of_processes() -> None:
    assert 1 << 24 < memory.available_bytes() < 1 << 50
    assert 1 << 22 < memory.resident_bytes(os.getpid()) < 1 << 40
    assert memory.resident_bytes(1 << 30) == 0


def test_a_run_that_somebody_made_meanwhile_is_not_made_again(engine: Engine, tmp_path: Path, log: Path) -> None:
    job = Job("one", loiter.request("t1", "spinloops", place={"add": 0}))
    kept = store.SharedStore(tmp_path / "runs")
    ends = [worker.carry_out(job, engine.name, kept, lambda facts: True) for _ in range(2)]
    assert ran(log) == 1
    assert all(isinstance(end, Done) for end in ends)
    assert ends[0].finished.cycles == ends[1].finished.cycles  # type: ignore[union-attr]
