"""One run as it is requested: machine, program, command line and limits, and the key under which it is stored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import loiter
from loiter.engine import Engine, Json, Progress
from loiter.errors import Fault, RunFault, UserFault
from loiter.machines import Machine
from loiter.programs import Placement, Program
from loiter.waiting import Table

SCHEMA = 8
"""Version of the result directory; results of another version are run again."""

# The exit code by which a program refuses its command line (guests/runtime/loiter.h).
_REFUSED = 2


@dataclass(frozen=True)
class Finished:
    """What a run took."""

    host_seconds: float
    cycles: int
    instructions: int


class Runnable(Protocol):
    """A run that a worker can carry out: a bare-metal program, or a script on a booted Linux."""

    @property
    def machine(self) -> Machine: ...

    @property
    def guest(self) -> tuple[str, str]:
        """Name and hash of what runs."""
        ...

    def on(self, machine: Machine) -> Runnable:
        """The same on another machine with as many contexts."""
        ...

    def key(self, engine: Engine) -> str:
        """Content hash of the request; equal requests have equal results."""
        ...

    def shares(self, engine: Engine) -> tuple[str, ...]:
        """Names of what the first run that needs it makes for all: meanwhile the others can only wait."""
        ...

    def carry_out(self, engine: Engine, progress: Progress, path: Path) -> Finished:
        """Runs it and writes its result at `path`, or raises a fault."""
        ...


@dataclass(frozen=True)
class Request:
    """Everything that determines a result, and nothing that does not."""

    machine: Machine
    program: Program
    placement: Placement
    arguments: tuple[str, ...] = ()
    fast_forward: bool = False
    max_cycles: int | None = None
    phases: str | None = None
    """A plan in the form that equal plans share."""
    waiting: Table | None = None
    """Which functions of the program wait."""
    lock_stats: bool = False
    """Whether locks count whose functions have the names that they have in Linux."""

    @property
    def bootargs(self) -> str:
        """The command line of the guest."""
        return " ".join([*self.placement.words(), *self.arguments])

    @property
    def guest(self) -> tuple[str, str]:
        """Name and hash of what runs."""
        return self.program.name, self.program.hash

    def on(self, machine: Machine) -> Request:
        """The same on another machine with as many contexts."""
        return replace(self, machine=machine)

    def carry_out(self, engine: Engine, progress: Progress, path: Path) -> Finished:
        """Runs it and writes its result at `path`."""
        # A result names its request.
        from loiter import store

        result = engine.run(self.native(), self.program.elf, progress)
        if not ended_well(result):
            raise fault_of(result)
        if result["missed_phase"] is not None:
            raise UserFault(str(result["missed_phase"]))
        store.write(path, self, engine, result)
        return Finished(float(result["host_seconds"]), int(result["cycles"]), int(result["instructions"]))

    def native(self) -> Json:
        """The request as the simulator reads it."""
        return {
            "machine_name": self.machine.name,
            "machine_toml": self.machine.toml,
            "set": list(self.machine.sets),
            "program": str(self.program.path),
            "bootargs": self.bootargs,
            "fast_forward": self.fast_forward,
            "max_cycles": self.max_cycles,
            "phases": self.phases,
            "waiting": None if self.waiting is None else self.waiting.native(),
            "lock_stats": self.lock_stats,
        }

    def identity(self, engine: Engine) -> Json:
        """What the key is the hash of: contents, not names or paths."""
        return {
            "schema": SCHEMA,
            "loiter": {"version": loiter.__version__, "native_sha256": engine.sha256},
            "machine_hash": self.machine.hash,
            "program_hash": self.program.hash,
            "bootargs": self.bootargs,
            "fast_forward": self.fast_forward,
            "max_cycles": self.max_cycles,
            "phases": self.phases,
            "waiting": None if self.waiting is None else self.waiting.identity(),
            "lock_stats": self.lock_stats,
        }

    def key(self, engine: Engine) -> str:
        """Content hash of the request; equal requests have equal results."""
        return digest(self.identity(engine))

    def shares(self, engine: Engine) -> tuple[str, ...]:
        """Nothing."""
        return ()


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def ended_well(result: Json) -> bool:
    """A run counts only when its program ended by itself and said that all is well, or a plan of phases ended it."""
    end = result["exit"]
    return end["reason"] in ("finisher", "htif", "phases") and end["code"] == 0


def fault_of(result: Json, lines: int = 8) -> Fault:
    """What a run that has not ended well is: the program refused what it was asked, or failed."""
    end, console = result["exit"], result["console"].rstrip()
    if end["reason"] == "finisher" and end["code"] == _REFUSED and console:
        *facts, refusal = console.splitlines()
        return UserFault("\n".join([refusal.removeprefix("error: "), *facts]))
    return RunFault(describe_exit(result, lines))


def describe_exit(result: Json, lines: int = 8) -> str:
    """How a run ended, with the last lines of its console, for a person."""
    end = result["exit"]
    how = end["message"] or f"ended by {end['reason']} with code {end['code']}"
    tail = "\n".join(f"  | {line}" for line in result["console"].rstrip().splitlines()[-lines:])
    text = f"after {result['cycles']:,} cycles: {how}"
    return f"{text}\n{tail}" if tail else text
