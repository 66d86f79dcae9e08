"""A ticket lock that collapses, and locks that do not, on a machine of 48 cores (Boyd-Wickizer and others, 2012)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loiter import engine as engines
from loiter import latency, machines, reference
from loiter.engine import Engine
from loiter.results import Result
from loiter.runs.worker import Job
from loiter.studies import sections
from loiter.studies.base import Findings, Point, Tolerance, chosen
from loiter.studies.boyd2012 import findings, grid
from loiter.studies.boyd2012.findings import Throughputs
from loiter.studies.boyd2012.grid import PERCENT, SCALES, SHORT, TICKET
from loiter.studies.sections import Cell, Measurements

TRANSFERS = "transfers"
"""Label of the run of `loiter latency`."""


class Boyd2012:
    """See `loiter.studies.base.Study`."""

    name = grid.PAPER
    title = "A ticket lock that collapses, and locks that do not"
    citation = (
        "S. Boyd-Wickizer, M. F. Kaashoek, R. Morris and N. Zeldovich, Non-scalable locks are dangerous, Linux "
        "Symposium 2012"
    )
    method = (
        "Each core acquires one lock, works in the section, releases it and works outside, which is uniform; the "
        "section is a share of the time of a core that is alone, and touches no memory. Cores are filled die by die. "
        "Throughput is the sum of what each core reaches until its sections are done. The Markov model is given what "
        "one core alone does and the mean latency of a line that another core has modified; nothing of it is fitted."
    )
    legend = (
        "A value is a miss when it is more than 10 % from the published one. What the paper measured on Linux is not "
        "measured here. No parameter was fitted."
    )
    exhibits = grid.EXHIBITS
    scales: Mapping[str, str] = {name: scale.description for name, scale in SCALES.items()}

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """One run for each lock, section, share and number of cores, and one of latencies."""
        machine = machines.load(engine, grid.MACHINE)
        jobs = sections.jobs(engine, machine, _cells(scale, exhibit), spread=False)
        return [*jobs, Job(TRANSFERS, latency.transfers_request(machine))]

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Curves beside the model's, and what they say of the statements."""
        measurements = Measurements(results)
        machine = machines.load(engines.load(), grid.MACHINE)
        found = Throughputs(measurements, SCALES[scale], latency.transfer_cycles(machine, results[TRANSFERS]))
        curves = {"sections": findings.sections, "shares": findings.shares, "locks": findings.locks}
        grids = [findings.alone(measurements)] if exhibit in (None, "alone") else []
        grids += [findings.parameters(found)] if exhibit is None else []
        return Findings(
            points=_points(found, exhibit),
            statements=findings.statements(found, exhibit),
            grids=grids,
            charts=[],
            rows=[_row(measurements, cell) for cell in _cells(scale, exhibit)],
            curves=[each for name, draw in curves.items() if exhibit in (None, name) for each in draw(found)],
        )


def _cells(scale: str, exhibit: str | None) -> list[Cell]:
    wanted = chosen(grid.EXHIBITS, exhibit)
    return list(dict.fromkeys(cell for each in wanted for cell in grid.cells(SCALES[scale], each)))


def _points(found: Throughputs, exhibit: str | None) -> list[Point]:
    """What the reference file has of the benchmark as numbers."""
    share = None
    if exhibit in (None, "sections", "locks"):
        cell = grid.cell(found.scale, TICKET, SHORT, PERCENT, 1)
        share = 100 * found.measurements.hold(cell) / found.measurements.cycles(cell)
    tolerance = Tolerance(10, relative=True)
    return [
        _point("cores", "cores", grid.CORES, None),
        _point("short_section_percent_of_time", "percent", share, tolerance),
        _point("exim_case.throughput_48_over_40", "ratio", None, tolerance, "of Linux under load"),
    ]


def _point(key: str, unit: str, ours: float | None, tolerance: Tolerance | None, note: str = "") -> Point:
    key = f"{grid.PAPER}.{key}"
    return Point(key, unit, ours, reference.lookup(grid.REFERENCE, key), Boyd2012.citation, note, tolerance)


def _row(measurements: Measurements, cell: Cell) -> dict[str, Any]:
    facts = {"run": cell.label, "lock": cell.lock, "cores": cell.cpus, "hold": cell.hold, "think": cell.think}
    return facts | {"acquisitions_per_1000_cycles": measurements.throughput(cell)} | measurements.row(cell)


STUDY = Boyd2012()
