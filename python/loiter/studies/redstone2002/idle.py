"""Idle contexts beside one, two, four and seven programs: they poll, sleep in wfi, or block in hardware."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from loiter import machines, reference
from loiter.engine import Engine
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Grid, Statement, Tolerance
from loiter.studies.redstone2002 import linux
from loiter.studies.redstone2002.common import (
    CONFIGURATIONS,
    PAPER,
    PAUSE_SETS,
    SOURCE,
    Part,
    Runs,
    Spec,
    bars,
    gain_percent,
    mean,
    row,
)

# Debian's programs that stand in for those of SPECint95.
STAND_INS = {
    "li": "newlisp",
    "compress": "ncompress",
    "perl": "perl",
    "m88ksim": "spim",
    "gcc": "cc1",
    "go": "gnugo",
    "vortex": "sqlite3",
}
WORKLOADS: dict[str, list[str]] = reference.lookup(PAPER, "spin.idle_workloads")

_POLL, _WFI, _HARDWARE = "poll", "wfi", "in hardware"
WAYS: dict[str, tuple[linux.Waits, tuple[str, ...]]] = {
    _POLL: (linux.Waits("poll", "bare"), ()),
    "poll, divide and pause": (linux.Waits("poll"), ()),
    "the same, pause of 64 cycles": (linux.Waits("poll"), PAUSE_SETS),
    _WFI: (linux.Waits("wfi"), ()),
    _HARDWARE: (linux.Waits("block"), ()),
}
"""What the kernel does, and what is changed of the machine. Without a change of `cpu_relax` a CPU polls as it does with
`nohlt`: by a divide by zero, of 30 cycles on smt8, and a pause, which passes as a nop there."""

_CONTEXTS = "8"
_MACHINE, _SUPERSCALAR = CONFIGURATIONS[_CONTEXTS].preset, "superscalar"
_IPC = Tolerance(15, relative=True)
_PER_THREAD = "instructions/context-cycle"
_POINTS = Tolerance(10)
_SPEEDUP = Tolerance(25, relative=True)
_QUICK = ("li", "multi4a")


@dataclass(frozen=True)
class _Cell:
    workload: str
    way: str
    machine: str = _MACHINE

    @property
    def programs(self) -> list[str]:
        """Names of the paper."""
        return WORKLOADS[self.workload]

    @property
    def label(self) -> str:
        return f"idle.{self.machine}.{self.workload}.{self.way.replace(' ', '-').replace(',', '')}"

    @property
    def harts(self) -> range:
        """Where programs run. The system's own work is done on CPU 0, if there is another one."""
        first = 0 if self.machine == _SUPERSCALAR else 1
        return range(first, first + len(self.programs))


class Idle:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("idle", "Idle contexts beside one, two, four and seven programs: poll, wfi, block in hardware")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """Each program is bound to a CPU of its own; the other CPUs idle."""
        window = linux.WINDOWS[scale]
        jobs = []
        for cell in _cells(scale):
            waits, sets = WAYS[cell.way]
            machine = machines.load(engine, cell.machine, list(sets))
            commands = [
                f"{linux.BENCH}/{STAND_INS[name]} --cpu {hart} --forever"
                for name, hart in zip(cell.programs, cell.harts, strict=True)
            ]
            jobs.append(Job(cell.label, linux.request(engine, machine, commands, window, waits=waits), 20.0))
        return jobs

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """Useful IPC, instructions of idle contexts, and what not polling gives."""
        part = Part()
        for cell in _cells(scale):
            run = runs[cell.label]
            facts: dict[str, Any] = {"workload": cell.workload, "way": cell.way, "program_ipc": _useful(runs, cell)}
            part.rows.append(row(run, cell.label, self.exhibit.id, **facts))
        workloads = _workloads(scale)
        part.points = [spec.point(value) for spec, value in _points(runs, workloads)]
        part.grids = [_grid(runs, workloads)]
        part.charts = [_chart(runs, workloads)]
        part.statements = _statements(runs, workloads)
        return part

    def unmeasured(self, note: str) -> Part:
        """Without a run."""
        return Part(
            points=[spec.point(None, note) for spec in _SPECS.values()],
            statements=[Statement(text, None, note) for text in _TEXTS],
        )


def _workloads(scale: str) -> list[str]:
    return [name for name in WORKLOADS if scale != "quick" or name in _QUICK]


def _cells(scale: str) -> list[_Cell]:
    cells = [_Cell(workload, way) for workload in _workloads(scale) for way in WAYS]
    alone = [_Cell(name, _WFI, _SUPERSCALAR) for name in ("li", "compress") if name in _workloads(scale)]
    return cells + alone


def _useful(runs: Runs, cell: _Cell) -> float:
    """Instructions a cycle of the CPUs that have a program."""
    return runs[cell.label].ipc(cell.harts)


def _idle_percent(runs: Runs, cell: _Cell) -> float:
    """Instructions of the other CPUs, of all."""
    run = runs[cell.label]
    return 100 * (1 - run.instructions(cell.harts) / run.instructions())


def _idle_ipc(runs: Runs, cell: _Cell) -> float:
    """Of one idle context."""
    run = runs[cell.label]
    return (run.ipc() - _useful(runs, cell)) / (CONFIGURATIONS[_CONTEXTS].contexts - len(cell.programs))


def _speedup(runs: Runs, workload: str, way: str = _HARDWARE) -> float:
    return _useful(runs, _Cell(workload, way)) / _useful(runs, _Cell(workload, _POLL))


