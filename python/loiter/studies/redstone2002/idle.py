"""Idle contexts beside one, two, four and seven programs: they poll, sleep in wfi, or block in hardware."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from loiter import machines, reference
from loiter.engine import Engine
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Grid, Statement
from loiter.studies.redstone2002 import linux
from loiter.studies.redstone2002.common import (
    CONFIGURATIONS,
    PAPER,
    PAUSE_SETS,
    RATIO,
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

POLL, WFI, HARDWARE = "poll", "wfi", "in hardware"
WAYS: dict[str, tuple[linux.Waits, tuple[str, ...]]] = {
    POLL: (linux.Waits("flags"), ()),
    "Linux's loop": (linux.Waits("poll", "bare"), ()),
    "the same, divide and pause": (linux.Waits("poll"), ()),
    "the same, pause of 64 cycles": (linux.Waits("poll"), PAUSE_SETS),
    WFI: (linux.Waits("wfi"), ()),
    HARDWARE: (linux.Waits("block"), ()),
}
"""What the kernel does, and what is changed of the machine. Polling reads the eight flags that blocking in hardware
waits for, and differs from it in nothing else. Linux's own loop is what `nohlt` does. Without a change of `cpu_relax`
that is by a divide by zero, of 30 cycles on smt8, and a pause, which passes as a nop there."""

_IN_LABELS = str.maketrans({" ": "-", ",": None, "'": None})
_CONTEXTS = "8"
_MACHINE, SUPERSCALAR = CONFIGURATIONS[_CONTEXTS].preset, "superscalar"
_PER_THREAD = "instructions/context-cycle"
_TEXT, _TABLE = f"{SOURCE}, chapter 4", f"{SOURCE}, Table 4.1"
_QUICK = ("li", "multi4a")


@dataclass(frozen=True)
class Cell:
    """A workload and what the other contexts do."""

    workload: str
    way: str
    machine: str = _MACHINE

    @property
    def programs(self) -> list[str]:
        """Names of the paper."""
        return WORKLOADS[self.workload]

    @property
    def label(self) -> str:
        """Of its run."""
        return f"idle.{self.machine}.{self.workload}.{self.way.translate(_IN_LABELS)}"

    @property
    def harts(self) -> range:
        """Where programs run. The system's own work is done on CPU 0, if there is another one."""
        first = 0 if self.machine == SUPERSCALAR else 1
        return range(first, first + len(self.programs))


class Idle:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("idle", "Idle contexts beside one, two, four and seven programs: poll, wfi, block in hardware")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """Each program is bound to a CPU of its own; the other CPUs idle."""
        return [job(engine, scale, cell) for cell in cells(scale)]

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """Useful IPC, instructions of idle contexts, and what not polling gives."""
        part = Part()
        for cell in cells(scale):
            run = runs[cell.label]
            facts: dict[str, Any] = {"workload": cell.workload, "way": cell.way, "program_ipc": useful_ipc(runs, cell)}
            part.rows.append(row(run, cell.label, self.exhibit.id, **facts))
        workloads = workloads_of(scale)
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


def job(engine: Engine, scale: str, cell: Cell) -> Job:
    """The run of a cell."""
    waits, sets = WAYS[cell.way]
    machine = machines.load(engine, cell.machine, list(sets))
    commands = [
        f"{linux.BENCH}/{STAND_INS[name]} --cpu {hart} --forever"
        for name, hart in zip(cell.programs, cell.harts, strict=True)
    ]
    return Job(cell.label, linux.request(engine, machine, commands, linux.WINDOWS[scale], waits=waits), 20.0)


def workloads_of(scale: str) -> list[str]:
    """Those that are run."""
    return [name for name in WORKLOADS if scale != "quick" or name in _QUICK]


def cells(scale: str) -> list[Cell]:
    """All that are run."""
    cells = [Cell(workload, way) for workload in workloads_of(scale) for way in WAYS]
    alone = [Cell(name, WFI, SUPERSCALAR) for name in ("li", "compress") if name in workloads_of(scale)]
    return cells + alone


def useful_ipc(runs: Runs, cell: Cell) -> float:
    """Instructions a cycle of the CPUs that have a program."""
    return runs[cell.label].ipc(cell.harts)


def idle_percent(runs: Runs, cell: Cell) -> float:
    """Instructions of the other CPUs, of all."""
    run = runs[cell.label]
    return 100 * (1 - run.instructions(cell.harts) / run.instructions())


