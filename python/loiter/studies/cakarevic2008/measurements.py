"""From the tables of the runs to slowdowns, CPI and the time between a spinner's looks at the lock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from loiter import reference
from loiter.engine import Json
from loiter.errors import RunFault
from loiter.method import fame
from loiter.results import Result
from loiter.studies.cakarevic2008 import grid
from loiter.studies.cakarevic2008.grid import Cell

MAIV_PERCENT = float(reference.lookup(grid.PAPER, "method.maiv_percent"))
MIN_REPETITIONS = int(reference.lookup(grid.PAPER, "method.min_repetitions"))


class NotMeasured(Exception):
    """A figure needs a run that this scale or exhibit does not have."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell.label)
        self.cell = cell


@dataclass(frozen=True)
class Spinning:
    """What the spinners of a run did while the lock was held."""

    reads: int
    mean_cycles: float
    min_cycles: int
    max_cycles: int
    cpi: float
    instructions_per_read: float


class Measurements:
    """The results of the study's runs, each read and checked once."""

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = results
        self._timings: dict[Cell, fame.Timing] = {}
        self._stacks: dict[Cell, dict[str, float]] = {}

    def has(self, cell: Cell) -> bool:
        """Was this cell run?"""
        return cell.label in self._results

    def has_any(self, machine: str) -> bool:
        """Was anything run on this machine?"""
        return any(label.startswith(f"{machine}.") for label in self._results)

    def timing(self, cell: Cell) -> fame.Timing:
        """The measured repetitions of the benchmark."""
        if cell not in self._timings:
            self._timings[cell] = self._measure(cell)
        return self._timings[cell]

    def slowdown(self, cell: Cell) -> fame.Slowdown:
        """What the spinners of a cell cost its benchmark."""
        try:
            return fame.slowdown(self.timing(cell), self.timing(Cell(cell.machine, cell.benchmark)))
        except RunFault as fault:
            raise RunFault(f"{cell.label}: {fault}") from None

    def average(self, cells: Iterable[Cell]) -> float:
        """Mean slowdown over cells, in percent."""
        values = [self.slowdown(cell).percent for cell in cells]
        return sum(values) / len(values)

    def highest(self, cells: Iterable[Cell]) -> tuple[Cell, float]:
        """The cell with the highest slowdown."""
        return max(((cell, self.slowdown(cell).percent) for cell in cells), key=lambda pair: pair[1])

    def lost_percent(self, cell: Cell, slot: str) -> float:
        """Context-cycles that the benchmark lost to one thing more than alone, in percent of its time alone."""
        alone = self._stack(Cell(cell.machine, cell.benchmark))
        return (self._stack(cell).get(slot, 0.0) - alone.get(slot, 0.0)) / sum(alone.values()) * 100

    def spinning(self, cell: Cell) -> Spinning:
        """What the spinners of a cell did."""
        result = self._result(cell)
        reads = result.rows("lock_reads")
        repeated = [row for row in reads if row["intervals"]]
        if not repeated:
            raise RunFault(f"{cell.label}: no spinner read the lock twice")
        cycles, instructions = _waiting(result.rows("marks"))
        looked = sum(row["reads"] for row in reads)
        intervals = sum(row["intervals"] for row in repeated)
        return Spinning(
            reads=looked,
            mean_cycles=sum(row["interval_sum_cycles"] for row in repeated) / intervals,
            min_cycles=min(row["interval_min_cycles"] for row in repeated),
            max_cycles=max(row["interval_max_cycles"] for row in repeated),
            cpi=cycles / instructions,
            instructions_per_read=instructions / looked,
        )

    def clock_mhz(self, machine: str) -> float:
        """The clock of a machine, as its runs had it."""
        for result in self._results.values():
            if result.manifest["machine"]["name"] == machine:
                return float(result.manifest["clock_mhz"])
        raise NotMeasured(Cell(machine, grid.HOLDER, grid.LOOPS[0], grid.OTHER_CORE, 1))

    def unsettled(self) -> list[str]:
        """Runs whose average had not settled when the guest ended them."""
        return sorted(cell.label for cell, timing in self._timings.items() if not timing.settled)

    def _result(self, cell: Cell) -> Result:
        try:
            return self._results[cell.label]
        except KeyError:
            raise NotMeasured(cell) from None

    def _stack(self, cell: Cell) -> dict[str, float]:
        """Cycles an instruction of the benchmark's context, by what became of them; their sum is its CPI."""
        if cell not in self._stacks:
            result = self._result(cell)
            instructions = sum(row["instructions"] for row in result.rows("activities") if row["context"] == 0)
            found: dict[str, float] = {}
            for row in result.rows("accounts"):
                if row["context"] == 0:
                    found[row["slot"]] = found.get(row["slot"], 0.0) + row["cycles"] / instructions
            self._stacks[cell] = found
        return self._stacks[cell]

    def _measure(self, cell: Cell) -> fame.Timing:
        result = self._result(cell)
        marks = result.rows("marks")
        try:
            for_one = grid.INSTRUCTIONS_FOR_ONE.get(cell.benchmark, 1)
            repetitions = [
                replace(each, instructions=each.instructions // for_one) for each in fame.repetitions(marks, hart=0)
            ]
            timing = fame.timing(repetitions, MAIV_PERCENT, MIN_REPETITIONS)
            if cell.spinners:
                _check_cover(marks, cell.spinners)
        except RunFault as fault:
            raise RunFault(f"{cell.label}: {fault}") from None
        return timing


def _waiting(marks: Iterable[Json]) -> tuple[int, int]:
    """Cycles and instructions of all spinners between asking for the lock and getting it."""
    asked: dict[int, Json] = {}
    cycles = instructions = 0
    for mark in marks:
        if mark["kind"] == "acquire":
            asked[mark["hart"]] = mark
        elif mark["kind"] == "acquired":
            start = asked.pop(mark["hart"])
            cycles += mark["cycle"] - start["cycle"]
            instructions += mark["retired"] - start["retired"]
    if instructions == 0:
        raise RunFault("no spinner ever got the lock")
    return cycles, instructions


def _check_cover(marks: list[Json], spinners: int) -> None:
    """Every spinner must ask for the lock before the first measured repetition and get it after the last."""
    first = min(mark["cycle"] for mark in marks if mark["kind"] == "work_begin")
    last = max(mark["cycle"] for mark in marks if mark["kind"] == "work_end")
    early = {mark["hart"] for mark in marks if mark["kind"] == "acquire" and mark["cycle"] < first}
    late = {mark["hart"] for mark in marks if mark["kind"] == "acquired" and mark["cycle"] > last}
    covering = len(early & late)
    if covering != spinners:
        raise RunFault(f"{covering} of {spinners} spinners spun from before the first to after the last repetition")
