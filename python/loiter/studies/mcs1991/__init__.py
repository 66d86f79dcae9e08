"""Queue locks and plain spin locks on a machine of 20 CPUs on one bus (Mellor-Crummey and Scott, 1991)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loiter import machines
from loiter.engine import Engine
from loiter.results import Result
from loiter.runs.worker import Job
from loiter.studies import sections
from loiter.studies.base import Findings, chosen
from loiter.studies.mcs1991 import findings, grid
from loiter.studies.mcs1991.findings import Findings17
from loiter.studies.mcs1991.grid import SCALES
from loiter.studies.sections import Cell, Measurements


class Mcs1991:
    """See `loiter.studies.base.Study`."""

    name = grid.PAPER
    title = "Queue locks and plain spin locks on one bus"
    citation = (
        "J. M. Mellor-Crummey and M. L. Scott, Algorithms for Scalable Synchronization on Shared-Memory "
        "Multiprocessors, ACM Transactions on Computer Systems 9(1), 1991"
    )
    method = (
        "All CPUs together acquire one lock a fixed number of times, each the same share of them, with an empty "
        "section and no work outside. Bus requests are counted with sections of two lengths that touch no memory: "
        "what a waiter sends while it waits grows with the section."
    )
    legend = "The figure's values are not in the reference; its statements are. No parameter was fitted."
    exhibits = grid.EXHIBITS
    scales: Mapping[str, str] = {name: scale.description for name, scale in SCALES.items()}

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """One run for each lock and number of CPUs; those that exhibits share run once."""
        return sections.jobs(engine, machines.load(engine, grid.MACHINE), _cells(scale, exhibit), spread=True)

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Figure 17, what locks cost alone, who uses the bus, and what that says of the statements."""
        measurements = Measurements(results)
        found = Findings17(measurements, SCALES[scale])
        grids = [findings.alone(measurements, SCALES[scale])] if exhibit in (None, "figure_17", "alone") else []
        grids += [findings.transfers(found)] if exhibit in (None, "transfers") else []
        return Findings(
            points=[],
            statements=findings.statements(found, exhibit),
            grids=grids,
            charts=[],
            rows=[_row(measurements, cell) for cell in _cells(scale, exhibit)],
            curves=findings.curves(found) if exhibit in (None, "figure_17") else [],
        )


def _cells(scale: str, exhibit: str | None) -> list[Cell]:
    wanted = chosen(grid.EXHIBITS, exhibit)
    return list(dict.fromkeys(cell for each in wanted for cell in grid.cells(SCALES[scale], each)))


def _row(measurements: Measurements, cell: Cell) -> dict[str, Any]:
    requests = measurements.per_acquisition(cell, "bus", "requests")
    facts = {"run": cell.label, "lock": cell.lock, "cpus": cell.cpus, "hold": cell.hold, "limit": cell.limit}
    return facts | measurements.row(cell) | {"bus_requests_per_acquisition": requests}


STUDY = Mcs1991()
