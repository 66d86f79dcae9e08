"""What the runs say of the published numbers and statements."""

from __future__ import annotations

import functools
from collections.abc import Callable

from loiter import reference
from loiter.studies.base import Point, Statement, Tolerance, judged
from loiter.studies.friebel2008 import grid
from loiter.studies.friebel2008.findings import count, gain
from loiter.studies.friebel2008.grid import ALONE, NATIVE, PREEMPTED, TEST_AND_SET, TICKET, YIELDING
from loiter.studies.friebel2008.measured import Measured, Times, Waits, interval

LITTLE_PERCENT = 1.0
"""Of the guest's time: almost nothing."""
FEW_PERCENT = 5.0
"""Of the waits: a small group."""
MOST_PERCENT = 90.0
"""Nearly all."""
SAME_PERCENT = 2.0
"""Times that differ by less count as equal, and shares by as many points."""

Judgement = tuple[bool | None, str]
"""None: the run was given up too early to say."""


class Judge:
    """The measurements of one load, by what the statements are about."""

    def __init__(self, found: Measured, load: str, exhibit: str | None = None) -> None:
        self._found, self._load = found, load
        self._native = grid.WINDOW if exhibit == "window" else grid.mode(load, TEST_AND_SET, NATIVE)
        self._waits = found.executed if exhibit == "executed" else found.waits

    @property
    def builds(self) -> bool:
        """Whether the guest does what the paper's does."""
        return self._load == grid.BUILD

    @property
    def told(self) -> str:
        """What the guest does, in words."""
        return grid.LOADS[self._load]

    def times(self, lock: str, name: str) -> Times:
        """A guest's times in a mode."""
        return self._found.times(grid.mode(self._load, lock, name))

    def waits(self, name: str) -> Waits:
        """Its waits."""
        return self._waits(self._native if name == NATIVE else grid.mode(self._load, TEST_AND_SET, name))

    def spread(self, lock: str, name: str, value: Callable[[Times], float]) -> tuple[float, float] | None:
        """Of repetitions."""
        return self._found.spread(grid.mode(self._load, lock, name), value)

    def gains(self, value: Callable[[Times], float]) -> tuple[float, tuple[float, float] | None]:
        """What yielding saves of a time with test-and-set locks, in per cent, and of repetitions that begin alike."""
        cases = [grid.mode(self._load, TEST_AND_SET, name) for name in (PREEMPTED, YIELDING)]
        runs = zip(*map(self._found.repetitions, cases), strict=True)
        each = [gain(*(value(self._found.times_of(run)) for run in pair)) for pair in runs]
        return gain(*(value(self._found.times(case)) for case in cases)), interval(each)

    def places(self, value: Callable[[Waits], float]) -> tuple[float, float] | None:
        """Of repetitions, natively."""
        return interval([value(each) for each in self._found.waits_of_each(self._native)])

    def native_waits_short(self) -> Judgement:
        """Most waits are of about 2^12 cycles, and as many as published are shorter than 2^16."""
        native = self.waits(NATIVE)
        published = _published("wait_histogram.native_share_at_most_2_16_percent")
        near = abs(native.mode - _published("wait_histogram.native_mode_log2")) <= 1
        told = f"most at 2^{native.mode}, {native.share_below(16):.1f} % below 2^16, of {count(native.count)}"
        return near and native.share_below(16) >= published - LITTLE_PERCENT, told

    def guest_alone_as_native(self) -> Judgement:
        """The same mode and the same shares below each power of two."""
        native, alone = self.waits(NATIVE), self.waits(ALONE)
        apart = max(abs(native.share_below(n) - alone.share_below(n)) for n in range(grid.SLICE_LOG2 + 3))
        told = (
            f"most at 2^{native.mode} and 2^{alone.mode}; shares below any length differ by at most {apart:.1f} points"
        )
        return native.mode == alone.mode and apart <= FEW_PERCENT, told

    def second_group(self) -> Judgement:
        """Waits of about a slice come, few, with a mode within a factor of two; the others' shares stay."""
        alone, preempted = self.waits(ALONE), self.waits(PREEMPTED)
        long, before = sum(preempted.long().values()), sum(alone.long().values())
        few = 100 * long / preempted.count
        apart = max(abs(alone.share_below(n) - preempted.share_below(n)) for n in range(grid.SLICE_LOG2 - 2))
        near = abs(preempted.second_mode - grid.SLICE_LOG2) <= 1
        told = (
            f"{count(before)} waits from 2^{grid.SLICE_LOG2 - 2} alone, {count(long)} preempted ({few:.2f} %), most at "
            f"2^{preempted.second_mode}, a slice being 2^{grid.SLICE_LOG2}; the others' shares differ by at most "
            f"{apart:.1f} points"
        )
        return before == 0 and long > 0 and few <= FEW_PERCENT and near and apart <= FEW_PERCENT, told

    def few_waits_much_time(self) -> Judgement:
        """The long waits take nearly all of the time of all waits."""
        share = self.waits(PREEMPTED).time_share()
        return share >= MOST_PERCENT, f"{share:.1f} % of the time of all waits"

    def guest_time_is_spinning(self) -> Judgement:
        """What preemption adds to the guest's time is what it spins, within a quarter."""
        alone, preempted = self.times(TEST_AND_SET, ALONE), self.times(TEST_AND_SET, PREEMPTED)
        added, spun = preempted.guest - alone.guest, preempted.spinning - alone.spinning
        told = f"added {added:,.0f} ms ({100 * added / alone.guest:.1f} %), more spinning {spun:,.0f} ms"
        return spun > 0 and abs(added - spun) <= spun / 4, told

    def yield_removes_group(self) -> Judgement:
        """No wait of about a slice is left, and almost no spinning."""
        before, after = (sum(self.waits(name).long().values()) for name in (PREEMPTED, YIELDING))
        spins = self.times(TEST_AND_SET, YIELDING).spinning_percent
        at_threshold = [self.waits(name).counts.get(grid.AFTER_LOG2, 0) for name in (PREEMPTED, YIELDING)]
        told = (
            f"{count(before)} long waits, then {count(after)}; at 2^{grid.AFTER_LOG2} {count(at_threshold[0])}, then "
            f"{count(at_threshold[1])}; "
            f"spinning {self.times(TEST_AND_SET, PREEMPTED).spinning_percent:.2f} %, then {spins:.2f} %"
        )
        return before > 0 and after == 0 and spins < LITTLE_PERCENT and at_threshold[1] > at_threshold[0], told

    def yield_better_than_none(self) -> Judgement:
        """With yield the guest takes no more time than alone."""
        alone, yielding = self.times(TEST_AND_SET, ALONE).guest, self.times(TEST_AND_SET, YIELDING).guest
        return yielding <= alone * (1 + SAME_PERCENT / 100), f"{alone:,.0f} ms alone, {yielding:,.0f} ms with yield"

    def wall_gains_half(self) -> Judgement:
        """The gain of the wall time is a third to two thirds of that of the guest's time."""
        before, after = self.times(TEST_AND_SET, PREEMPTED), self.times(TEST_AND_SET, YIELDING)
        guest, wall = gain(before.guest, after.guest), gain(before.wall, after.wall)
        return guest > 0 and 1 / 3 <= wall / guest <= 2 / 3, f"guest time gains {guest:.1f} %, wall time {wall:.1f} %"

    def ticket_disaster(self) -> Judgement:
        """Nearly all of the guest's time is spinning, and the wall time is 40 times test-and-set's at least."""
        plain, ticket = (self.times(lock, PREEMPTED) for lock in (TEST_AND_SET, TICKET))
        ratio = ticket.wall / plain.wall
        bound = "" if ticket.over else "given up after "
        told = (
            f"{bound}{ratio:.1f} times test-and-set's wall time, {ticket.spinning_percent:.1f} % of guest time spinning"
        )
        if not ticket.over and ticket.spinning_percent >= MOST_PERCENT and ratio < 40:
            return None, told
        return ticket.spinning_percent >= MOST_PERCENT and ratio >= 40, told

    def ticket_cured(self) -> Judgement:
        """With yield the wall time is within a tenth of test-and-set's, and some spinning is left."""
        plain, ticket = (self.times(lock, YIELDING) for lock in (TEST_AND_SET, TICKET))
        spins = f"{plain.spinning_percent:.2f} and {ticket.spinning_percent:.2f} %"
        told = f"{plain.wall:,.0f} ms and {ticket.wall:,.0f} ms, spinning {spins}"
        holds = ticket.over and ticket.wall <= 1.1 * plain.wall and ticket.spinning_percent < 10
        return holds and ticket.spinning_percent > plain.spinning_percent, told


