"""One run of a host with guests, as a study asks for it: a file of virtual machines (docs/virtual.md)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

import loiter
from loiter import machines, programs, store, vms
from loiter.engine import Engine, Json, Progress
from loiter.errors import Interrupted
from loiter.images import cache
from loiter.machines import Machine
from loiter.results import HOST_FILE
from loiter.runs.request import SCHEMA, Finished, digest

_TOLD_SECONDS = 0.2


@dataclass(frozen=True)
class HostRequest:
    """Everything that determines a result, and nothing that does not. A guest that fails fails the run; one whose time
    is over does not."""

    machine: Machine
    """What guests see, but for harts, memory and clock."""
    file: vms.HostFile
    begin_us: int = 0
    """Simulated time up to which the reference engine executes. Waits count from there on, and the cores of
    `host.machine` execute from there on."""

    @property
    def guest(self) -> tuple[str, str]:
        """Name and hash of what runs."""
        return ", ".join(sorted({each["program"] or each["image"] for each in self.file.guests})), digest(
            self.file.values
        )

    def on(self, machine: Machine) -> HostRequest:
        """The same on another machine."""
        return replace(self, machine=machine)

    def identity(self, engine: Engine) -> Json:
        """What the key is the hash of: contents, not names or paths."""
        guests = self.file.guests
        return {
            "schema": SCHEMA,
            "loiter": {"version": loiter.__version__, "native_sha256": engine.sha256},
            "machine_hash": self.machine.hash,
            "file": self.file.values,
            "begin_us": self.begin_us,
            "programs": [programs.load(engine, each["program"]).hash for each in guests if each["program"]],
            "images": [cache.find(each["image"]).identity() for each in guests if each["image"]],
        }

    def key(self, engine: Engine) -> str:
        """Content hash of the request; equal requests have equal results."""
        return digest(self.identity(engine))

    def shares(self, engine: Engine) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def carry_out(self, engine: Engine, progress: Progress, path: Path) -> Finished:
        """Runs it and writes its result at `path`."""
        began, told = time.monotonic(), [0.0]
        clock_hz = 1e6 * self.file.values["host"]["clock_mhz"]

        def tell(status: Json) -> None:
            now = time.monotonic()
            if now - told[0] < _TOLD_SECONDS:
                return
            told[0] = now
            facts = {"cycle": status["cycle"], "instructions": status["instructions"], "phase": "reference"}
            if not progress(facts | {"simulated_seconds": status["cycle"] / clock_hz, "host_seconds": now - began}):
                raise Interrupted("interrupted")

        made = self._run(engine, tell)
        for fault in vms.faults(made):
            raise fault
        instructions = sum(row["instructions"] for row in made.result["guests"])
        files = {HOST_FILE: self.file.text.encode(), **vms.encoded(made)}
        store.write_files(path, self._manifest(engine, made, instructions), made.host_seconds, files, replace=False)
        return Finished(made.host_seconds, made.result["cycles"], instructions)

    def _run(self, engine: Engine, tell: Callable[[Json], None]) -> vms.Run:
        console, sets = Console(quiet=True), self.machine.sets
        if not self.begin_us:
            return vms.run(engine, self.file, tell, console, sets)
        with tempfile.TemporaryDirectory() as folder:
            there = Path(folder, "begin.snap")
            lead = vms.Snapshots(save=there, at_us=self.begin_us)
            vms.run(engine, vms.without_machine(engine, self.file), tell, console, sets, lead)
            made = vms.run(engine, self.file, tell, console, sets, vms.Snapshots(begin=there))
        made.result["waits"] = _less(made.result["waits"], made.begun["waits"])
        return made

    def _manifest(self, engine: Engine, made: vms.Run, instructions: int) -> Json:
        said = {name: guest.out.decode(errors="replace") for name, guest in made.linux.items()}
        return {
            "loiter": {"version": loiter.__version__, "native_sha256": engine.sha256},
            "key": self.key(engine),
            "machine": {"name": self.machine.name, "hash": self.machine.hash},
            "program": dict(zip(("name", "hash"), self.guest, strict=True)),
            "file": self.file.values,
            "cycles": made.result["cycles"],
            "instructions": instructions,
            "clock_mhz": made.result["clock_mhz"],
            "guests": [
                {key: value for key, value in row.items() if key not in ("console", "locks")}
                | {"stdout": said.get(row["name"], row["console"])}
                for row in made.result["guests"]
            ],
        }


_WAITS_OF = ("guest", "lock_symbol", "log2_cycles")


def _less(rows: list[Json], before: list[Json]) -> list[Json]:
    """Counts of waits without those of before."""
    known = {tuple(row[name] for name in _WAITS_OF): row for row in before}
    found = []
    for row in rows:
        earlier = known.get(tuple(row[name] for name in _WAITS_OF), {})
        counts = {name: n - earlier.get(name, 0) for name, n in row.items() if name not in _WAITS_OF}
        if any(counts.values()):
            found.append(row | counts)
    return found


def request(engine: Engine, name: str, text: str, begin_us: int = 0) -> HostRequest:
    """The run of a file that is there as text alone; its programs are found by their names."""
    machine, path = machines.load(engine, vms.GUEST_MACHINE), Path(f"{name}.toml")
    return HostRequest(machine, vms.parse(engine, path, text), begin_us)
