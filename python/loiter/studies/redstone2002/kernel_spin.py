"""A kernel-heavy program on all contexts, with acquires that fail for a while: spin locks, and locks in hardware."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from loiter import reference
from loiter.engine import Engine
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Grid, Statement, Tolerance
from loiter.studies.redstone2002 import linux
from loiter.studies.redstone2002.common import (
    CONFIGURATIONS,
    PAPER,
    SOURCE,
    Part,
    Run,
    Runs,
    Spec,
    deviation,
    gain_percent,
    mean,
    repeated_bars,
    row,
)

BASE = "8"
_SPIN, _HARDWARE = "spin", "smt_lock"
WAYS = {_SPIN: "nop", "pause": "pause", "wrs": "wrs", _HARDWARE: "smt_lock"}
"""Names, and what the kernel's boot parameter calls them. Bare polling is what the reference's spin locks do."""

PROCESSES: int = reference.lookup(PAPER, "workload.apache.server_processes")
PUBLISHED_CYCLES: tuple[int, ...] = tuple(reference.lookup(PAPER, "spin.apache_lock_fail_cycles"))
_ON_OTHERS: dict[str, int] = reference.lookup(PAPER, "spin.other_lock_fail_cycles")
COMPARED_CYCLES = 2000
"""About half of all instructions spin with it, as do with 300 in the reference, whose program takes more locks."""
FURTHER_CYCLES = (1000, COMPARED_CYCLES, 3000)
_HALF_PERCENT = 50

_TABLE = f"{SOURCE}, Table 4.5"


@dataclass(frozen=True)
class _Cell:
    configuration: str
    fail_cycles: int
    way: str
    boot: int = 0

    @property
    def label(self) -> str:
        name = self.configuration.replace(" ", "-").replace(",", "")
        return f"kernel_spin.{name}.{self.fail_cycles}.{self.way}.{self.boot}"

    @property
    def append(self) -> str:
        fail = f",fail={self.fail_cycles}" if self.fail_cycles else ""
        return f"loiter.wait={WAYS[self.way]}{fail},idle=wfi {linux.boot_word(self.boot)}"

    def by(self, way: str) -> _Cell:
        return replace(self, way=way)

    def boots(self) -> list[_Cell]:
        """All that may have run."""
        return [replace(self, boot=boot) for boot in range(max(linux.BOOTS.values()))]


class KernelSpin:
    """See `loiter.studies.redstone2002.common.Measures`."""

    exhibit = Exhibit(
        "kernel_spin", "Spinning in the kernel, induced by acquires that fail: ways, machines of Table 4.5"
    )

    def plan(self, engine: Engine, scale: str) -> list[Job]:
        """As many processes as the reference's web server has, so that hardly any context is idle."""
        jobs = []
        for cell in _cells(scale):
            machine = CONFIGURATIONS[cell.configuration].machine(engine)
            command = f"{linux.BENCH}/kernelmix {PROCESSES} forever apart"
            request = linux.request(engine, machine, [command], linux.WINDOWS[scale], append=cell.append)
            jobs.append(Job(cell.label, request, 20.0))
        return jobs

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """Share of spinning, useful IPC, and what removing the spinning gives."""
        part = Part()
        for cell in _cells(scale):
            facts: dict[str, Any] = {"configuration": cell.configuration, "way": cell.way}
            facts |= {"fail_cycles": cell.fail_cycles, "boot": cell.boot}
            part.rows.append(row(runs[cell.label], cell.label, self.exhibit.id, **facts))
        part.points = [spec.point(value) for spec, value in _points(runs, scale)]
        part.grids = [_constants_grid(runs, scale), *_machines_grid(runs, scale)]
        part.charts = [_chart(runs, scale)]
        part.statements = _statements(runs, scale)
        return part

    def unmeasured(self, note: str) -> Part:
        """Without a run."""
        return Part(
            points=[spec.point(None, note) for spec in _specs()],
            statements=[Statement(text, None, note) for text in _TEXTS],
        )


def _constants(scale: str) -> tuple[int, ...]:
    return (0, COMPARED_CYCLES) if scale == "quick" else (*PUBLISHED_CYCLES, *FURTHER_CYCLES)


