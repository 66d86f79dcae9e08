"""Table 4.2, the row of the web server: a kernel-heavy program on the superscalar, to compare pure spinning with."""

from __future__ import annotations

from loiter import machines
from loiter.engine import Engine
from loiter.runs.worker import Job
from loiter.studies.base import Exhibit, Grid, Tolerance
from loiter.studies.redstone2002 import linux
from loiter.studies.redstone2002.common import SOURCE, Part, Runs, Spec, row
from loiter.studies.redstone2002.kernel_spin import PROCESSES

_LABEL = "server.superscalar"
_TOLERANCE = Tolerance(15, relative=True)
_NOTE = "kernelmix on Linux for Apache on Digital Unix"
_TABLE = f"{SOURCE}, Table 4.2"
_SPECS = {
    "ipc": Spec("spin.pure.apache_superscalar_ipc", "instructions/cycle", _TABLE, _TOLERANCE, _NOTE),
    "iq_average_size": Spec("spin.pure_iq.average_size.apache_superscalar", "instructions", _TABLE, _TOLERANCE, _NOTE),
}
"""By our metric."""


class Server:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("table_4_2_server", "Table 4.2: a kernel-heavy program on the superscalar")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """One run. It boots Linux, which the loops of the table need not."""
        superscalar = machines.load(engine, "superscalar")
        command = f"{linux.BENCH}/kernelmix {PROCESSES} forever apart"
        return [Job(_LABEL, linux.request(engine, superscalar, [command], linux.WINDOWS[scale]), 10.0)]

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """IPC and average size of the integer queue."""
        found = runs[_LABEL].metrics
        columns = (*_SPECS, "iq_backup_percent", "fetchable_contexts", "zero_fetch_cycles_percent", "squashed_percent")
        heads = ("IPC", "integer queue", "queue full, %", "fetchable contexts", "nothing fetched, %", "squashed, %")
        values = tuple(f"{found[name]:.2f}" for name in columns)
        caption = "The queue has 32 entries; averages over all cycles."
        grid = Grid(self.exhibit.id, self.exhibit.title, caption, ("program", *heads), (("kernelmix", *values),))
        return Part(
            points=[spec.point(found[name]) for name, spec in _SPECS.items()],
            rows=[row(runs[_LABEL], _LABEL, self.exhibit.id)],
            grids=[grid],
        )

    def unmeasured(self, note: str) -> Part:
        """Without a run."""
        return Part(points=[spec.point(None, note) for spec in _SPECS.values()])
