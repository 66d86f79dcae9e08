#!/usr/bin/env python3
"""`--lock-stats` beside /proc/lock_stat of the same run: what loiter and the kernel itself say of the kernel's locks.

    tools/lock_stat.py [--locks ticket|queued] [MACHINE [HARTS [ROUNDS]]]

Threads of one process duplicate and close files, and make and remove files of one directory (tools/lock_stat.c), on a
kernel with LOCK_STAT; both count the same interval. Prints a table of the locks that threads wait for, and what the
interval takes on that kernel and on one without LOCK_STAT. The machine runs at 1 GHz and its clock ticks with every
cycle, so that the kernel's times are as exact as ours.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import loiter
from loiter import images
from loiter.advise import lock_stat
from loiter.engine import Json
from loiter.errors import UserFault
from loiter.images import Recipe
from loiter.results import Result

PROGRAM = Path(__file__).with_suffix(".c")
_CROSS = "riscv64-linux-gnu-"

# Readers and writers have lines of their own. Classes of one name are numbered, and how an acquire is nested makes
# further ones, so that a lock may be of several.
_VARIANTS = re.compile(r"(#\d+)?(/\d+)?(-[RW])?$")


_Key = TypeVar("_Key")


@dataclass(frozen=True)
class Kernel:
    """A kernel by its spin locks, with its own statistics of them and without."""

    counting: str
    """Name of the image."""
    plain: str
    fragments: tuple[str, ...] = ()

    def build(self, name: str) -> None:
        """Builds one of its images, where it is missing."""
        more = (_LOCK_STAT,) if name == self.counting else ()
        images.build(name, Recipe("debian", kernel="small-kernel", fragments=(*more, *self.fragments)))


_LOCK_STAT = "lock-stat"
KERNELS = {
    "ticket": Kernel("debian-lock-stat", "debian-small-kernel"),
    "queued": Kernel("debian-lock-stat-queued", "debian-small-kernel-queued-spin-locks", ("queued-spin-locks",)),
}
_INTERVAL = "reference warm until probe:roi_begin, timing until probe:roi_end, reference"


@dataclass(frozen=True)
class Cost:
    """What an interval takes, of all harts."""

    cycles: int
    instructions: int
    outside_user_mode: int
    """Of the instructions."""


@dataclass
class Times:
    """Durations in cycles."""

    count: int = 0
    total: float = 0
    least: float = 0
    most: float = 0

    def add(self, count: int, total: float, least: float, most: float) -> None:
        """Further ones."""
        if not count:
            return
        self.least = min(self.least, least) if self.count else least
        self.most = max(self.most, most)
        self.count += count
        self.total += total

    @property
    def mean(self) -> float:
        """Their mean; 0 of none."""
        return self.total / self.count if self.count else 0.0


@dataclass
class Lock:
    """What is known of the locks of one class."""

    waits: Times = field(default_factory=Times)
    """Of acquires that contend."""
    free: Times = field(default_factory=Times)
    """Of acquires that do not, which the kernel does not measure."""
    holds: Times = field(default_factory=Times)
    acquisitions: int = 0
    bounces: int = 0
    sites: Counter[str] = field(default_factory=Counter)
    """How often an acquire contends, by what it returns to."""

    def add(self, other: Lock) -> None:
        """Further locks."""
        for mine, its in ((self.waits, other.waits), (self.free, other.free), (self.holds, other.holds)):
            mine.add(its.count, its.total, its.least, its.most)
        self.acquisitions += other.acquisitions
        self.bounces += other.bounces
        self.sites.update(other.sites)


def of_kernel(text: str, cycles_per_us: float) -> dict[str, Lock]:
    """What /proc/lock_stat says, by the name of classes."""
    found: dict[str, Lock] = {}
    for line in lock_stat.lines(lock_stat.PATH, text):
        lock = found.setdefault(_VARIANTS.sub("", line.name), Lock())
        for times, word, counted in ((lock.waits, "waittime", "contentions"), (lock.holds, "holdtime", "acquisitions")):
            total, least, most = (line.values[f"{word}-{end}"] * cycles_per_us for end in ("total", "min", "max"))
            times.add(int(line.values[counted]), total, least, most)
        lock.bounces += int(line.values["acq-bounces"])
        lock.acquisitions += int(line.values["acquisitions"])
        lock.sites.update(line.sites)
    return found


def beside(classes: Mapping[str, Lock], rows: Sequence[Json]) -> dict[str, tuple[Lock, Lock]]:
    """What the kernel says of each class that is waited for, and what the rows of `--lock-stats` say."""
    named = _named(classes, rows)
    found = {name: (classes[name], Lock()) for name in named.values()}
    for row in rows:
        if row["lock"] in named:
            found[named[row["lock"]]][1].add(of_row(row))
    return found


def _named(classes: Mapping[str, Lock], rows: Sequence[Json]) -> dict[int, str]:
    """The classes of locks, by address: a lock belongs to the class whose contended sites acquire it. So does one that
    is never waited for, but is acquired at further sites of such locks."""
    of_sites = [(site, name) for name, lock in classes.items() for site in lock.sites]
    found: dict[int, str] = {}
    while True:
        owner = _unambiguous(of_sites)
        of_locks = [(row["lock"], owner[row["site_symbol"]]) for row in rows if row["site_symbol"] in owner]
        more = _unambiguous(of_locks)
        if more.keys() == found.keys():
            return found
        found = more
        of_sites += [(row["site_symbol"], found[row["lock"]]) for row in rows if row["lock"] in found]


def _unambiguous(pairs: Iterable[tuple[_Key, str]]) -> dict[_Key, str]:
    """What has one value only, with that."""
    values: dict[_Key, set[str]] = {}
    for key, value in pairs:
        values.setdefault(key, set()).add(value)
    return {key: next(iter(found)) for key, found in values.items() if len(found) == 1}


def of_row(row: Json) -> Lock:
    """What a row of `locks.parquet` says."""
    lock = Lock(acquisitions=row["acquisitions"], bounces=row["bounces"])
    lock.sites[row["site_symbol"]] = row["contentions"]
    lock.free.add(
        row["acquisitions"] - row["contentions"],
        row["wait_sum_cycles"] - row["contended_sum_cycles"],
        row["wait_min_cycles"],
        row["wait_max_cycles"],
    )
    for times, word, count in ((lock.waits, "contended", "contentions"), (lock.holds, "hold", "holds")):
        times.add(row[count], *(row[f"{word}_{which}_cycles"] for which in ("sum", "min", "max")))
    return lock


def run(
    directory: Path,
    machine: str,
    harts: int,
    rounds: int,
    image: str,
    *,
    lock_stats: bool = True,
    phases: str | None = None,
) -> Result:
    """Runs the threads, one a hart; on a further hart waits who begins and ends them. Builds in `directory`."""
    program = directory / "lock_stat"
    subprocess.run([f"{_CROSS}gcc", "-O2", "-static", "-pthread", "-o", program, PROGRAM], check=True)
    on = loiter.machine(machine).set("system.clock_mhz=1000", "system.timebase_hz=1000000000")
    words = [f"/put/{program.name}", str(harts - 1), str(rounds)]
    found = loiter.exec(on, words, harts=harts, image=image, put=[program], lock_stats=lock_stats, phases=phases)
    if found.exit_status:
        raise RuntimeError(f"the program failed: {found.stderr}")
    return found


def held_against(found: Result) -> dict[str, tuple[Lock, Lock]]:
    """The kernel's statistics and ours of a run."""
    return beside(of_kernel(found.stdout, found.manifest["clock_mhz"]), found.rows("locks"))


