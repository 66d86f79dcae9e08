"""A worker process: takes jobs from a pipe, runs each, stores its result, and reports what became of it.

The pipe carries one job at a time. While a run lasts nothing is sent to the worker except the wish to stop, so anything
readable on the pipe, its end included (the parent died), stops the run at its next report of progress.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection

from loiter import engine as engines
from loiter.engine import Json
from loiter.errors import Fault
from loiter.results import Result
from loiter.runs.request import Finished, Runnable
from loiter.store import Store

ATTEMPTS = 3
"""How often a run of a sweep is begun at most, where its worker dies."""


@dataclass(frozen=True)
class Job:
    """One run of several. `label`, which no other has, is for people; `weight` is its expected cost in any unit."""

    label: str
    request: Runnable
    weight: float = 1.0
    attempts: int = 1
    """How often it is begun at most, where a worker dies of it."""
    measure: Callable[[Result], Json] | None = None
    """What is to be known of its result, if anything: the worker reads that while others run."""


@dataclass(frozen=True)
class Running:
    """A report from the middle of a run."""

    progress: Json


@dataclass(frozen=True)
class Done:
    """The run ended well and its result is on the disk."""

    finished: Finished
    measured: Json | None = None


@dataclass(frozen=True)
class Failed:
    """The run failed, or its result could not be kept."""

    fault: Fault


Report = Running | Done | Failed


def main(words: list[str]) -> None:
    """The life of a worker, which is told the number of its pipe. Ctrl-C reaches the whole process group; it is the
    parent's to act on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Connection(int(words[0]))
    try:
        engine_name, root = pipe.recv()
    except EOFError:
        return
    _serve(pipe, engine_name, root)


def _serve(pipe: Connection, engine_name: str, root: Store) -> None:
    while True:
        try:
            job: Job | None = pipe.recv()
        except EOFError:
            return
        if job is None:
            return
        report = _carry_out(job, pipe, engine_name, root)
        try:
            pipe.send(report)
        except OSError:
            return


def _carry_out(job: Job, pipe: Connection, engine_name: str, root: Store) -> Report:
    def progress(facts: Json) -> bool:
        if pipe.poll():
            return False
        try:
            pipe.send(Running(facts))
        except OSError:
            return False
        return True

    return carry_out(job, engine_name, root, progress)


def carry_out(job: Job, engine_name: str, root: Store, progress: Callable[[Json], bool]) -> Done | Failed:
    """Runs a job and stores its result, unless somebody has: a worker may have died just after it was through."""
    try:
        engine = engines.load(engine_name)
        key = job.request.key(engine)
        found = root.find(job.label, key)
        if found is None:
            finished = job.request.carry_out(engine, progress, root.path(job.label, key))
            found = root.find(job.label, key) if job.measure else None
        else:
            finished = Finished(0.0, found.cycles, found.instructions)
        return Done(finished, job.measure(found) if job.measure and found else None)
    except Fault as fault:
        return Failed(fault)


if __name__ == "__main__":
    # What is pickled names this module by its own name, not by the one that it has as a program.
    from loiter.runs import worker

    worker.main(sys.argv[1:])
