"""/proc/lock_stat of Linux: versions 0.3 and 0.4, whose times are microseconds (Documentation/locking/lockstat.rst)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from loiter.advise.profile import LockClass, Profile, Times, number
from loiter.errors import UserFault

COLUMNS = (
    *("con-bounces", "contentions", "waittime-min", "waittime-max", "waittime-total", "waittime-avg"),
    *("acq-bounces", "acquisitions", "holdtime-min", "holdtime-max", "holdtime-total", "holdtime-avg"),
)
"""Behind the name of a class. Version 0.3 has no averages."""
VERSIONS = {"0.3": tuple(each for each in COLUMNS if not each.endswith("-avg")), "0.4": COLUMNS}
PATH = Path("/proc/lock_stat")
_NS_PER_US = 1000

_VERSION = re.compile(r"lock_stat version (\S+)")
# A line of a class; those of contention points have an address and a symbol behind their count.
_CLASS = re.compile(r"\s*(?P<name>\S.*?):\s+(?P<numbers>-?\d\S*(\s+\S+)*)\s*$")
_POINT = re.compile(r"\s*\S.*\s(?P<count>\d+)\s+\[<[^>]*>\]\s*(?P<site>\S*)")
_RULE = re.compile(r"\s*([-.])\1{4,}\s*$")


@dataclass(frozen=True)
class Line:
    """The line of a class."""

    number: int
    name: str
    values: dict[str, float]
    """By column, times in microseconds."""
    sites: Counter[str] = field(default_factory=Counter)
    """How often an acquire waited, by where it returns to, as far as the kernel tells. The second line of a lock with
    readers has those of both."""


def is_one(text: str) -> bool:
    """Whether a text is a /proc/lock_stat, or the part of one that `grep :` leaves."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    if _VERSION.match(first):
        return True
    match = _CLASS.match(first)
    return match is not None and len(match["numbers"].split()) in (len(each) for each in VERSIONS.values())


def lines(path: Path, text: str) -> list[Line]:
    """The classes in their order."""
    columns: tuple[str, ...] | None = None
    rules = 0
    found: list[Line] = []
    for at, line in enumerate(text.splitlines(), 1):
        if match := _VERSION.match(line):
            columns = _columns(path, at, match[1])
        elif "*WARNING*" in line:
            raise UserFault(f"{path}, line {at}: lockdep has found a fault of the kernel's and counts no more.")
        elif _RULE.match(line):
            rules += 1
        elif match := _POINT.match(line):
            # Below a second rule are the places of those that held it.
            if found and rules == 1:
                found[-1].sites[match["site"].partition("/0x")[0]] += int(match["count"])
        elif match := _CLASS.match(line):
            found.append(_line(path, at, match, columns))
            rules = 0
        elif line.strip() and "class name" not in line:
            raise UserFault(f"{path}, line {at}: neither a class nor a contention point: {line.strip()[:60]!r}.")
    if not found:
        raise UserFault(f"{path}: no class of locks; is /proc/sys/kernel/lock_stat 1?")
    return found


def _columns(path: Path, at: int, version: str) -> tuple[str, ...]:
    if version not in VERSIONS:
        raise UserFault(f"{path}, line {at}: version {version} of lock_stat; known are {', '.join(VERSIONS)}.")
    return VERSIONS[version]


def _line(path: Path, at: int, match: re.Match[str], columns: tuple[str, ...] | None) -> Line:
    words = match["numbers"].split()
    if columns is None:
        columns = next((each for each in VERSIONS.values() if len(each) == len(words)), COLUMNS)
    if len(words) != len(columns):
        raise UserFault(
            f"{path}, line {at}: {match['name']} has {len(words)} numbers; a class has {len(columns)}: "
            f"{', '.join(columns)}."
        )
    values = {name: number(path, at, name, word) for name, word in zip(columns, words, strict=True)}
    return Line(at, match["name"], values)


def read(path: Path, text: str) -> Profile:
    """As a profile: each line is a class, also where readers and writers of one lock have one each."""
    return Profile(path, str(PATH), "ns", tuple(_class(line) for line in lines(path, text)))


def _class(line: Line) -> LockClass:
    def times(word: str, counted: str) -> Times:
        total, least, most = (line.values[f"{word}-{end}"] * _NS_PER_US for end in ("total", "min", "max"))
        return Times(int(line.values[counted]), total, least, most)

    waits, holds = times("waittime", "contentions"), times("holdtime", "acquisitions")
    return LockClass(line.name, waits, int(line.values["acquisitions"]), holds, sums=True)
