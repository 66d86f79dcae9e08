"""The kernel's own test of locks with naps: its runs, and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loiter import energy
from loiter.engine import Engine
from loiter.errors import RunFault
from loiter.machines import Machine
from loiter.results import Result
from loiter.runs.linux import LinuxRequest
from loiter.studies.catnap2020 import grid, linux

LOCK = "torture_spinlock"
NONE, ALL, LIST, AUTOMATIC = linux.SELECTIONS
SITE = "torture_spin_lock_write_lock"
"""The function that acquires the lock, for the list."""
SETTLE_CYCLES = 1_000_000
"""On the reference engine a hand-over takes some 5,000 cycles; all writers wait by then."""
LEARNING_ACQUISITIONS = 200
"""On timed cores before the window, at least. Automatic naps sample one wait in eight, and what they know is a moving
average of an eighth: of 25 samples, the last are what it knows."""
LEARNING_ROUNDS = 8
"""Likewise, of all writers. Those that waited before the selection was written wait on as they did, for a round at
most; and each enters what it has learned with its next wait, so that many begin theirs with a long spin before."""


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    harts: int
    """CPUs; cores of four contexts, the last context of the last core for all that is not the test."""
    threads: tuple[int, ...]
    rounds: float
    """Acquisitions of each thread, about."""
    least_acquisitions: int
    """Of all threads together."""

    @property
    def cores(self) -> int:
        """Of so many CPUs."""
        return self.harts * grid.CORES // linux.MOST_HARTS


_DEFAULT = Scale(256, (4, 16, 64, 128, 255), 1, 400)
SCALES = {
    "quick": Scale(64, (4, 16, 63), 1, 200),
    "default": _DEFAULT,
    # Of which only programs are on more CPUs.
    "whole": _DEFAULT,
}


@dataclass(frozen=True, order=True)
class Cell:
    """A run."""

    harts: int
    selection: str
    threads: int
    hold_cycles: int
    cycles: int
    """Of its window."""
    learning_cycles: int
    """On timed cores before."""

    @property
    def label(self) -> str:
        """Its name, for people and for the result directory."""
        return f"linux_locktorture.{self.selection}.{self.threads}-{self.hold_cycles}"

    @property
    def cost_cycles(self) -> int:
        """Of timed cores: what takes longest is run first."""
        return self.learning_cycles + self.cycles

    def request(self, engine: Engine, machine: Machine) -> LinuxRequest:
        """All selections continue the same system, whose writers wait. They begin when their number, and of iterations
        for which they hold the lock, is written."""
        begin = linux.write("locktorture", "begin", f"{self.threads} {self.hold_cycles}")
        began = linux.lead_in(engine, [*linux.waits((SITE,)), begin], "sleep infinity", SETTLE_CYCLES)
        window = linux.Window(self.learning_cycles, self.cycles)
        return linux.request_after(engine, machine, self.harts, began, self.selection, window)


def cell(scale: Scale, selection: str, threads: int, hold_cycles: int) -> Cell:
    """A run with a window for so many acquisitions, if a hand-over takes a third of a microsecond."""
    acquisitions = max(scale.least_acquisitions, round(scale.rounds * threads))
    each_cycles = hold_cycles + grid.CLOCK_MHZ // 3
    learning = max(LEARNING_ACQUISITIONS, LEARNING_ROUNDS * threads)
    return Cell(scale.harts, selection, threads, hold_cycles, acquisitions * each_cycles, learning * each_cycles)


def cells(scale: Scale) -> list[Cell]:
    """All that are run. Neighbours continue different systems, so that workers need not wait for one another."""
    return [
        cell(scale, selection, n, hold)
        for selection in linux.SELECTIONS
        for n in scale.threads
        for hold in grid.FIGURE_9_HOLDS
    ]


class Tortured:
    """What the runs say; each is read once."""

    def __init__(self, results: Mapping[str, Result], scale: Scale) -> None:
        self._results, self.scale = results, scale
        self._rate: dict[str, float] = {}
        self._watts: dict[str, energy.Value] = {}

    def rate(self, selection: str, threads: int, hold_cycles: int) -> float:
        """Acquisitions in a microsecond, of all threads."""
        label = self._read(selection, threads, hold_cycles)
        return self._rate[label]

    def watts(self, selection: str, threads: int, hold_cycles: int) -> energy.Value:
        """Mean power of the chip."""
        label = self._read(selection, threads, hold_cycles)
        return self._watts[label]

    def speed(self, selection: str, threads: int, hold_cycles: int) -> float:
        """Throughput over that without naps."""
        return self.rate(selection, threads, hold_cycles) / self.rate(NONE, threads, hold_cycles)

    def power(self, selection: str, threads: int, hold_cycles: int) -> float:
        """Mean power over that without naps."""
        return self.watts(selection, threads, hold_cycles).value / self.watts(NONE, threads, hold_cycles).value

    def hold(self, selection: str, threads: int, hold_cycles: int) -> float:
        """Mean time in the section, cycles."""
        rows = self._rows(cell(self.scale, selection, threads, hold_cycles).label)
        return float(sum(row["hold_sum_cycles"] for row in rows) / sum(row["holds"] for row in rows))

    def acquisitions(self, each: Cell) -> int:
        """Of all threads."""
        return sum(int(row["acquisitions"]) for row in self._rows(each.label))

    def _read(self, selection: str, threads: int, hold_cycles: int) -> str:
        label = cell(self.scale, selection, threads, hold_cycles).label
        if label not in self._rate:
            found = energy.of(self._results[label])
            if found is None:
                raise RunFault(f"{label}: its machine says nothing of energy")
            acquired = sum(int(row["acquisitions"]) for row in self._rows(label))
            self._rate[label] = acquired / (found.seconds * 1e6)
            self._watts[label] = found.chip_watts
        return label

    def _rows(self, label: str) -> list[dict[str, float]]:
        rows = self._results[label].rows("locks")
        found = [row for row in rows if str(row["lock_symbol"]).partition("+")[0] == LOCK]
        if not found:
            raise RunFault(f"{label}: nobody has acquired {LOCK}")
        return found
