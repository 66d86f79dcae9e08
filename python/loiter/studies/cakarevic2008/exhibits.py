"""The paper's tables and figures, from the measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from loiter import reference
from loiter.studies.base import Chart, Grid, Line, Mark
from loiter.studies.cakarevic2008 import grid
from loiter.studies.cakarevic2008.grid import (
    BENCHMARKS,
    LOOPS,
    MULTIPLE,
    OTHER_CORE,
    OTHER_LOOPS,
    SAME,
    SINGLE,
    Cell,
    with_spinners,
)
from loiter.studies.cakarevic2008.measurements import Measurements, NotMeasured
from loiter.studies.cakarevic2008.points import best_at_three, nanoseconds

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


def _published(key: str) -> float:
    return float(reference.lookup(grid.PAPER, f"result.{key}"))


Series = Mapping[str, tuple[str, str, int, str]]
"""By name: machine, place, number and loop of the spinners."""


def _figure(
    m: Measurements,
    name: str,
    title: str,
    series: Series,
    groups: tuple[str, ...],
    marks: tuple[Mark, ...] = (),
    lines: tuple[Line, ...] = (),
) -> list[Chart]:
    """One chart of slowdowns; nothing where a run is missing."""
    values: dict[tuple[str, str], tuple[float, float]] = {}
    runs: dict[tuple[str, str], tuple[str, ...]] = {}
    try:
        for group in groups:
            members = AVERAGES.get(group, (group,))
            for each, (machine, place, spinners, loop) in series.items():
                cells = with_spinners(machine, place, spinners, members, [loop])
                slowdowns = [m.slowdown(cell) for cell in cells]
                mean = sum(one.percent for one in slowdowns) / len(slowdowns)
                # Independent runs: the deviation of their mean.
                deviation = sum(one.deviation**2 for one in slowdowns) ** 0.5 / len(slowdowns)
                values[group, each] = (mean, deviation)
                runs[group, each] = tuple(cell.label for cell in cells)
    except NotMeasured:
        return []
    averages = frozenset(groups) & frozenset(AVERAGES)
    caption = f"{BARS} {DERIVED}"
    unit = "slowdown, percent"
    return [Chart(name, title, caption, unit, groups, tuple(series), values, marks, lines, averages, runs)]


def _by_loop(exhibit: str) -> Series:
    machine, place, spinners = grid.PLACES[exhibit]
    return {loop: (machine, place, spinners, loop) for loop in LOOPS}


def _title(exhibit: str) -> str:
    return next(each.title for each in grid.EXHIBITS if each.id == exhibit)


_SINGLE_GROUPS = (*SINGLE, SINGLE_AVERAGE)
_MULTIPLE_GROUPS = (*MULTIPLE, MULTIPLE_AVERAGE, ALL_AVERAGE)


def _pair(
    m: Measurements,
    exhibit: str,
    single: tuple[Mark, ...] = (),
    multiple: tuple[Mark, ...] = (),
    lines: tuple[Line, ...] = (),
) -> list[Chart]:
    """(a) the single- and (b) the multiple-behaviour benchmarks."""
    series, title = _by_loop(exhibit), _title(exhibit)
    return [
        *_figure(m, f"{exhibit}-a", f"{title}; (a) single behaviour", series, _SINGLE_GROUPS, single),
        *_figure(m, f"{exhibit}-b", f"{title}; (b) multiple behaviour", series, _MULTIPLE_GROUPS, multiple, lines),
    ]


def _figure_4(m: Measurements) -> list[Chart]:
    return [*_default_spinners(m, "t1", "figure_4-t1"), *_default_spinners(m, "t2", "figure_4-t2")]


def _default_spinners(m: Measurements, machine: str, name: str) -> list[Chart]:
    counts = {1: "1 spinner", 3: "3 spinners"}
    series = {each: (machine, SAME, count, "default") for count, each in counts.items()}
    groups = (*_SINGLE_GROUPS, *_MULTIPLE_GROUPS)
    keys = {SINGLE_AVERAGE: "single_average", MULTIPLE_AVERAGE: "multiple_average", ALL_AVERAGE: "all_average"}
    published = reference.lookup(grid.PAPER, "result")
    marks = [
        Mark(group, (each,), published[key])
        for group, words in (("add", "add"), *keys.items())
        for count, each in counts.items()
        if (key := f"{machine}_default_{count}_spinner{'s' if count > 1 else ''}_{words}") in published
    ]
    title = f"Figure 4: {machine.upper()}, one and three default spinners in the same {_PART[machine]}"
    return _figure(m, name, title, series, groups, tuple(marks))


_PART = {"t1": "core", "t2": "pipe"}


def _figure_5(m: Measurements) -> list[Chart]:
    single = (
        Mark("add", ("default",), _published("t1_default_1_spinner_add")),
        Mark(SINGLE_AVERAGE, ("default",), _published("t1_default_1_spinner_single_average")),
        Mark(SINGLE_AVERAGE, OTHER_LOOPS, _published("t1_other_1_spinner_single_each_average_below"), bound=True),
    )
    below = _published("t1_other_but_fdiv_1_spinner_multiple_each_average_below")
    multiple = (
        Mark("mbv_fp", ("fdiv",), _published("t1_fdiv_1_spinner_mbv_fp")),
        Mark(MULTIPLE_AVERAGE, ("default",), _published("t1_default_1_spinner_multiple_average")),
        *(Mark(MULTIPLE_AVERAGE, (loop,), below, bound=True) for loop in OTHER_LOOPS if loop != "fdiv"),
        Mark(ALL_AVERAGE, ("default",), _published("t1_default_1_spinner_all_average")),
    )
    return _pair(m, "figure_5", single, multiple)


def _three_spinners(m: Measurements, exhibit: str, machine: str, single: tuple[Mark, ...]) -> list[Chart]:
    try:
        best = best_at_three(m, machine, MULTIPLE)
    except NotMeasured:
        return []
    multiple = [
        Mark(MULTIPLE_AVERAGE, ("default",), _published(f"{machine}_default_3_spinners_multiple_average")),
        Mark(MULTIPLE_AVERAGE, (best,), _published(f"{machine}_best_3_spinners_multiple_average")),
        Mark(ALL_AVERAGE, ("default",), _published(f"{machine}_default_3_spinners_all_average")),
    ]
    if machine == "t2":
        multiple.append(Mark(ALL_AVERAGE, ("l2miss",), _published("t2_l2miss_3_spinners_average_below"), bound=True))
    lines = (
        Line("published highest (default)", _published(f"{machine}_default_3_spinners_multiple_max"), "default"),
        Line(
            f"published highest (best loop; ours is {best})",
            _published(f"{machine}_best_3_spinners_multiple_max"),
            best,
        ),
    )
    return _pair(m, exhibit, single, tuple(multiple), lines)


def _figure_6(m: Measurements) -> list[Chart]:
    single = (
        Mark(SINGLE_AVERAGE, ("default",), _published("t1_default_3_spinners_single_average")),
        Mark(SINGLE_AVERAGE, OTHER_LOOPS, _published("t1_other_3_spinners_single_average")),
    )
    return _three_spinners(m, "figure_6", "t1", single)


def _figure_7(m: Measurements) -> list[Chart]:
    derived = float(reference.lookup(grid.PAPER, "further.t2_default_3_spinners_single_average"))
    return _three_spinners(m, "figure_7", "t2", (Mark(SINGLE_AVERAGE, ("default",), derived),))


def _figure_8(m: Measurements) -> list[Chart]:
    below = _published("t2_other_pipe_4_spinners_each_average_below")
    single = (Mark(SINGLE_AVERAGE, LOOPS, below, bound=True),)
    return _pair(m, "figure_8", single, (Mark(MULTIPLE_AVERAGE, LOOPS, below, bound=True),))


def _other_core(m: Measurements) -> list[Chart]:
    highest = Line("published highest (casx, l2miss)", _published("t1_other_core_4_casx_or_l2miss_max"), "casx")
    groups = (*BENCHMARKS, ALL_AVERAGE)
    return [
        *_figure(m, "t1_other_core", _title("t1_other_core"), _by_loop("t1_other_core"), groups, lines=(highest,)),
        *_figure(m, "t2_other_core", _title("t2_other_core"), _by_loop("t2_other_core"), groups),
    ]


_FIGURES: tuple[Callable[[Measurements], list[Chart]], ...] = (
    _figure_4,
    _figure_5,
    _figure_6,
    _figure_7,
    _figure_8,
    _other_core,
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
