"""`loiter wait` as a study: a plan of runs, and tables and charts of what they say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loiter import programs
from loiter.engine import Engine
from loiter.report.numbers import counted, fixed
from loiter.results import Result
from loiter.runs.request import Request
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Findings, Grid
from loiter.studies.wait import methods
from loiter.studies.wait.measured import Measured, together
from loiter.studies.wait.methods import METHODS, Cell, Choice


class Waiting:
    """What every waiting method costs on one machine. See `loiter.studies.base.Study`."""

    name = "wait"
    citation = ""
    legend = ""
    exhibits: tuple[Exhibit, ...] = ()
    scales: Mapping[str, str] = methods.SCALES
    method = (
        "A program runs on context 0 of a core and holds a lock for which the other contexts wait, all by one "
        "method. Slowdown is the time of its repetitions beside the waiters over the time of the same repetitions "
        "alone, less 1. After every repetition the lock goes to a waiter and back: the wake-up latency is the time "
        "from the probe before the store that releases the lock to the probe after its acquisition. Neither is part of "
        "a repetition. Energy is that of the whole machine while the program works and hands over, for one repetition; "
        "what a waiter adds is the difference of average powers (docs/energy.md)."
    )

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self.title = f"What waiting costs on {choice.machine.name}"

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """One job a cell."""
        choice = self._choice
        program = programs.load(engine, methods.PROGRAM)
        jobs = []
        for cell in choice.cells():
            machine = choice.machine_of(engine, cell)
            placement = programs.place(cell.placements(), program, machine)
            request = Request(machine, program, placement, choice.arguments(cell), fast_forward=True)
            jobs.append(Job(cell.label, request, choice.weight(cell)))
        return jobs

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Tables and charts; nothing is published to compare with."""
        choice, measured = self._choice, Measured(results)
        return Findings(
            points=(),
            statements=(),
            grids=[*_by_waiters(choice, measured), *_energy(choice, measured), _by_benchmark(choice, measured)],
            charts=_charts(choice, measured),
            rows=[_row(cell, measured, results) for cell in choice.cells()],
        )


def _cells(choice: Choice, method: str, waiters: int) -> list[Cell]:
    return [Cell(benchmark, method, waiters) for benchmark in choice.benchmarks]


def _by_waiters(choice: Choice, measured: Measured) -> list[Grid]:
    """One row a method: average slowdown and latency for every number of waiters."""
    numbers = tuple(f"{n} waiting" for n in choice.waiters)
    slow, woken, wakes = [], [], []
    for method in choice.methods:
        averages = [measured.average(_cells(choice, method, n)) for n in choice.waiters]
        slow.append(
            (method, METHODS[method], *(f"{fixed(mean)} (sd {fixed(deviation)})" for mean, deviation in averages))
        )
        row = [method]
        for n in choice.waiters:
            latency = together(measured.latency(cell) for cell in _cells(choice, method, n))
            p99 = "–" if latency.p99 is None else str(latency.p99)
            row.append(f"{latency.median} / {p99} / {latency.worst}")
            wakes.append(len(latency.samples))
        woken.append(tuple(row))
    beside = f"the average over {len(choice.benchmarks)} programs"
    fewest, most = min(wakes), max(wakes)
    of = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return [
        Grid(
            "slowdown",
            "Slowdown of the working program, percent",
            f"What so many waiters in its core cost it, {beside}. sd: standard deviation over the repetitions of a "
            "run; the same run again gives the same value.",
            ("method", "what a waiter does", *numbers),
            tuple(slow),
            words=2,
        ),
        Grid(
            "latency",
            "Wake-up latency, cycles",
            f"Median / 99th percentile / worst of {of} wake-ups of all programs, from the release of the lock to the "
            "waiter that has it. Fewer than 100 have no 99th percentile but the worst.",
            ("method", *numbers),
            tuple(woken),
        ),
    ]


def _energy(choice: Choice, measured: Measured) -> list[Grid]:
    """What a repetition takes and what a waiter adds, for every number of waiters; nothing where it is not known."""
    alone = [measured.energy_uj(Cell(benchmark)) for benchmark in choice.benchmarks]
    if any(each is None for each in alone):
        return []
    more, added = [], []
    for method in choice.methods:
        cells = [_cells(choice, method, n) for n in choice.waiters]
        percents = [[_percent_more(measured, cell) for cell in each] for each in cells]
        more.append((method, *(fixed(sum(each) / len(each)) for each in percents)))
        added.append((method, *(_mean_mw(measured, each) for each in cells)))
    columns = ("method", *(f"{n} waiting" for n in choice.waiters))
    beside = f"The average over {len(choice.benchmarks)} programs."
    return [
        Grid("energy", "Energy, percent more than alone", f"Of a repetition. {beside}", columns, tuple(more)),
        Grid(
            "power",
            "Power that a waiter adds, mW",
            f"{beside} In brackets: with all coefficients of the machine's energy at the ends of their ranges.",
            columns,
            tuple(added),
        ),
    ]


