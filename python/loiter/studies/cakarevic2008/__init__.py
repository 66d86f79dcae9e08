"""What a spinning thread costs on an UltraSPARC T1 and T2 (Cakarevic et al., WIOSCA 2008)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from loiter import machines, programs
from loiter.engine import Engine
from loiter.errors import unknown
from loiter.results import Result
from loiter.runs.request import Request
from loiter.runs.worker import Job
from loiter.studies.base import Findings
from loiter.studies.cakarevic2008 import exhibits, grid, points, statements
from loiter.studies.cakarevic2008.grid import Cell
from loiter.studies.cakarevic2008.measurements import Measurements, NotMeasured
from loiter.studies.cakarevic2008.scales import SCALES, SETS, Scale, arguments, weight


class Cakarevic2008:
    """See `loiter.studies.base.Study`."""

    name = grid.PAPER
    title = "What a spinning thread costs on an UltraSPARC T1 and T2"
    citation = "V. Cakarevic et al., Understanding the overhead of the spin-lock loop in CMT architectures, WIOSCA 2008"
    method = (
        "Every benchmark runs on context 0, alone and with spinners of each loop, and is repeated until one repetition "
        "more changes the average IPC by less than 1 % (FAME), five times at least. Spinners start before the first "
        "and end after the last measured repetition. Slowdown is (time with spinners - time alone) / time alone in the "
        "mean time that repetitions take for an instruction; with and without spinners they are the same work."
    )
    legend = (
        "A value is a miss when it is further than its tolerance from the published one: 5 percentage points for "
        "averages of single-behaviour benchmarks, 10 for all other slowdowns, 2 % for the CPI of "
        "single-behaviour benchmarks and of the spin loop, 10 % for other CPI and times; a bound must be kept. "
        "No parameter of the model was fitted to any of these values."
    )
    exhibits = grid.EXHIBITS
    scales: Mapping[str, str] = {name: scale.description for name, scale in SCALES.items()}

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """One job a cell; cells that several exhibits share run once."""
        chosen = _scale(scale)
        program = programs.load(engine, grid.PROGRAM)
        cells = _cells(chosen, exhibit, scale)
        loaded = {name: machines.load(engine, name, list(SETS)) for name in {cell.machine for cell in cells}}
        jobs = []
        for cell in cells:
            machine = loaded[cell.machine]
            placement = programs.place(cell.placements(machine), program, machine)
            request = Request(machine, program, placement, tuple(arguments(cell, chosen)), fast_forward=True)
            jobs.append(Job(cell.label, request, weight(cell, chosen)))
        return jobs

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Points, tables and charts; what was not run is named, not left out."""
        chosen = _scale(scale)
        measurements = Measurements(results)
        absent = f"not in --scale {scale}" if exhibit is None else f"not in --figure {exhibit} --scale {scale}"
        found = points.evaluate(measurements, absent)
        wanted = chosen.exhibits if exhibit is None else (exhibit,)
        cells = _cells(chosen, exhibit, scale)
        rows = [_row(cell, measurements, results) for cell in cells if cell.label in results]
        unsettled = measurements.unsettled()
        return Findings(
            points=found,
            statements=statements.of(measurements),
            grids=exhibits.grids(measurements, wanted),
            charts=exhibits.charts(measurements, wanted),
            rows=rows,
            warnings=[f"the average had not settled to 1 % when the program stopped: {each}" for each in unsettled],
        )


def _scale(name: str) -> Scale:
    if name not in SCALES:
        raise unknown("scale", name, SCALES)
    return SCALES[name]


def _cells(scale: Scale, exhibit: str | None, scale_name: str) -> list[Cell]:
    known = [each.id for each in grid.EXHIBITS]
    if exhibit is not None and exhibit not in known:
        raise unknown("figure or table", exhibit, known)
    if exhibit is not None and exhibit not in scale.exhibits:
        raise unknown(f"figure or table of --scale {scale_name}", exhibit, scale.exhibits, "Try --scale default.")
    wanted = scale.exhibits if exhibit is None else (exhibit,)
    cells = [cell for each in wanted for cell in grid.cells(each, scale.machines)]
    return list(dict.fromkeys(cells))


def _row(cell: Cell, measurements: Measurements, results: Mapping[str, Result]) -> dict[str, Any]:
    """One line of the study's own table, for pandas and DuckDB."""
    result = results[cell.label]
    row: dict[str, Any] = {
        "run": cell.label,
        "directory": result.path.name,
        "machine": cell.machine,
        "benchmark": cell.benchmark,
        "loop": cell.loop or None,
        "place": cell.place or None,
        "spinners": cell.spinners,
        "cycles": result.manifest["cycles"],
        "instructions": result.manifest["instructions"],
    }
    if not cell.is_loop_alone:
        timing = measurements.timing(cell)
        row |= {
            "repetitions": len(timing.repetitions),
            "mean_cycles": timing.mean_cycles,
            "deviation_cycles": timing.deviation_cycles,
            "cpi": timing.cpi,
        }
    if cell.spinners:
        spinning = measurements.spinning(cell)
        row |= {"read_interval_mean_cycles": spinning.mean_cycles, "spinner_cpi": spinning.cpi}
        if not cell.is_loop_alone:
            # Its run without spinners may have failed.
            with contextlib.suppress(NotMeasured):
                slowdown = measurements.slowdown(cell)
                row |= {"slowdown_percent": slowdown.percent, "slowdown_deviation": slowdown.deviation}
    return row


STUDY = Cakarevic2008()
