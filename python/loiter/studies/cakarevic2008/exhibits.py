"""The paper's tables and figures, and its statements in words, from the measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from loiter import reference
from loiter.studies.base import Chart, Grid, Line, Mark, Statement
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
from loiter.studies.cakarevic2008.measurements import Measurements, NotMeasured
from loiter.studies.cakarevic2008.points import best_delay, nanoseconds

SINGLE_AVERAGE = "single average"
MULTIPLE_AVERAGE = "multiple average"
ALL_AVERAGE = "average of all"
AVERAGES = {SINGLE_AVERAGE: SINGLE, MULTIPLE_AVERAGE: MULTIPLE, ALL_AVERAGE: BENCHMARKS}

BARS = (
    "Whiskers: one standard deviation over the measured repetitions. A bar that leaves the picture carries its value."
)
DERIVED = "Published are the averages and single values of the reference file; it does not hold the paper's other bars."


def charts(measurements: Measurements, wanted: Iterable[str]) -> list[Chart]:
    """The figures whose runs are all there."""
    ids = list(wanted)
    return [chart for build in _FIGURES for chart in build(measurements) if chart.id.split("-")[0] in ids]


def grids(measurements: Measurements, wanted: Iterable[str]) -> list[Grid]:
    """The tables whose runs are there, machine by machine."""
    ids = list(wanted)
    found = []
    if "table_1" in ids:
        found += [_latencies(measurements), _responsiveness(measurements)]
    if "table_2" in ids:
        found.append(_cpi_alone(measurements))
    return [table for table in found if table.rows]


def statements(measurements: Measurements) -> list[Statement]:
    """What the paper says in words."""
    return [
        *(_default_is_worst(measurements, machine) for machine in grid.MACHINES),
        *(_l2miss_is_best(measurements, machine) for machine in grid.MACHINES),
        _fdiv_hurts_mbv_fp(measurements),
        _elsewhere(measurements, "t2", OTHER_PIPE, "the other pipe", LOOPS, limit=3.0),
        _elsewhere(measurements, "t1", OTHER_CORE, "the other core", ("casx", "l2miss"), limit=2.0),
    ]


def _published(key: str) -> float:
    return float(reference.lookup(grid.PAPER, f"result.{key}"))


def _figure(
    measurements: Measurements,
    name: str,
    title: str,
    where: tuple[str, str, int],
    groups: tuple[str, ...],
    marks: tuple[Mark, ...] = (),
    lines: tuple[Line, ...] = (),
) -> list[Chart]:
    """One chart of slowdowns; nothing where a run is missing."""
    machine, place, spinners = where
    values: dict[tuple[str, str], tuple[float, float]] = {}
    try:
        for group in groups:
            members = AVERAGES.get(group, (group,))
            for loop in LOOPS:
                slowdowns = [
                    measurements.slowdown(cell) for cell in with_spinners(machine, place, spinners, members, [loop])
                ]
                mean = sum(each.percent for each in slowdowns) / len(slowdowns)
                # Independent runs: the deviation of their mean.
                deviation = sum(each.deviation**2 for each in slowdowns) ** 0.5 / len(slowdowns)
                values[group, loop] = (mean, deviation)
    except NotMeasured:
        return []
    averages = frozenset(groups) & frozenset(AVERAGES)
    caption = f"{BARS} {DERIVED}"
    return [Chart(name, title, caption, "slowdown, percent", groups, LOOPS, values, marks, lines, averages)]


def _figure_4(m: Measurements) -> list[Chart]:
    below = _published("t1_other_1_spinner_each_average_below")
    marks = (
        Mark("add", ("default",), _published("t1_default_1_spinner_add")),
        Mark("mbv_fp", ("fdiv",), _published("t1_fdiv_1_spinner_mbv_fp")),
        Mark(SINGLE_AVERAGE, ("default",), _published("t1_default_1_spinner_single_average")),
        Mark(MULTIPLE_AVERAGE, ("default",), _published("t1_default_1_spinner_multiple_average")),
        Mark(ALL_AVERAGE, ("default",), _published("t1_default_1_spinner_all_average")),
        Mark(ALL_AVERAGE, OTHER_LOOPS, below, bound=True),
    )
    groups = (*SINGLE, SINGLE_AVERAGE, *MULTIPLE, MULTIPLE_AVERAGE, ALL_AVERAGE)
    return _figure(m, "figure_4", "Figure 4: T1, one spinner in the same core", ("t1", SAME, 1), groups, marks)


def _figure_5(m: Measurements) -> list[Chart]:
    marks = (
        Mark(SINGLE_AVERAGE, ("default",), _published("t1_default_3_spinners_single_average")),
        Mark(SINGLE_AVERAGE, OTHER_LOOPS, _published("t1_other_3_spinners_single_average")),
    )
    title = "Figure 5: T1, three spinners in the same core, single-behaviour benchmarks"
    return _figure(m, "figure_5", title, ("t1", SAME, 3), (*SINGLE, SINGLE_AVERAGE), marks)


def _multiple(m: Measurements, machine: str) -> tuple[tuple[Mark, ...], tuple[Line, ...]]:
    best = best_delay(m, machine, MULTIPLE)
    marks = (
        Mark(MULTIPLE_AVERAGE, ("default",), _published(f"{machine}_default_3_spinners_multiple_average")),
        Mark(MULTIPLE_AVERAGE, (best,), _published(f"{machine}_best_3_spinners_multiple_average")),
    )
    lines = (
        Line("published highest (default)", _published(f"{machine}_default_3_spinners_multiple_max"), "default"),
        Line(
            f"published highest (best loop; ours is {best})",
            _published(f"{machine}_best_3_spinners_multiple_max"),
            best,
        ),
    )
    return marks, lines


def _figure_6(m: Measurements) -> list[Chart]:
    try:
        marks, lines = _multiple(m, "t1")
    except NotMeasured:
        return []
    title = "Figure 6: T1, three spinners in the same core, multiple-behaviour benchmarks"
    return _figure(m, "figure_6", title, ("t1", SAME, 3), (*MULTIPLE, MULTIPLE_AVERAGE), marks, lines)


def _figure_7(m: Measurements) -> list[Chart]:
    try:
        marks, lines = _multiple(m, "t2")
    except NotMeasured:
        return []
    title = "Figure 7: T2, three spinners in the same pipe, multiple-behaviour benchmarks"
    where = ("t2", SAME, 3)
    averages = (
        Mark(ALL_AVERAGE, ("default",), _published("t2_default_3_spinners_all_average")),
        Mark(ALL_AVERAGE, ("l2miss",), _published("t2_l2miss_3_spinners_average_below"), bound=True),
    )
    return [
        *_figure(m, "figure_7", title, where, (*MULTIPLE, MULTIPLE_AVERAGE), marks, lines),
        *_figure(
            m,
            "figure_7-single",
            "T2, three spinners in the same pipe, single-behaviour benchmarks and the average of all",
            where,
            (*SINGLE, SINGLE_AVERAGE, ALL_AVERAGE),
            averages,
        ),
    ]


def _figure_8(m: Measurements) -> list[Chart]:
    groups = (*BENCHMARKS, ALL_AVERAGE)
    below = _published("t2_other_pipe_4_spinners_each_average_below")
    highest = Line("published highest (casx, l2miss)", _published("t1_other_core_4_casx_or_l2miss_max"), "casx")
    return [
        *_figure(
            m,
            "figure_8-t2",
            "Figure 8: T2, four spinners in the other pipe",
            ("t2", OTHER_PIPE, 4),
            groups,
            (Mark(ALL_AVERAGE, LOOPS, below, bound=True),),
        ),
        *_figure(
            m,
            "figure_8-t1",
            "Figure 8: T1, four spinners in the other core",
            ("t1", OTHER_CORE, 4),
            groups,
            lines=(highest,),
        ),
    ]


def _t2_1_spinner(m: Measurements) -> list[Chart]:
    marks = (Mark(ALL_AVERAGE, ("default",), _published("t2_default_1_spinner_all_average")),)
    groups = (*BENCHMARKS, ALL_AVERAGE)
    return _figure(m, "t2_1_spinner", "T2, one spinner in the same pipe", ("t2", SAME, 1), groups, marks)


_FIGURES: tuple[Callable[[Measurements], list[Chart]], ...] = (
    _figure_4,
    _figure_5,
    _figure_6,
    _figure_7,
    _figure_8,
    _t2_1_spinner,
)


def _period(m: Measurements, machine: str, loop: str) -> float:
    return m.spinning(Cell(machine, grid.HOLDER, loop, OTHER_CORE, 1)).mean_cycles


def _delay(m: Measurements, machine: str, loop: str) -> float:
    """Cycles that the delay of a loop adds, its other instructions taken as one cycle each."""
    default = m.spinning(Cell(machine, grid.HOLDER, "default", OTHER_CORE, 1))
    loaded = m.spinning(Cell(machine, grid.HOLDER, loop, OTHER_CORE, 1))
    others = round(loaded.instructions_per_read - default.instructions_per_read) - 1
    return loaded.mean_cycles - default.mean_cycles - others


def _measured_machines(m: Measurements) -> list[str]:
    return [machine for machine in grid.MACHINES if m.has_any(machine)]


def _table(m: Measurements, kinds: tuple[str, ...], first: str, last: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Columns: what a row is, the same kinds of value for every machine that was run, remarks."""
    machines = _measured_machines(m)
    return (first, *(f"{machine.upper()} {kind}".rstrip() for machine in machines for kind in kinds), *last)