def _others(scale: str) -> dict[str, int]:
    """The constant on each other machine. The reference had other ones on machines of 4 and 12 contexts; ours are as
    many times that of [`COMPARED_CYCLES`] as there."""
    if scale == "quick":
        return {}
    most = PUBLISHED_CYCLES[-1]
    published = {"8": most, **_ON_OTHERS}
    return {
        name: round(COMPARED_CYCLES * published[str(each.contexts)] / most)
        for name, each in CONFIGURATIONS.items()
        if name != BASE
    }


def _cells(scale: str) -> list[_Cell]:
    cells = [_Cell(BASE, constant, way) for constant in _constants(scale) for way in WAYS]
    compared = [_Cell(BASE, constant, way) for constant in (0, COMPARED_CYCLES) for way in (_SPIN, _HARDWARE)]
    for name, constant in _others(scale).items():
        compared += [_Cell(name, constant, way) for way in (_SPIN, _HARDWARE)]
    cells += [replace(cell, boot=boot) for cell in compared for boot in range(linux.BOOTS[scale])]
    return list(dict.fromkeys(cells))


def _each(runs: Runs, cell: _Cell, of: Callable[[Run], float]) -> list[float]:
    """A value of every boot that was run."""
    return [of(runs[boot.label]) for boot in cell.boots() if boot.label in runs]


def _mean(runs: Runs, cell: _Cell, of: Callable[[Run], float]) -> float:
    return mean(_each(runs, cell, of))


def _useful_ipc(run: Run) -> float:
    return run.metrics["useful_ipc"]


def _useful(runs: Runs, cell: _Cell) -> float:
    """Instructions a cycle that do not wait."""
    return _mean(runs, cell, _useful_ipc)


def _spin_percent(runs: Runs, cell: _Cell) -> float:
    return _metric(runs, cell, "spin_instructions_percent")


def _metric(runs: Runs, cell: _Cell, name: str) -> float:
    return _mean(runs, cell, lambda run: run.metrics[name])


def _gains(runs: Runs, cell: _Cell, way: str = _HARDWARE) -> list[float]:
    """What another way gives over the one of `cell`, by boot of both."""
    pairs = [(boot, boot.by(way)) for boot in cell.boots()]
    pairs = [(a, b) for a, b in pairs if a.label in runs and b.label in runs]
    return [gain_percent(_useful_ipc(runs[a.label]), _useful_ipc(runs[b.label])) for a, b in pairs]


def _gain(runs: Runs, cell: _Cell, way: str = _HARDWARE) -> float:
    """What another way gives over the one of `cell`."""
    return gain_percent(_useful(runs, cell), _useful(runs, cell.by(way)))


def _work_gain(runs: Runs, cell: _Cell, way: str) -> float:
    """The same of instructions of the program itself."""
    spin, other = (_mean(runs, each, lambda run: run.ipc(activities=("user",))) for each in (cell, cell.by(way)))
    return gain_percent(spin, other)


def _half(runs: Runs, scale: str) -> int:
    """The constant with which spinning is nearest to half of all instructions."""

    def distance(constant: int) -> float:
        return abs(_spin_percent(runs, _Cell(BASE, constant, _SPIN)) - _HALF_PERCENT)

    return min(_constants(scale), key=distance)


def _spec(path: str, unit: str, tolerance: Tolerance, note: str = "") -> Spec:
    return Spec(f"spin.{path}", unit, _TABLE, tolerance, note or "kernelmix on Linux for Apache on Digital Unix")


_POINTS, _RATIO = Tolerance(10), Tolerance(15, relative=True)
_AT_HALF = f"ours at {COMPARED_CYCLES} cycles, where half of all instructions spin as at 300 there"
_PIPELINE_KEYS = {
    "zero_fetch_percent": "zero_fetch_cycles_percent",
    "fetchable": "fetchable_contexts",
    "squashed_percent": "squashed_percent",
    "iq_backup_percent": "iq_backup_percent",
    "zero_retire_percent": "zero_retire_percent",
}
"""Names of the reference, and of our metrics."""
_PUBLISHED_OTHERS: dict[str, float] = reference.lookup(PAPER, "spin.other_configurations")
# How the reference file calls them beside useful IPC.
_SHORT = {"8, perfect caches and branches": "8 perfect"}
_PUBLISHED_USEFUL: dict[str, tuple[float, float]] = reference.lookup(PAPER, "spin.useful_ipc")


