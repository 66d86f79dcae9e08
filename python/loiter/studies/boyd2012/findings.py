"""Curves, tables, and what they say of the paper's statements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from loiter import reference
from loiter.studies.base import Curves, Grid, Statement, judged
from loiter.studies.boyd2012 import grid, model
from loiter.studies.boyd2012.grid import CORES, LOCKS, LONG, PERCENT, SCALABLE, SHORT, TICKET, Lock, Scale
from loiter.studies.boyd2012.model import Parameters
from loiter.studies.sections import Measurements

SUDDEN_CORES, SUDDEN = 4, 0.5
"""A collapse is sudden if so many cores more leave so much of the throughput, or less."""
KEPT = 0.9
"""A lock has not collapsed if so much of its best throughput is left with all cores."""
ALIKE = 1.1
"""Throughputs are alike if the greatest is at most so many times the least."""
NEAR_CORES = 3
"""The model's collapse is where the measured one is if so few cores lie between them."""

Curve = dict[int, float]
"""Throughput by number of cores."""
Judgement = tuple[bool, str]
UNIT = "acquisitions in 1000 cycles"


class Throughputs:
    """The measurements of a scale, and the model with their parameters."""

    def __init__(self, measurements: Measurements, scale: Scale, request_cycles: float) -> None:
        self.measurements, self.scale, self.request_cycles = measurements, scale, request_cycles

    def measured(self, lock: Lock, section: int = SHORT, percent: float = PERCENT) -> Curve:
        """A curve."""
        counts = grid.counts(self.scale, lock, section, percent)
        cells = {n: grid.cell(self.scale, lock, section, percent, n) for n in counts}
        return {n: self.measurements.throughput(cell) for n, cell in cells.items()}

    def parameters(self, section: int = SHORT, percent: float = PERCENT) -> Parameters:
        """Of the model: what one core alone does, and what a line costs that another core has."""
        cell = grid.cell(self.scale, TICKET, section, percent, 1)
        hold = self.measurements.hold(cell)
        return Parameters(self.measurements.cycles(cell) - hold, hold, self.request_cycles)

    def parameters_with_hand_over(self, section: int = SHORT, percent: float = PERCENT) -> Parameters:
        """The same, with what a hand-over between two dies costs beyond a request."""
        hand_over = self.measurements.cycles(grid.in_turn()) - self.parameters().section_cycles
        return replace(self.parameters(section, percent), fixed_cycles=hand_over - self.request_cycles)

    def modelled(self, section: int = SHORT, percent: float = PERCENT, *, hand_over: bool = False) -> Curve:
        """The model's curve, at every number of cores; with `hand_over` that of the model with its fixed part."""
        given = self.parameters_with_hand_over if hand_over else self.parameters
        parameters = given(section, percent)
        return {n: model.throughput(parameters, n) for n in range(1, CORES + 1)}


def _best(curve: Curve) -> int:
    """The number of cores with the greatest throughput; the collapse begins there."""
    return max(curve, key=lambda count: curve[count])


def _steepest(curve: Curve) -> tuple[tuple[int, int], float]:
    """Where up to four cores more leave least, and how much of the throughput. Runs farther apart say nothing."""
    falls = {(n, m): curve[m] / curve[n] for n in curve for m in curve if n < m <= n + SUDDEN_CORES}
    return min(falls.items(), key=lambda pair: pair[1], default=((0, 0), math.nan))


def _figure(found: Throughputs, name: str, title: str, kinds: Mapping[str, tuple[int, float]]) -> Curves:
    """A ticket lock's curves, each beside the model's."""
    points: dict[str, list[tuple[float, float]]] = {}
    runs: dict[tuple[str, float], str] = {}
    for series, kind in kinds.items():
        measured = found.measured(TICKET, *kind)
        points[series] = list(measured.items())
        runs |= {(series, n): grid.cell(found.scale, TICKET, *kind, n).label for n in measured}
        points[f"model, {series}"] = list(found.modelled(*kind).items())
        points[f"model with hand-over, {series}"] = list(found.modelled(*kind, hand_over=True).items())
    caption = (
        "Dashed: the Markov model. Its parameters are measured, of one core alone and by loiter latency; dotted, with "
        "hand-over: and of two cores in turn."
    )
    models = {f"{model}, {series}": series for series in kinds for model in ("model", "model with hand-over")}
    return Curves(name, title, caption, "cores", UNIT, points, models, runs)