def idle_ipc(runs: Runs, cell: Cell) -> float:
    """Of one idle context."""
    run = runs[cell.label]
    return (run.ipc() - useful_ipc(runs, cell)) / (CONFIGURATIONS[_CONTEXTS].contexts - len(cell.programs))


def speedup(runs: Runs, workload: str, way: str = HARDWARE) -> float:
    """Of useful IPC, against polling."""
    return useful_ipc(runs, Cell(workload, way)) / useful_ipc(runs, Cell(workload, POLL))


_SPECS = {
    name: Spec(path, unit, source, RATIO, note)
    for name, path, unit, source, note in (
        ("superscalar li", "table_4_1.superscalar_ipc.li", "instructions/cycle", _TABLE, "newlisp for li"),
        (
            "superscalar compress",
            "table_4_1.superscalar_ipc.compress",
            "instructions/cycle",
            _TABLE,
            "ncompress for compress",
        ),
        (
            "seven idle",
            "spin.idle_per_thread_ipc.seven_idle_with_li.0",
            _PER_THREAD,
            _TEXT,
            "an idle context beside newlisp",
        ),
        ("li with seven", "spin.idle_per_thread_ipc.seven_idle_with_li.1", _PER_THREAD, _TEXT, "newlisp beside seven"),
        (
            "one idle",
            "spin.idle_per_thread_ipc.one_idle.0",
            _PER_THREAD,
            _TEXT,
            "the idle context beside seven programs",
        ),
        ("seven with one", "spin.idle_per_thread_ipc.one_idle.1", _PER_THREAD, _TEXT, "a program of seven beside it"),
    )
}


def program_ipc(runs: Runs, cell: Cell) -> float:
    """Of one program, by cycle: programs never sleep."""
    return useful_ipc(runs, cell) / len(cell.programs)


def _points(runs: Runs, workloads: list[str]) -> list[tuple[Spec, float | None]]:
    """Every published value with ours, or None if its workload was not run."""
    found: dict[str, float | None] = dict.fromkeys(_SPECS)
    for name in ("li", "compress"):
        if name in workloads:
            found[f"superscalar {name}"] = useful_ipc(runs, Cell(name, WFI, SUPERSCALAR))
    for name, idle, useful in (("li", "seven idle", "li with seven"), ("multi7", "one idle", "seven with one")):
        if name in workloads:
            cell = Cell(name, POLL)
            found[idle], found[useful] = idle_ipc(runs, cell), program_ipc(runs, cell)
    return [(_SPECS[name], value) for name, value in found.items()]


def _grid(runs: Runs, workloads: list[str]) -> Grid:
    rows = []
    for name in workloads:
        useful = {way: useful_ipc(runs, Cell(name, way)) for way in WAYS}
        polling = Cell(name, POLL)
        rows.append(
            (
                name,
                str(len(WORKLOADS[name])),
                *(f"{useful[way]:.2f}" for way in WAYS),
                f"{gain_percent(useful[POLL], useful[HARDWARE]):.1f}",
                f"{idle_percent(runs, polling):.1f}",
                f"{idle_ipc(runs, polling):.2f}",
                f"{useful[POLL] / len(WORKLOADS[name]):.2f}",
            )
        )
    heads = ("workload", "programs", *WAYS, "gain, %", "idle instructions, %", "IPC of one", "of a program")
    caption = (
        "Useful IPC: of the CPUs that have a program. Poll: of the eight flags that blocking in hardware waits for. "
        "Gain: of blocking over that polling, of which are the last three columns too."
    )
    return Grid("idle", "Useful IPC beside idle contexts, smt8", caption, heads, tuple(rows))


def _chart(runs: Runs, workloads: list[str]) -> Chart:
    title = "smt8: useful IPC beside idle contexts, by what they do"
    groups = {name: name for name in workloads}
    unit = "instructions a cycle"
    return bars("idle", title, unit, groups, WAYS, lambda runs, *of: useful_ipc(runs, Cell(*of)), runs)


_TEXTS = (
    "Polling costs a lone program at least half as much again",
    "It costs less, the more programs run",
    "wfi and blocking in hardware are within 2 % of each other",
)


def _statements(runs: Runs, workloads: list[str]) -> list[Statement]:
    speedups = {name: speedup(runs, name, WFI) for name in workloads}
    by_count: dict[int, list[float]] = {}
    for name, value in speedups.items():
        by_count.setdefault(len(WORKLOADS[name]), []).append(value)
    means = [mean(values) for _, values in sorted(by_count.items())]
    apart = {
        name: abs(useful_ipc(runs, Cell(name, HARDWARE)) / useful_ipc(runs, Cell(name, WFI)) - 1) * 100
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
