"""Queued spin locks whose waiters sleep in the processor, on 64 cores of four contexts (Woo and others, 2020)."""

from __future__ import annotations

from collections.abc import Mapping

from loiter import contention, machines, programs
from loiter.engine import Engine
from loiter.results import Result
from loiter.runs.request import Request
from loiter.runs.worker import Job
from loiter.studies.base import Findings, chosen
from loiter.studies.catnap2020 import findings, grid, statements
from loiter.studies.catnap2020.findings import Measured
from loiter.studies.catnap2020.grid import SCALES, Cell
from loiter.studies.catnap2020.measurements import Measurements
from loiter.studies.sections import MOST_CYCLES


class Catnap2020:
    """See `loiter.studies.base.Study`."""

    name = grid.PAPER
    title = "Queued spin locks whose waiters sleep in the processor"
    citation = (
        'Y. Woo, S. Kim, C. Kim and E. Seo, "Catnap: A Backoff Scheme for Kernel Spinlocks in Many-Core Systems", IEEE '
        "Access 8, 2020"
    )
    method = (
        "As the kernel's locktorture, threads acquire one lock, hold it for a fixed time and release it; outside they "
        f"work for {grid.THINK_CYCLES} cycles in the mean. Threads are pinned, one a core first. The lock is Linux's "
        "qspinlock with four ways to wait: a pause, three pauses and a full fence, of all waiters, and naps "
        "(Zawrs, where the paper has MONITOR and MWAIT) of queued waiters, the head of the queue and the pending one "
        "with a pause. A holding time in cycles is that of a thread that is alone. Power is that of the event model, "
        "without memory outside the chip."
    )
    legend = (
        "The paper's plots are unreadable in our source, so its statements and what its text gives in numbers are "
        "compared. What it measured with applications on Linux is not measured here. No parameter was fitted."
    )
    exhibits = grid.EXHIBITS
    scales: Mapping[str, str] = {name: scale.description for name, scale in SCALES.items()}

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """One run for each back-off, number of threads and holding time; those that exhibits share run once."""
        machine = machines.load(engine, grid.MACHINE)
        program = programs.load(engine, grid.PROGRAM)
        phases = str(engine.describe_phases(contention.PHASES)["plan"])
        order = contention.contexts(machine, "cores")

        def job(cell: Cell) -> Job:
            harts = ",".join(map(str, order[: cell.threads]))
            placement = programs.place([f"{cell.task}={harts}"], program, machine)
            request = Request(machine, program, placement, cell.arguments, max_cycles=MOST_CYCLES, phases=phases)
            return Job(
                cell.label, request, weight=cell.threads * (cell.window_cycles + cell.threads * cell.hold_cycles)
            )

        return [job(cell) for cell in _cells(scale, exhibit)]

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Curves, the map, and what they say of the paper's statements."""
        measurements = Measurements(results)
        found = Measured(measurements, SCALES[scale])
        return Findings(
            points=statements.points(found, exhibit, self.citation),
            statements=statements.statements(found, exhibit),
            grids=findings.grids(found, exhibit),
            charts=[],
            rows=[_row(measurements, cell) for cell in _cells(scale, exhibit)],
            curves=findings.curves(found, exhibit),
        )


def _cells(scale: str, exhibit: str | None) -> list[Cell]:
    wanted = chosen(grid.EXHIBITS, exhibit)
    return list(dict.fromkeys(cell for each in wanted for cell in grid.cells(SCALES[scale], each)))


def _row(measurements: Measurements, cell: Cell) -> dict[str, str | float]:
    facts: dict[str, str | float] = {
        "run": cell.label,
        "back_off": cell.back_off,
        "threads": cell.threads,
        "hold_cycles": cell.hold_cycles,
        "acquisitions": measurements.acquisitions(cell),
        "acquisitions_per_us": measurements.throughput(cell),
        "acquire_mean_cycles": measurements.acquire(cell),
        "hold_mean_cycles": measurements.hold(cell),
    }
    return facts | measurements.watts(cell).columns("power_w")


STUDY = Catnap2020()
