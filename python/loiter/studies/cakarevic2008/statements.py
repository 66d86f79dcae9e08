"""What the paper states in words: each key of `[statements]` of the reference file, with what was measured of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from loiter import reference
from loiter.studies.base import Statement
from loiter.studies.cakarevic2008 import grid
from loiter.studies.cakarevic2008.grid import (
    BENCHMARKS,
    LOOPS,
    MULTIPLE,
    OTHER_CORE,
    OTHER_LOOPS,
    OTHER_PIPE,
    SAME,
    SINGLE,
    Cell,
    with_spinners,
)
from loiter.studies.cakarevic2008.measurements import MAIV_PERCENT, Measurements, NotMeasured
from loiter.studies.cakarevic2008.points import DEFAULT, nanoseconds

Judgement = tuple[bool, str]
Judge = Callable[[Measurements], Judgement]
Where = tuple[str, str, int]
"""Machine, place and number of the spinners."""

T1_ONE, T1_THREE, T1_CORE = ("t1", SAME, 1), ("t1", SAME, 3), ("t1", OTHER_CORE, 4)
T2_ONE, T2_THREE, T2_PIPE, T2_CORE = ("t2", SAME, 1), ("t2", SAME, 3), ("t2", OTHER_PIPE, 4), ("t2", OTHER_CORE, 8)
SHARING = {"t1": (T1_THREE, T1_CORE), "t2": (T2_THREE, T2_PIPE, T2_CORE)}
"""Where spinners share ever less with the benchmark."""

FP_UNIT_USERS = ("mulx", "hash", "mbv_fp", "mbv_int")
"""Benchmarks whose multiplies, divides or floating point run in the T2's unit."""
T1_UNIT_USERS = {"idiv": ("hash",), "fdiv": ("mbv_fp",)}
T2_UNIT_USERS = {"idiv": FP_UNIT_USERS, "fdiv": FP_UNIT_USERS}
L1_BOUND = ("l1_hit", "sort")
"""Benchmarks that live on hits in the L1: their loads are of short latency while no other context evicts lines."""

FETCH, UNIT = "not_selected", "unit_busy"
"""What a context-cycle was lost to: the pipe served another context; a shared unit was busy."""


def of(m: Measurements) -> list[Statement]:
    """All of them, in the order of the file; what was not run is named."""
    texts = reference.lookup(grid.PAPER, "statements")
    return [_judged(m, key, texts[key], judge) for key, judge in JUDGES.items()]


def _judged(m: Measurements, key: str, text: str, judge: Judge) -> Statement:
    try:
        holds, detail = judge(m)
    except NotMeasured as missing:
        return Statement(text, None, f"not measured: {missing.cell.label}", key)
    return Statement(text, holds, detail, key)


def _cells(where: Where, loops: Iterable[str] = LOOPS, benchmarks: Iterable[str] = BENCHMARKS) -> list[Cell]:
    return with_spinners(*where, benchmarks, loops)


def _averages(m: Measurements, where: Where, benchmarks: tuple[str, ...] = BENCHMARKS) -> dict[str, float]:
    return {loop: m.average(_cells(where, [loop], benchmarks)) for loop in LOOPS}


def _by_benchmark(
    m: Measurements, where: Where, loop: str, benchmarks: tuple[str, ...] = BENCHMARKS
) -> dict[str, float]:
    return {each: m.slowdown(Cell(where[0], each, loop, where[1], where[2])).percent for each in benchmarks}


def _first(values: dict[str, float]) -> str:
    return max(values, key=values.__getitem__)


def _told(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.1f} %" for name, value in sorted(values.items(), key=lambda pair: -pair[1]))


def _place(where: Where) -> str:
    machine, place, spinners = where
    shown = "same core" if (machine, place) == ("t1", SAME) else place.replace("_", " ")
    return f"{machine.upper()} {shown}, {spinners}"


def _by_place(details: dict[Where, str]) -> str:
    return "; ".join(f"{_place(where)}: {detail}" for where, detail in details.items())


