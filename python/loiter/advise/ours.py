"""A result directory of loiter as a profile: its `locks.parquet`, in cycles."""

from __future__ import annotations

from pathlib import Path

from loiter import locks
from loiter.advise.profile import LockClass, Profile, Times
from loiter.engine import Json
from loiter.results import Result


def read(path: Path) -> Profile:
    """The classes of `loiter lock-stats`."""
    result, rows = locks.of_directory(path)
    by_class: dict[str, list[Json]] = {}
    for row in rows:
        by_class.setdefault(locks.lock_class(row), []).append(row)
    seats = {row["hart"]: int(row["context"]) for row in result.rows("seats")}
    classes = tuple(_class(name, members, seats) for name, members in by_class.items())
    return Profile(path, "a result of loiter", "cycles", classes, duration=_duration(result))


def _class(name: str, rows: list[Json], seats: dict[int, int]) -> LockClass:
    harts = sorted({row["hart"] for row in rows if row["acquisitions"]})
    contexts = tuple(seats[hart] for hart in harts) if all(hart in seats for hart in harts) else ()
    several = len({row["lock"] for row in rows}) > 1
    acquisitions = sum(row["acquisitions"] for row in rows)
    return LockClass(
        name,
        _times(rows, "contended", "contentions"),
        acquisitions,
        _times(rows, "hold", "holds"),
        contexts=contexts,
        sums=several,
    )


def _times(rows: list[Json], word: str, counted: str) -> Times:
    some = [row for row in rows if row[counted]]
    return Times(
        sum(row[counted] for row in rows),
        sum(row[f"{word}_sum_cycles"] for row in rows),
        min((row[f"{word}_min_cycles"] for row in some), default=None),
        max((row[f"{word}_max_cycles"] for row in some), default=None),
        tuple(locks.added([row[f"{word}_log2_histogram"] for row in rows])),
    )


def _duration(result: Result) -> float | None:
    """Cycles of what was timed, or of it those from the first begin of a region of interest to the last end, if any."""
    if not result.manifest.get("timing_cycles"):
        return None
    ends: dict[str, list[int]] = {"roi_begin": [], "roi_end": []}
    for mark in result.rows("marks"):
        if mark["kind"] in ends:
            ends[mark["kind"]].append(mark["cycle"])
    begin = min(ends["roi_begin"], default=int(result.manifest["timing_from_cycle"]))
    return float(max(ends["roi_end"], default=result.cycles) - begin)
