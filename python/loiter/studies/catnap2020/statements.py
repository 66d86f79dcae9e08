"""What the runs say of the paper's numbers and statements, and by which rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

from loiter import reference
from loiter.studies.base import Limit, Point, Side, Statement, Tolerance, judged
from loiter.studies.catnap2020 import grid
from loiter.studies.catnap2020.findings import ALIKE, HARMLESS, Measured, requests
from loiter.studies.catnap2020.grid import (
    CATNAP,
    CLOCK_MHZ,
    CORES,
    FIGURE_9_HOLDS,
    LONG,
    MFENCE,
    PAPER,
    PAUSE,
    PAUSE_3,
    SHORT,
    TEST_AND_SET,
    TICKET,
    BackOff,
)

Judgement = tuple[bool, str]
FEW = 4
"""Threads that are few, in the paper's words about the smallest number of figure 7."""
EXIT_US = float(reference.lookup(PAPER, "cstate.knl")[0]["exit_us"])
MFENCE_ABOVE = int(reference.lookup(PAPER, "locktorture.mfence_gets_worse_above_threads"))
GAIN_ABOVE = int(reference.lookup(PAPER, "locktorture.gain_grows_above_threads"))


def points(found: Measured, exhibit: str | None, source: str) -> list[Point]:
    """What the paper gives as numbers."""
    out: list[Point] = []
    if exhibit in (None, "figure_7"):
        ours = found.harmless_us(min(found.scale.map_threads))
        out.append(_point("harmless_catnap_threshold_us", "us", ours, source, tolerance=Tolerance(30, relative=True)))
    if exhibit in (None, "figure_9"):
        few = [n for n in found.scale.threads if n < CORES]
        loss = 100 * max(1 - found.speed(CATNAP, n, SHORT) for n in few)
        out.append(_point("mwait_short_hold_below_64_threads_loss_max_percent", "%", loss, source, Side.AT_MOST))
    if exhibit in (None, "figure_10"):
        low, high = reference.lookup(PAPER, "locktorture.mfence_and_pause3_power_saving_percent")
        for back_off in (MFENCE, PAUSE_3):
            savings = [
                100 * (1 - found.power(back_off, n, hold)) for n in found.scale.threads for hold in FIGURE_9_HOLDS
            ]
            mean = sum(savings) / len(savings)
            interval = (min(savings), max(savings))
            key = f"mfence_and_pause3_power_saving_percent.{back_off.name.replace(' ', '_')}"
            middle, half = (low + high) / 2, (high - low) / 2
            out.append(Point(f"locktorture.{key}", "%", mean, middle, source, "", Tolerance(half), None, interval))
    if exhibit in (None, "waiting_time"):
        for n in found.scale.once:
            ratio = found.waits_over_formula(n)
            out.append(Point(f"waiting_time.{n}", "ratio", ratio, 1.0, source, "", Tolerance(10, relative=True)))
    return out


def _point(
    key: str,
    unit: str,
    ours: float | None,
    source: str,
    side: Side | None = None,
    *,
    tolerance: Tolerance | None = None,
) -> Point:
    key = f"locktorture.{key}"
    published = reference.lookup(PAPER, key)
    limit = None if side is None else Limit(side, published)
    return Point(key, unit, ours, published, source, "", tolerance, limit)


def _told(values: Sequence[tuple[int, float]], digits: int = 3) -> str:
    return ", ".join(f"{n} {value:.{digits}f}" for n, value in values)


def _speeds(found: Measured, back_off: BackOff, hold: int) -> list[tuple[int, float]]:
    return [(n, found.speed(back_off, n, hold)) for n in found.scale.threads]


def _powers(found: Measured, back_off: BackOff, hold: int) -> list[tuple[int, float]]:
    return [(n, found.power(back_off, n, hold)) for n in found.scale.threads]


def _few_lose(found: Measured) -> Judgement:
    """With the fewest threads of the map, catnap is slower for every section below the published threshold."""
    threshold = float(reference.lookup(PAPER, "locktorture.harmless_catnap_threshold_us"))
    n = min(found.scale.map_threads)
    speeds = [(hold, found.speed(CATNAP, n, hold)) for hold in found.scale.map_holds if hold / CLOCK_MHZ < threshold]
    return all(speed < HARMLESS for _, speed in speeds), f"{n} threads, by cycles held: {_told(speeds)}"


def _four_threads(found: Measured) -> Judgement:
    """With four threads catnap is slower for the shortest section of the map that is longer than the exit latency."""
    hold = next(hold for hold in found.scale.map_holds if hold / CLOCK_MHZ > EXIT_US)
    speed = found.speed(CATNAP, FEW, hold)
    return speed < HARMLESS, f"{FEW} threads, held for {hold:,} cycles ({hold / CLOCK_MHZ:.2f} us): {speed:.3f}"


def _threshold_moves(found: Measured) -> Judgement:
    """The harmless holding time is not the same for all numbers of threads, and longest for the fewest."""
    thresholds = {n: found.harmless_us(n) for n in found.scale.map_threads}
    known = {n: float("inf") if value is None else value for n, value in thresholds.items()}
    told = ", ".join(f"{n}: {value:.2f} us" for n, value in known.items())
    return len(set(known.values())) > 1 and known[min(known)] == max(known.values()), told


def _long_never_worse(found: Measured) -> Judgement:
    """Held for the long time of figure 9, monitor/mwait leaves as much throughput as a pause, whatever the threads."""
    speeds = _speeds(found, CATNAP, LONG)
    return min(speed for _, speed in speeds) >= HARMLESS, f"held for {LONG:,} cycles: {_told(speeds)}"


