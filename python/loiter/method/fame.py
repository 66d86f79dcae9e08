"""FAME: fairly measuring multithreaded architectures (Vera et al., PACT 2007).

A program is repeated until the average of its repetitions has settled: one repetition more changes the average by less
than the MAIV (maximum allowable IPC variation). The guest decides when that is; this module reads its work marks,
checks its decision, and works out means, deviations and slowdowns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from loiter.engine import Json
from loiter.errors import RunFault
from loiter.results import regions


@dataclass(frozen=True)
class Repetition:
    """One repetition of the measured program: cycles, and instructions of its own hart."""

    number: int
    cycles: int
    instructions: int


@dataclass(frozen=True)
class Timing:
    """Repetitions as one figure, with the sample standard deviation over them."""

    repetitions: tuple[Repetition, ...]
    mean_cycles: float
    deviation_cycles: float
    settled: bool

    @property
    def cpi(self) -> float:
        """Cycles per instruction of the measured hart."""
        return sum(each.cycles for each in self.repetitions) / sum(each.instructions for each in self.repetitions)

    @property
    def cpi_deviation(self) -> float:
        """Standard deviation of the repetitions' own CPI."""
        return _deviation([each.cycles / each.instructions for each in self.repetitions])


@dataclass(frozen=True)
class Slowdown:
    """Percent more time than alone, with the standard deviation that the repetitions imply."""

    percent: float
    deviation: float


def repetitions(marks: Iterable[Json], hart: int) -> list[Repetition]:
    """Pairs the work marks of a hart. A mark without its partner is a fault of the program."""
    mine = [mark for mark in marks if mark["hart"] == hart and mark["kind"] in ("work_begin", "work_end")]
    begun: Json | None = None
    for mark in mine:
        begins = mark["kind"] == "work_begin"
        if begins and begun is not None:
            raise RunFault(f"hart {hart} begins repetition {mark['value']} within repetition {begun['value']}")
        if not begins and (begun is None or begun["value"] != mark["value"]):
            raise RunFault(f"hart {hart} ends repetition {mark['value']}, which it did not begin")
        begun = mark if begins else None
    return [Repetition(each["number"], each["cycles"], each["instructions"]) for each in regions(mine, None)]


def timing(measured: Sequence[Repetition], maiv_percent: float, at_least: int) -> Timing:
    """The repetitions as one figure. Fewer than `at_least` are no measurement."""
    if len(measured) < at_least:
        raise RunFault(f"{len(measured)} repetitions were measured; the method asks for at least {at_least}")
    if any(each.cycles <= 0 or each.instructions <= 0 for each in measured):
        raise RunFault("a repetition without cycles or instructions: the work marks are not around the work")
    cycles = [each.cycles for each in measured]
    return Timing(
        repetitions=tuple(measured),
        mean_cycles=sum(cycles) / len(cycles),
        deviation_cycles=_deviation(cycles),
        settled=last_change_percent(cycles) < maiv_percent,
    )


def last_change_percent(cycles: Sequence[int]) -> float:
    """How much the last repetition moved the average."""
    before = sum(cycles[:-1]) / (len(cycles) - 1)
    after = sum(cycles) / len(cycles)
    return abs(after - before) / before * 100


def slowdown(loaded: Timing, alone: Timing) -> Slowdown:
    """(time with the others - time alone) / time alone, for the same work.

    Repetitions of one number must have done the same instructions. The runs may differ in how many repetitions they
    took to settle, and a program's repetitions may differ a little in work, so times are taken for an instruction.
    """
    for with_others, by_itself in zip(loaded.repetitions, alone.repetitions, strict=False):
        if (with_others.number, with_others.instructions) != (by_itself.number, by_itself.instructions):
            raise RunFault(
                f"repetition {with_others.number} did not do the same work: {with_others.instructions} instructions, "
                f"but {by_itself.instructions} alone"
            )
    ratio = loaded.cpi / alone.cpi
    relative = math.hypot(loaded.cpi_deviation / loaded.cpi, alone.cpi_deviation / alone.cpi)
    return Slowdown((ratio - 1) * 100, ratio * relative * 100)


def _deviation(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