def _mean_mw(measured: Measured, cells: list[Cell]) -> str:
    found = [value for cell in cells if (value := measured.waiter_mw(cell)) is not None]
    low, mean, high = (sum(getattr(each, end) for each in found) / len(found) for end in ("low", "value", "high"))
    return f"{fixed(mean)} ({fixed(low)} to {fixed(high)})"


def _percent_more(measured: Measured, cell: Cell) -> float:
    with_waiters, alone = measured.energy_uj(cell), measured.energy_uj(Cell(cell.benchmark))
    assert with_waiters is not None
    assert alone is not None
    return 100 * (with_waiters.value / alone.value - 1)


def _by_benchmark(choice: Choice, measured: Measured) -> Grid:
    """One row a method: what its most waiters cost each program."""
    most = choice.waiters[-1]
    rows = []
    for method in choice.methods:
        values = (measured.slowdown(Cell(benchmark, method, most)) for benchmark in choice.benchmarks)
        rows.append((method, *(fixed(each.percent) for each in values)))
    return Grid(
        "by_program",
        f"Slowdown by {counted(most, 'waiter')}, percent",
        "One line a waiting method, one column a working program.",
        ("method", *choice.benchmarks),
        tuple(rows),
    )


def _charts(choice: Choice, measured: Measured) -> list[Chart]:
    groups = tuple(f"{n} waiting" for n in choice.waiters)
    slow, woken, runs = {}, {}, {}
    for n, group in zip(choice.waiters, groups, strict=True):
        for method in choice.methods:
            cells = _cells(choice, method, n)
            slow[group, method] = measured.average(cells)
            latency = together(measured.latency(cell) for cell in cells)
            woken[group, method] = (float(latency.median), 0.0)
            runs[group, method] = tuple(cell.label for cell in cells)
    most = choice.waiters[-1]
    programs_ = {
        (benchmark, method): (found.percent, found.deviation)
        for benchmark in choice.benchmarks
        for method in choice.methods
        for found in [measured.slowdown(Cell(benchmark, method, most))]
    }
    name = choice.machine.name
    whiskers = "Whiskers: one standard deviation over the repetitions of a run."
    unit = "slowdown, percent"
    return [
        Chart(
            "slowdown", f"{name}: what waiters cost a program", whiskers, unit, groups, choice.methods, slow, runs=runs
        ),
        Chart(
            "by_program",
            f"{name}: what {counted(most, 'waiter')} cost{'s' if most == 1 else ''} each program",
            whiskers,
            unit,
            choice.benchmarks,
            choice.methods,
            programs_,
            runs={key: (Cell(*key, most).label,) for key in programs_},
        ),
        Chart(
            "latency",
            f"{name}: median time from release to acquisition",
            "99th percentile and worst are in the table.",
            "wake-up latency, cycles",
            groups,
            choice.methods,
            woken,
            runs=runs,
        ),
    ]


def _row(cell: Cell, measured: Measured, results: Mapping[str, Result]) -> dict[str, Any]:
    """One line of the study's own table, for pandas and DuckDB."""
    result = results[cell.label]
    row: dict[str, Any] = {
        "run": cell.label,
        "directory": result.path.name,
        "machine": result.manifest["machine"]["name"],
        "benchmark": cell.benchmark,
        "method": cell.method or None,
        "waiters": cell.waiters,
        "cycles": result.manifest["cycles"],
        "instructions": result.manifest["instructions"],
    }
    taken = measured.energy_uj(cell)
    if taken is not None:
        row |= taken.columns("energy_per_repetition_uj")
    if cell.waiters:
        added = measured.waiter_mw(cell)
        if added is not None:
            row |= added.columns("power_per_waiter_mw")
        slowdown, latency = measured.slowdown(cell), measured.latency(cell)
        row |= {
            "slowdown_percent": slowdown.percent,
            "slowdown_deviation": slowdown.deviation,
            "latency_median_cycles": latency.median,
            "latency_samples": len(latency.samples),
            "latency_p99_cycles": latency.p99,
            "latency_worst_cycles": latency.worst,
            "latency_median_ns": latency.median * 1000 / measured.clock_mhz(cell),
        }
    return row
