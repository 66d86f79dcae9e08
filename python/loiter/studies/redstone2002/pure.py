"""Table 4.2: what spinning does when nothing else runs, on the superscalar and on the SMT core."""

from __future__ import annotations

from dataclasses import dataclass

from loiter import machines, programs
from loiter.engine import Engine
from loiter.runs.request import Request
from loiter.runs.worker import Job
from loiter.studies.base import Exhibit, Grid, Tolerance
from loiter.studies.redstone2002.common import SOURCE, Part, Runs, Spec, row

PROGRAM = "spinloops"
# Key in the reference file and preset.
MACHINES = {"superscalar": "superscalar", "smt": "smt8"}
LOOPS = {"lock": "pure_lock", "idle": "pure_idle"}
CYCLES = {"quick": "100k", "default": "1M", "full": "10M"}

_TOLERANCE = Tolerance(15, relative=True)
_TABLE = f"{SOURCE}, Table 4.2"


@dataclass(frozen=True)
class _Cell:
    loop: str
    machine: str

    @property
    def label(self) -> str:
        return f"pure.{self.loop}.{self.machine}"

    @property
    def ipc(self) -> Spec:
        name = "lock_acquire" if self.loop == "lock" else "idle"
        return Spec(f"spin.pure.{name}_ipc.{self.machine}", "instructions/cycle", _TABLE, _TOLERANCE)

    @property
    def queue(self) -> Spec:
        path = f"spin.pure_iq.average_size.{self.loop}_{self.machine}"
        return Spec(path, "instructions", _TABLE, _TOLERANCE)


_CELLS = tuple(_Cell(loop, machine) for loop in LOOPS for machine in MACHINES)


class Pure:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("table_4_2", "Table 4.2: pure spinning, lock loop and idle loop, superscalar and SMT")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """Every context spins, and nothing else runs."""
        program = programs.load(engine, PROGRAM)
        jobs = []
        for cell in _CELLS:
            machine = machines.load(engine, MACHINES[cell.machine])
            contexts = ",".join(map(str, range(machine.contexts_per_core)))
            placement = programs.place([f"{LOOPS[cell.loop]}={contexts}"], program, machine)
            plan = engine.describe_phases(f"reference warm until probe:roi_begin, timing for {CYCLES[scale]} cycles")
            jobs.append(Job(cell.label, Request(machine, program, placement, phases=str(plan["plan"])), 2.0))
        return jobs

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """IPC and average size of the integer queue."""
        part = Part()
        table = []
        for cell in _CELLS:
            found = runs[cell.label].metrics
            part.points += [cell.ipc.point(found["ipc"]), cell.queue.point(found["iq_average_size"])]
            part.rows.append(row(runs[cell.label], cell.label, self.exhibit.id, loop=cell.loop))
            values = ("ipc", "iq_average_size", "iq_backup_percent", "fetchable_contexts", "zero_retire_percent")
            table.append((f"{cell.loop} loop, {cell.machine}", *(f"{found[value]:.2f}" for value in values)))
        columns = ("what spins", "IPC", "integer queue", "queue full, %", "fetchable contexts", "no retirement, %")
        caption = "All contexts spin. The queue has 32 entries; averages over all cycles."
        part.grids.append(Grid(self.exhibit.id, self.exhibit.title, caption, columns, tuple(table)))
        return part

    def unmeasured(self, note: str) -> Part:
        """Without a run."""
        return Part(points=[spec.point(None, note) for cell in _CELLS for spec in (cell.ipc, cell.queue)])