def _specs() -> list[Spec]:
    most = str(PUBLISHED_CYCLES[-1])
    found = [
        _spec("apache_spin_instructions_percent.0", "percent", _POINTS),
        _spec("spin_to_useful_ipc_ratio.0", "ratio", _RATIO),
        _spec("removal_gain_percent.0", "percent", _POINTS),
        _spec(f"apache_spin_instructions_percent.{most}", "percent", _POINTS),
        _spec(f"spin_to_useful_ipc_ratio.{most}", "ratio", _RATIO, _AT_HALF),
        _spec(f"removal_gain_percent.{most}", "percent", _POINTS, _AT_HALF),
    ]
    for way in (_HARDWARE, _SPIN):
        for name in _PIPELINE_KEYS:
            unit, tolerance = ("contexts", _RATIO) if name == "fetchable" else ("percent", _POINTS)
            found.append(_spec(f"pipeline_{most}.{name}.{way}", unit, tolerance, _AT_HALF))
    found += [_spec(f"other_configurations.{name}", "percent", _POINTS) for name in _PUBLISHED_OTHERS]
    for name in _PUBLISHED_USEFUL:
        found += [_spec(f"useful_ipc.{name}.{n}", "instructions/cycle", _RATIO, way) for n, way in enumerate(_BOTH)]
    return found


_BOTH = ("spinning", "locks in hardware")


def _points(runs: Runs, scale: str) -> list[tuple[Spec, float | None]]:
    without, half = _Cell(BASE, 0, _SPIN), _Cell(BASE, COMPARED_CYCLES, _SPIN)
    most = _Cell(BASE, PUBLISHED_CYCLES[-1], _SPIN)

    def ratio(cell: _Cell) -> float:
        return _metric(runs, cell, "spin_to_useful_ipc_ratio")

    found: list[float | None] = [_spin_percent(runs, without), ratio(without), _gain(runs, without)]
    found += [_spin_percent(runs, most) if most.label in runs else None, ratio(half), _gain(runs, half)]
    for way in (_HARDWARE, _SPIN):
        found += [_metric(runs, half.by(way), name) for name in _PIPELINE_KEYS.values()]
    others = _others(scale)
    for name in _PUBLISHED_OTHERS:
        found.append(_gain(runs, _Cell(name, others[name], _SPIN)) if name in others else None)
    long = {short: name for name, short in _SHORT.items()}
    constants = {BASE: COMPARED_CYCLES, **others}
    for short in _PUBLISHED_USEFUL:
        name = long.get(short, short)
        for way in (_SPIN, _HARDWARE):
            found.append(_useful(runs, _Cell(name, constants[name], way)) if name in constants else None)
    return list(zip(_specs(), found, strict=True))


def _constants_grid(runs: Runs, scale: str) -> Grid:
    rows = []
    for constant in _constants(scale):
        for way in WAYS:
            cell = _Cell(BASE, constant, way)
            rows.append(
                (
                    str(constant),
                    way,
                    f"{_spin_percent(runs, cell):.1f}",
                    f"{_useful(runs, cell):.2f}",
                    f"{_gain(runs, cell.by(_SPIN), way):.1f}",
                    f"{_work_gain(runs, cell.by(_SPIN), way):.1f}",
                    *(f"{_metric(runs, cell, name):.1f}" for name in _PIPELINE_KEYS.values()),
                )
            )
    pipeline = (_words(name) for name in _PIPELINE_KEYS.values())
    heads = ("constant, cycles", "way", "spinning, %", "useful IPC", "gain, %", "work, %", *pipeline)
    caption = (
        "kernelmix on all contexts of smt8. Spinning: of all instructions. Gain: of useful IPC over bare spinning. "
        "Work: of instructions in user mode, of which every round has as many, however the kernel waits. With wrs, an "
        "acquire that is made to fail lasts for the time-out of wrs.sto at least."
    )
    return Grid("kernel_spin", "Spinning in the kernel", caption, heads, tuple(rows), words=2)


