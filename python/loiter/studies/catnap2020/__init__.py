"""Queued spin locks whose waiters sleep in the processor, on 64 cores of four contexts (Woo and others, 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from loiter import contention, machines, programs
from loiter.engine import Engine
from loiter.results import Result
from loiter.runs.request import Request
from loiter.runs.worker import Job
from loiter.studies.base import Findings, chosen
from loiter.studies.catnap2020 import findings, grid, linux, statements, torture, torture_findings
from loiter.studies.catnap2020.findings import Measured
from loiter.studies.catnap2020.grid import SCALES, Cell
from loiter.studies.catnap2020.measurements import Measurements
from loiter.studies.sections import MOST_CYCLES

LINUX_WEIGHT = 4.0
"""Of a cycle of a thread on Linux beside one without: waits are seldom so steady that they are skipped. Assumed."""


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
        "without memory outside the chip. On Linux: a kernel with queued spin locks, on 16 or all cores, booted "
        "on the reference engine; the kernel's own locktorture with writers pinned likewise, timed in a window. All "
        "that waits pauses, but for queued waiters that nap by selection: of none, of all, or automatic."
    )
    legend = (
        "The paper's plots are unreadable in our source, so its statements and what its text gives in numbers are "
        "compared. What it measured with applications on Linux is not measured here. No parameter was fitted. What "
        f"runs on Linux needs an image: {linux.BUILD}"
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

        jobs = [job(cell) for cell in _cells(scale, exhibit)]
        if _wants_linux(exhibit):
            jobs += [
                Job(cell.label, cell.request(engine, machine), weight=LINUX_WEIGHT * cell.threads * cell.cycles)
                for cell in torture.cells(torture.SCALES[scale])
            ]
        return jobs

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Curves, the map, and what they say of the paper's statements."""
        measurements = Measurements(results)
        found = Measured(measurements, SCALES[scale])
        bare = Findings(
            points=statements.points(found, exhibit, self.citation),
            statements=statements.statements(found, exhibit),
            grids=findings.grids(found, exhibit),
            charts=[],
            rows=[_row(measurements, cell) for cell in _cells(scale, exhibit)],
            curves=findings.curves(found, exhibit),
        )
        return _with_linux(bare, results, scale, exhibit)


def _wants_linux(exhibit: str | None) -> bool:
    """Without the image only who names the exhibit has it built."""
    return exhibit == torture_findings.EXHIBIT or (exhibit is None and linux.is_there())


def _with_linux(bare: Findings, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
    if not _wants_linux(exhibit):
        missing = exhibit is None
        note = f"no image: {linux.BUILD}" if missing else f"not in --figure {exhibit}"
        found = torture_findings.unmeasured(f"not measured: {note}")
        warnings = [f"nothing of Linux is measured, since its image is not there. To build it: {linux.BUILD}"]
        return replace(bare, statements=[*bare.statements, *found], warnings=warnings if missing else [])
    tortured = torture.Tortured(results, torture.SCALES[scale])
    return replace(
        bare,
        statements=[*bare.statements, *torture_findings.statements(tortured)],
        grids=[*bare.grids, torture_findings.table(tortured)],
        curves=[*bare.curves, *torture_findings.curves(tortured)],
        rows=[*bare.rows, *torture_findings.rows(tortured)],
    )


def _cells(scale: str, exhibit: str | None) -> list[Cell]:
    wanted = [each for each in chosen(grid.EXHIBITS, exhibit) if each not in grid.ON_LINUX]
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
