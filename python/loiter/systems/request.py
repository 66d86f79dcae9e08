"""A system as it is requested: machine, what it boots, and its devices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loiter import machines
from loiter.engine import Engine, Json
from loiter.errors import UserFault
from loiter.images.image import MANY_HARTS
from loiter.machines import Machine
from loiter.waiting import Table

CORES = "system.cores"
MEMORY = "system.ram_mib"

# A kernel that panics asks for a reset at once, which ends the run; by default it would halt for ever.
PANIC = "panic=-1"


@dataclass(frozen=True)
class Disk:
    """A disk. Without a file it is empty; what the guest writes is lost unless it is writable."""

    path: Path | None = None
    bytes: int | None = None
    writable: bool = False

    def native(self) -> Json:
        """As the simulator reads it."""
        return {"path": _absolute(self.path), "bytes": self.bytes, "writable": self.writable}


@dataclass(frozen=True)
class Boot:
    """Everything that determines a system at reset."""

    machine: Machine
    harts: int
    firmware: Path
    kernel: Path
    initrd: Path | None
    bootargs: str
    disks: tuple[Disk, ...] = ()
    ports: int = 0
    network: bool = False
    seed: int = 0
    device_tree: tuple[str, ...] = ()
    symbols: tuple[Path, ...] = ()
    image: Json | None = None
    """What the files are of, for results."""
    untimed: bool = False
    waiting: Table | None = None
    """Which functions of the kernel wait."""
    is_virtual: bool = False
    """Whether it is to be a guest, whose harts are virtual CPUs."""

    def native(self) -> Json:
        """The request as the simulator reads it."""
        return {
            "machine_name": self.machine.name,
            "machine_toml": self.machine.toml,
            "set": list(self.machine.sets),
            "harts": self.harts,
            "firmware": _absolute(self.firmware),
            "kernel": _absolute(self.kernel),
            "initrd": _absolute(self.initrd),
            "bootargs": self.bootargs,
            "disks": [disk.native() for disk in self.disks],
            "ports": self.ports,
            "network": self.network,
            "seed": self.seed,
            "device_tree": list(self.device_tree),
            "symbols": [_absolute(path) for path in self.symbols],
            "waiting": None if self.waiting is None else self.waiting.native(),
            "untimed": self.untimed,
            "is_virtual": self.is_virtual,
        }


def _absolute(path: Path | None) -> str | None:
    """Snapshots keep the request, and are restored in another directory."""
    return None if path is None else str(path.absolute())


def seat(engine: Engine, machine: Machine, harts: int | None, memory_mib: int | None) -> tuple[Machine, int]:
    """The machine with room for so many harts, by default those of one core, and so much memory."""
    if harts is not None and harts > MANY_HARTS:
        raise UserFault(f"--harts {harts}: a machine has {MANY_HARTS} at most.")
    sets = list(machine.sets)
    said = {each.partition("=")[0].strip() for each in sets}
    if memory_mib is not None:
        if MEMORY in said:
            raise UserFault(f"--memory and --set {MEMORY} both say how much memory there is; give one.")
        sets.append(f"{MEMORY}={memory_mib}")
    contexts = machine.contexts_per_core
    if CORES in said:
        if harts is not None and harts > machine.contexts:
            raise UserFault(
                f"--harts {harts} and --set {CORES} contradict each other: machine {machine.name} has "
                f"{machine.contexts} contexts then. Leave {CORES} away; --harts takes as many cores as it needs."
            )
        harts = harts or machine.contexts
    else:
        harts = harts or contexts
        # Cores of a second kind are there in any case.
        little = sum(machine.core_contexts[machine.count(CORES, 1) :])
        sets.append(f"{CORES}={max(1, -(-(harts - little) // contexts))}")
    return machines.changed(engine, machine, sets), harts


def command_line(*parts: str | None) -> str:
    """A kernel's command line. A panic ends the run unless the user has said what it does."""
    words = " ".join(part for part in parts if part).split()
    if not any(word.startswith("panic=") for word in words):
        words.append(PANIC)
    return " ".join(words)