def _fetch_is_main(m: Measurements) -> Judgement:
    """By the accounts: what the benchmark's cycles were lost to, over all loops and benchmarks."""
    holds, details = True, {}
    for where in (T1_THREE, T2_THREE):
        cells = _cells(where)
        lost = {slot: sum(m.lost_percent(cell, slot) for cell in cells) / len(cells) for slot in (FETCH, UNIT)}
        whole = m.average(cells)
        rest = whole - sum(lost.values())
        holds &= lost[FETCH] > lost[UNIT] and lost[FETCH] > rest and lost[UNIT] > 0
        details[where] = f"of {whole:.1f} % {lost[FETCH]:.1f} for fetch slots, {lost[UNIT]:.1f} for busy units"
    return holds, _by_place(details)


def _more_shared(m: Measurements) -> Judgement:
    """The mean over all loops and benchmarks falls from place to place, and so does the default loop's."""
    holds, details = True, []
    for places in SHARING.values():
        for loops, name in ((LOOPS, "all loops"), (DEFAULT, "default")):
            values = [m.average(_cells(where, loops)) for where in places]
            holds &= all(a > b for a, b in pairwise(values))
            told = " > ".join(f"{value:.1f} %" for value in values)
            details.append(f"{places[0][0].upper()}, {name}: {told}")
    return holds, "; ".join(details)


def _low_cpi(m: Measurements) -> Judgement:
    """Rank correlation of CPI alone and slowdown by default spinners; strong is -0.7 or less."""
    holds, details = True, {}
    for where in (T1_ONE, T1_THREE, T2_ONE, T2_THREE):
        losses = _by_benchmark(m, where, "default")
        cpi = {each: m.timing(Cell(where[0], each)).cpi for each in BENCHMARKS}
        correlation = _rank_correlation([cpi[each] for each in BENCHMARKS], [losses[each] for each in BENCHMARKS])
        holds &= correlation <= -0.7 and _first(losses) == min(cpi, key=cpi.__getitem__)
        details[where] = f"rank correlation {correlation:.2f}, most {_first(losses)}"
    return holds, _by_place(details)


def _rank_correlation(a: list[float], b: list[float]) -> float:
    """Spearman's, of values without ties."""
    first, second = ([sorted(values).index(value) for value in values] for values in (a, b))
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(first, second, strict=True)) / (n * (n * n - 1))


def _add_most(m: Measurements) -> Judgement:
    losses = _by_benchmark(m, T1_ONE, "default")
    return _first(losses) == "add", _told(losses)


def _multiple_less(m: Measurements) -> Judgement:
    holds, details = True, {}
    for where in (T1_ONE, T1_THREE, T2_ONE, T2_THREE):
        single, multiple = (m.average(_cells(where, DEFAULT, group)) for group in (SINGLE, MULTIPLE))
        holds &= multiple < single
        details[where] = f"{multiple:.1f} % against {single:.1f} %"
    return holds, _by_place(details)


def _default_worst(places: tuple[Where, ...], benchmarks: tuple[str, ...]) -> Judge:
    def judge(m: Measurements) -> Judgement:
        found = {where: _averages(m, where, benchmarks) for where in places}
        holds = all(_first(averages) == "default" for averages in found.values())
        return holds, _by_place({where: _told(averages) for where, averages in found.items()})

    return judge


def _more_spinners(m: Measurements) -> Judgement:
    one, three = _averages(m, T1_ONE), _averages(m, T1_THREE)
    t2 = [m.average(_cells(where, DEFAULT)) for where in (T2_ONE, T2_THREE)]
    holds = (
        all(three[loop] > one[loop] for loop in LOOPS) and three["default"] > 3 * one["default"] and t2[1] > 3 * t2[0]
    )
    told = ", ".join(f"{loop} {one[loop]:.1f} and {three[loop]:.1f} %" for loop in LOOPS)
    return holds, f"one and three spinners, T1: {told}; T2: default {t2[0]:.1f} and {t2[1]:.1f} %"


def _l2miss_best(m: Measurements) -> Judgement:
    """Very close: within a point of the best."""
    holds, details = True, {}
    for where in (T1_ONE, T1_THREE, T2_THREE, T2_PIPE):
        of_all, of_multiple = _averages(m, where), _averages(m, where, MULTIPLE)
        holds &= of_all["l2miss"] <= min(of_all.values()) + 1
        best = min(of_multiple, key=of_multiple.__getitem__)
        holds &= best == "l2miss"
        details[where] = (
            f"{of_all['l2miss']:.1f} % of all, least {min(of_all.values()):.1f}; "
            f"{of_multiple['l2miss']:.1f} % of multiple, least {of_multiple[best]:.1f} ({best})"
        )
    return holds, _by_place(details)


