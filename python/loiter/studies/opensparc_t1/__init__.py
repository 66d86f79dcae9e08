"""The T1 of loiter slot by slot beside the RTL of the real core, run with the same loops."""

from __future__ import annotations

from collections.abc import Mapping

from loiter import machines, programs
from loiter.engine import Engine
from loiter.results import Result
from loiter.runs.request import Request
from loiter.runs.worker import Job
from loiter.studies.base import Exhibit, Findings, Grid, chosen
from loiter.studies.opensparc_t1.figures import CELLS, ROUNDS, Cell, Measurements, beyond, points

PROGRAM = "spinloops"
SCALES = {"quick": 1, "default": 10}


class OpensparcT1:
    """See `loiter.studies.base.Study`."""

    name = "opensparc_t1"
    title = "The T1 beside the RTL of its core"
    citation = "OpenSPARC T1 1.1.7, RTL of the core, simulated with four threads (reference/opensparc_t1_rtl.toml)"
    method = (
        "Each kernel of rtl_kernels.S runs on context 0 of a core, alone or with spinners in the same core. The cycles "
        "of an operation are those of a round less those of an empty round, divided by the operations of a round."
    )
    legend = (
        "A value is a miss when it is more than 2 % and more than half a cycle from the RTL's; a slowdown, when the "
        "time that it stands for is more than 2 % from it."
    )
    exhibits = (Exhibit("slots", "Cycles of operations and loops, alone and beside spinners"),)
    scales: Mapping[str, str] = {name: f"{ROUNDS * factor} rounds in a repetition" for name, factor in SCALES.items()}

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """One run for each cell."""
        chosen(self.exhibits, exhibit)
        machine = machines.load(engine, "t1", ["system.cores=2", "system.ram_mib=128"])
        program = programs.load(engine, PROGRAM)

        def job(cell: Cell) -> Job:
            placement = programs.place(cell.placements(machine.contexts_per_core), program, machine)
            request = Request(machine, program, placement, cell.arguments(SCALES[scale]), fast_forward=True)
            return Job(cell.label, request, weight=1 + cell.spinners)

        return [job(cell) for cell in CELLS]

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Every figure beside the RTL's, and what it has no figure for."""
        measurements = Measurements(results, SCALES[scale])
        rows = tuple((text, f"{value:.2f}") for text, value in beyond(measurements))
        return Findings(
            points=points(measurements),
            statements=[],
            grids=[Grid("beyond", "Three spinners, and slots that are lost", "", ("what", "ours"), rows)],
            charts=[],
            rows=[{"run": cell.label, "cycles": results[cell.label].manifest["cycles"]} for cell in CELLS],
        )


STUDY = OpensparcT1()
