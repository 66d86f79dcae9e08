"""The lock loop on k contexts beside programs on the others, and what removing it gives, by waiting method."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from loiter import programs
from loiter.engine import Engine
from loiter.runs.request import Request
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Grid, Statement
from loiter.studies.redstone2002.common import (
    CONFIGURATIONS,
    HARDWARE_LOCK,
    PAUSE_SETS,
    Part,
    Runs,
    bars,
    gain_percent,
    row,
)

PROGRAM = "spinloops"
BASE = "8"

# Useful work: whoever comes first in this list runs when there is room for fewer.
PROGRAMS = ("intmix", "sort", "hash", "mbv_int", "mbv_fp", "intmix", "sort", "intmix", "sort", "intmix", "sort")
WAYS = {
    "lock loop": ("spin_retry", ()),
    "pause": ("spin_pause", ()),
    "pause of 64 cycles": ("spin_pause", PAUSE_SETS),
    "wrs": ("spin_wrs_nto", ()),
    "smt_lock": ("spin_smt_lock", (HARDWARE_LOCK,)),
}
"""Task of each way, and what is changed of the machine."""
_LOOP, _BLOCKS = "lock loop", "smt_lock"

WINDOW_CYCLES = {"quick": 200_000, "default": 1_000_000, "full": 10_000_000}
SPINNERS = {"quick": (1, 4, 7), "default": tuple(range(1, 8)), "full": tuple(range(1, 8))}
_REPETITIONS = 2800


@dataclass(frozen=True)
class _Cell:
    """k contexts that wait in a way, or, without a way, are vacant."""

    configuration: str
    spinners: int
    way: str = ""

    @property
    def label(self) -> str:
        way = self.way.replace(" ", "-") or "removed"
        return f"spin_mix.{self.configuration.replace(' ', '-').replace(',', '')}.{self.spinners}.{way}"

    @property
    def programs(self) -> tuple[str, ...]:
        return PROGRAMS[: CONFIGURATIONS[self.configuration].contexts - self.spinners]

    @property
    def removed(self) -> _Cell:
        return _Cell(self.configuration, self.spinners)

    def placements(self) -> list[str]:
        words = [f"{task}={context}" for context, task in enumerate(self.programs)]
        if self.way:
            first = len(self.programs)
            words += [f"{WAYS[self.way][0]}={context}" for context in range(first, first + self.spinners)]
        return words


class SpinMix:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit("spin_mix", "The lock loop on k contexts beside programs, by waiting method")

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """Every cell, with the machine and the time that it needs."""
        program = programs.load(engine, PROGRAM)
        plan = "reference warm until probe:work_begin, timing until probe:roi_end, reference"
        phases = str(engine.describe_phases(plan)["plan"])
        jobs = []
        for cell in _cells(scale):
            sets = WAYS[cell.way][1] if cell.way else ()
            machine = CONFIGURATIONS[cell.configuration].machine(engine, sets)
            placement = programs.place(cell.placements(), program, machine)
            # Of the matrices only what so many repetitions reach is there; no window is as long.
            arguments = (f"window_cycles={WINDOW_CYCLES[scale]}", "iterations=1", f"reps_max={_REPETITIONS}")
            weight = WINDOW_CYCLES[scale] * 2e-6
            jobs.append(Job(cell.label, Request(machine, program, placement, arguments, phases=phases), weight))
        return jobs

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """Useful IPC beside the waiters, the waiters' own, and what removing them gives."""
        part = Part()
        for cell in _cells(scale):
            run = runs[cell.label]
            facts: dict[str, Any] = {"configuration": cell.configuration, "way": cell.way or None}
            facts |= {
                "spinners": cell.spinners,
                "program_ipc": _useful(runs, cell),
                "waiter_ipc": _waiter_ipc(runs, cell),
            }
            if cell.way:
                facts["removal_gain_percent"] = _gain(runs, cell)
            part.rows.append(row(run, cell.label, self.exhibit.id, **facts))
        part.grids = [_useful_grid(runs, scale), _gain_grid(runs, scale), _machines_grid(runs)]
        part.charts = [_chart(runs, scale)]
        part.statements = _statements(runs, scale)
        return part

    def unmeasured(self, note: str) -> Part:
        """Nothing of it is published as a number."""
        return Part(statements=[Statement(text, None, note, key) for text, key in _TEXTS.items()])


