"""Debian's own kernel under lock contention, on a machine whose harts have Zawrs and on one whose harts have not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loiter import machines
from loiter.engine import Engine
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Grid, Statement
from loiter.studies.redstone2002 import linux
from loiter.studies.redstone2002.common import (
    CONFIGURATIONS,
    Part,
    Run,
    Runs,
    deviation,
    gain_percent,
    mean,
    repeated_bars,
    row,
    standard_error,
)

_CONFIGURATION = CONFIGURATIONS["8"]
WITH, WITHOUT = "Zawrs", "no Zawrs"
WAYS = {WITH: (), WITHOUT: ("hart.isa=-zawrs",)}
"""What is changed of the machine. The kernel finds the extension in the device tree, or does not."""


@dataclass(frozen=True)
class _Program:
    command: str
    whole: bool = False
    """Its whole region is timed, not a window."""
    noisy: bool = False
    """Boots differ by more than what is judged."""

    def boots(self, scale: str) -> int:
        """How many boots are compared."""
        return _NOISY_BOOTS[scale] if self.noisy else linux.BOOTS[scale]


_NOISY_BOOTS = {**linux.BOOTS, "default": 12, "full": 24}
"""Gains by boot scatter by 10 to 16 %: the mean of twelve is known to 4, which is less than the 5 that are judged."""

_IN_A_WINDOW = "all shared in a window"
"""What a short window says where processes sleep for each other. It is shown, not judged by: some processes are 40
rounds ahead of others when it begins, and it holds less than a round of each (docs/findings.md)."""

PROGRAMS = {
    "one spin lock": _Program(f"kernelmix {_CONFIGURATION.contexts} forever narrow"),
    "all shared": _Program("kernelmix 64 3 shared", whole=True, noisy=True),
    "apart": _Program("kernelmix 64 forever apart"),
    _IN_A_WINDOW: _Program("kernelmix 64 forever shared"),
}
"""From the most contention to hardly any; and a window of the second."""

_WAITING = ("spinning", "napping")


@dataclass(frozen=True)
class _Cell:
    program: str
    way: str
    boot: int = 0

    @property
    def label(self) -> str:
        return f"zawrs.{self.program.replace(' ', '-')}.{self.way.replace(' ', '-')}.{self.boot}"


class Zawrs:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("zawrs", "Debian's kernel under lock contention, with Zawrs and without")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """Every program, with the extension and without."""
        window = linux.WINDOWS[scale]
        jobs = []
        for cell in _cells(scale):
            machine = machines.load(engine, _CONFIGURATION.preset, list(WAYS[cell.way]))
            program = PROGRAMS[cell.program]
            commands = [f"{linux.BENCH}/{program.command}"]
            request = linux.request(
                engine,
                machine,
                commands,
                window,
                append=linux.boot_word(cell.boot),
                kernel=linux.DEBIAN,
                whole=program.whole,
            )
            jobs.append(Job(cell.label, request, 20.0))
        return jobs

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """Work done, spin instructions and wake-ups."""
        part = Part()
        for cell in _cells(scale):
            facts: dict[str, Any] = {"program": cell.program, "way": cell.way, "boot": cell.boot}
            facts |= {"rounds": _rounds(runs[cell.label])}
            part.rows.append(row(runs[cell.label], cell.label, self.exhibit.id, **facts))
        part.grids = [_grid(runs, scale)]
        part.charts = [_chart(runs, scale)]
        part.statements = _statements(runs, scale)
        return part

    def unmeasured(self, note: str) -> Part:
        """Nothing of it is published."""
        return Part(statements=[Statement(text, None, note) for text in _TEXTS])


def _cells(scale: str) -> list[_Cell]:
    return [
        _Cell(program, way, boot)
        for program in _programs(scale)
        for way in WAYS
        for boot in range(PROGRAMS[program].boots(scale))
    ]


def _programs(scale: str) -> list[str]:
    return list(PROGRAMS)[: 1 if scale == "quick" else None]


def _of(runs: Runs, scale: str, program: str, way: str) -> list[Run]:
    """By boot."""
    return [runs[_Cell(program, way, boot).label] for boot in range(PROGRAMS[program].boots(scale))]


def _rounds(run: Run) -> int:
    """Rounds that ended while cores were timed."""
    first = run.result.manifest["timing_from_cycle"]
    return sum(mark["kind"] == "work_end" and mark["cycle"] >= first for mark in run.result.rows("marks"))


def _work(run: Run) -> float:
    """Instructions in user mode, by cycle: every round has as many. Rounds themselves are few."""
    return run.ipc(activities=("user",))


def _gains(runs: Runs, scale: str, program: str) -> list[float]:
    """Work done with the extension over work done without, by boot."""
    having, lacking = (_of(runs, scale, program, way) for way in (WITH, WITHOUT))
    return [gain_percent(_work(b), _work(a)) for a, b in zip(having, lacking, strict=True)]


def _naps(run: Run, name: str) -> float:
    """A counter of naps, by million cycles."""
    counters = run.result.rows("counters")
    return 1e6 * sum(int(each["value"]) for each in counters if each["name"] == name) / run.cycles


def _spins(run: Run) -> float:
    """Instructions that spin, by round."""
    return run.instructions(activities=("spinning",)) / max(1, _rounds(run))


def _grid(runs: Runs, scale: str) -> Grid:
    rows = []
    for program in _programs(scale):
        gains = _gains(runs, scale, program)
        for way in WAYS:
            found = _of(runs, scale, program, way)
            waits = mean(100 * run.context_cycles(activities=_WAITING) / run.context_cycles() for run in found)
            spins = mean(run.metrics["spin_instructions_percent"] for run in found)
            useful = mean(run.metrics["useful_ipc"] for run in found)
            naps = (f"{mean(_naps(run, name) for run in found):.0f}" for name in ("wrs_naps", "woken_by_store"))
            gain = (f"{mean(gains):+.1f}", f"{deviation(gains):.1f}") if way == WITH else ("", "")
            values = (f"{waits:.1f}", f"{spins:.1f}", f"{mean(map(_spins, found)):.0f}", f"{useful:.2f}")
            rounds = f"{mean(_rounds(run) / run.cycles * 1e6 for run in found):.1f}"
            rows.append((program, way, *values, rounds, *gain, *naps))
    shares = ("waiting, % of time", "spinning, % of instructions", "spinning, by round")
    work = ("useful IPC", "rounds per Mcycle", "work, %", "±")
    heads = ("program", "harts with", *shares, *work, "naps per Mcycle", "ended by stores")
    caption = (
        "Debian's kernel as it is, kernelmix on all eight contexts of smt8. Work: instructions in user mode, of which "
        "every round has as many, more than without the extension. All shared is three rounds of each process, from "
        f"the first to the last, of {PROGRAMS['all shared'].boots(scale)} boots; the others are windows of "
        f"{linux.BOOTS[scale]} boots. Boots lay out memory differently; ± is one standard deviation over boots."
    )
    return Grid("zawrs", "Zawrs, on and off", caption, heads, tuple(rows), words=2)


def _chart(runs: Runs, scale: str) -> Chart:
    title = "smt8, Debian's kernel: useful IPC by contention, with Zawrs and without"
    groups = {name: name for name in _programs(scale)}

    def useful(runs: Runs, program: str, way: str) -> list[float]:
        return [run.metrics["useful_ipc"] for run in _of(runs, scale, program, way)]

    note = "Means of boots; error bars are one standard deviation."
    return repeated_bars("zawrs", title, "instructions a cycle", groups, WAYS, useful, note, runs)


_TEXTS = (
    "Harts that wait for a lock nap with Zawrs, and never without",
    "Zawrs takes spin instructions away, by round of work",
    "More work is done with Zawrs than without under contention, and no less without contention (within 5 %)",
)


def _statements(runs: Runs, scale: str) -> list[Statement]:
    def means(of: Callable[[Run], float]) -> dict[str, tuple[float, float]]:
        return {
            name: (mean(map(of, _of(runs, scale, name, WITH))), mean(map(of, _of(runs, scale, name, WITHOUT))))
            for name in _programs(scale)
        }

    def told(found: Mapping[str, tuple[float, float]]) -> str:
        return ", ".join(f"{name}: {having:,.0f} and {lacking:,.0f}" for name, (having, lacking) in found.items())

    naps, spins = means(lambda run: _naps(run, "wrs_naps")), means(_spins)
    gains = {name: _gains(runs, scale, name) for name in _programs(scale) if name != _IN_A_WINDOW}
    contended, *others = map(mean, gains.values())
    found = (
        (all(having > 0 and lacking == 0 for having, lacking in naps.values()), f"naps per Mcycle {told(naps)}"),
        (all(having < lacking for having, lacking in spins.values()), told(spins)),
        (
            contended > 0 and all(gain > -5 for gain in others),
            ", ".join(f"{name}: {mean(found):+.1f} ± {standard_error(found):.1f} %" for name, found in gains.items()),
        ),
    )
    return [Statement(text, *each) for text, each in zip(_TEXTS, found, strict=True)]