_TEXT = f"{SOURCE}, chapter 4"
_SPECS = {
    name: Spec(f"spin.{path}", unit, _TEXT, tolerance, note)
    for name, path, unit, tolerance, note in (
        ("superscalar li", "superscalar_ipc.li", "instructions/cycle", _IPC, "newlisp for li"),
        ("superscalar compress", "superscalar_ipc.compress", "instructions/cycle", _IPC, "ncompress for compress"),
        ("li", "idle_removal_speedup.li", "ratio", _SPEEDUP, "published as about; newlisp for li"),
        ("compress", "idle_removal_speedup.compress", "ratio", _SPEEDUP, "published as about; ncompress for compress"),
        ("multi4", "idle_removal_gain_percent.multi4_average", "percent", _POINTS, "average of both groups of four"),
        ("multi7", "multi7_idle_instructions_percent", "percent", _POINTS, "one idle context beside seven programs"),
        ("seven idle", "idle_per_thread_ipc.seven_idle_with_li.0", _PER_THREAD, _IPC, "an idle context beside newlisp"),
        ("li with seven", "idle_per_thread_ipc.seven_idle_with_li.1", _PER_THREAD, _IPC, "newlisp beside seven"),
        ("one idle", "idle_per_thread_ipc.one_idle.0", _PER_THREAD, _IPC, "the idle context beside seven programs"),
        ("seven with one", "idle_per_thread_ipc.one_idle.1", _PER_THREAD, _IPC, "a program of seven beside it"),
    )
}


def _points(runs: Runs, workloads: list[str]) -> list[tuple[Spec, float | None]]:
    """Every published value with ours, or None if its workload was not run."""

    def gain(name: str) -> float:
        return (_speedup(runs, name) - 1) * 100

    found: dict[str, float | None] = dict.fromkeys(_SPECS)
    for name in ("li", "compress"):
        if name in workloads:
            found[f"superscalar {name}"] = _useful(runs, _Cell(name, _WFI, _SUPERSCALAR))
            found[name] = _speedup(runs, name)
    for name, idle, useful in (("li", "seven idle", "li with seven"), ("multi7", "one idle", "seven with one")):
        if name in workloads:
            cell = _Cell(name, _POLL)
            found[idle], found[useful] = _idle_ipc(runs, cell), _useful(runs, cell) / len(cell.programs)
    fours = ("multi4a", "multi4b")
    if all(name in workloads for name in fours):
        found["multi4"] = mean(map(gain, fours))
    if "multi7" in workloads:
        found["multi7"] = _idle_percent(runs, _Cell("multi7", _POLL))
    return [(_SPECS[name], value) for name, value in found.items()]


def _grid(runs: Runs, workloads: list[str]) -> Grid:
    rows = []
    for name in workloads:
        useful = {way: _useful(runs, _Cell(name, way)) for way in WAYS}
        polling = _Cell(name, _POLL)
        rows.append(
            (
                name,
                str(len(WORKLOADS[name])),
                *(f"{useful[way]:.2f}" for way in WAYS),
                f"{gain_percent(useful[_POLL], useful[_HARDWARE]):.1f}",
                f"{_idle_percent(runs, polling):.1f}",
                f"{_idle_ipc(runs, polling):.2f}",
                f"{useful[_POLL] / len(WORKLOADS[name]):.2f}",
            )
        )
    heads = ("workload", "programs", *WAYS, "gain, %", "idle instructions, %", "IPC of one", "of a program")
    caption = (
        "Useful IPC: of the CPUs that have a program. Gain: of blocking in hardware over polling with a pause that "
        "does nothing; the last three columns are of that polling."
    )
    return Grid("idle", "Useful IPC beside idle contexts, smt8", caption, heads, tuple(rows))


def _chart(runs: Runs, workloads: list[str]) -> Chart:
    title = "smt8: useful IPC beside idle contexts, by what they do"
    groups = {name: name for name in workloads}
    return bars("idle", title, "instructions a cycle", groups, WAYS, lambda name, way: _useful(runs, _Cell(name, way)))


_TEXTS = (
    "Polling with a pause that does nothing costs a lone program at least half as much again",
    "It costs less, the more programs run",
    "wfi and blocking in hardware are within 2 % of each other",
)


def _statements(runs: Runs, workloads: list[str]) -> list[Statement]:
    speedups = {name: _speedup(runs, name, _WFI) for name in workloads}
    by_count: dict[int, list[float]] = {}
    for name, value in speedups.items():
        by_count.setdefault(len(WORKLOADS[name]), []).append(value)
    means = [mean(values) for _, values in sorted(by_count.items())]
    apart = {
        name: abs(_useful(runs, _Cell(name, _HARDWARE)) / _useful(runs, _Cell(name, _WFI)) - 1) * 100
        for name in workloads
    }
    told = ", ".join(f"{name} {value:.2f} times" for name, value in speedups.items())
    alone = [value for name, value in speedups.items() if len(WORKLOADS[name]) == 1]
    falling = all(a > b for a, b in pairwise(means))
    found = (
        (all(value >= 1.5 for value in alone), told),
        (falling, ", ".join(f"{count}: {mean:.2f} times" for count, mean in zip(sorted(by_count), means, strict=True))),
        (max(apart.values()) <= 2, f"at most {max(apart.values()):.2f} % apart"),
    )
    return [Statement(text, *each) for text, each in zip(_TEXTS, found, strict=True)]