def _casx_second(m: Measurements) -> Judgement:
    """No weak spot: the benchmark that it hurts most loses less than with any loop but l2miss."""
    holds, details = True, {}
    for where in (T1_THREE, T2_THREE):
        averages = _averages(m, where)
        highest = {loop: m.highest(_cells(where, [loop]))[1] for loop in LOOPS}
        holds &= sorted(averages, key=averages.__getitem__)[1] == "casx"
        holds &= all(highest["casx"] < highest[loop] for loop in ("default", "idiv", "fdiv"))
        details[where] = f"{_told(averages)}, at most {_told(highest)}"
    return holds, _by_place(details)


def _fdiv_mbv_fp(m: Measurements) -> Judgement:
    """More than any other loop hurts any of the multiple-behaviour benchmarks."""
    fdiv = m.slowdown(Cell("t1", "mbv_fp", "fdiv", SAME, 1)).percent
    others = [loop for loop in LOOPS if loop != "fdiv"]
    cell, highest = m.highest(_cells(T1_ONE, others, MULTIPLE))
    return fdiv > highest, f"one fdiv spinner {fdiv:.1f} %; the most by another loop {highest:.1f} % ({cell.label})"


def _idiv_hash(m: Measurements) -> Judgement:
    losses = _by_benchmark(m, T1_ONE, "idiv")
    return _first(losses) == "hash" and losses["hash"] >= MAIV_PERCENT, _told(losses)


def _same_unit_only(m: Measurements) -> Judgement:
    """By the accounts: no cycle more is lost to a busy unit than alone, within what the method resolves."""
    holds, details = True, {}
    for where, users in ((T1_THREE, T1_UNIT_USERS), (T2_THREE, T2_UNIT_USERS)):
        told = []
        for loop, affected in users.items():
            lost = {each: m.lost_percent(_cells(where, [loop], [each])[0], UNIT) for each in BENCHMARKS}
            apart = max(value for each, value in lost.items() if each not in affected)
            alike = max(lost[each] for each in affected)
            holds &= apart < MAIV_PERCENT < alike
            told.append(f"{loop} at most {apart:.1f} % by busy units, {alike:.1f} % where they use the same")
        details[where] = ", ".join(told)
    return holds, _by_place(details)


def _fdiv_less_bad(m: Measurements) -> Judgement:
    """Far less: not half as much."""
    t1, t2 = (m.slowdown(Cell(each, "mbv_fp", "fdiv", SAME, 3)).percent for each in grid.MACHINES)
    return t2 < t1 / 2, f"mbv_fp beside three fdiv spinners: {t1:.1f} % on T1, {t2:.1f} % on T2"


def _fpgu_shared(m: Measurements) -> Judgement:
    """They lose cycles to the busy unit, and at least one loses more by fdiv than by the default loop."""
    lost = {
        f"{loop} {each}": m.lost_percent(Cell("t2", each, loop, SAME, 3), UNIT)
        for loop in ("idiv", "fdiv")
        for each in FP_UNIT_USERS
    }
    fdiv, default = (_by_benchmark(m, T2_THREE, loop) for loop in ("fdiv", "default"))
    worse = [each for each in BENCHMARKS if fdiv[each] > default[each]]
    holds = all(value > 0 for value in lost.values()) and bool(worse)
    return holds, f"lost to the unit: {_told(lost)}; fdiv worse than default: {', '.join(worse) or 'none'}"


def _fpgu_other_pipe(m: Measurements) -> Judgement:
    """Stays: at least half of what the unit costs in the same pipe. Goes: a tenth at most is left."""

    def of_unit(where: Where) -> float:
        cells = _cells(where, ["idiv", "fdiv"], FP_UNIT_USERS)
        return sum(m.lost_percent(cell, UNIT) for cell in cells) / len(cells)

    def of_fetch(where: Where) -> float:
        cells = _cells(where)
        return sum(m.lost_percent(cell, FETCH) for cell in cells) / len(cells)

    unit, fetch = ([part(where) for where in (T2_THREE, T2_PIPE)] for part in (of_unit, of_fetch))
    holds = unit[0] > 0 and unit[1] >= unit[0] / 2 and fetch[1] <= fetch[0] / 10
    return holds, (
        f"three in the same pipe, four in the other: unit {unit[0]:.1f} and {unit[1]:.1f} %, "
        f"fetch {fetch[0]:.1f} and {fetch[1]:.1f} %"
    )