def _text(value: Callable[[], str]) -> str:
    try:
        return value()
    except NotMeasured:
        return "–"


def _latencies(m: Measurements) -> Grid:
    """Table I, from running loops: what a loop of one kind takes, or what a delay adds to the default loop."""

    def cpi(machine: str, benchmark: str) -> float:
        return m.timing(Cell(machine, benchmark)).cpi

    def rest(machine: str) -> float:
        return _period(m, machine, "default") - cpi(machine, "l1_hit") - cpi(machine, "add")

    def delay(loop: str) -> Callable[[str], float]:
        return lambda machine: _delay(m, machine, loop)

    measures: tuple[tuple[str, Callable[[str], float], str], ...] = (
        ("load, L1 hit", lambda machine: cpi(machine, "l1_hit"), "CPI of l1_hit"),
        ("nop", lambda machine: cpi(machine, "add"), "CPI of add"),
        ("barrier and branch", rest, "period of the default loop, less load and nop"),
        ("64-bit divide", delay("idiv"), "what idiv adds to the loop"),
        ("compare and swap", delay("casx"), "what casx adds to the loop"),
        ("double divide", delay("fdiv"), "what fdiv adds to the loop"),
        ("load, L2 miss", delay("l2miss"), "what l2miss adds to the loop"),
    )

    def row(name: str, measure: Callable[[str], float], how: str) -> tuple[str, ...]:
        values = []
        for machine in _measured_machines(m):
            values += [_text(partial(_one_decimal, measure, machine)), _published_latency(name, machine)]
        return (name, *values, how)

    columns = _table(m, ("", "published"), "operation", ("measured as",))
    rows = tuple(row(*each) for each in measures)
    return Grid("table_1", "Table I: latencies in cycles", "Measured by running loops.", columns, rows)