WAITS, NATIVE_WAITS, RESULTS = ("waits", "executed"), ("waits", "executed", "window"), ("results", "efficiency")
STATEMENTS: dict[str, tuple[tuple[str, ...], Callable[[Judge], Judgement]]] = {
    "native_waits_short": (NATIVE_WAITS, Judge.native_waits_short),
    "guest_alone_as_native": (WAITS, Judge.guest_alone_as_native),
    "second_group": (WAITS, Judge.second_group),
    "few_waits_much_time": (WAITS, Judge.few_waits_much_time),
    "guest_time_is_spinning": (RESULTS, Judge.guest_time_is_spinning),
    "yield_removes_group": (WAITS, Judge.yield_removes_group),
    "yield_better_than_none": (RESULTS, Judge.yield_better_than_none),
    "wall_gains_half": (RESULTS, Judge.wall_gains_half),
    "ticket_disaster": (RESULTS, Judge.ticket_disaster),
    "ticket_cured": (RESULTS, Judge.ticket_cured),
}
"""By key of the reference file: the exhibits that have its runs, and its rule."""


def statements(judge: Judge, exhibit: str | None) -> list[Statement]:
    """All of them; those of other exhibits are named as not measured."""
    return [
        judged(
            f"statements.{key}",
            str(reference.lookup(grid.PAPER, f"statements.{key}")),
            exhibit,
            needs,
            functools.partial(_of, judge, rule),
        )
        for key, (needs, rule) in STATEMENTS.items()
    ]


