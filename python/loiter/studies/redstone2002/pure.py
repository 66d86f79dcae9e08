"""Table 4.2: what spinning does when nothing else runs, on the superscalar and on the SMT core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loiter import machines, programs, reference
from loiter.engine import Engine
from loiter.runs.request import Request
from loiter.runs.worker import Job
from loiter.studies.base import Exhibit, Grid, Tolerance
from loiter.studies.redstone2002.common import PAPER, RATIO, SHARE, SOURCE, Part, Run, Runs, Spec, row

PROGRAM = "spinloops"
# Key in the reference file and preset.
MACHINES = {"superscalar": "superscalar", "smt": "smt8"}
LOOPS = {"lock": "pure_lock", "idle": "pure_idle"}
CYCLES = {"quick": "100k", "default": "1M", "full": "10M"}

TABLE = f"{SOURCE}, Table 4.2"
# Of a rate of hits, 30 % would pass anything.
_HITS = Tolerance(2)


def _hits(misses: str) -> Callable[[Run], float]:
    """Of what is not used at all, nothing missed."""
    return lambda run: 100 - run.metrics.get(misses, 0.0)


@dataclass(frozen=True)
class Measure:
    """A row of the table: its key, unit and tolerance, and how ours is worked out."""

    key: str
    head: str
    unit: str
    tolerance: Tolerance
    ours: Callable[[Run], float]

    def spec(self, column: str, note: str = "") -> Spec:
        """The cell of a column."""
        return Spec(f"table_4_2.{self.key}.{column}", self.unit, TABLE, self.tolerance, note)


MEASURES = (
    Measure("ipc", "IPC", "instructions/cycle", RATIO, lambda run: run.metrics["ipc"]),
    Measure("branch_prediction_percent", "branches, %", "percent", _HITS, _hits("branch_mispredict_percent")),
    Measure("l1i_hit_percent", "L1I, %", "percent", _HITS, _hits("l1i_miss_percent")),
    Measure("l1d_hit_percent", "L1D, %", "percent", _HITS, _hits("l1d_miss_percent")),
    Measure(
        "iq_backup_cycles_percent", "queue full, %", "percent", SHARE, lambda run: run.metrics["iq_backup_percent"]
    ),
    Measure("average_iq_size", "queue", "instructions", RATIO, lambda run: run.metrics["iq_average_size"]),
)
"""The rows of Table 4.2."""


@dataclass(frozen=True)
class Cell:
    """A loop on all contexts of a machine."""

    loop: str
    machine: str

    @property
    def label(self) -> str:
        """Of its run."""
        return f"pure.{self.loop}.{self.machine}"

    @property
    def column(self) -> str:
        """Of the table."""
        return f"{self.loop}_{self.machine}"


CELLS = tuple(Cell(loop, machine) for loop in LOOPS for machine in MACHINES)


class Pure:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("table_4_2", "Table 4.2: pure spinning, lock loop and idle loop, superscalar and SMT")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """Every context spins, and nothing else runs."""
        program = programs.load(engine, PROGRAM)
        jobs = []
        for cell in CELLS:
            machine = machines.load(engine, MACHINES[cell.machine])
            contexts = ",".join(map(str, range(machine.contexts_per_core)))
            placement = programs.place([f"{LOOPS[cell.loop]}={contexts}"], program, machine)
            plan = engine.describe_phases(f"reference warm until probe:roi_begin, timing for {CYCLES[scale]} cycles")
            jobs.append(Job(cell.label, Request(machine, program, placement, phases=str(plan["plan"])), 2.0))
        return jobs

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """Every cell of the four columns that are loops."""
        part = Part()
        table = []
        for cell in CELLS:
            run = runs[cell.label]
            found = {measure.key: measure.ours(run) for measure in MEASURES}
            part.points += [measure.spec(cell.column).point(found[measure.key]) for measure in MEASURES]
            part.rows.append(row(run, cell.label, self.exhibit.id, loop=cell.loop))
            table.append(
                (f"{cell.loop} loop, {cell.machine}", *(cells(found[each.key], each, cell.column) for each in MEASURES))
            )
        columns = ("what spins", *(measure.head for measure in MEASURES))
        caption = "All contexts spin. In brackets: published. The queue has 32 entries; averages over all cycles."
        part.grids.append(Grid(self.exhibit.id, self.exhibit.title, caption, columns, tuple(table)))
        return part

    def unmeasured(self, note: str) -> Part:
        """Without a run."""
        return Part(points=[measure.spec(cell.column).point(None, note) for cell in CELLS for measure in MEASURES])


def cells(ours: float, measure: Measure, column: str) -> str:
    """Ours, with the published value in brackets."""
    return f"{ours:.1f} ({reference.lookup(PAPER, measure.spec(column).id)})"
