"""Table 4.2, the column of the web server: a kernel-heavy program on the superscalar, to compare pure spinning with."""

from __future__ import annotations

from loiter import machines
from loiter.engine import Engine
from loiter.runs.worker import Job
from loiter.studies.base import Exhibit, Grid
from loiter.studies.redstone2002 import linux
from loiter.studies.redstone2002.common import Part, Runs, row
from loiter.studies.redstone2002.kernel_spin import PROCESSES
from loiter.studies.redstone2002.pure import MEASURES, cells

LABEL = "server.superscalar"
_COLUMN = "apache_superscalar"
_NOTE = "kernelmix on Linux for Apache on Digital Unix; the few instructions that spin are not left out"
_SPECS = {measure.key: measure.spec(_COLUMN, _NOTE) for measure in MEASURES}


class Server:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("table_4_2_server", "Table 4.2: a kernel-heavy program on the superscalar")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """One run. It boots Linux, which the loops of the table need not."""
        superscalar = machines.load(engine, "superscalar")
        command = f"{linux.BENCH}/kernelmix {PROCESSES} forever apart"
        return [Job(LABEL, linux.request(engine, superscalar, [command], linux.WINDOWS[scale]), 10.0)]

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """Every cell of the column."""
        run = runs[LABEL]
        found = {measure.key: measure.ours(run) for measure in MEASURES}
        further = {
            "fetchable contexts": "fetchable_contexts",
            "nothing fetched, %": "zero_fetch_cycles_percent",
            "squashed, %": "squashed_percent",
            "in lock routines, %": "lock_instructions_percent",
        }
        columns = ("program", *(measure.head for measure in MEASURES), *further)
        values = (cells(found[each.key], each, _COLUMN) for each in MEASURES)
        more = (f"{run.metrics[name]:.2f}" for name in further.values())
        caption = "In brackets: published. The queue has 32 entries; averages over all cycles."
        rows = (("kernelmix", *values, *more),)
        return Part(
            points=[spec.point(found[key]) for key, spec in _SPECS.items()],
            rows=[row(run, LABEL, self.exhibit.id)],
            grids=[Grid(self.exhibit.id, self.exhibit.title, caption, columns, rows)],
        )

    def unmeasured(self, note: str) -> Part:
        """Without a run."""
        return Part(points=[spec.point(None, note) for spec in _SPECS.values()])
