"""What a profile says of each class of locks, whichever program wrote it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loiter.errors import UserFault, unknown


@dataclass(frozen=True)
class Times:
    """Times of one kind. What a profile does not say is None."""

    count: int
    total: float
    least: float | None = None
    most: float | None = None
    log2_histogram: tuple[int, ...] = ()
    """As in `locks.parquet`; empty where there is none."""

    @property
    def mean(self) -> float:
        """0 where there are none."""
        return self.total / self.count if self.count else 0.0

    def scaled(self, factor: float) -> Times:
        """In another unit. A histogram has no other unit."""
        if self.log2_histogram and factor != 1:
            raise ValueError("a histogram by powers of two has no other unit")
        least, most = (None if each is None else each * factor for each in (self.least, self.most))
        return replace(self, total=self.total * factor, least=least, most=most)


@dataclass(frozen=True)
class LockClass:
    """Locks that a profile counts together."""

    name: str
    waits: Times
    """Of acquires that contend; their count is that of contentions."""
    acquisitions: int | None = None
    """None where only those that contend were counted."""
    holds: Times | None = None
    kind: str = ""
    """Such as "spinlock", "mutex" or "rwsem:W", where the profile says it."""
    contexts: tuple[int, ...] = ()
    """Contexts of the harts that acquired it, where that is known."""
    sums: bool = False
    """Whether it stands for several locks, which do not contend with each other."""

    @property
    def share(self) -> float | None:
        """Of the acquires, those that contend."""
        return self.waits.count / self.acquisitions if self.acquisitions else None

    def scaled(self, factor: float) -> LockClass:
        """With times in another unit."""
        holds = None if self.holds is None else self.holds.scaled(factor)
        return replace(self, waits=self.waits.scaled(factor), holds=holds)


@dataclass(frozen=True)
class Profile:
    """A profile, in the order of the file."""

    path: Path
    format: str
    unit: str
    """"ns" or "cycles"."""
    classes: tuple[LockClass, ...]
    duration: float | None = None
    """Time in which it was counted."""

    def in_cycles(self, clock_mhz: float) -> Profile:
        """With times in cycles of a clock; those of loiter's own are cycles already."""
        if self.unit == "cycles":
            return self
        factor = clock_mhz / 1000
        duration = None if self.duration is None else self.duration * factor
        scaled = tuple(each.scaled(factor) for each in self.classes)
        return replace(self, unit="cycles", classes=scaled, duration=duration)

    def chosen(self, names: Sequence[str], most: int) -> tuple[LockClass, ...]:
        """The classes of these names, or those on which most time was waited."""
        by_name = {each.name: each for each in self.classes}
        for name in names:
            if name not in by_name:
                raise unknown("lock", name, by_name)
        waited = [each for each in self.classes if each.waits.count]
        found = [by_name[name] for name in dict.fromkeys(names)] or waited
        for each in found:
            if not each.waits.count:
                raise UserFault(f"{self.path}: nobody waited for {each.name}, so there is nothing to advise.")
        if not found:
            raise UserFault(f"{self.path}: nobody waited for any lock, so there is nothing to advise.")
        found.sort(key=lambda each: -each.waits.total)
        return tuple(found if names else found[:most])


def read(path: Path) -> Profile:
    """The profile at a path, whatever its format."""
    from loiter.advise import lock_stat, ours, perf

    if not path.exists():
        raise UserFault(f"{path}: there is no such file.")
    if path.is_dir():
        return ours.read(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserFault(_none_of_them(path)) from None
    formats: Mapping[str, tuple[Callable[[str], bool], Callable[[Path, str], Profile]]] = {
        "lock_stat": (lock_stat.is_one, lock_stat.read),
        "perf": (perf.is_one, perf.read),
    }
    for matches, parse in formats.values():
        if matches(text):
            return parse(path, text)
    raise UserFault(_none_of_them(path))


def _none_of_them(path: Path) -> str:
    return (
        f"{path}: no lock profile. Expected the output of `perf lock contention` (its first line names the columns: "
        "contended, total wait, max wait, avg wait; with -x too), /proc/lock_stat (its first line is "
        '"lock_stat version 0.4"), or a result directory of `loiter run`, `exec` or `boot` with counts of locks.'
    )


def number(path: Path, line: int, what: str, word: str, kind: type[int] | type[float] = float) -> float:
    """A number of a profile that is not negative, or a fault that says where."""
    try:
        value = kind(word)
    except ValueError:
        raise UserFault(f"{path}, line {line}: {what} is {word!r}, which is no number.") from None
    if not 0 <= value < float("inf"):
        raise UserFault(f"{path}, line {line}: {what} is {word}, which it cannot be.")
    return value
