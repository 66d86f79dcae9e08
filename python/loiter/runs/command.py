"""One run of a Linux program on a booted system, as `loiter.exec` and sweeps ask for it.

How it ends does not matter: a status other than 0 is its result's `exit_status`.
"""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from loiter.engine import Engine, Progress
from loiter.machines import Machine
from loiter.runs.request import Finished, digest
from loiter.systems import prepared
from loiter.systems.execute import Archive
from loiter.systems.program import LinuxProgram


@dataclass(frozen=True)
class CommandRun:
    """A program, and what it reads."""

    program: LinuxProgram
    stdin: bytes | None = None
    timeout_s: float | None = None
    """Host time after which it has failed. No result depends on it."""

    @property
    def machine(self) -> Machine:
        return self.program.boot.machine

    @property
    def guest(self) -> tuple[str, str]:
        """Name of the program, and hash of the system that it runs on."""
        return self.program.command[0], digest(self.program.boot.image or {})

    def on(self, machine: Machine) -> CommandRun:
        """The same on another machine with as many contexts."""
        boot = replace(self.program.boot, machine=machine)
        return replace(self, program=replace(self.program, boot=boot))

    def key(self, engine: Engine) -> str:
        """Content hash of the request; equal requests have equal results."""
        with self._archive() as archive:
            return self.program.key(engine, archive)

    def shares(self, engine: Engine) -> tuple[str, ...]:
        """The booted system."""
        return (prepared.key(engine, self.program.boot),)

    def carry_out(self, engine: Engine, progress: Progress, path: Path) -> Finished:
        """Runs it and writes its result at `path`."""
        with self._archive() as archive:
            return self.program.carry_out(engine, archive, progress, path, timeout_s=self.timeout_s)

    def _archive(self) -> AbstractContextManager[Archive]:
        return self.program.archive(None if self.stdin is None else io.BytesIO(self.stdin))