def _cells(scale: str) -> list[_Cell]:
    cells = [_Cell(BASE, k, way) for k in SPINNERS[scale] for way in ("", *WAYS)]
    # Half of the contexts wait on every machine, for the law.
    cells += [_Cell(each.name, each.contexts // 2, way) for each in CONFIGURATIONS.values() for way in ("", _LOOP)]
    return list(dict.fromkeys(cells))


def _useful(runs: Runs, cell: _Cell) -> float:
    """Instructions a cycle of all programs together."""
    return runs[cell.label].ipc(range(len(cell.programs)))


def _waiter_ipc(runs: Runs, cell: _Cell) -> float | None:
    """Of one waiter."""
    if not cell.way:
        return None
    first = len(cell.programs)
    return runs[cell.label].ipc(range(first, first + cell.spinners)) / cell.spinners


def _gain(runs: Runs, cell: _Cell) -> float:
    return gain_percent(_useful(runs, cell), _useful(runs, cell.removed))


def _useful_grid(runs: Runs, scale: str) -> Grid:
    rows = []
    for k in SPINNERS[scale]:
        looping = _Cell(BASE, k, _LOOP)
        waiter = _waiter_ipc(runs, looping)
        rows.append(
            (
                str(k),
                *(f"{_useful(runs, _Cell(BASE, k, way)):.2f}" for way in ("", *WAYS)),
                f"{_useful(runs, looping) / len(looping.programs):.2f}",
                f"{waiter:.2f}",
            )
        )
    columns = ("waiting", "removed", *WAYS, "IPC of a program", "of a spinner")
    caption = (
        "Instructions a cycle of 8 - k programs, on smt8; the last two columns are by context, with the lock loop."
    )
    return Grid("spin_mix_ipc", "Useful IPC beside k waiting contexts", caption, columns, tuple(rows))


def _gain_grid(runs: Runs, scale: str) -> Grid:
    rows = [(str(k), *(f"{_gain(runs, _Cell(BASE, k, way)):.1f}" for way in WAYS)) for k in SPINNERS[scale]]
    caption = "What the programs would gain if the waiting contexts were not there: what waiting costs."
    return Grid("spin_mix_gain", "Removal gain, percent", caption, ("waiting", *WAYS), tuple(rows))


def _machines_grid(runs: Runs) -> Grid:
    rows = []
    for name in CONFIGURATIONS:
        cell = _half(name)
        values = (_useful(runs, cell), _useful(runs, cell.removed), _gain(runs, cell))
        rows.append((name, str(cell.spinners), *(f"{value:.2f}" for value in values[:2]), f"{values[2]:.1f}"))
    columns = ("machine", "waiting", "useful IPC", "removed", "gain, %")
    caption = "The lock loop on half of the contexts of the machines of Table 4.4."
    return Grid("spin_mix_machines", "The same on other machines", caption, columns, tuple(rows))


def _half(configuration: str) -> _Cell:
    return _Cell(configuration, CONFIGURATIONS[configuration].contexts // 2, _LOOP)


def _chart(runs: Runs, scale: str) -> Chart:
    title = "smt8: what removing k waiting contexts gives the programs on the others"
    groups = {f"{k} waiting": k for k in SPINNERS[scale]}
    unit = "removal gain, percent"
    return bars("spin_mix", title, unit, groups, WAYS, lambda runs, k, way: _gain(runs, _Cell(BASE, k, way)), runs)


_TEXTS = {
    "One spinner among seven programs has a higher IPC than a program": "",
    "Removing the lock loop gains more, the more contexts spin": "",
    "A context that waits in the hardware lock is not fetched from": "",
    "Removal gains more on machines that the programs can use better": "spin.law",
}
"""Our words, and the key in the reference file where it has one."""


def _statements(runs: Runs, scale: str) -> list[Statement]:
    one = _Cell(BASE, 1, _LOOP)
    program, spinner = _useful(runs, one) / len(one.programs), _waiter_ipc(runs, one) or 0.0
    gains = {k: _gain(runs, _Cell(BASE, k, _LOOP)) for k in SPINNERS[scale]}
    growing = all(gains[a] < gains[b] for a, b in pairwise(SPINNERS[scale]))
    blocked = {k: _waiter_ipc(runs, _Cell(BASE, k, _BLOCKS)) or 0.0 for k in SPINNERS[scale]}
    found = (
        (spinner > program, f"{spinner:.2f} against {program:.2f}"),
        (growing, ", ".join(f"{k}: {gain:.1f} %" for k, gain in gains.items())),
        (max(blocked.values()) < _NOTHING, f"at most {max(blocked.values()):.4f} instructions a cycle"),
        _law(runs),
    )
    return [Statement(text, *each, key) for (text, key), each in zip(_TEXTS.items(), found, strict=True)]


# A waiter executes its acquire once, before the window.
_NOTHING = 0.001


def _law(runs: Runs) -> tuple[bool, str]:
    """With as many contexts, whether perfect caches and branches, and more units, raise both IPC and gain."""
    gains = {name: _gain(runs, _half(name)) for name in CONFIGURATIONS}
    useful = {name: _useful(runs, _half(name).removed) for name in CONFIGURATIONS}
    pairs = (("8, perfect caches and branches", "8"), ("8", "4"))
    holds = all(useful[a] > useful[b] and gains[a] > gains[b] for a, b in pairs)
    return holds, "; ".join(f"{name}: IPC {useful[name]:.2f}, gain {gains[name]:.1f} %" for name in gains)
