"""Many runs over worker processes.

A worker that dies takes only its own run with it. Ctrl-C stops the runs that have begun; finished ones are on the
disk by then, so the same command resumes. A run waits to begin while memory would not hold it beside the active ones,
going by the largest so far.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Protocol

from loiter.engine import Engine, Json
from loiter.errors import Fault, InternalFault, Interrupted, RunFault, StoreFault, UserFault
from loiter.runs import memory, worker
from loiter.runs.turn import Waiting
from loiter.runs.worker import Done, Failed, Job, Report, Running
from loiter.store import Store

_PATIENCE_SECONDS = 3.0
"""How long a stopped run may take to notice; it reports progress about five times a second."""


class Observer(Protocol):
    """What a person sees of the runs."""

    def started(self, job: Job) -> None: ...

    def progress(self, job: Job, facts: Json) -> None: ...

    def finished(self, job: Job, done: Done) -> None: ...

    def failed(self, job: Job, fault: Fault) -> None: ...


@dataclass(frozen=True)
class Failure:
    """A run that failed, by its label."""

    label: str
    fault: Fault


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    pipe: Connection
    job: Job | None = None


@dataclass
class Ledger:
    """What became of the runs, however they are carried out. A store that cannot be written ends it all at once, as
    every other run would meet the same. So does a fault of the user's, unless they are to keep going."""

    observer: Observer
    keep_going: bool = False
    failures: list[Failure] = field(default_factory=list)
    """In the order in which they did."""
    measured: dict[str, Json] = field(default_factory=dict)
    """What the jobs were to measure, by their labels."""

    def settle(self, job: Job, end: Done | Failed) -> None:
        """A run is through."""
        if isinstance(end, Done):
            self.observer.finished(job, end)
            if end.measured is not None:
                self.measured[job.label] = end.measured
            return
        self.observer.failed(job, end.fault)
        self.failures.append(Failure(job.label, end.fault))
        if isinstance(end.fault, StoreFault) or (isinstance(end.fault, UserFault) and not self.keep_going):
            raise type(end.fault)(f"{job.label}: {end.fault}")


@dataclass
class _Work:
    waiting: Waiting
    ledger: Ledger
    workers: list[_Worker] = field(default_factory=list)
    begun: Counter[str] = field(default_factory=Counter)
    largest_bytes: int = 0
    """Memory that the largest run took so far."""


def cpus() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def execute(
    jobs: Sequence[Job],
    store: Store,
    engine: Engine,
    observer: Observer,
    workers: int,
    *,
    keep_going: bool = False,
) -> Ledger:
    """Runs the jobs and stores their results; returns what became of them.

    The most expensive runs go first, so that none is left over at the end with one worker busy.
    """
    work = _Work(Waiting(jobs, engine), Ledger(observer, keep_going))
    store.sweep()
    try:
        for _ in range(min(workers, len(jobs))):
            work.workers.append(_start(engine, store))
        while _hand_out(work, engine, store):
            _collect(work)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted("interrupted") from None
    finally:
        _stop(work.workers)
        store.sweep()
    return work.ledger


def python_path() -> str:
    """Where a Python that we start finds what we have found."""
    return os.pathsep.join(path for path in sys.path if path)


def _start(engine: Engine, store: Store) -> _Worker:
    """Starts a worker as a program of its own.

    Not forked: this process has threads (display, Arrow) that a fork would copy half. Not spawned by `multiprocessing`
    either: that runs the main program again, and a user's script need not be made for it.
    """
    ours, theirs = Pipe()
    command = [sys.executable, "-m", worker.__name__, str(theirs.fileno())]
    environment = os.environ | {"PYTHONPATH": python_path()}
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], env=environment)
    theirs.close()
    with contextlib.suppress(OSError):  # it died just now; _collect reports it
        ours.send((engine.name, store))
    return _Worker(process, ours)


def _hand_out(work: _Work, engine: Engine, store: Store) -> bool:
    """Gives every idle worker a job; tells whether any is at work."""
    for index, each in enumerate(work.workers):
        if each.job is not None or not work.waiting or not _fits(work):
            continue
        if each.process.poll() is not None:
            each = work.workers[index] = _start(engine, store)
        each.job = work.waiting.next(each.job for each in work.workers if each.job is not None)
        work.begun[each.job.label] += 1
        work.ledger.observer.started(each.job)
        with contextlib.suppress(OSError):  # it died just now; _collect reports it
            each.pipe.send(each.job)
    return any(each.job is not None for each in work.workers)


def _fits(work: _Work) -> bool:
    """Whether there is memory for one more run beside the active ones, if all are as large as the largest so far."""
    active = [each.process.pid for each in work.workers if each.job is not None]
    if not active or not work.largest_bytes:
        return True
    still_to_come = sum(max(0, work.largest_bytes - memory.resident_bytes(pid)) for pid in active)
    return memory.available_bytes() >= work.largest_bytes + still_to_come


def _collect(work: _Work) -> None:
    by_pipe = {each.pipe: each for each in work.workers if each.job is not None}
    for each in by_pipe.values():
        work.largest_bytes = max(work.largest_bytes, memory.resident_bytes(each.process.pid))
    for pipe in wait(list(by_pipe), timeout=1.0):
        assert isinstance(pipe, Connection)
        each = by_pipe[pipe]
        try:
            report: Report = pipe.recv()
        except (EOFError, OSError):
            report = Failed(_died(each.process))
            job = each.job
            if job is not None and work.begun[job.label] < job.attempts:
                work.waiting.again(job)
                each.job = None
                continue
        _take(work, each, report)


def _take(work: _Work, each: _Worker, report: Report) -> None:
    assert each.job is not None
    if isinstance(report, Running):
        work.ledger.observer.progress(each.job, report.progress)
        return
    work.ledger.settle(each.job, report)
    work.waiting.ended(each.job)
    each.job = None


def _died(process: subprocess.Popen[bytes]) -> Fault:
    code = None
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = process.wait(_PATIENCE_SECONDS)
    if code == -signal.SIGKILL:
        return RunFault("its worker process was killed by signal 9, as where memory runs out; fewer --jobs need less")
    if code is not None and code < 0:
        return InternalFault(f"its worker process was killed by signal {-code}")
    return InternalFault(f"its worker process ended without a report (exit status {code})")


def _stop(workers: list[_Worker]) -> None:
    for each in workers:
        with contextlib.suppress(OSError):
            each.pipe.send(None)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for each in workers:
        try:
            each.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            each.process.kill()
            each.process.wait()
        each.pipe.close()