def _of(judge: Judge, rule: Callable[[Judge], Judgement]) -> Judgement:
    holds, told = rule(judge)
    return holds, f"{judge.told}: {told}"


def points(judge: Judge, exhibit: str | None, source: str) -> list[Point]:
    """The numbers that do not depend on the size of the work: shares, and places in the histogram. They are a build's:
    of another load nothing is compared with them."""
    tables = judge.builds and exhibit in (None, *RESULTS)
    histogram = judge.builds and exhibit in (None, *NATIVE_WAITS)

    def spins(lock: str, name: str, tolerance: float) -> Point:
        key = f"result.{'tas' if lock == TEST_AND_SET else 'ticket'}.{name}.spinning_percent"
        ours = judge.times(lock, name).spinning_percent if tables else None
        spread = judge.spread(lock, name, lambda times: times.spinning_percent) if tables else None
        return Point(key, "%", ours, _published(key), source, "", Tolerance(tolerance), interval=spread)

    def place(key: str, unit: str, value: Callable[[Waits], float], tolerance: float) -> Point:
        key = f"wait_histogram.{key}"
        ours, spread = (value(judge.waits(NATIVE)), judge.places(value)) if histogram else (None, None)
        return Point(key, unit, ours, _published(key), source, "", Tolerance(tolerance), interval=spread)

    def gains(name: str, value: Callable[[Times], float]) -> Point:
        key = f"result.tas.gain.{name}"
        ours, spread = judge.gains(value) if tables else (None, None)
        return Point(key, "%", ours, _published(key), source, "", Tolerance(3.6), interval=spread)

    return [
        place("native_mode_log2", "log2 cycles", lambda waits: waits.mode, 1),
        place("native_share_at_most_2_16_percent", "%", lambda waits: waits.share_below(16), 1),
        spins(TEST_AND_SET, ALONE, 1),
        spins(TEST_AND_SET, PREEMPTED, 3.6),
        spins(TEST_AND_SET, YIELDING, 1),
        spins(TICKET, PREEMPTED, 9.3),
        spins(TICKET, YIELDING, 4.6),
        gains("guest_percent", lambda times: times.guest),
        gains("wall_percent", lambda times: times.wall),
    ]


def _published(key: str) -> float:
    return float(reference.lookup(grid.PAPER, key))
