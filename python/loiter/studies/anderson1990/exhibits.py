"""Curves, bars and tables of the exhibits."""

from __future__ import annotations

from statistics import median, stdev

from loiter import reference
from loiter.studies.anderson1990 import grid
from loiter.studies.anderson1990.grid import (
    CPUS,
    DELAYS,
    LIGHT_CPUS,
    LOCKS,
    QUEUE,
    TEST_AND_SET,
    TEST_AND_TEST_AND_SET,
    Lock,
)
from loiter.studies.anderson1990.statements import Judge
from loiter.studies.base import Chart, Curves, Grid

Points = dict[str, list[tuple[float, float]]]

_ACQUISITIONS = int(reference.lookup(grid.REFERENCE, f"{grid.PAPER}.iterations"))
_SECONDS = f"seconds for {_ACQUISITIONS:,} acquisitions"
_TUNED = "Delays have the slot with which the static one is fastest on all CPUs; back-off grows to the longest of them."


def curves(judge: Judge, exhibit: str | None) -> list[Curves]:
    """The figures whose runs are all there."""
    found = []
    if exhibit in (None, "elapsed"):
        found += [_elapsed(judge), _section(judge)]
    if exhibit in (None, "elapsed", "delays"):
        found += [_delays(judge, cpus) for cpus in (LIGHT_CPUS, CPUS)]
    return found


def charts(judge: Judge, exhibit: str | None) -> list[Chart]:
    """The bars whose runs are all there."""
    return [_preempted(judge)] if exhibit in (None, "preempted") else []


def grids(judge: Judge, exhibit: str | None) -> list[Grid]:
    """The tables whose runs are all there."""
    return [_table(judge)] if exhibit in (None, "elapsed") else []


def _elapsed(judge: Judge) -> Curves:
    counts = judge.scale.counts
    points: Points = {}
    runs: dict[tuple[str, float], str] = {}
    for lock in LOCKS:
        cells = {count: judge.cell(lock, count) for count in counts}
        points[lock.name] = [(n, judge.measurements.seconds(cell, _ACQUISITIONS)) for n, cell in cells.items()]
        runs |= {(lock.name, n): cell.label for n, cell in cells.items()}
    title = "Elapsed time of the benchmark on a Sequent Symmetry"
    return Curves("elapsed", title, _TUNED, "CPUs", _SECONDS, points, runs=runs)


def _section(judge: Judge) -> Curves:
    points: Points = {}
    runs: dict[tuple[str, float], str] = {}
    for lock in (TEST_AND_SET, TEST_AND_TEST_AND_SET, QUEUE):
        cells = {count: judge.cell(lock, count) for count in judge.scale.counts}
        points[lock.name] = [(n, judge.measurements.hold(cell)) for n, cell in cells.items()]
        runs |= {(lock.name, n): cell.label for n, cell in cells.items()}
    caption = "With one CPU, its lines stay in its cache; with more they come from the last holder's."
    return Curves("section", "What waiters do to the holder's section", caption, "CPUs", "cycles", points, runs=runs)


def _delays(judge: Judge, cpus: int) -> Curves:
    points: Points = {}
    runs: dict[tuple[str, float], str] = {}
    for lock in DELAYS:
        cells = {slot: grid.cell(judge.scale, lock, cpus, slot) for slot in judge.scale.slots}
        points[lock.name] = [(slot, judge.measurements.cycles(cell)) for slot, cell in cells.items()]
        runs |= {(lock.name, slot): cell.label for slot, cell in cells.items()}
    load = "light" if cpus == LIGHT_CPUS else "heavy"
    caption = f"A slot is so many pauses; back-off grows to {CPUS - 1} slots, the longest static delay."
    title = f"Static and dynamic delays at {load} load, {cpus} CPUs"
    return Curves(f"delays-{cpus}", title, caption, "slot, pauses", "cycles for each acquisition", points, runs=runs)


def _preempted(judge: Judge) -> Chart:
    groups = tuple(_short(lock) for lock in LOCKS)
    series = {f"{count} CPUs": count for count in (LIGHT_CPUS, CPUS)}
    values, runs = {}, {}
    for lock in LOCKS:
        for name, count in series.items():
            times = judge.preempted(lock, count)
            values[_short(lock), name] = (median(times), stdev(times) if len(times) > 1 else 0.0)
            runs[_short(lock), name] = tuple(each.label for each in grid.preempted(judge.scale, lock, count)[1])
    slices = judge.scale.slices_us
    caption = f"Elapsed time with two threads a CPU, which change every {slices[0] / 1000:g} ms, over that with one."
    if len(slices) > 1:
        caption += f" Median and standard deviation of {len(slices)} slices that differ by at most a fiftieth."
    return Chart("preempted", "What preemption costs", caption, "times", groups, tuple(series), values, runs=runs)


def _short(lock: Lock) -> str:
    """Its name where there is little room."""
    return lock.name.removeprefix("delay ")


def _table(judge: Judge) -> Grid:
    counts = judge.scale.counts
    rows = []
    for lock in LOCKS:
        times = (judge.time(lock, count) for count in counts)
        slot = f"{lock.name}, {judge.tuned(lock)}" if lock.delay else lock.name
        rows.append((slot, *(f"{time:.0f}" for time in times)))
    caption = "Cycles for each acquisition, by number of CPUs; of delays the slot in pauses."
    return Grid("elapsed-table", "Elapsed time", caption, ("lock", *map(str, counts)), tuple(rows))