def _other_pipe_small(m: Measurements) -> Judgement:
    """On both charts. Always: on the average of either chart."""
    groups = {name: _averages(m, T2_PIPE, group) for name, group in (("single", SINGLE), ("multiple", MULTIPLE))}
    holds = all(max(each.values()) < 3 and each["idiv"] < each["default"] for each in groups.values())
    return holds, "; ".join(f"{name}: {_told(averages)}" for name, averages in groups.items())


def _l2miss_better(m: Measurements) -> Judgement:
    t1, t2 = (m.average(_cells(where, ["l2miss"])) for where in (T1_THREE, T2_THREE))
    return t2 < t1, f"three spinners, average of all: {t1:.1f} % on T1, {t2:.1f} % on T2"


def _default_worse(m: Measurements) -> Judgement:
    t1, t2 = (m.average(_cells(where, DEFAULT, MULTIPLE)) for where in (T1_THREE, T2_THREE))
    return t2 > t1, f"{t1:.1f} % on T1, {t2:.1f} % on T2"


def _other_core(m: Measurements) -> Judgement:
    """No effect of the FP unit: less than the method resolves on the program that uses it."""
    holds, details = True, {}
    for where in (T1_CORE, T2_CORE):
        cell, highest = m.highest(_cells(where))
        fdiv = m.slowdown(_cells(where, ["fdiv"], ["mbv_fp"])[0]).percent
        holds &= highest <= 2 and fdiv < MAIV_PERCENT
        details[where] = f"at most {highest:.2f} % ({cell.benchmark}, {cell.loop}), fdiv on mbv_fp {fdiv:.2f} %"
    return holds, _by_place(details)


def _l1_pollution(m: Measurements) -> Judgement:
    """A little: each loses something in either place, the mean of them no more than 5 %."""
    holds, details = True, {}
    for where in (T2_THREE, T2_PIPE):
        losses = {
            f"{loop} {each}": m.slowdown(_cells(where, [loop], [each])[0]).percent
            for loop in ("casx", "l2miss")
            for each in L1_BOUND
        }
        holds &= all(value > 0 for value in losses.values()) and sum(losses.values()) / len(losses) <= 5
        details[where] = _told(losses)
    return holds, _by_place(details)


def _responsiveness(m: Measurements) -> Judgement:
    """The first half only: these systems switch no software context, so its time is not measured."""
    holds, told = True, []
    for machine in grid.MACHINES:
        found = {loop: nanoseconds(m, machine, loop) for loop in LOOPS}
        holds &= _first(found) == "l2miss" and all(found[loop] > found["default"] for loop in OTHER_LOOPS)
        order = sorted(found.items(), key=lambda pair: -pair[1])
        told.append(f"{machine.upper()}: " + ", ".join(f"{loop} {value:.0f} ns" for loop, value in order))
    return holds, f"{'; '.join(told)}; a context switch is not measured"


JUDGES: dict[str, Judge] = {
    "fetch_is_main": _fetch_is_main,
    "more_shared_more_slowdown": _more_shared,
    "low_cpi_suffers": _low_cpi,
    "add_most": _add_most,
    "multiple_less_than_single": _multiple_less,
    "default_worst_single": _default_worst((T1_ONE, T1_THREE), SINGLE),
    "default_worst_multiple": _default_worst((T1_THREE,), MULTIPLE),
    "more_spinners_worse": _more_spinners,
    "l2miss_best": _l2miss_best,
    "casx_second": _casx_second,
    "fdiv_mbv_fp_t1": _fdiv_mbv_fp,
    "idiv_hash_t1": _idiv_hash,
    "same_unit_only": _same_unit_only,
    "t2_fdiv_less_bad": _fdiv_less_bad,
    "t2_fpgu_shared": _fpgu_shared,
    "t2_fpgu_other_pipe": _fpgu_other_pipe,
    "t2_other_pipe_small": _other_pipe_small,
    "t2_l2miss_better": _l2miss_better,
    "t2_default_worse_multiple": _default_worse,
    "other_core_negligible": _other_core,
    "l1_pollution_small": _l1_pollution,
    "responsiveness_trade": _responsiveness,
}
"""How each statement is judged."""
