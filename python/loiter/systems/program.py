"""A request to run one program on a booted Linux: its files, what of it is timed, which files are fetched at its end.

The command line and `loiter.exec` make it; `loiter.systems.execute` carries it out.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from rich.console import Console

import loiter
from loiter import images, resources, waiting
from loiter.engine import Engine, Json, Progress
from loiter.errors import RunFault, StoreFault, UserFault
from loiter.images import Image, agent
from loiter.machines import Machine
from loiter.results import FILES
from loiter.runs.request import SCHEMA, Finished, digest
from loiter.systems import elf, execute, prepared, results
from loiter.systems.facts import booting, facts
from loiter.systems.request import Boot
from loiter.systems.roi import Roi, of_program

# File systems allow 255 bytes for a name.
_NAME_LENGTH = 200
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class LinuxProgram:
    """A program with all that it needs."""

    boot: Boot
    command: tuple[str, ...]
    files: tuple[Path, ...]
    """What it finds beside it."""
    variables: Mapping[str, str]
    get: tuple[str, ...]
    """What comes back when it has ended."""
    roi: Roi
    phases: str | None
    """Which engine runs it until when; none: the machine's cores from the beginning."""
    lock_stats: bool = False
    """Whether the kernel's locks count."""

    def archive(self, stdin: BinaryIO | None) -> AbstractContextManager[execute.Archive]:
        """What goes into the guest."""
        script = agent.script(self.command, self.variables, self.roi.launch, self.get)
        return execute.archive(script, list(self.files), stdin, comes_back=bool(self.get))

    def carry_out(
        self,
        engine: Engine,
        archive: execute.Archive,
        progress: Progress,
        path: Path,
        *,
        timeout_s: float | None = None,
    ) -> Finished:
        """Runs it and writes its result at `path`."""
        key = self.key(engine, archive)
        session = prepared.restore(engine, self.boot, lambda: None, booting(progress))
        if self.phases is not None:
            session.begin_phases(self.phases)
        if self.lock_stats:
            session.begin_lock_stats()
        began, first = time.monotonic(), session.instructions
        done = execute.run(session, archive, keep=True, shown=False, timeout_s=timeout_s, progress=progress)
        missed = session.missed_phase()
        if missed is not None and done.status == 0:
            raise UserFault(f"phases: {missed}")
        found = facts(session, time.monotonic() - began, first)
        files = done.files() | self._came_back(archive)
        results.write(path, self.manifest(engine, done.status) | {"key": key}, found, files, session)
        return Finished(found["host_seconds"], found["cycles"], found["instructions"])

    def _came_back(self, archive: execute.Archive) -> dict[str, bytes]:
        """The files that were to come back, by their names in a result."""
        if not self.get:
            return {}
        with tempfile.TemporaryDirectory(prefix="loiter-") as name:
            directory = Path(name)
            take(archive, self.get, directory, "get=")
            came = [path for path in sorted(directory.rglob("*")) if path.is_file()]
            return {f"{FILES}/{path.relative_to(directory).as_posix()}": path.read_bytes() for path in came}

    def manifest(self, engine: Engine, exit_status: int) -> Json:
        """What a result says of it."""
        return results.describe(engine, self.boot) | {
            "command": list(self.command),
            "put": [path.name for path in self.files],
            "exit_status": exit_status,
        }

    def key(self, engine: Engine, archive: execute.Archive) -> str:
        """Content hash of the system, the program and all that goes in; equal ones have equal results."""
        boot = self.boot
        return digest(
            {
                "schema": SCHEMA,
                "loiter": {"version": loiter.__version__, "native_sha256": engine.sha256},
                "booted": prepared.key(engine, boot),
                "machine_hash": boot.machine.hash,
                "waiting": None if boot.waiting is None else boot.waiting.identity(),
                "archive": _hash(archive.file, archive.written_bytes),
                "phases": self.phases,
                "lock_stats": self.lock_stats,
            }
        )


def take(archive: execute.Archive, wanted: Sequence[str], to: Path, option: str) -> None:
    """Puts what came back into a directory. Raises a fault, after all that came, if something did not."""
    if not wanted:
        return
    try:
        missing = agent.take(archive.file, wanted, to)
    except (OSError, tarfile.TarError) as error:
        raise StoreFault(f"{option}: cannot take what came back: {error}.") from None
    if missing:
        raise RunFault(f"{option}{', '.join(missing)}: not there when the program had ended.")