def sections(found: Throughputs) -> list[Curves]:
    """A figure for each section: their throughputs differ by as much as their lengths."""
    figures = []
    for section in found.scale.sections:
        title = f"A ticket lock, section of {section:,} cycles, {PERCENT:g} % of the time"
        figures.append(_figure(found, f"section-{section}", title, {"ticket": (section, PERCENT)}))
    return figures


def shares(found: Throughputs) -> list[Curves]:
    """By share of the time in the short section."""
    kinds = {f"{percent:g} %": (SHORT, percent) for percent in found.scale.percents}
    title = f"A ticket lock, section of {SHORT} cycles, by share of the time in it"
    return [_figure(found, "shares", title, kinds)]


def locks(found: Throughputs) -> list[Curves]:
    """All locks, short section."""
    points: dict[str, list[tuple[float, float]]] = {}
    runs: dict[tuple[str, float], str] = {}
    for lock in LOCKS:
        measured = found.measured(lock)
        points[lock.name] = list(measured.items())
        runs |= {(lock.name, n): grid.cell(found.scale, lock, SHORT, PERCENT, n).label for n in measured}
    title = f"Locks, section of {SHORT} cycles, {PERCENT:g} % of the time"
    return [Curves("locks", title, "", "cores", UNIT, points, runs=runs)]


def alone(measurements: Measurements) -> Grid:
    """What each lock costs where nobody contends."""
    rows = tuple(
        (lock.name, f"{measurements.acquire(cell):.0f}", f"{measurements.cycles(cell):.0f}")
        for lock in LOCKS
        for cell in (grid.alone(lock),)
    )
    caption = "Cycles. The pair is acquire, release and the loop around them, which is the same for all locks."
    return Grid("alone", "Latency of each lock alone", caption, ("lock", "acquire", "pair"), rows)


def parameters(found: Throughputs) -> Grid:
    """What the model is given, and where it and the simulation have their best."""
    rows = []
    for section, percent in _ticket_curves(found.scale):
        given = found.parameters_with_hand_over(section, percent)
        values = (given.think_cycles, given.section_cycles, given.request_cycles, given.fixed_cycles)
        cells = (f"{section:,} cycles, {percent:g} %", *(f"{value:,.0f}" for value in values))
        measured = found.measured(TICKET, section, percent)
        curves = (measured, *(found.modelled(section, percent, hand_over=hand_over) for hand_over in (False, True)))
        rows.append((*cells, *(_best_told(curve) for curve in curves)))
    columns = ("section", "outside, a", "section, s", "request, c", "hand-over, f", "best, cores", "model", "with f")
    caption = (
        "a and s are of one core alone, c is the mean load of a line that another core has modified, f what two cores "
        "on dies of their own that acquire in turn take for each acquisition, without s and c; in cycles. Best: with "
        f"so many cores; in parentheses the least that up to {SUDDEN_CORES} cores more leave, where they leave less."
    )
    return Grid("model", "Parameters of the model, and its best", caption, columns, tuple(rows))


def _ticket_curves(scale: Scale) -> list[tuple[int, float]]:
    kinds = [(section, PERCENT) for section in scale.sections] + [(SHORT, percent) for percent in scale.percents]
    return list(dict.fromkeys(kinds))


def _best_told(curve: Curve) -> str:
    left = _steepest(curve)[1]
    return f"{_best(curve)} ({left:.2f})" if left < 1 else f"{_best(curve)}"


def _told(values: Mapping[str, float], digits: int = 2) -> str:
    order = sorted(values.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in order)


