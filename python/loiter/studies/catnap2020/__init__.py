"""Queued spin locks whose waiters sleep in the processor, on 64 cores of four contexts (Woo and others, 2020)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loiter import contention, machines, programs
from loiter.engine import Engine
from loiter.results import Result
from loiter.runs.request import Request
from loiter.runs.worker import Job
from loiter.studies.base import Findings, chosen
from loiter.studies.catnap2020 import (
    findings,
    grid,
    linux,
    mixes,
    mixes_findings,
    statements,
    torture,
    torture_findings,
)
from loiter.studies.catnap2020.findings import Measured
from loiter.studies.catnap2020.grid import SCALES, Cell
from loiter.studies.catnap2020.measurements import Measurements
from loiter.studies.sections import MOST_CYCLES

LINUX_WEIGHT = 4.0
"""Of a cycle of a thread on Linux beside one without: waits are seldom so steady that they are skipped. Assumed."""


_ONLY_BY_FIGURE = {"quick": ", only by --figure"}


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
        "on the reference engine; the kernel's own locktorture with writers pinned likewise, timed in a window; and "
        "programs on all cores, or 16 at the quick scale, whose work in a window is what they and the kernel execute, "
        "but for lock functions and waits. All that waits pauses, but for queued waiters that nap by selection: of "
        "none, of all, of a list, or automatic."
    )
    legend = (
        "The paper's plots are unreadable in our source, so its statements and what its text gives in numbers are "
        "compared. The mixes of Re-aim are written anew; vips and povray stand for those of PARSEC. No parameter was "
        f"fitted. What runs on Linux needs an image: {linux.BUILD}"
    )
    exhibits = grid.EXHIBITS
    scales: Mapping[str, str] = {
        name: f"{scale.description}; {mixes.SCALES[name].description}{_ONLY_BY_FIGURE.get(name, '')}"
        for name, scale in SCALES.items()
    }

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
        exhibits = _on_linux(exhibit, scale)
        tortures = torture.cells(torture.SCALES[scale]) if torture_findings.EXHIBIT in exhibits else []
        mixed = mixes.cells_of(mixes.SCALES[scale], [name for name in exhibits if name in mixes.EXHIBITS])
        of_linux: list[torture.Cell | mixes.Cell] = [*tortures, *mixed]
        for each in of_linux:
            weight = LINUX_WEIGHT * each.threads * each.cost_cycles
            jobs.append(Job(each.label, each.request(engine, machine), weight=weight))
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


def _on_linux(exhibit: str | None, scale: str) -> list[str]:
    """The exhibits on Linux that are wanted. Without the image only who names one has it built. Those of programs take
    longer than all others: at the quick scale they are for who names them."""
    if exhibit is not None:
        return [exhibit] if exhibit in grid.ON_LINUX else []
    if not linux.is_there():
        return []
    return [torture_findings.EXHIBIT] if scale == "quick" else list(grid.ON_LINUX)


def _with_linux(bare: Findings, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
    exhibits = _on_linux(exhibit, scale)
    missing = exhibit is None and not exhibits
    note = f"not measured: no image: {linux.BUILD}" if missing else f"not measured: not in --figure {exhibit}"
    of_programs = "not measured at this scale: only with --figure" if exhibit is None and not missing else note
    found = _mixed(bare, mixes.Mixed(results, mixes.SCALES[scale]), exhibits, of_programs)
    if missing:
        warning = f"nothing of Linux is measured, since its image is not there. To build it: {linux.BUILD}"
        found = replace(found, warnings=[warning])
    if torture_findings.EXHIBIT not in exhibits:
        return replace(found, statements=[*found.statements, *torture_findings.unmeasured(note)])
    tortured = torture.Tortured(results, torture.SCALES[scale])
    return replace(
        found,
        statements=[*found.statements, *torture_findings.statements(tortured)],
        grids=[*found.grids, torture_findings.table(tortured)],
        curves=[*found.curves, *torture_findings.curves(tortured)],
        rows=[*found.rows, *torture_findings.rows(tortured)],
    )


def _mixed(bare: Findings, found: mixes.Mixed, exhibits: Sequence[str], note: str) -> Findings:
    """With what programs say."""
    there = [each for each in exhibits if each in mixes.EXHIBITS]
    return replace(
        bare,
        points=[*bare.points, *mixes_findings.points(found, there, Catnap2020.citation)],
        statements=[*bare.statements, *mixes_findings.statements(found, there, note)],
        grids=[*bare.grids, *mixes_findings.grids(found, there)],
        curves=[*bare.curves, *mixes_findings.curves(found, there)],
        rows=[*bare.rows, *mixes_findings.rows(found, there)],
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