@dataclass(frozen=True)
class Wish:
    """What a person says of a program, besides the machine and its image."""

    command: Sequence[str]
    put: Sequence[Path] = ()
    get: Sequence[str] = ()
    environment: Mapping[str, str] | Sequence[str] = ()
    append: str | None = None
    network: bool = False
    seed: int = 0
    roi: Roi | None = None
    phases: str | None = None
    gdb: str | None = None
    waiting: str | None = None
    symbols: Sequence[Path] = ()
    lock_stats: bool = False
    names_functions: bool = False
    """Whether symbols of the program are of use, for a trace or a profile."""


def request(engine: Engine, machine: Machine, harts: int, image: Image, wish: Wish) -> LinuxProgram:
    """The program as it runs on so many harts of a machine."""
    command = list(wish.command)
    if not command:
        raise UserFault("no program is named.")
    files = [*_program(command), *wish.put]
    for path in wish.put:
        if not path.exists():
            raise UserFault(f"--put {path}: No such file or directory.")
    variables = _variables(wish.environment)
    plan = _plan(engine, wish.phases)
    of_files = plan["names_symbols"] or wish.names_functions
    boot = prepared.request(machine, harts, image, wish.append, network=wish.network, seed=wish.seed)
    region = of_program(machine, wish.roi, wish.phases, wish.gdb)
    if plan["names_program"]:
        # It is not of the region, but has to be told of the program.
        region = Roi.PROCESS
    phases = wish.phases or region.plan
    # With phases, harts go to the cores of the machine when the first timed one begins.
    boot = replace(boot, untimed=phases is not None)
    if wish.waiting is not None:
        boot = replace(boot, waiting=waiting.named(wish.waiting))
    # Reading them takes time, which other calls do not need to.
    own = [path for path in files if elf.has_symbols(path)] if of_files else []
    of_user = [*own, *wish.symbols] if of_files else []
    of_kernel = of_files or wish.lock_stats or (boot.waiting is not None and machine.is_timed)
    kernel = image.system_map if of_kernel else None
    named = [path for path in (kernel, *of_user) if path is not None]
    boot = replace(boot, symbols=tuple(resources.readable(path, "--symbols") for path in named))
    return LinuxProgram(boot, tuple(command), tuple(files), variables, tuple(wish.get), region, phases, wish.lock_stats)


def image(name: str | None, packages: Sequence[str], harts: int, console: Console) -> Image:
    """The image that programs run on: one by its name, or Debian with other packages beside its own and the kernel that
    so many harts need."""
    words = sorted({word.strip() for text in packages for word in text.split(",")} - {""})
    if not words:
        found = images.ensure(name, console) if name is not None else images.default(harts, console)
    elif name is not None:
        raise UserFault(
            f"--packages and --image {name} contradict each other: an image has the packages it was built with. "
            f"`loiter image build {name} --packages ...` builds it with others."
        )
    else:
        base, recipe = images.default_recipe(harts)
        title = f"{base}+{'+'.join(words)}"[:_NAME_LENGTH]
        found = images.build(title, replace(recipe, packages=tuple(words)), console)
    if found.root is None:
        raise UserFault(f"image {found.name} has no root file system, so no programs; debian has.")
    return found


def _program(command: list[str]) -> list[Path]:
    """The program, if it is a file of the user's; the command then names it as the guest finds it."""
    if not command[0].startswith(("./", "../")):
        return []
    path = Path(command[0])
    elf.require_program(path, command[0])
    command[0] = f"./{path.name}"
    return [path]


def _variables(given: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    variables = {}
    for text in [f"{name}={value}" for name, value in given.items()] if isinstance(given, Mapping) else given:
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise UserFault(f"--env {text}: a variable is written NAME=VALUE.")
        variables[name] = value
    return variables


def _plan(engine: Engine, phases: str | None) -> Json:
    """What a plan of phases needs. It must not end before the program."""
    if phases is None:
        return {"names_symbols": False, "names_program": False}
    plan = engine.describe_phases(phases)
    if plan["bounded"]:
        raise UserFault(
            f"--phases {phases}: the last phase has an end, where the program would be cut off; let another follow, "
            'such as "reference".'
        )
    return plan


def _hash(file: BinaryIO, length_bytes: int) -> str:
    found = hashlib.sha256()
    file.seek(0)
    while length_bytes > 0 and (chunk := file.read(min(_CHUNK_BYTES, length_bytes))):
        found.update(chunk)
        length_bytes -= len(chunk)
    return found.hexdigest()
