"""Spin locks on a machine of 20 CPUs on one bus (Anderson, 1990)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loiter import machines, reference
from loiter.engine import Engine
from loiter.results import Result
from loiter.runs.worker import Job
from loiter.studies import sections
from loiter.studies.anderson1990 import exhibits, grid, statements
from loiter.studies.anderson1990.grid import SCALES, TEST_AND_SET
from loiter.studies.anderson1990.statements import Judge
from loiter.studies.base import Findings, Point, Tolerance, chosen
from loiter.studies.sections import Cell, Measurements


class Anderson1990:
    """See `loiter.studies.base.Study`."""

    name = grid.PAPER
    title = "Spin locks on a machine of 20 CPUs on one bus"
    citation = (
        "T. E. Anderson, The Performance of Spin Lock Alternatives for Shared-Memory Multiprocessors, IEEE "
        "Transactions on Parallel and Distributed Systems 1(1), 1990"
    )
    method = (
        "All CPUs together acquire one lock a fixed number of times: each has the same share of acquire, section, "
        "release and work outside, which is uniform with a mean of five sections. Elapsed time is from the first "
        "acquire of any CPU to the end of the last work, and is shown for the paper's number of acquisitions at the "
        f"same rate. The section writes {grid.LINES} lines and works for {grid.HOLD_CYCLES} cycles. Static delays are "
        "a slot of its own for each CPU: as many pauses as the slot times the CPU's number. Several slots are run; "
        "the one that is fastest on all CPUs is what is tuned to heavy load. Back-off doubles from one pause to the "
        f"longest static delay. Where two threads share a CPU, a timer changes them every {grid.SLICES_US[0] / 1000:g} "
        "ms, not all CPUs at once."
    )
    legend = (
        "The paper's section is not known beyond its ratio to the work outside, so elapsed times are not compared with "
        "its curves; its statements are. Times that differ by less than 1 % count as equal. No parameter was fitted."
    )
    exhibits = grid.EXHIBITS
    scales: Mapping[str, str] = {name: scale.description for name, scale in SCALES.items()}

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """One run for each lock, number of CPUs and slot; those that exhibits share run once."""
        machine = machines.load(engine, grid.MACHINE)
        return sections.jobs(engine, machine, _cells(scale, exhibit), spread=True)

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Curves of all locks, and what they say of the paper's statements."""
        measurements = Measurements(results)
        judge = Judge(measurements, SCALES[scale])
        return Findings(
            points=_points(judge, exhibit),
            statements=statements.of(judge, exhibit),
            grids=exhibits.grids(judge, exhibit),
            charts=exhibits.charts(judge, exhibit),
            rows=[_row(measurements, cell) for cell in _cells(scale, exhibit)],
            curves=exhibits.curves(judge, exhibit),
        )


def _cells(scale: str, exhibit: str | None) -> list[Cell]:
    wanted = chosen(grid.EXHIBITS, exhibit)
    return list(dict.fromkeys(cell for each in wanted for cell in grid.cells(SCALES[scale], each)))


def _points(judge: Judge, exhibit: str | None) -> list[Point]:
    """What the reference file has of the benchmark as numbers; its number of acquisitions is a matter of scale."""
    ratio = None
    if exhibit in (None, "elapsed"):
        ratio = grid.THINK_CYCLES / judge.measurements.hold(judge.cell(TEST_AND_SET, 1))
    source = f"{Anderson1990.citation}, benchmark"
    return [
        _point("cpus", "CPUs", grid.CPUS, source, None),
        _point("compute_mean_over_section", "times", ratio, source, Tolerance(2, relative=True)),
    ]


def _point(key: str, unit: str, ours: float | None, source: str, tolerance: Tolerance | None) -> Point:
    key = f"{grid.PAPER}.{key}"
    return Point(key, unit, ours, reference.lookup(grid.REFERENCE, key), source, "", tolerance)


def _row(measurements: Measurements, cell: Cell) -> dict[str, Any]:
    return {
        "run": cell.label,
        "lock": cell.lock,
        "cpus": cell.cpus,
        "slot": cell.slot,
        "limit": cell.limit,
        "threads": cell.threads,
        **measurements.row(cell),
    }


STUDY = Anderson1990()
