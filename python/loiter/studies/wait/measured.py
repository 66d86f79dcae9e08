"""From the tables of a run to what its waiters cost, and how soon they woke."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loiter import energy
from loiter.engine import Json
from loiter.errors import RunFault
from loiter.method import fame
from loiter.results import Result
from loiter.studies.wait.methods import Cell

_WORKER = 0
# The lock is handed over after every repetition, so that there are as many as wake-ups.
_MAIV_PERCENT = 1.0
_LEAST = 2
# With fewer the smallest sample that 99 % are not above is the worst of all.
_SAMPLES_OF_P99 = 100


@dataclass(frozen=True)
class Latency:
    """From the release of the lock to the waiter that has it, in cycles."""

    samples: tuple[int, ...]

    def quantile(self, share: float) -> int:
        """The smallest sample that at least this share of all is not above."""
        ordered = sorted(self.samples)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    @property
    def median(self) -> int:
        return self.quantile(0.5)

    @property
    def p99(self) -> int | None:
        """None where there are too few samples for one in a hundred to be more than the worst of them."""
        return self.quantile(0.99) if len(self.samples) >= _SAMPLES_OF_P99 else None

    @property
    def worst(self) -> int:
        return max(self.samples)


def together(latencies: Iterable[Latency]) -> Latency:
    """All samples as one."""
    return Latency(tuple(sample for each in latencies for sample in each.samples))


class Measured:
    """The results of the runs, each read once."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = results
        self._timings: dict[Cell, fame.Timing] = {}
        self._latencies: dict[Cell, Latency] = {}
        self._energies: dict[Cell, energy.Energy | None] = {}

    def slowdown(self, cell: Cell) -> fame.Slowdown:
        """What the waiters of a cell cost its program."""
        try:
            return fame.slowdown(self._timing(cell), self._timing(Cell(cell.benchmark)))
        except RunFault as fault:
            raise RunFault(f"{cell.label}: {fault}") from None

    def average(self, cells: Sequence[Cell]) -> tuple[float, float]:
        """Mean slowdown over cells in percent, and its standard deviation: the runs are independent."""
        found = [self.slowdown(cell) for cell in cells]
        return (
            sum(each.percent for each in found) / len(found),
            math.sqrt(sum(each.deviation**2 for each in found)) / len(found),
        )

    def latency(self, cell: Cell) -> Latency:
        """The wake-ups of a cell."""
        if cell not in self._latencies:
            samples = tuple(_handovers(self._results[cell.label].rows("marks")))
            expected = len(self._timing(cell).repetitions)
            if len(samples) < expected:
                raise RunFault(f"{cell.label}: {len(samples)} wake-ups after {expected} repetitions")
            self._latencies[cell] = Latency(samples)
        return self._latencies[cell]

    def energy_uj(self, cell: Cell) -> energy.Value | None:
        """Energy for a repetition of the program, all that the machine takes meanwhile; none where the machine says
        nothing of energy."""
        found = self._energy(cell)
        return None if found is None else found.total.scaled(1e6 / len(self._timing(cell).repetitions))

    def waiter_mw(self, cell: Cell) -> energy.Value | None:
        """What a waiter adds to the power of the machine with the program alone."""
        found, alone = self._energy(cell), self._energy(Cell(cell.benchmark))
        if found is None or alone is None:
            return None
        # One set of coefficients: a difference has its range over them, not over each side's.
        return energy.difference(found, alone).scaled(1e3 / cell.waiters)

    def _energy(self, cell: Cell) -> energy.Energy | None:
        if cell not in self._energies:
            self._energies[cell] = energy.of(self._results[cell.label])
        return self._energies[cell]

    def clock_mhz(self, cell: Cell) -> float:
        """The clock of the machine, as the run had it."""
        return float(self._results[cell.label].manifest["clock_mhz"])

    def _timing(self, cell: Cell) -> fame.Timing:
        if cell not in self._timings:
            marks = self._results[cell.label].rows("marks")
            try:
                self._timings[cell] = fame.timing(fame.repetitions(marks, _WORKER), _MAIV_PERCENT, _LEAST)
            except RunFault as fault:
                raise RunFault(f"{cell.label}: {fault}") from None
        return self._timings[cell]


def _handovers(marks: Iterable[Json]) -> Iterable[int]:
    """Cycles from each release by the worker to the waiter that gets the lock."""
    released: int | None = None
    for mark in marks:
        if mark["kind"] == "released" and mark["hart"] == _WORKER:
            released = mark["cycle"]
        elif mark["kind"] == "acquired" and mark["hart"] != _WORKER and released is not None:
            yield mark["cycle"] - released
            released = None
