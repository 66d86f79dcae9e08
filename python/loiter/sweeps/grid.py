"""The grid of a sweep: axes with their values, and the points that they span."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loiter.errors import UserFault
from loiter.machines import Value

MOST_POINTS = 1_000_000
"""A grid with more is a slip of the pen."""

_RANGE = re.compile(r"(?P<first>-?\d+)\.\.(?P<last>-?\d+)(?P<step>[*+]\d+)?")
_WHOLE = re.compile(r"-?\d+")


@dataclass(frozen=True)
class Axis:
    """A key and the values it takes."""

    key: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Grid:
    """Axes, the last of which changes fastest."""

    axes: tuple[Axis, ...]

    def __len__(self) -> int:
        count = 1
        for axis in self.axes:
            count *= len(axis.values)
        return count

    def points(self) -> Iterator[dict[str, Any]]:
        """Every combination, a value for each key."""
        keys = [axis.key for axis in self.axes]
        for values in itertools.product(*(axis.values for axis in self.axes)):
            yield dict(zip(keys, values, strict=True))


def of(axes: Mapping[str, Any] | Iterable[str]) -> Grid:
    """A grid from a mapping of keys to values, or from words such as "core.contexts=1,2,4"."""
    found = [axis(key, values) for key, values in axes.items()] if isinstance(axes, Mapping) else list(map(word, axes))
    if not found:
        raise UserFault('the grid is empty: name what is to vary, as in --grid "core.contexts=1,2,4".')
    for number, each in enumerate(found):
        if any(other.key == each.key for other in found[:number]):
            raise UserFault(f"grid: {each.key} is named twice.")
    grid = Grid(tuple(found))
    if len(grid) > MOST_POINTS:
        raise UserFault(f"grid: {len(grid):,} points, more than {MOST_POINTS:,}.")
    return grid


def word(text: str) -> Axis:
    """An axis as the command line has it: `key=value,value` or `key=first..last`, `..last*factor`, `..last+step`."""
    key, equals, values = text.partition("=")
    if not equals or not key.strip():
        raise UserFault(
            f'--grid {text}: an axis is written key=values, as in "core.contexts=1,2,4" or "l2.size_kib=1024..8192*2".'
        )
    return axis(key.strip(), values)


def axis(key: str, values: Any) -> Axis:
    """An axis whose values are a sequence, one value, or a text as `word` has it after its equals sign."""
    if isinstance(values, str):
        parts = [part.strip() for part in values.split(",")]
        taken: Sequence[Any] = [value for part in parts if part for value in _read(key, part)]
    elif isinstance(values, Mapping) or not isinstance(values, Iterable):
        taken = [values]
    else:
        taken = [value.item() if hasattr(value, "item") else value for value in values]
    if not taken:
        raise UserFault(f"grid: {key} has no values.")
    return Axis(key, tuple(taken))


def _read(key: str, text: str) -> list[Value]:
    found = _RANGE.fullmatch(text)
    if found is None:
        return [int(text) if _WHOLE.fullmatch(text) else text]
    first, last, step = int(found["first"]), int(found["last"]), found["step"] or "+1"
    by = int(step[1:])
    if last < first:
        raise UserFault(f"grid: {key}={text}: the last value is less than the first.")
    if step[0] == "+":
        if by == 0:
            raise UserFault(f"grid: {key}={text}: steps of 0 lead nowhere.")
        if (last - first) // by >= MOST_POINTS:
            raise UserFault(f"grid: {key}={text}: more than {MOST_POINTS:,} values.")
        return list(range(first, last + 1, by))
    if by < 2 or first < 1:
        raise UserFault(f"grid: {key}={text}: factors are 2 or more, of values of 1 or more.")
    return list(itertools.takewhile(lambda value: value <= last, (first * by**n for n in itertools.count())))
