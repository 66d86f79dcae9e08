"""The work with which synthetic contention is like the profile: a bounded search, and what is left of the difference.

Two numbers are looked for. The work in a section is such that sections last as long as in the profile with the current
policy, siblings that wait included. The work outside is such that what is matched is the profile's: the share of
acquires that contend, their mean wait, or the rate of acquisitions. All three fall when threads work longer outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from scipy import optimize

from loiter.advise import holds
from loiter.advise.demand import Demand, Observed, queue
from loiter.advise.profile import LockClass

MATCHES = ("share", "wait", "rate")
"""What can be matched: the share of acquires that contend, the mean wait of those, acquisitions in a time."""

TOLERANCE = 0.03
"""A search ends where it is as near as this, as a share of what is matched."""
_HOLD_ROUNDS = 3
_MOST_STEPS = 8
"""Of a search, at most."""
_SATURATED = 0.9
"""A share of contention from which on waits say more than it."""
MOST_RUNS = 1 + _HOLD_ROUNDS * _MOST_STEPS
_ACQUISITIONS = 400
"""Of a run of the search."""
_FARTHEST = 64
"""A search goes so far from where a queue's formula puts it, as a factor."""


@dataclass(frozen=True)
class Target:
    """What a class of a profile says, in cycles."""

    match: str
    hold_cycles: float
    share: float | None
    wait_cycles: float
    rate_per_cycle: float | None

    def of(self, found: Observed) -> dict[str, tuple[float, float | None]]:
        """By name: what was simulated, and the profile's."""
        return {
            "hold": (found.hold_mean_cycles, self.hold_cycles),
            "share": (found.share, self.share),
            "wait": (found.wait_mean_cycles, self.wait_cycles),
            "rate": (found.rate_per_cycle, self.rate_per_cycle),
        }

    def residual(self, name: str, found: Observed) -> float | None:
        """How far it is from the profile's, as a share of that; none where the profile does not say it."""
        simulated, wanted = self.of(found)[name]
        return None if not wanted else simulated / wanted - 1


@dataclass(frozen=True)
class Calibration:
    """The demand that was found, and how like the profile it is."""

    target: Target
    demand: Demand
    found: Observed
    runs: int

    @property
    def residuals(self) -> dict[str, float | None]:
        """Of all that the profile says, as shares."""
        return {name: self.target.residual(name, self.found) for name in ("hold", *MATCHES)}

    @property
    def matches(self) -> bool:
        """Whether sections and what was matched are as near as twice the tolerance of the search."""
        both = (self.residuals["hold"], self.residuals[self.target.match])
        return all(each is not None and abs(each) <= 2 * TOLERANCE for each in both)


def target(of: LockClass, hold_cycles: float, duration: float | None, match: str | None) -> Target:
    """What to match. Unless it is said: the share where it is known and less than nine tenths, else the mean wait."""
    share = of.share
    rate = of.acquisitions / duration if of.acquisitions and duration and not of.sums else None
    if match is None:
        match = "share" if share is not None and share < _SATURATED else "wait"
    return Target(match, hold_cycles, share, of.waits.mean, rate)


Run = Callable[[Demand], Observed]
"""Carries a demand out, with the current policy."""


class _Near(Exception):
    """Ends a search that is near enough."""


def calibrate(wanted: Target, lengths: holds.Lengths, start: Demand, run: Run) -> Calibration:
    """Searches the work in the section and outside."""
    threads = len(start.contexts)
    best: Calibration | None = None
    runs, factor, service = 0, 1.0, wanted.hold_cycles

    def tried(think: float) -> Observed:
        nonlocal runs, best
        runs += 1
        scaled = tuple((cycles * factor, odds) for cycles, odds in lengths)
        each = replace(start, lengths=scaled, think_cycles=think)
        period, _, _ = queue(threads, service, think)
        each = each.windowed(period, _ACQUISITIONS)
        found = Calibration(wanted, each, run(each), runs)
        if best is None or _distance(found) < _distance(best):
            best = found
        return found.found

    # Without work outside, threads tell how long the lock takes with its hand-over.
    last = tried(0.0)
    service = max(service, 1 / last.rate_per_cycle)
    centre = _guess(wanted, service, threads)
    for _ in range(_HOLD_ROUNDS):
        factor *= wanted.hold_cycles / last.hold_mean_cycles
        _search(wanted, centre, tried)
        assert best is not None
        last, centre = best.found, best.demand.think_cycles
        if best.matches:
            break
    assert best is not None
    return replace(best, runs=runs)


def _distance(each: Calibration) -> float:
    """The greater of the residuals of what is matched and of the section."""
    found = (each.residuals[each.target.match], each.residuals["hold"])
    return max(abs(value) if value is not None else math.inf for value in found)


def _search(wanted: Target, centre: float, tried: Callable[[float], Observed]) -> None:
    """Tries lengths of the work outside, by Brent's method on their logarithm between two that are on either side."""
    known: dict[float, float] = {}

    def off(logarithm: float) -> float:
        if logarithm in known:
            return known[logarithm]
        if len(known) == _MOST_STEPS:
            raise _Near
        found = wanted.residual(wanted.match, tried(math.expm1(logarithm)))
        assert found is not None, "what is matched is said by the profile"
        known[logarithm] = found
        if abs(found) <= TOLERANCE:
            raise _Near
        return found

    try:
        ends = _around(off, math.log1p(centre))
        if ends is not None:
            optimize.brentq(off, *ends, xtol=1e-3, disp=False)
    except _Near:
        return


def _around(off: Callable[[float], float], start: float) -> tuple[float, float] | None:
    """Two logarithms on either side of what is looked for; none where it is not above 0, or too far."""
    step = math.log(2)
    longer = off(start) > 0
    at = start
    while 0 < at < start + math.log(_FARTHEST) or at == start:
        last, at = at, max(0.0, at + step if longer else at - step)
        if (off(at) > 0) != longer:
            return min(last, at), max(last, at)
        if at == last:
            return None
        step *= 2
    return None


def _guess(wanted: Target, service: float, threads: int) -> float:
    """The work outside in a queue with one server, which takes `service` cycles, that has what is matched."""

    def off(logarithm: float) -> float:
        period, stay, busy = queue(threads, service, math.expm1(logarithm))
        if wanted.match == "share":
            return busy - (wanted.share or 0.0)
        if wanted.match == "rate":
            return 1 / period - (wanted.rate_per_cycle or 0.0)
        return (stay - service) / max(busy, 1e-9) - wanted.wait_cycles

    low, high = 0.0, math.log1p(service * threads * 10_000)
    if off(low) <= 0:
        return 0.0
    if off(high) >= 0:
        return math.expm1(high)
    return math.expm1(float(optimize.brentq(off, low, high)))


def told(of: Calibration) -> Sequence[tuple[str, float | None, float, float | None]]:
    """A row each: name, the profile's, simulated, residual."""
    pairs = of.target.of(of.found)
    return [(name, wanted, simulated, of.residuals[name]) for name, (simulated, wanted) in pairs.items()]
