"""Many runs over worker processes.

A worker that dies takes only its own run with it. Ctrl-C stops the runs under way; finished ones are on the disk by
then, so the same command resumes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Protocol

from loiter.engine import Engine, Json
from loiter.errors import Fault, InternalFault, Interrupted, StoreFault, UserFault
from loiter.runs.worker import Answer, Done, Failed, Job, Running, serve
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
    process: BaseProcess
    pipe: Connection
    job: Job | None = None


@dataclass
class _Work:
    waiting: deque[Job]
    observer: Observer
    workers: list[_Worker] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def cpus() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def execute(jobs: Sequence[Job], store: Store, engine: Engine, observer: Observer, workers: int) -> list[Failure]:
    """Runs the jobs and stores their results; returns the runs that failed, in the order they did.

    The most expensive runs go first, so that none is left over at the end with one worker busy. A fault of the user's,
    or a store that cannot be written, ends it all at once: every other run would meet the same.
    """
    order = sorted(jobs, key=lambda job: -job.weight)
    work = _Work(deque(order), observer)
    store.sweep()
    try:
        for _ in range(min(workers, len(order))):
            work.workers.append(_start(engine, store))
        while _hand_out(work, engine, store):
            _collect(work)
    except (KeyboardInterrupt, Interrupted):
        raise Interrupted("interrupted") from None
    finally:
        _stop(work.workers)
        store.sweep()
    return work.failures


def _start(engine: Engine, store: Store) -> _Worker:
    # Spawned, not forked: the parent has threads (display, Arrow) that a fork would copy half.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, engine.name, store), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _hand_out(work: _Work, engine: Engine, store: Store) -> bool:
    """Gives every idle worker a job; tells whether any is at work."""
    for index, worker in enumerate(work.workers):
        if worker.job is not None or not work.waiting:
            continue
        if not worker.process.is_alive():
            worker = work.workers[index] = _start(engine, store)
        worker.job = work.waiting.popleft()
        work.observer.started(worker.job)
        with contextlib.suppress(OSError):  # it died just now; _collect reports it
            worker.pipe.send(worker.job)
    return any(worker.job is not None for worker in work.workers)


def _collect(work: _Work) -> None:
    by_pipe = {worker.pipe: worker for worker in work.workers if worker.job is not None}
    for pipe in wait(list(by_pipe), timeout=1.0):
        assert isinstance(pipe, Connection)
        worker = by_pipe[pipe]
        try:
            answer: Answer = pipe.recv()
        except (EOFError, OSError):
            answer = Failed(_died(worker.process))
        _take(work, worker, answer)


def _take(work: _Work, worker: _Worker, answer: Answer) -> None:
    job = worker.job
    assert job is not None
    match answer:
        case Running(progress=facts):
            work.observer.progress(job, facts)
            return
        case Done():
            work.observer.finished(job, answer)
        case Failed(fault=fault):
            work.observer.failed(job, fault)
            work.failures.append(Failure(job.label, fault))
            if isinstance(fault, UserFault | StoreFault):
                raise type(fault)(f"{job.label}: {fault}")
    worker.job = None


def _died(process: BaseProcess) -> InternalFault:
    process.join(_PATIENCE_SECONDS)
    code = process.exitcode
    if code is not None and code < 0:
        hint = " (out of memory? Fewer --jobs need less)" if code == -9 else ""
        return InternalFault(f"its worker process was killed by signal {-code}{hint}")
    return InternalFault(f"its worker process ended without an answer (exit status {code})")


def _stop(workers: list[_Worker]) -> None:
    for worker in workers:
        with contextlib.suppress(OSError):
            worker.pipe.send(None)
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        if worker.process.is_alive():
            worker.process.terminate()
            worker.process.join()
        worker.pipe.close()
