"""What the exhibits share: the machines of Table 4.4, what a run says, and how exhibits add up to a study."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

from loiter import counts, machines, metrics, reference
from loiter.engine import Engine
from loiter.machines import Machine
from loiter.results import Result
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Findings, Grid, Mark, Point, Statement, Tolerance, Value

Group = TypeVar("Group")
Of = Callable[[Group, str], float]

PAPER = "redstone2002"
SOURCE = "Redstone 2002"

RATIO = Tolerance(15, relative=True)
"""Of IPC, ratios and sizes."""
ABOUT = Tolerance(25, relative=True)
"""Of what is published as "about"."""
SHARE = Tolerance(30, relative=True, points=2)
"""Of shares and gains in percent: points alone would pass anything for a small share."""


@dataclass(frozen=True)
class Configuration:
    """A machine of the paper: its name there, our preset and what is changed of it."""

    name: str
    preset: str
    contexts: int
    sets: tuple[str, ...] = ()

    def machine(self, engine: Engine, sets: Sequence[str] = ()) -> Machine:
        """The machine, with more changes."""
        return machines.load(engine, self.preset, [*self.sets, *sets])


_PERFECT = ("branch.kind=oracle", "l1i.perfect=true", "l1d.perfect=true")
# Redstone does not say how many of four load and store; as many of all as of six.
_FOUR_UNITS = ("units.integer=4", "units.load_store=3")

HARDWARE_LOCK = "hart.isa=+xloiterlock"
"""Adds the hardware lock to a preset; none has it."""

PAUSE_SETS = ("wait.pause_cycles=64",)
"""A pause that takes time, as on `p-core`."""

CONFIGURATIONS = {
    each.name: each
    for each in (
        Configuration("8", "smt8", 8),
        Configuration("8, perfect caches and branches", "smt8", 8, _PERFECT),
        Configuration("12", "smt12", 12),
        Configuration("4", "smt4", 4),
        Configuration("4, 4 integer units", "smt4", 4, _FOUR_UNITS),
    )
}
"""The machines of Tables 4.4 and 4.5."""


@dataclass(frozen=True)
class Run:
    """A run's result, by what is asked of it."""

    result: Result

    @property
    def cycles(self) -> int:
        """Cycles in which cores were timed."""
        return int(self.result.manifest["timing_cycles"])

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Metrics over all modes, by name."""
        return {each.metric.name: each.values[counts.ALL] for each in metrics.of(self.result)}

    @cached_property
    def _activities(self) -> list[dict[str, Any]]:
        return self.result.rows("activities")

    def instructions(self, harts: Sequence[int] | None = None, activities: Sequence[str] | None = None) -> int:
        """Instructions that harts retired in activities; without either, in all."""
        return self._sum("instructions", harts, activities)

    def context_cycles(self, harts: Sequence[int] | None = None, activities: Sequence[str] | None = None) -> int:
        """Context-cycles, likewise."""
        return self._sum("cycles", harts, activities)

    def ipc(self, harts: Sequence[int] | None = None, activities: Sequence[str] | None = None) -> float:
        """Their instructions, by cycle."""
        return self.instructions(harts, activities) / self.cycles

    def _sum(self, column: str, harts: Sequence[int] | None, activities: Sequence[str] | None) -> int:
        return sum(
            int(row[column])
            for row in self._activities
            if (harts is None or row["hart"] in harts) and (activities is None or row["activity"] in activities)
        )


Runs = Mapping[str, Run]
"""By label."""


@dataclass
class Part:
    """What one exhibit found."""

    points: list[Point] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    rows: list[Mapping[str, Any]] = field(default_factory=list)


class Measures(Protocol):
    """An exhibit: its runs, and what they say."""

    exhibit: Exhibit

    def plan(self, engine: Engine, scale: str) -> list[Job]: ...

    def evaluate(self, runs: Runs, scale: str) -> Part:
        """With all of its runs."""
        ...

    def unmeasured(self, note: str) -> Part:
        """Its published values, when it was not run."""
        ...


def together(parts: Sequence[Part]) -> Findings:
    """The findings of all exhibits."""
    return Findings(
        points=[point for part in parts for point in part.points],
        statements=[statement for part in parts for statement in part.statements],
        grids=[grid for part in parts for grid in part.grids],
        charts=[chart for part in parts for chart in part.charts],
        rows=[row for part in parts for row in part.rows],
    )


@dataclass(frozen=True)
class Spec:
    """A published value: its key path in the reference file, and how ours is judged."""

    id: str
    unit: str
    source: str
    tolerance: Tolerance | None
    note: str = ""

    def point(self, ours: Value | None, note: str = "") -> Point:
        """The value beside ours."""
        published = reference.lookup(PAPER, self.id)
        return Point(self.id, self.unit, ours, published, self.source, note or self.note, self.tolerance)

    def over(self, runs: Sequence[float]) -> Point:
        """The value beside the mean of several runs, and their interval."""
        interval = (min(runs), max(runs)) if len(runs) > 1 else None
        return replace(self.point(mean(runs)), interval=interval)


class _Read(Mapping[str, Run]):
    """Runs, and which of them were looked at."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.labels: dict[str, None] = {}

    def __getitem__(self, label: str) -> Run:
        self.labels[label] = None
        return self._runs[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, label: object) -> bool:
        return label in self._runs


