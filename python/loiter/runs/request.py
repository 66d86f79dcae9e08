"""One run as it is asked for: machine, program, command line and limits, and the key under which it is stored."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import loiter
from loiter.engine import Engine, Json
from loiter.machines import Machine
from loiter.programs import Placement, Program
from loiter.waiting import Table

SCHEMA = 3
"""Version of the result directory; results of another version are run again."""


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

    @property
    def bootargs(self) -> str:
        """The command line of the guest."""
        return " ".join([*self.placement.words(), *self.arguments])

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
        }

    def key(self, engine: Engine) -> str:
        """Content hash of the request; equal requests have equal results."""
        return digest(self.identity(engine))


def digest(value: Any) -> str:
    """SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
