"""What every study shares: a plan of runs, and findings that stand beside the published figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from loiter.engine import Engine
from loiter.errors import unknown
from loiter.results import Result
from loiter.runs.worker import Job

Number = float | int
Value = Number | str


@dataclass(frozen=True)
class Exhibit:
    """A table or figure of the paper, as `--figure` names it."""

    id: str
    title: str


class Verdict(Enum):
    """How a measured value stands to the published one."""

    WITHIN = "within"
    MISS = "MISS"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Tolerance:
    """How far a value may be from the published one before it is called a miss. A relative one lets values be `points`
    away, however small they are."""

    amount: float
    relative: bool = False
    points: float = 0.0

    def __str__(self) -> str:
        if not self.relative:
            return f"{self.amount:g} points"
        return f"{self.amount:g} %" + (f" or {self.points:g} points" if self.points else "")

    def allows(self, ours: Number, published: Number) -> bool:
        """Whether a value is as near as that."""
        allowed = max(self.amount * abs(published) / 100, self.points) if self.relative else self.amount
        return abs(ours - published) <= allowed


class Side(Enum):
    """On which side of a bound a value must be."""

    BELOW = "<"
    AT_MOST = "≤"
    AT_LEAST = "≥"


@dataclass(frozen=True)
class Limit:
    """A bound: the published number itself, or what published words such as "none measured" come to."""

    side: Side
    value: Number

    def holds(self, ours: Number) -> bool:
        """Whether a value keeps it."""
        match self.side:
            case Side.BELOW:
                return ours < self.value
            case Side.AT_MOST:
                return ours <= self.value
            case Side.AT_LEAST:
                return ours >= self.value

    def __str__(self) -> str:
        return f"{self.side.value} {self.value:g}"


@dataclass(frozen=True)
class Point:
    """One published number, or words, and ours. With a `limit` ours has to keep it, not to be near. `interval` is from
    the least to the greatest of the runs that ours is the mean of."""

    id: str
    unit: str
    ours: Value | None
    published: Value
    source: str
    note: str
    tolerance: Tolerance | None = None
    limit: Limit | None = None
    interval: tuple[float, float] | None = None

    @property
    def verdict(self) -> Verdict:
        """Within its tolerance, a miss, or not measured."""
        if self.ours is None:
            return Verdict.NOT_MEASURED
        return Verdict.WITHIN if self._agrees() else Verdict.MISS

    @property
    def difference(self) -> str:
        """Ours less the published one, in words a table has room for."""
        if self.ours is None:
            return ""
        if self.limit is not None and not isinstance(self.ours, str):
            return "kept" if self._agrees() else f"{self.ours - self.limit.value:+.1f} beyond"
        if isinstance(self.ours, str) or isinstance(self.published, str):
            return "same" if self.ours == self.published else "differs"
        if self.tolerance is not None and self.tolerance.relative and not self.tolerance.points:
            return f"{(self.ours / self.published - 1) * 100:+.1f} %"
        return f"{self.ours - self.published:+.1f} points"

    def json(self) -> dict[str, Any]:
        """As the study's JSON file has it."""
        interval = {} if self.interval is None else {"interval": list(self.interval)}
        return {
            "id": self.id,
            "unit": self.unit,
            "ours": self.ours,
            "published": self.published,
            "source": self.source,
            "note": self.note,
            **interval,
        }

    def _agrees(self) -> bool:
        if self.limit is not None and self.ours is not None and not isinstance(self.ours, str):
            return self.limit.holds(self.ours)
        if isinstance(self.ours, str) or isinstance(self.published, str) or self.ours is None:
            return self.ours == self.published
        if self.tolerance is None:
            return self.ours == self.published
        return self.tolerance.allows(self.ours, self.published)


@dataclass(frozen=True)
class Statement:
    """Something the paper states in words, and whether it holds here. None: not measured."""

    text: str
    holds: bool | None
    detail: str
    id: str = ""
    """Its key in the reference file."""


@dataclass(frozen=True)
class Mark:
    """A published value drawn into a chart, over the bars of one group from one series to another."""

    group: str
    series: tuple[str, ...]
    value: float
    bound: bool = False


@dataclass(frozen=True)
class Line:
    """A published value that belongs to no single bar: a line across the chart."""

    label: str
    value: float
    series: str


@dataclass(frozen=True)
class Chart:
    """Grouped bars: a value and its deviation for every group and series."""

    id: str
    title: str
    caption: str
    unit: str
    groups: tuple[str, ...]
    series: tuple[str, ...]
    values: Mapping[tuple[str, str], tuple[float, float]]
    marks: tuple[Mark, ...] = ()
    lines: tuple[Line, ...] = ()
    averages: frozenset[str] = frozenset()
    runs: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """Labels of the runs that a bar is made of."""


@dataclass(frozen=True)
class Curves:
    """Values over a number, such as that of threads: a curve for each series."""

    id: str
    title: str
    caption: str
    across: str
    unit: str
    points: Mapping[str, Sequence[tuple[float, float]]]
    """By series."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Series that are worked out, not measured, and the series of what they are models of."""
    runs: Mapping[tuple[str, float], str] = field(default_factory=dict)
    """Label of the run that a point is from, by series and number."""
    spans: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """By series, the least and the most that each of its points is the mean of."""


@dataclass(frozen=True)
class Grid:
    """A table of the paper or of ours, ready to print. The first `words` columns are words, the others numbers."""

    id: str
    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


@dataclass(frozen=True)
class Findings:
    """What a study found."""

    points: Sequence[Point]
    statements: Sequence[Statement]
    grids: Sequence[Grid]
    charts: Sequence[Chart]
    rows: Sequence[Mapping[str, Any]]
    warnings: Sequence[str] = field(default=())
    curves: Sequence[Curves] = field(default=())


def chosen(exhibits: Sequence[Exhibit], exhibit: str | None) -> list[str]:
    """The exhibits that are wanted: the one that is named, or all. Raises `UserFault` for one that there is not."""
    known = [each.id for each in exhibits]
    if exhibit is not None and exhibit not in known:
        raise unknown("figure", exhibit, known)
    return known if exhibit is None else [exhibit]


def judged(
    key: str, text: str, exhibit: str | None, needs: Sequence[str], rule: Callable[[], tuple[bool | None, str]]
) -> Statement:
    """A statement as its rule says, or as not measured where none of the exhibits that have its runs is wanted."""
    there = exhibit is None or exhibit in needs
    holds, told = rule() if there else (None, f"not measured: not in --figure {exhibit}")
    return Statement(text, holds, told, key)


class Study(Protocol):
    """A published experiment that loiter repeats."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def citation(self) -> str: ...

    @property
    def method(self) -> str: ...

    @property
    def legend(self) -> str:
        """What counts as a miss, and how each kind of number was measured."""
        ...

    @property
    def exhibits(self) -> Sequence[Exhibit]: ...

    @property
    def scales(self) -> Mapping[str, str]:
        """Name and description of every scale."""
        ...

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """The runs that a scale needs, for all exhibits or for one."""
        ...

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """What the runs say, by label of their job."""
        ...
