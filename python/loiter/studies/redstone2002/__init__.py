"""What waiting costs on an SMT processor (Redstone, 2002)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loiter.engine import Engine
from loiter.errors import unknown
from loiter.results import Result
from loiter.runs.worker import Job
from loiter.studies.base import Findings
from loiter.studies.redstone2002 import common
from loiter.studies.redstone2002.chapter_4 import Chapter4
from loiter.studies.redstone2002.common import Measures, Run
from loiter.studies.redstone2002.figures import Figure42, Figure43
from loiter.studies.redstone2002.idle import Idle
from loiter.studies.redstone2002.kernel_tables import KernelSpin
from loiter.studies.redstone2002.machine_facts import MachineFacts
from loiter.studies.redstone2002.pure import Pure
from loiter.studies.redstone2002.server import Server
from loiter.studies.redstone2002.spin_mix import SpinMix
from loiter.studies.redstone2002.zawrs import Zawrs

PARTS: tuple[Measures, ...] = (
    MachineFacts(),
    Pure(),
    Server(),
    Idle(),
    KernelSpin(),
    Figure42(),
    Figure43(),
    Chapter4(),
    SpinMix(),
    Zawrs(),
)


class Redstone2002:
    """See `loiter.studies.base.Study`."""

    name = common.PAPER
    title = "What waiting costs on an SMT processor"
    citation = (
        "J. A. Redstone, An Analysis of Software Interface Issues for SMT Processors, PhD dissertation, University of "
        "Washington, 2002"
    )
    method = (
        "Spinning by itself is measured over a window of cycles. Beside programs, a window begins when all programs "
        "are warm and work, and lasts as long for all; useful IPC is the instructions of the programs by cycle, and "
        "the gain of removing the waiting is what the same programs reach when the waiting contexts are vacant. On "
        "Linux, idle contexts change their waiting method in one boot that all continue; methods that are part of a "
        "boot are compared over several boots, since each lays out memory differently."
    )
    legend = (
        "A value is a miss when it is further than its tolerance from the published one: 15 % for IPC, ratios "
        "and sizes; "
        "for shares and gains 2 points or 30 %, whichever is wider; 2 points for rates of hits. In brackets: the "
        "least and "
        "the greatest of several boots. What a key of the reference file has no value for is said in the study's "
        "notes. The "
        "reference ran Digital Unix and Alpha programs; ours are Linux and RISC-V. No parameter of the model was "
        "fitted to any of these values."
    )
    exhibits = tuple(part.exhibit for part in PARTS)
    scales: Mapping[str, str] = {
        "quick": "short windows, fewer numbers of waiting contexts",
        "default": "everything",
        "full": "everything, windows ten times as long",
    }

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """The runs of the exhibits that are wanted; those that several share run once."""
        jobs = [job for part in _wanted(exhibit) for job in part.plan(engine, scale)]
        return list({job.label: job for job in jobs}.values())

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """What the exhibits found; those that were not run are named."""
        runs = {label: Run(result) for label, result in results.items()}
        wanted = _wanted(exhibit)
        note = f"not measured: not in --figure {exhibit}"
        parts = [part.evaluate(runs, scale) if part in wanted else part.unmeasured(note) for part in PARTS]
        return common.together(parts)


def _wanted(exhibit: str | None) -> Sequence[Measures]:
    known = [part.exhibit.id for part in PARTS]
    if exhibit is not None and exhibit not in known:
        raise unknown("figure or table", exhibit, known)
    return [part for part in PARTS if exhibit in (None, part.exhibit.id)]


STUDY = Redstone2002()
