"""Which policies differ from the current one, by how much, and which one is best."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

CONFIDENCE = 0.95
"""Of all intervals of a class together: each of k comparisons has an error of a kth of the rest (Bonferroni)."""


@dataclass(frozen=True)
class Effect:
    """A change in percent, and its interval."""

    percent: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """Whether the interval is on one side of none."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.percent:+.1f} % ({self.low:+.1f} to {self.high:+.1f})"


def effect(values: Sequence[float], base: Sequence[float], comparisons: int = 1) -> Effect:
    """What `values` are more than `base`, which have the same seeds in the same order.

    Logarithms of the ratios of a seed are taken to be distributed normally.
    """
    logs = [math.log(value / other) for value, other in zip(values, base, strict=True)]
    if len(logs) < 2:
        raise ValueError("one seed says nothing about how sure it is")
    middle = statistics.fmean(logs)
    around = statistics.stdev(logs) / math.sqrt(len(logs))
    width = float(stats.t.ppf(1 - (1 - CONFIDENCE) / comparisons / 2, len(logs) - 1)) * around
    percent, low, high = (100 * math.expm1(each) for each in (middle, middle - width, middle + width))
    return Effect(percent, low, high)


@dataclass(frozen=True)
class Recommendation:
    """What to take instead of the current policy, if anything."""

    current: str
    policy: str | None
    """None: no policy is better by more than its uncertainty."""
    effect: Effect | None
    """Of `policy`, over the current one."""
    alike: tuple[str, ...]
    """Those that cannot be told from it."""
    effects: Mapping[str, Effect]
    """Of all others, over the current one."""

    @property
    def advice(self) -> str:
        """In words."""
        if self.policy is not None:
            also = f"; {', '.join(self.alike)} cannot be told from it" if self.alike else ""
            return f"take {self.policy}: {self.effect}{also}"
        differ = [name for name, each in self.effects.items() if each.differs]
        if not differ:
            return f"keep {self.current}: no policy differs from it by more than its uncertainty"
        return f"keep {self.current}: none is better by more than its uncertainty; worse: {', '.join(differ)}"


def recommend(by_policy: Mapping[str, Sequence[float]], current: str, *, more_is_better: bool) -> Recommendation:
    """The best policy whose gain is outside its uncertainty."""
    others = [name for name in by_policy if name != current]
    found = {name: effect(by_policy[name], by_policy[current], len(others)) for name in others}
    sign = 1 if more_is_better else -1
    better = [name for name, each in found.items() if each.differs and sign * each.percent > 0]
    if not better:
        return Recommendation(current, None, None, (), found)
    best = max(better, key=lambda name: sign * found[name].percent)
    alike = tuple(
        name for name in others if name != best and not effect(by_policy[name], by_policy[best], len(others)).differs
    )
    return Recommendation(current, best, found[best], alike, found)
