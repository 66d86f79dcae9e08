"""Debian's own kernel under lock contention, on a machine whose harts have Zawrs and on one whose harts have not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loiter import machines
from loiter.engine import Engine
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Grid, Statement
from loiter.studies.redstone2002 import linux
from loiter.studies.redstone2002.common import CONFIGURATIONS, Part, Run, bars, gain_percent, row

_CONFIGURATION = CONFIGURATIONS["8"]
WITH, WITHOUT = "Zawrs", "no Zawrs"
WAYS = {WITH: (), WITHOUT: ("hart.isa=-zawrs",)}
"""What is changed of the machine. The kernel finds the extension in the device tree, or does not."""

PROGRAMS = {
    "one spin lock": f"kernelmix {_CONFIGURATION.contexts} forever narrow",
    "all shared": "kernelmix 64 forever shared",
    "apart": "kernelmix 64 forever apart",
}
"""From the most contention to hardly any."""

_WAITING = ("spinning", "napping")


@dataclass(frozen=True)
class _Cell:
    program: str
    way: str

    @property
    def label(self) -> str:
        return f"zawrs.{self.program.replace(' ', '-')}.{self.way.replace(' ', '-')}"


class Zawrs:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("zawrs", "Debian's kernel under lock contention, with Zawrs and without")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """Every program, with the extension and without."""
        window = linux.WINDOWS[scale]
        jobs = []
        for cell in _cells(scale):
            machine = machines.load(engine, _CONFIGURATION.preset, list(WAYS[cell.way]))
            commands = [f"{linux.BENCH}/{PROGRAMS[cell.program]}"]
            jobs.append(Job(cell.label, linux.request(engine, machine, commands, window, kernel=linux.DEBIAN), 20.0))
        return jobs

    def evaluate(self, runs: Mapping[str, Run], scale: str) -> Part:
        """Work done, spin instructions and wake-ups."""
        part = Part()
        for cell in _cells(scale):
            facts: dict[str, Any] = {"program": cell.program, "way": cell.way, "rounds": _rounds(runs[cell.label])}
            part.rows.append(row(runs[cell.label], cell.label, self.exhibit.id, **facts))
        part.grids = [_grid(runs, scale)]
        part.charts = [_chart(runs, scale)]
        part.statements = _statements(runs, scale)
        return part

    def unmeasured(self, note: str) -> Part:
        """Nothing of it is published."""
        return Part(statements=[Statement(text, None, note) for text in _TEXTS])


def _programs(scale: str) -> list[str]:
    return list(PROGRAMS)[: 1 if scale == "quick" else None]


def _cells(scale: str) -> list[_Cell]:
    return [_Cell(program, way) for program in _programs(scale) for way in WAYS]


def _rounds(run: Run) -> int:
    """Rounds that ended in the window."""
    first = run.result.manifest["timing_from_cycle"]
    return sum(mark["kind"] == "work_end" and mark["cycle"] >= first for mark in run.result.rows("marks"))


def _work(run: Run) -> float:
    """Instructions in user mode, by cycle: every round has as many. Rounds themselves are few."""
    return run.ipc(activities=("user",))


def _wakes(run: Run, name: str) -> int:
    counters = run.result.rows("counters")
    return sum(int(each["value"]) for each in counters if each["name"] == name)


def _grid(runs: Mapping[str, Run], scale: str) -> Grid:
    rows = []
    for cell in _cells(scale):
        run = runs[cell.label]
        without = runs[_Cell(cell.program, WITHOUT).label]
        waits = run.context_cycles(activities=_WAITING) / run.context_cycles()
        values = (
            f"{100 * waits:.1f}",
            f"{100 * run.instructions(activities=('spinning',)) / run.instructions():.1f}",
            f"{run.metrics['useful_ipc']:.2f}",
            str(_rounds(run)),
            f"{gain_percent(_work(without), _work(run)):.1f}",
            *(f"{1e6 * _wakes(run, name) / run.cycles:.0f}" for name in ("wrs_naps", "woken_by_store")),
        )
        rows.append((cell.program, cell.way, *values))
    shares = ("waiting, % of time", "spinning, % of instructions")
    wakes = ("naps per Mcycle", "wake-ups by stores per Mcycle")
    heads = ("program", "harts with", *shares, "useful IPC", "rounds", "work, %", *wakes)
    caption = (
        "Debian's kernel as it is, kernelmix on all eight contexts of smt8. Work: instructions in user mode, of which "
        "every round has as many, more than without the extension."
    )
    return Grid("zawrs", "Zawrs, on and off", caption, heads, tuple(rows), words=2)


def _chart(runs: Mapping[str, Run], scale: str) -> Chart:
    title = "smt8, Debian's kernel: useful IPC by contention, with Zawrs and without"
    groups = {name: name for name in _programs(scale)}

    def useful(program: str, way: str) -> float:
        return runs[_Cell(program, way).label].metrics["useful_ipc"]

    return bars("zawrs", title, "instructions a cycle", groups, WAYS, useful)


_TEXTS = (
    "Harts that wait for a lock nap with Zawrs, and never without",
    "Zawrs takes spin instructions away",
    "More work is done with Zawrs than without, the more so the more contention",
)


def _statements(runs: Mapping[str, Run], scale: str) -> list[Statement]:
    def both(program: str) -> tuple[Run, Run]:
        return runs[_Cell(program, WITH).label], runs[_Cell(program, WITHOUT).label]

    pairs = {name: both(name) for name in _programs(scale)}
    naps = [(_wakes(having, "wrs_naps"), _wakes(lacking, "wrs_naps")) for having, lacking in pairs.values()]
    spins = [tuple(each.instructions(activities=("spinning",)) for each in pair) for pair in pairs.values()]
    gains = {name: gain_percent(_work(lacking), _work(having)) for name, (having, lacking) in pairs.items()}
    ordered = list(gains.values())
    found = (
        (all(having > 0 and lacking == 0 for having, lacking in naps), ", ".join(f"{a} and {b}" for a, b in naps)),
        (all(having < lacking for having, lacking in spins), ", ".join(f"{a:,} and {b:,}" for a, b in spins)),
        (
            min(ordered) >= 0 and ordered == sorted(ordered, reverse=True),
            ", ".join(f"{name}: {gain:+.1f} %" for name, gain in gains.items()),
        ),
    )
    return [Statement(text, *each) for text, each in zip(_TEXTS, found, strict=True)]