def bars(
    name: str,
    title: str,
    unit: str,
    groups: Mapping[str, Group],
    series: Iterable[str],
    value: Callable[[Runs, Group, str], float],
    runs: Runs,
) -> Chart:
    """A chart of one value for each group, by its name, and each of the series."""
    note = "One run each; runs are deterministic."
    return repeated_bars(name, title, unit, groups, series, lambda *where: [value(*where)], note, runs)


def repeated_bars(
    name: str,
    title: str,
    unit: str,
    groups: Mapping[str, Group],
    series: Iterable[str],
    of: Callable[[Runs, Group, str], Sequence[float]],
    note: str,
    runs: Runs,
    published: Mapping[tuple[str, str], str] | None = None,
) -> Chart:
    """The same of several runs each: mean, and standard deviation. `published` has keys of the reference file, for the
    groups and series that it has values of."""
    ways = tuple(series)
    values, labels = {}, {}
    for label, group in groups.items():
        for way in ways:
            read = _Read(runs)
            found = of(read, group, way)
            values[label, way], labels[label, way] = (mean(found), deviation(found)), tuple(read.labels)
    marks = tuple(
        Mark(group, (way,), float(reference.lookup(PAPER, key)))
        for (group, way), key in (published or {}).items()
        if (group, way) in values
    )
    return Chart(name, title, note, unit, tuple(groups), ways, values, marks, runs=labels)


def mean(values: Iterable[float]) -> float:
    """Of at least one."""
    return statistics.fmean(values)


def deviation(values: Sequence[float]) -> float:
    """Standard deviation of a sample; 0 of one value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def standard_error(values: Sequence[float]) -> float:
    """Of their mean; 0 of one value."""
    return deviation(values) / math.sqrt(len(values))


def gain_percent(with_waiting: float, without: float) -> float:
    """What removing the waiting gives."""
    return (without / with_waiting - 1) * 100


def row(run: Run, label: str, exhibit: str, **facts: Any) -> dict[str, Any]:
    """One line of the study's own table, for pandas and DuckDB."""
    return {
        "run": label,
        "directory": run.result.path.name,
        "exhibit": exhibit,
        "machine": run.result.manifest["machine"]["name"],
        **facts,
        "timing_cycles": run.cycles,
        **{name: run.metrics[name] for name in _COLUMNS if name in run.metrics},
    }


_COLUMNS = (
    "ipc",
    "useful_ipc",
    "spin_instructions_percent",
    "fetchable_contexts",
    "squashed_percent",
    "zero_fetch_cycles_percent",
    "zero_retire_percent",
    "iq_backup_percent",
    "iq_average_size",
)