def _words(name: str) -> str:
    return name.replace("_percent", ", %").replace("_", " ")


def _machines_grid(runs: Runs, scale: str) -> list[Grid]:
    rows = []
    published = _published_gains()
    for name, constant in {BASE: COMPARED_CYCLES, **_others(scale)}.items():
        cell = _Cell(name, constant, _SPIN)
        useful = (_useful(runs, cell), _useful(runs, cell.by(_HARDWARE)))
        there = _PUBLISHED_USEFUL[_SHORT.get(name, name)]
        values = (
            _spin_percent(runs, cell),
            *useful,
            *there,
            _gain(runs, cell),
            deviation(_gains(runs, cell)),
            published[name],
        )
        rows.append((name, str(constant), *(f"{value:.2f}" for value in values)))
    useful_heads = ("useful IPC, spin", "smt_lock", "published, spin", "smt_lock")
    heads = ("machine", "constant, cycles", "spinning, %", *useful_heads, "gain, %", "±", "published, %")
    caption = (
        f"On 8 contexts the constant with which about half of all instructions spin, {COMPARED_CYCLES} cycles (in the "
        "reference: 300); on 4 and 12 as many times more or less as in the reference. Means of several boots; ± is one "
        "standard deviation of the gain over boots, which lay out memory differently."
    )
    return [Grid("kernel_spin_machines", "Table 4.5", caption, heads, tuple(rows), words=1)]


def _chart(runs: Runs, scale: str) -> Chart:
    title = "smt8: useful IPC of a kernel-heavy program by how long acquires fail, and way to wait"
    groups = {f"{constant} cycles": constant for constant in _constants(scale)}
    note = "Means; error bars are one standard deviation, where a system was booted several times."

    def useful(constant: int, way: str) -> list[float]:
        return _each(runs, _Cell(BASE, constant, way), _useful_ipc)

    return repeated_bars("kernel_spin", title, "instructions a cycle", groups, WAYS, useful, note)


_TEXTS = (
    "Where half of all instructions spin, removing the spinning gains between 5 and 25 %",
    "Without induced spinning, it gains less than 5 %",
    "The machines are in the published order of their gains",
)


def _statements(runs: Runs, scale: str) -> list[Statement]:
    half = _half(runs, scale)
    cell = _Cell(BASE, half, _SPIN)
    gain, without = _gain(runs, cell), _gain(runs, _Cell(BASE, 0, _SPIN))
    share = _spin_percent(runs, cell)
    found = [
        Statement(
            _TEXTS[0],
            5 <= gain <= 25,
            f"{gain:.1f} % at {half} cycles, {share:.1f} % of instructions spin; by boot {_list(_gains(runs, cell))}",
        ),
        Statement(_TEXTS[1], without < 5, f"{without:.1f} %; by boot {_list(_gains(runs, _Cell(BASE, 0, _SPIN)))}"),
    ]
    others = _others(scale)
    if not others:
        return [*found, Statement(_TEXTS[2], None, "not in this scale")]
    constants = {BASE: COMPARED_CYCLES, **others}
    gains = {name: _gain(runs, _Cell(name, constant, _SPIN)) for name, constant in constants.items()}
    there = _published_gains()
    published = sorted(gains, key=lambda name: -there[name])
    ours = sorted(gains, key=lambda name: -gains[name])
    told = ", ".join(f"{name}: {gains[name]:.1f} %" for name in ours)
    return [*found, Statement(_TEXTS[2], ours == published, told)]


def _list(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _published_gains() -> dict[str, float]:
    """By machine, where about half of all instructions spin."""
    base: dict[str, float] = reference.lookup(PAPER, "spin.removal_gain_percent")
    return {BASE: base[str(PUBLISHED_CYCLES[-1])], **_PUBLISHED_OTHERS}