def cost(directory: Path, machine: str, harts: int, rounds: int, image: str) -> Cost:
    """What the interval takes that is counted."""
    found = run(directory, machine, harts, rounds, image, lock_stats=False, phases=_INTERVAL)
    instructions = {"user": 0, "other": 0}
    for row in found.rows("activities"):
        instructions["user" if row["activity"] == "user" else "other"] += row["instructions"]
    return Cost(found.manifest["timing_cycles"], sum(instructions.values()), instructions["other"])


def table(pairs: Mapping[str, tuple[Lock, Lock]]) -> list[str]:
    """Them as lines of a Markdown table, those first on which most time was waited."""
    lines = ["| Class | | acquisitions | contentions | bounces | wait avg | wait max | hold avg | hold max |"]
    lines.append("|---|---" + "|--:" * 7 + "|")
    for name, pair in sorted(pairs.items(), key=lambda each: -each[1][0].waits.total):
        for who, lock in zip(("kernel", "loiter"), pair, strict=True):
            counts = (lock.acquisitions, lock.waits.count, lock.bounces)
            times = (lock.waits.mean, lock.waits.most, lock.holds.mean, lock.holds.most)
            cells = " | ".join(f"{value:,.0f}" for value in (*counts, *times))
            lines.append(f"| {f'`{name}`' if who == 'kernel' else ''} | {who} | {cells} |")
    return lines


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="--lock-stats beside /proc/lock_stat of the same run.")
    parser.add_argument("--locks", choices=KERNELS, default="ticket", help="which spin locks the kernel has")
    parser.add_argument("machine", nargs="?", default="t1")
    parser.add_argument("harts", nargs="?", type=int, default=5, help="one more than there are threads")
    parser.add_argument("rounds", nargs="?", type=int, default=100)
    asked = parser.parse_args(words)
    try:
        contexts = loiter.machine(asked.machine).contexts
    except UserFault as fault:
        parser.error(str(fault))
    if not 2 <= asked.harts <= contexts:
        parser.error(f"{asked.harts} harts: take 2 to {contexts}")
    kernel, wanted = KERNELS[asked.locks], (asked.machine, asked.harts, asked.rounds)
    for name in (kernel.counting, kernel.plain):
        kernel.build(name)
    with tempfile.TemporaryDirectory() as directory:
        found = run(Path(directory), *wanted, kernel.counting)
        costs = {name: cost(Path(directory), *wanted, name) for name in (kernel.plain, kernel.counting)}
    print("\n".join(table(held_against(found))))
    print("\n| Image | cycles | instructions | of them not in user mode |\n|---|--:|--:|--:|")
    for name, each in costs.items():
        print(f"| `{name}` | {each.cycles:,} | {each.instructions:,} | {each.outside_user_mode:,} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
