"""/proc/lock_stat of Linux: versions 0.3 and 0.4, whose times are microseconds (Documentation/locking/lockstat.rst)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loiter.advise.profile import LockClass, Profile, Times, number
from loiter.errors import UserFault

COLUMNS = (
    *("con-bounces", "contentions", "waittime-min", "waittime-max", "waittime-total", "waittime-avg"),
    *("acq-bounces", "acquisitions", "holdtime-min", "holdtime-max", "holdtime-total", "holdtime-avg"),
)
"""Behind the name of a class. Version 0.3 has no averages."""
VERSIONS = {"0.3": tuple(each for each in COLUMNS if not each.endswith("-avg")), "0.4": COLUMNS}
_NS_PER_US = 1000

_VERSION = re.compile(r"lock_stat version (\S+)")
# A line of a class; those of contention points have an address and a symbol behind their count.
_CLASS = re.compile(r"\s*(?P<name>\S.*?):\s+(?P<numbers>-?\d\S*(\s+\S+)*)\s*$")
_POINT = re.compile(r"\s*\S.*\s\d+\s+\[<")
_RULE = re.compile(r"\s*([-.])\1{4,}\s*$")


@dataclass(frozen=True)
class Line:
    """The line of a class."""

    number: int
    name: str
    values: dict[str, float]
    """By column, times in microseconds."""


def is_one(text: str) -> bool:
    """Whether a text is a /proc/lock_stat, or the part of one that `grep :` leaves."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    if _VERSION.match(first):
        return True
    match = _CLASS.match(first)
    return match is not None and len(match["numbers"].split()) in (len(each) for each in VERSIONS.values())


def lines(path: Path, text: str) -> Iterator[Line]:
    """The classes in their order."""
    columns, seen = None, False
    for at, line in enumerate(text.splitlines(), 1):
        if match := _VERSION.match(line):
            seen = True
            if match[1] not in VERSIONS:
                raise UserFault(f"{path}, line {at}: version {match[1]} of lock_stat; known are {', '.join(VERSIONS)}.")
            columns = VERSIONS[match[1]]
        elif "*WARNING*" in line:
            raise UserFault(f"{path}, line {at}: lockdep has found a fault of the kernel's and counts no more.")
        elif not line.strip() or _RULE.match(line) or _POINT.match(line) or "class name" in line:
            continue
        elif match := _CLASS.match(line):
            words = match["numbers"].split()
            if columns is None:
                columns = next((each for each in VERSIONS.values() if len(each) == len(words)), COLUMNS)
            if len(words) != len(columns):
                raise UserFault(
                    f"{path}, line {at}: {match['name']} has {len(words)} numbers; a class has {len(columns)}: "
                    f"{', '.join(columns)}."
                )
            values = {name: number(path, at, name, word) for name, word in zip(columns, words, strict=True)}
            yield Line(at, match["name"], values)
        elif seen:
            raise UserFault(f"{path}, line {at}: neither a class nor a contention point: {line.strip()[:60]!r}.")


def read(path: Path, text: str) -> Profile:
    """As a profile: each line is a class, also where readers and writers of one lock have one each."""
    classes = tuple(_class(path, line) for line in lines(path, text))
    if not classes:
        raise UserFault(f"{path}: no class of locks; is /proc/sys/kernel/lock_stat 1?")
    return Profile(path, "/proc/lock_stat", "ns", classes)


def _class(path: Path, line: Line) -> LockClass:
    def times(word: str, counted: str) -> Times:
        total, least, most = (line.values[f"{word}-{end}"] * _NS_PER_US for end in ("total", "min", "max"))
        return Times(int(line.values[counted]), total, least, most)

    waits, holds = times("waittime", "contentions"), times("holdtime", "acquisitions")
    for what, each in (("waittime", waits), ("holdtime", holds)):
        # What is printed is rounded.
        if each.count and not (each.least or 0) - 10 <= each.mean <= (each.most or 0) + 10:
            raise UserFault(f"{path}, line {line.number}: the mean of {what} of {line.name} is beyond its min and max.")
    return LockClass(line.name, waits, int(line.values["acquisitions"]), holds, sums=True)