def _sudden(found: Throughputs) -> Judgement:
    """Somewhere on the short section's curve, four cores more leave half of the throughput or less."""
    curve = found.measured(TICKET)
    (first, last), left = _steepest(curve)
    best = _best(curve)
    told = (
        f"best {curve[best]:.3f} {UNIT} with {best} cores; from {first} to {last} cores {left:.2f} is left; "
        f"with {CORES} cores {curve[CORES] / curve[best]:.2f} of the best"
    )
    return left <= SUDDEN, told


def _long_fine(found: Throughputs) -> Judgement:
    """The long section keeps nine tenths of its best with all cores."""
    curve = found.measured(TICKET, LONG)
    best = _best(curve)
    left = curve[CORES] / curve[best]
    told = f"section of {LONG:,} cycles: with {CORES} cores {left:.2f} of the best, which {best} cores have"
    return left >= KEPT, told


def _no_collapse(found: Throughputs) -> Judgement:
    """Each scalable lock keeps nine tenths of its best with all cores, and there they are within a tenth."""
    curves = {lock.name: found.measured(lock) for lock in SCALABLE}
    left = {name: curve[CORES] / max(curve.values()) for name, curve in curves.items()}
    last = {name: curve[CORES] for name, curve in curves.items()}
    holds = min(left.values()) >= KEPT and max(last.values()) <= ALIKE * min(last.values())
    return holds, f"{UNIT}, {CORES} cores: {_told(last, 3)}; of the best: {_told(left)}"


def _latency(found: Throughputs) -> Judgement:
    """Acquire and release of each, alone, take longer than the ticket lock's."""
    pairs = {lock.name: found.measurements.cycles(grid.alone(lock)) for lock in (TICKET, *SCALABLE)}
    return all(pairs[lock.name] > pairs[TICKET.name] for lock in SCALABLE), f"cycles alone: {_told(pairs, 1)}"


def _not_enough(found: Throughputs) -> Judgement:
    """With twice as many cores as half of them, no scalable lock gives a tenth more, nor a tenth less."""
    growth = {lock.name: (curve := found.measured(lock))[CORES] / curve[CORES // 2] for lock in SCALABLE}
    holds = all(KEPT <= each <= ALIKE for each in growth.values())
    return holds, f"times the throughput with {CORES} cores as with {CORES // 2}: {_told(growth)}"


def _model_near(found: Throughputs) -> Judgement:
    """The model of the short section has its best within three cores of where the simulation has it."""
    ours, models = _best(found.measured(TICKET)), _best(found.modelled())
    return abs(ours - models) <= NEAR_CORES, f"best with {ours} cores, the model's with {models}"


def _both(*judges: Callable[[Throughputs], Judgement]) -> Callable[[Throughputs], Judgement]:
    def judged(found: Throughputs) -> Judgement:
        each = [judge(found) for judge in judges]
        return all(holds for holds, _ in each), "; ".join(told for _, told in each)

    return judged


JUDGES: dict[str, tuple[tuple[str, ...], Callable[[Throughputs], Judgement]]] = {
    "boyd2012.findings.0": (("sections", "shares"), _sudden),
    "boyd2012.findings.1": (("sections",), _long_fine),
    "boyd2012.findings.2": ((), _both(_no_collapse, _latency)),
    "boyd2012.model": (("sections", "shares"), _model_near),
    "statements.collapse_sudden": (("sections", "shares"), _sudden),
    "statements.long_sections_fine": (("sections",), _long_fine),
    "statements.scalable_no_collapse": (("locks",), _no_collapse),
    "statements.scalable_latency": (("alone",), _latency),
    "statements.scalable_not_enough": (("locks",), _not_enough),
}
"""By key of the reference file: the exhibits any of which has the runs it needs, and its rule."""


def statements(found: Throughputs, exhibit: str | None) -> list[Statement]:
    """All of them; those of other exhibits are named as not measured."""
    return [
        judged(key, str(reference.lookup(grid.REFERENCE, key)), exhibit, needs, partial(rule, found))
        for key, (needs, rule) in JUDGES.items()
    ]