def _one_decimal(measure: Callable[[str], float], machine: str) -> str:
    return f"{measure(machine):.1f}"


def _published_latency(name: str, machine: str) -> str:
    """What Table I of the paper says, in the reference file's words where they are more than a number."""
    facts = reference.lookup(grid.PAPER, f"machine.{machine}")
    latency = facts["latency_cycles"]
    match name:
        case "barrier and branch":
            branch = latency.get("branch", latency.get("branch_taken"))
            return f"{latency['membar'] + branch} ({latency['membar']} + {branch})"
        case "64-bit divide":
            return f"{latency['sdivx']}" if "sdivx" in latency else f"{latency['sdivx_min']} to {latency['sdivx_max']}"
        case "load, L2 miss":
            total = f"{facts['l2_miss_total_latency_cycles']} in total"
            return f"{latency['l2_miss_load']}, {total}" if "l2_miss_load" in latency else total
        case _:
            key = {"load, L1 hit": "ldub", "nop": "nop", "compare and swap": "casx", "double divide": "fdivd"}[name]
            return f"{latency[key]}"


def _cpi_alone(m: Measurements) -> Grid:
    def cpi(machine: str, benchmark: str) -> str:
        timing = m.timing(Cell(machine, benchmark))
        return f"{timing.cpi:.2f} ± {timing.cpi_deviation:.2f}"

    rows = []
    for benchmark in BENCHMARKS:
        row = [benchmark]
        for machine in _measured_machines(m):
            row.append(_text(partial(cpi, machine, benchmark)))
            row.append(f"{reference.lookup(grid.PAPER, f'active.cpi_alone.{machine}.{benchmark}'):.1f}")
        rows.append(tuple(row))
    columns = _table(m, ("", "published"), "benchmark")
    caption = "Mean over the measured repetitions, ± one standard deviation."
    return Grid("table_2", "Table II: cycles per instruction, alone", caption, columns, tuple(rows))


