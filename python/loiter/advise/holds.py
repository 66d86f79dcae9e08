"""Lengths of sections, as the guest draws them: a few, each with odds, whose mean is the profile's.

A histogram has the share of each power of two; within one, all lengths are one, as far between its ends as the known
mean demands. Where only the least, the mean and the most are known, sections are distributed exponentially between
them: of all distributions with these three this one assumes least (greatest entropy).
"""

from __future__ import annotations

import itertools
import math

from scipy import optimize

from loiter.advise.profile import Times

ODDS = 10_000
MOST_LENGTHS = 8
"""So many the guest has room for."""

_SHORT, _EVEN = 0.01, 0.499
"""Means between the ends, from 0 to 1."""

Lengths = tuple[tuple[float, int], ...]
"""Cycles, and the odds of them of `ODDS`."""


def of(times: Times) -> Lengths:
    """Of what a profile says of holds. A histogram's rarest lengths are put together with their neighbours."""
    if times.log2_histogram:
        return _of_histogram(times)
    least, most = times.least, times.most
    if least is None or most is None or most <= least or not least < times.mean < most:
        return ((times.mean, ODDS),)
    return _exponential(least, times.mean, most)


def mean(lengths: Lengths) -> float:
    """In cycles."""
    return sum(cycles * odds for cycles, odds in lengths) / sum(odds for _, odds in lengths)


def _of_histogram(times: Times) -> Lengths:
    bins: list[list[float]] = []
    for exponent, count in enumerate(times.log2_histogram):
        if count:
            low = max(float(2**exponent if exponent else 0), times.least or 0.0)
            high = min(float(2 ** (exponent + 1) - 1), times.most if times.most is not None else math.inf)
            bins.append([low * count, high * count, float(count)])
    while len(bins) > MOST_LENGTHS:
        rarest = min(range(len(bins)), key=lambda at: bins[at][2])
        beside = min((at for at in (rarest - 1, rarest + 1) if 0 <= at < len(bins)), key=lambda at: bins[at][2])
        into, other = min(rarest, beside), max(rarest, beside)
        bins[into] = [mine + its for mine, its in zip(bins[into], bins.pop(other), strict=True)]
    total = math.fsum(each[2] for each in bins)
    lowest = math.fsum(each[0] for each in bins) / total
    highest = math.fsum(each[1] for each in bins) / total
    part = (times.mean - lowest) / (highest - lowest) if highest > lowest else 0.0
    lengths = [(low + part * (high - low)) / n for low, high, n in bins]
    return _exact(lengths, [each[2] / total for each in bins], times.mean)


def _exponential(least: float, average: float, most: float) -> Lengths:
    """A length for each eighth of the sections, about the mean of that eighth."""
    span, target = most - least, (average - least) / (most - least)
    if target > 0.5:  # it leans to the other end
        mirrored = _exponential(least, least + most - average, most)
        return tuple((least + most - cycles, odds) for cycles, odds in mirrored)

    def mean_of(rate: float) -> float:
        """Of exponential lengths within 0 to 1."""
        return 1 / rate - 1 / math.expm1(rate)

    # For short ones the far end is out of sight; evenly distributed ones have a rate of 0.
    if target < _SHORT:
        rate = 1 / target
    elif target < _EVEN:
        rate = float(optimize.brentq(lambda each: mean_of(each) - target, 0.01, 2 / _SHORT))
    else:
        rate = 0.0

    def quantile(share: float) -> float:
        return -math.log1p(share * math.expm1(-rate)) / rate if rate else share

    edges = [quantile(each / MOST_LENGTHS) for each in range(MOST_LENGTHS)]
    lengths = [least + span * (low + high) / 2 for low, high in itertools.pairwise(edges)]
    longest = average * MOST_LENGTHS - math.fsum(lengths)
    return _exact([*lengths, longest], [1 / MOST_LENGTHS] * MOST_LENGTHS, average)


def _exact(lengths: list[float], shares: list[float], average: float) -> Lengths:
    """Rounds odds; the lengths are scaled so that the mean stays."""
    drawn = [(cycles, odds) for cycles, share in zip(lengths, shares, strict=True) if (odds := round(share * ODDS))]
    now = mean(tuple(drawn))
    factor = average / now if now else 1.0
    return tuple((cycles * factor, odds) for cycles, odds in drawn)
