"""A ticket lock that collapses, and locks that do not, on a machine of 48 cores (Boyd-Wickizer and others, 2012)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from loiter import engine as engines
from loiter import latency, machines, reference
from loiter.engine import Engine
from loiter.results import Result
from loiter.runs.worker import Job
from loiter.studies import sections
from loiter.studies.base import Findings, Point, Statement, Tolerance, chosen
from loiter.studies.boyd2012 import findings, grid, linux, linux_findings
from loiter.studies.boyd2012.findings import Throughputs
from loiter.studies.boyd2012.grid import PERCENT, SCALES, SHORT, TICKET
from loiter.studies.boyd2012.linux import EXIM, WORKLOADS
from loiter.studies.boyd2012.linux_findings import LinuxRuns
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
        "section is a share of the time of a core that is alone, and touches no memory. Cores are filled die by "
        "die. Throughput is the sum of what each core reaches until its sections are done. The Markov model is "
        "given what one core alone does and the mean latency of a line that another core has modified; nothing of "
        "it is fitted. On Linux a process on each core does the same for ever. All cores boot; throughput is what "
        "is done in a window of time, and a profile of the window says in which functions the time goes."
    )
    legend = (
        "A value is a miss when it is more than 10 % from the published one. Linux is 6.12 with ticket or queued spin "
        "locks, the paper's 2.6.35 with ticket locks. No parameter was fitted. What runs on Linux needs images: "
        f"{linux.BUILD}."
    )
    exhibits = grid.EXHIBITS
    scales: Mapping[str, str] = {name: scale.description for name, scale in SCALES.items()}

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """One run for each lock, section, share and number of cores, and one of latencies. On Linux, one for each
        workload, kernel and number of cores."""
        machine = machines.load(engine, grid.MACHINE)
        jobs = sections.jobs(engine, machine, _cells(scale, exhibit), spread=False)
        jobs += sections.jobs(engine, machine, _spread_cells(exhibit), spread=True)
        if exhibit not in WORKLOADS:
            jobs.append(Job(TRANSFERS, latency.transfers_request(machine)))
        return jobs + linux.jobs(engine, scale, _workloads(exhibit))

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Curves beside the model's, what was found on Linux, and what they say of the statements."""
        measurements = Measurements(results)
        found = Throughputs(measurements, SCALES[scale], _request_cycles(results, exhibit))
        on_linux = LinuxRuns(results, scale)
        workloads = [WORKLOADS[name] for name in _workloads(exhibit)]
        curves = {"sections": findings.sections, "shares": findings.shares, "locks": findings.locks}
        drawn = [each for name, draw in curves.items() if exhibit in (None, name) for each in draw(found)]
        grids = [findings.alone(measurements)] if exhibit in (None, "alone") else []
        grids += [findings.parameters(found)] if exhibit is None else []
        grids += [linux_findings.summary(on_linux, each) for each in workloads]
        grids += [linux_findings.profiles(on_linux)] if EXIM in workloads else []
        rows = [_row(measurements, cell) for cell in [*_cells(scale, exhibit), *_spread_cells(exhibit)]]
        runs = linux.runs(scale, _workloads(exhibit))
        of_exim = linux_findings.points(on_linux if EXIM in workloads else None, self.citation)
        return Findings(
            points=[*_points(found, exhibit), *of_exim],
            statements=[*findings.statements(found, exhibit), *_on_linux(on_linux, exhibit)],
            grids=grids,
            charts=[],
            rows=[*rows, *(on_linux.row(run) for run in runs)],
            curves=[*drawn, *(each for workload in workloads for each in linux_findings.curves(on_linux, workload))],
            warnings=[_MISSING] if exhibit is None and not workloads else [],
        )


def _cells(scale: str, exhibit: str | None) -> list[Cell]:
    wanted = chosen(grid.EXHIBITS, exhibit)
    return list(dict.fromkeys(cell for each in wanted for cell in grid.cells(SCALES[scale], each)))


def _spread_cells(exhibit: str | None) -> list[Cell]:
    """Those whose cores are on dies of their own."""
    return [grid.in_turn()] if exhibit in (None, "sections", "shares") else []


def _workloads(exhibit: str | None) -> list[str]:
    """The workloads on Linux that an exhibit is of. Without the images only who names one has them built."""
    wanted = [each for each in chosen(grid.EXHIBITS, exhibit) if each in WORKLOADS]
    return wanted if exhibit is not None or linux.are_there() else []


_MISSING = f"nothing of Linux is measured, since its images are not there. To build them: {linux.BUILD}"


def _on_linux(found: LinuxRuns, exhibit: str | None) -> list[Statement]:
    """Statements that runs on Linux decide. Without the images these are not there unless an exhibit is named."""
    if exhibit is None and not _workloads(exhibit):
        return linux_findings.unmeasured(f"not measured: no images: {linux.BUILD}")
    return linux_findings.statements(found, exhibit)


def _request_cycles(results: Mapping[str, Result], exhibit: str | None) -> float:
    """The model's request. Nothing of Linux is compared with the model."""
    if exhibit in WORKLOADS:
        return math.nan
    return latency.transfer_cycles(machines.load(engines.load(), grid.MACHINE), results[TRANSFERS])


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
    ]


def _point(key: str, unit: str, ours: float | None, tolerance: Tolerance | None) -> Point:
    key = f"{grid.PAPER}.{key}"
    return Point(key, unit, ours, reference.lookup(grid.REFERENCE, key), Boyd2012.citation, "", tolerance)


def _row(measurements: Measurements, cell: Cell) -> dict[str, Any]:
    facts = {"run": cell.label, "lock": cell.lock, "cores": cell.cpus, "hold": cell.hold, "think": cell.think}
    return facts | {"acquisitions_per_1000_cycles": measurements.throughput(cell)} | measurements.row(cell)


STUDY = Boyd2012()
