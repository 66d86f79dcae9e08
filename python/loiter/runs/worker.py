"""A worker process: takes jobs from a pipe, runs each, stores its result, and answers with what became of it.

The pipe carries one job at a time. While a run lasts nothing is sent to the worker except the wish to stop, so anything
readable on the pipe, its end included (the parent died), stops the run at its next report of progress.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection

from loiter import engine as engines
from loiter import store
from loiter.engine import Json
from loiter.errors import Fault, RunFault, UserFault
from loiter.runs.request import Request


@dataclass(frozen=True)
class Job:
    """One run of a study. `label` is for people, `weight` its expected cost in any unit."""

    label: str
    request: Request
    weight: float = 1.0


@dataclass(frozen=True)
class Running:
    """A report from the middle of a run."""

    progress: Json


@dataclass(frozen=True)
class Done:
    """The run ended well and its result is on the disk."""

    host_seconds: float
    cycles: int
    instructions: int


@dataclass(frozen=True)
class Failed:
    """The run failed, or its result could not be kept."""

    fault: Fault


Answer = Running | Done | Failed


def serve(pipe: Connection, engine_name: str, root: store.Store) -> None:
    """The life of a worker. Ctrl-C reaches the whole process group; it is the parent's to act on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            job: Job | None = pipe.recv()
        except EOFError:
            return
        if job is None:
            return
        answer = _carry_out(job, pipe, engine_name, root)
        try:
            pipe.send(answer)
        except OSError:
            return


def _carry_out(job: Job, pipe: Connection, engine_name: str, root: store.Store) -> Answer:
    def progress(facts: Json) -> bool:
        if pipe.poll():
            return False
        try:
            pipe.send(Running(facts))
        except OSError:
            return False
        return True

    try:
        engine = engines.load(engine_name)
        result = engine.run(job.request.native(), job.request.program.elf, progress)
        if not ended_well(result):
            raise RunFault(describe_exit(result))
        if result["missed_phase"] is not None:
            raise UserFault(str(result["missed_phase"]))
        store.write(root.path(job.label, job.request.key(engine)), job.request, engine, result)
    except Fault as fault:
        return Failed(fault)
    return Done(float(result["host_seconds"]), int(result["cycles"]), int(result["instructions"]))


def ended_well(result: Json) -> bool:
    """A run counts only when its program ended by itself and said that all is well."""
    end = result["exit"]
    return end["reason"] in ("finisher", "htif") and end["code"] == 0


def describe_exit(result: Json, lines: int = 8) -> str:
    """How a run ended, with the last lines of its console, for a person."""
    end = result["exit"]
    how = end["message"] or f"ended by {end['reason']} with code {end['code']}"
    tail = "\n".join(f"  | {line}" for line in result["console"].rstrip().splitlines()[-lines:])
    text = f"after {result['cycles']:,} cycles: {how}"
    return f"{text}\n{tail}" if tail else text
