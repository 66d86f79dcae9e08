"""A kernel-heavy program on all contexts, with acquires that fail for a while: its runs, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from loiter import reference
from loiter.studies.redstone2002 import linux
from loiter.studies.redstone2002.common import (
    CONFIGURATIONS,
    PAPER,
    Run,
    Runs,
    gain_percent,
    mean,
)

BASE = "8"
SPIN, HARDWARE = "spin", "smt_lock"
COMPARED = (SPIN, HARDWARE)
WAYS = {SPIN: "nop", "pause": "pause", "wrs": "wrs", HARDWARE: "smt_lock"}
"""Names, and what the kernel's boot parameter calls them. Bare polling is what the reference's spin locks do."""

PROCESSES: int = reference.lookup(PAPER, "workload.apache.server_processes")
PUBLISHED_CYCLES: tuple[int, ...] = tuple(reference.lookup(PAPER, "spin.apache_lock_fail_cycles"))
_FAIL_CYCLES: dict[str, int] = reference.lookup(PAPER, "lock_fail.cycles")
COMPARED_CYCLES = 2000
"""About half of all instructions spin with it, as do with 300 in the reference, whose program takes more locks."""
FURTHER_CYCLES = (1000, COMPARED_CYCLES, 3000)

SHORT = {
    "8": "8",
    "8, perfect caches and branches": "8 perfect",
    "12": "12",
    "4": "4",
    "4, 4 integer units": "4u",
}
"""Machines, and how Tables 4.4 and 4.5 call them."""


@dataclass(frozen=True)
class Cell:
    """A machine, a lock-fail constant and a waiting method; and which boot it is."""

    configuration: str
    fail_cycles: int
    way: str
    boot: int = 0

    @property
    def label(self) -> str:
        """Of its run."""
        name = self.configuration.replace(" ", "-").replace(",", "")
        return f"kernel_spin.{name}.{self.fail_cycles}.{self.way}.{self.boot}"

    @property
    def append(self) -> str:
        """To the kernel's command line."""
        fail = f",fail={self.fail_cycles}" if self.fail_cycles else ""
        return f"loiter.wait={WAYS[self.way]}{fail},idle=wfi {linux.boot_word(self.boot)}"

    def by(self, way: str) -> Cell:
        """The same with another way."""
        return replace(self, way=way)

    def boots(self) -> list[Cell]:
        """All that may have run."""
        return [replace(self, boot=boot) for boot in range(max(linux.MOST_BOOTS.values()))]


WITHOUT = Cell(BASE, 0, SPIN)
"""The base: no acquire is made to fail."""
HALF = Cell(BASE, COMPARED_CYCLES, SPIN)
"""Half of all instructions spin."""


def constants(scale: str) -> tuple[int, ...]:
    """Lock-fail constants of the base machine."""
    return (0, COMPARED_CYCLES) if scale == "quick" else (*PUBLISHED_CYCLES, *FURTHER_CYCLES)


def others(scale: str) -> dict[str, int]:
    """The constant on each other machine. The reference had other ones on machines of 4 and 12 contexts; ours are as
    many times that of [`COMPARED_CYCLES`] as there."""
    if scale == "quick":
        return {}
    return {
        name: round(COMPARED_CYCLES * _FAIL_CYCLES[str(each.contexts)] / _FAIL_CYCLES[BASE])
        for name, each in CONFIGURATIONS.items()
        if name != BASE
    }


def compared(scale: str) -> dict[str, Cell]:
    """By machine, the cell in which half of all instructions are to spin."""
    return {name: Cell(name, constant, SPIN) for name, constant in {BASE: COMPARED_CYCLES, **others(scale)}.items()}


def cells(scale: str) -> list[Cell]:
    """All that are run."""
    found = [Cell(BASE, constant, way) for constant in constants(scale) for way in WAYS]
    repeated = [WITHOUT, *compared(scale).values()]
    found += [
        replace(cell.by(way), boot=boot)
        for cell in repeated
        for way in COMPARED
        for boot in range((linux.MOST_BOOTS if cell.configuration == BASE else linux.BOOTS)[scale])
    ]
    return list(dict.fromkeys(found))


def each(runs: Runs, cell: Cell, of: Callable[[Run], float]) -> list[float]:
    """A value of every boot that was run."""
    return [of(runs[boot.label]) for boot in cell.boots() if boot.label in runs]


def metric(name: str) -> Callable[[Run], float]:
    """A metric of a run."""
    return lambda run: run.metrics[name]


useful_ipc = metric("useful_ipc")
spin_percent = metric("spin_instructions_percent")
routine_percent = metric("lock_instructions_percent")


def mean_of(runs: Runs, cell: Cell, of: Callable[[Run], float]) -> float:
    """The mean of all boots that were run."""
    return mean(each(runs, cell, of))


def gains(runs: Runs, cell: Cell, way: str = HARDWARE) -> list[float]:
    """What another way gives over the one of `cell`, by boot of both."""
    pairs = [(boot, boot.by(way)) for boot in cell.boots()]
    pairs = [(a, b) for a, b in pairs if a.label in runs and b.label in runs]
    return [gain_percent(useful_ipc(runs[a.label]), useful_ipc(runs[b.label])) for a, b in pairs]


def gain(runs: Runs, cell: Cell, way: str = HARDWARE) -> float:
    """What another way gives over the one of `cell`: of the means over boots."""
    return gain_percent(mean_of(runs, cell, useful_ipc), mean_of(runs, cell.by(way), useful_ipc))