def _gain_past_cores(found: Measured) -> Judgement:
    """With more threads than cores, monitor/mwait is faster and takes less power than with as many as cores."""
    holds, told = True, []
    for hold in FIGURE_9_HOLDS:
        speeds, powers = dict(_speeds(found, CATNAP, hold)), dict(_powers(found, CATNAP, hold))
        more = [n for n in speeds if n > GAIN_ABOVE]
        holds &= all(speeds[n] > speeds[CORES] * (1 + ALIKE) and powers[n] < powers[CORES] for n in more)
        told.append(
            f"held for {hold:,} cycles: speed {_told(list(speeds.items()))}; power {_told(list(powers.items()))}"
        )
    return holds, "; ".join(told)


def _gain_long(found: Measured) -> Judgement:
    """With more threads than cores the gain is larger for the long section, and grows from each number to the next."""
    more = [n for n in found.scale.threads if n > CORES]
    short, long = (dict(_speeds(found, CATNAP, hold)) for hold in FIGURE_9_HOLDS)
    grows = all(long[after] > long[before] for before, after in pairwise(more))
    larger = all(long[n] > short[n] for n in more)
    return (
        grows and larger,
        f"short: {_told([(n, short[n]) for n in more])}; long: {_told([(n, long[n]) for n in more])}",
    )


def _power_falls(found: Measured) -> Judgement:
    """Monitor/mwait takes less power with any number of threads, with coefficients at either end of their ranges."""
    ranges = [found.power_range(CATNAP, n, hold) for n in found.scale.threads for hold in FIGURE_9_HOLDS]
    highest = max(high for _, high in ranges)
    return highest < 1, f"at most {highest:.3f} of a pause's"


def _small(found: Measured) -> Judgement:
    """The saving of mfence and of three pauses is 2 to 3 % in the mean, and no greater with more threads than cores."""
    low, high = reference.lookup(PAPER, "locktorture.mfence_and_pause3_power_saving_percent")
    holds, told = True, []
    for back_off in (MFENCE, PAUSE_3):
        savings = {
            n: sum(100 * (1 - found.power(back_off, n, hold)) for hold in FIGURE_9_HOLDS) / len(FIGURE_9_HOLDS)
            for n in found.scale.threads
        }
        mean = sum(savings.values()) / len(savings)
        few = max(value for n, value in savings.items() if n <= CORES)
        many = max(value for n, value in savings.items() if n > CORES)
        holds &= low <= mean <= high and many <= few * (1 + ALIKE)
        told.append(f"{back_off.name}: mean {mean:.1f} %, by threads {_told(list(savings.items()), 1)}")
    return holds, "; ".join(told)


def _fence_hurts(found: Measured) -> Judgement:
    """Beyond 128 threads mfence is slower and takes more power with each number than with the one before."""
    holds, told = True, []
    for hold in FIGURE_9_HOLDS:
        speeds, powers = dict(_speeds(found, MFENCE, hold)), dict(_powers(found, MFENCE, hold))
        many = [n for n in speeds if n >= MFENCE_ABOVE]
        pairs = list(pairwise(many))
        holds &= bool(pairs) and all(speeds[b] < speeds[a] and powers[b] > powers[a] for a, b in pairs)
        told.append(
            f"held for {hold:,} cycles: speed {_told([(n, speeds[n]) for n in many])}; "
            f"power {_told([(n, powers[n]) for n in many])}"
        )
    return holds, "; ".join(told)


def _local(found: Measured) -> Judgement:
    """From few threads to one a core, a queued lock makes as many requests for each acquisition, within a half, and a
    ticket and a test-and-set lock at least twice as many."""
    few, many = grid.COUNTED_THREADS
    growth = {each.name: requests(found, each, many) / requests(found, each, few) for each in grid.COUNTED}
    holds = growth[PAUSE.name] <= 1.5 and growth[TICKET.name] >= 2 and growth[TEST_AND_SET.name] >= 2
    names = {PAUSE.name: "qspinlock"}
    told = ", ".join(f"{names.get(name, name)} {value:.1f}" for name, value in growth.items())
    return holds, f"times the requests with {many} threads as with {few}: {told}"


def _pending(found: Measured) -> Judgement:
    """Alone, an acquire of qspinlock takes at most a tenth longer than one of a ticket lock."""
    ours, ticket = (found.measurements.acquire(found.scale.of(each, 1, SHORT)) for each in (PAUSE, TICKET))
    return ours <= 1.1 * ticket, f"cycles of an acquire alone: qspinlock {ours:.1f}, ticket {ticket:.1f}"


JUDGES: dict[str, tuple[tuple[str, ...], Callable[[Measured], Judgement]]] = {
    "queue_local_spinning": (("requests",), _local),
    "pending_as_fast_as_ticket": (("requests",), _pending),
    "catnap_short_few_loses": (("figure_7",), _few_lose),
    "catnap_four_threads": (("figure_7",), _four_threads),
    "threshold_depends_on_threads": (("figure_7",), _threshold_moves),
    "long_hold_never_worse": (("figure_9",), _long_never_worse),
    "gain_jumps_past_cores": (("figure_9", "figure_10"), _gain_past_cores),
    "gain_larger_for_long_holds": (("figure_9",), _gain_long),
    "power_falls_always": (("figure_10",), _power_falls),
    "mfence_pause3_small": (("figure_10",), _small),
    "mfence_hurts_siblings": (("figure_9", "figure_10"), _fence_hurts),
}
"""By statement of the reference file: the exhibits any of which has the runs that it needs, and its rule."""


def statements(found: Measured, exhibit: str | None) -> list[Statement]:
    """All of the paper's that are of its locktorture."""
    texts: dict[str, str] = reference.lookup(PAPER, "statements")
    return [
        judged(f"statements.{key}", texts[key], exhibit, needs, partial(rule, found))
        for key, (needs, rule) in JUDGES.items()
    ]