def _responsiveness(m: Measurements) -> Grid:
    """How often a spinner looks: by itself, and with a benchmark and two more spinners in its core or pipe."""

    def alone(machine: str, loop: str) -> str:
        return f"{nanoseconds(m, machine, loop):.1f}"

    rows = []
    for loop in LOOPS:
        row = [loop]
        for machine in _measured_machines(m):
            row += [_text(partial(alone, machine, loop)), _loaded(m, machine, loop)]
        rows.append(tuple(row))
    caption = (
        "Time between two reads of the lock by one spinner. Alone: the mean, by itself in its core (the published "
        "values are of this kind). Loaded: the means with three spinners beside a benchmark, lowest to highest."
    )
    columns = _table(m, ("alone, ns", "loaded, ns"), "loop")
    return Grid("responsiveness", "Responsiveness of the spin loops", caption, columns, tuple(rows))


def _loaded(m: Measurements, machine: str, loop: str) -> str:
    cells = [cell for cell in with_spinners(machine, SAME, 3, loops=[loop]) if m.has(cell)]
    if not cells:
        return "–"
    means = [m.spinning(cell).mean_cycles * 1000 / m.clock_mhz(machine) for cell in cells]
    return f"{min(means):.1f} to {max(means):.1f}"


def _judge(text: str, judge: Callable[[], tuple[bool, str]]) -> Statement:
    try:
        holds, detail = judge()
    except NotMeasured as missing:
        return Statement(text, None, f"not measured: {missing.cell.label}")
    return Statement(text, holds, detail)


def _averages(
    m: Measurements, machine: str, place: str, spinners: int, benchmarks: tuple[str, ...]
) -> dict[str, float]:
    return {loop: m.average(with_spinners(machine, place, spinners, benchmarks, [loop])) for loop in LOOPS}


def _ranking(averages: dict[str, float]) -> str:
    return ", ".join(f"{loop} {value:.1f} %" for loop, value in sorted(averages.items(), key=lambda pair: -pair[1]))


def _default_is_worst(m: Measurements, machine: str) -> Statement:
    def judge() -> tuple[bool, str]:
        groups = {name: _averages(m, machine, SAME, 3, members) for name, members in AVERAGES.items()}
        holds = all(max(averages, key=averages.__getitem__) == "default" for averages in groups.values())
        return holds, _ranking(groups[ALL_AVERAGE])

    return _judge(f"{machine.upper()}: the default loop costs most (three spinners, every average)", judge)


def _l2miss_is_best(m: Measurements, machine: str) -> Statement:
    def judge() -> tuple[bool, str]:
        averages = _averages(m, machine, SAME, 3, BENCHMARKS)
        return averages["l2miss"] <= min(averages.values()) + 1.0, _ranking(averages)

    return _judge(f"{machine.upper()}: l2miss costs least, or within a point of it (three spinners)", judge)


def _fdiv_hurts_mbv_fp(m: Measurements) -> Statement:
    def judge() -> tuple[bool, str]:
        by_loop = {loop: m.slowdown(Cell("t1", "mbv_fp", loop, SAME, 1)).percent for loop in LOOPS}
        return max(by_loop, key=by_loop.__getitem__) == "fdiv", _ranking(by_loop)

    return _judge("T1: of all loops fdiv hurts mbv_fp most (one spinner)", judge)


def _elsewhere(
    m: Measurements, machine: str, place: str, words: str, loops: tuple[str, ...], limit: float
) -> Statement:
    def judge() -> tuple[bool, str]:
        averages = {loop: m.average(with_spinners(machine, place, 4, loops=[loop])) for loop in loops}
        return max(averages.values()) < limit, _ranking(averages)

    text = f"{machine.upper()}: four spinners in {words} cost little (averages below {limit:g} %; {', '.join(loops)})"
    return _judge(text, judge)
