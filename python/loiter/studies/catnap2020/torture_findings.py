"""Curves, tables and statements of the kernel's own test of locks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from loiter.studies.base import Curves, Grid, Statement
from loiter.studies.catnap2020 import grid
from loiter.studies.catnap2020.findings import ALIKE, HARMLESS
from loiter.studies.catnap2020.grid import CLOCK_MHZ, FIGURE_9_HOLDS, LONG, SHORT
from loiter.studies.catnap2020.linux import SELECTIONS
from loiter.studies.catnap2020.torture import ALL, AUTOMATIC, LIST, NONE, Tortured, cell

EXHIBIT = "locktorture"
FEW, SOME = 4, 16
"""Threads that are few, and from which on a long section hides what a nap takes."""

Judgement = tuple[bool, str]


def _told(values: dict[int, float]) -> str:
    return ", ".join(f"{n} {value:.3f}" for n, value in values.items())


def _speeds(found: Tortured, selection: str, hold: int) -> dict[int, float]:
    return {n: found.speed(selection, n, hold) for n in found.scale.threads}


def _short_few_slower(found: Tortured) -> Judgement:
    speed = found.speed(ALL, FEW, SHORT)
    return speed < HARMLESS, f"{FEW} threads, held for {SHORT:,} cycles: {speed:.3f}"


def _long_never_slower(found: Tortured) -> Judgement:
    speeds = {n: speed for n, speed in _speeds(found, ALL, LONG).items() if n >= SOME}
    return min(speeds.values()) >= HARMLESS, f"held for {LONG:,} cycles: {_told(speeds)}"


def _gain_grows(found: Tortured) -> Judgement:
    """From one thread a core on, each number of threads gains more than the one before, for both holding times."""
    holds, told = True, []
    for hold in FIGURE_9_HOLDS:
        speeds = {n: speed for n, speed in _speeds(found, ALL, hold).items() if n >= found.scale.cores}
        steps = list(pairwise(speeds.values()))
        holds &= all(after > before * (1 + ALIKE) for before, after in steps) and bool(steps)
        told.append(f"held for {hold:,} cycles: {_told(speeds)}")
    return holds, "; ".join(told)


def _power_falls(found: Tortured) -> Judgement:
    """With coefficients at either end of their ranges."""
    worst = 0.0
    for n in found.scale.threads:
        for hold in FIGURE_9_HOLDS:
            naps, pause = (found.watts(each, n, hold) for each in (ALL, NONE))
            worst = max(worst, naps.low / pause.low, naps.high / pause.high)
    return worst < 1, f"at most {worst:.3f} of a pause's"


def _automatic_is_best(found: Tortured) -> Judgement:
    """Throughput."""
    share = {
        (hold, n): found.rate(AUTOMATIC, n, hold) / max(found.rate(each, n, hold) for each in (NONE, ALL, LIST))
        for hold in FIGURE_9_HOLDS
        for n in found.scale.threads
    }
    told = ", ".join(f"{n} threads {hold:,}: {value:.3f}" for (hold, n), value in share.items())
    return min(share.values()) >= HARMLESS, f"of the best one: {told}"


RULES: dict[str, Callable[[Tortured], Judgement]] = {
    "On Linux, naps of all are slower than a pause with few threads and short sections": _short_few_slower,
    f"On Linux, naps of all are never slower held for {LONG:,} cycles with {SOME} threads or more": _long_never_slower,
    "On Linux, what naps of all gain grows with threads above one a core": _gain_grows,
    "On Linux, naps of all lower the mean power of locktorture with any number of threads": _power_falls,
    "On Linux, automatic selection is within 2 % of the best of none, all and list in locktorture": _automatic_is_best,
}


def statements(found: Tortured) -> list[Statement]:
    """What the runs say."""
    return [Statement(text, *rule(found)) for text, rule in RULES.items()]


def unmeasured(note: str) -> list[Statement]:
    """The same without runs."""
    return [Statement(text, None, note) for text in RULES]


def curves(found: Tortured) -> list[Curves]:
    """Throughput and power by threads."""
    kinds: list[tuple[str, str, str, Callable[[str, int, int], float]]] = [
        ("throughput", "Throughput", "throughput over that without naps", found.speed),
        ("power", "Mean power of the chip", "power over that without naps", found.power),
    ]
    figures = []
    for name, title, unit, of in kinds:
        for hold in FIGURE_9_HOLDS:
            figures.append(
                Curves(
                    f"{EXHIBIT}_{name}_{hold}",
                    f"Linux's locktorture: {title.lower()}, held for {hold:,} iterations",
                    f"An iteration is a cycle of a core that has nothing else to do; {hold / CLOCK_MHZ:.2f} us. With "
                    f"more than {found.scale.cores} threads cores are shared.",
                    "threads",
                    unit,
                    {each: [(float(n), of(each, n, hold)) for n in found.scale.threads] for each in SELECTIONS},
                    runs={
                        (each, float(n)): cell(found.scale, each, n, hold).label
                        for each in SELECTIONS
                        for n in found.scale.threads
                    },
                )
            )
    return figures


def table(found: Tortured) -> Grid:
    """Throughput and power of each run."""
    rows = []
    for hold in FIGURE_9_HOLDS:
        for n in found.scale.threads:
            rates = [f"{found.rate(each, n, hold):.3f}" for each in SELECTIONS]
            watts = [f"{found.watts(each, n, hold).value:.1f}" for each in SELECTIONS]
            one = cell(found.scale, NONE, n, hold)
            window = (f"{one.cycles / 1e6:.2f}", f"{found.acquisitions(one):,}")
            rows.append((f"{hold:,}, {n}", f"{found.hold(NONE, n, hold):,.0f}", *rates, *watts, *window))
    heads = (
        *("iterations, threads", "held, cycles"),
        *(f"{each}, per us" for each in SELECTIONS),
        *(f"{each}, W" for each in SELECTIONS),
        *("window, M cycles", "acquisitions"),
    )
    caption = (
        f"{grid.MACHINE}, {found.scale.harts} CPUs. Held: without naps, measured. The window and the "
        "acquisitions in it are those without naps; the window is as long for all."
    )
    return Grid(EXHIBIT, "Linux's locktorture", caption, heads, tuple(rows))


def rows(found: Tortured) -> list[dict[str, str | float]]:
    """Of the table of runs."""
    out: list[dict[str, str | float]] = []
    for selection in SELECTIONS:
        for n in found.scale.threads:
            for hold in FIGURE_9_HOLDS:
                one = cell(found.scale, selection, n, hold)
                facts: dict[str, str | float] = {
                    "run": one.label,
                    "back_off": selection,
                    "threads": n,
                    "hold_cycles": hold,
                    "window_cycles": one.cycles,
                    "acquisitions": found.acquisitions(one),
                    "acquisitions_per_us": found.rate(selection, n, hold),
                    "hold_mean_cycles": found.hold(selection, n, hold),
                }
                out.append(facts | found.watts(selection, n, hold).columns("power_w"))
    return out
