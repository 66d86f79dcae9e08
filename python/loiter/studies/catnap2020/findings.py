"""Curves and tables of the exhibits."""

from __future__ import annotations

from collections.abc import Callable

from loiter.studies.base import Curves, Grid
from loiter.studies.catnap2020 import grid
from loiter.studies.catnap2020.grid import (
    BACK_OFFS,
    CATNAP,
    CLOCK_MHZ,
    COUNTED,
    FIGURE_9_HOLDS,
    PAUSE,
    BackOff,
    Cell,
    Scale,
)
from loiter.studies.catnap2020.measurements import Measurements

ALIKE = 0.02
"""Values that differ by less than this share count as equal."""
HARMLESS = 1 - ALIKE
"""A back-off does no harm if it leaves so much of a pause's throughput, or more."""


class Measured:
    """The measurements of a scale, over those of a pause."""

    def __init__(self, measurements: Measurements, scale: Scale) -> None:
        self.measurements, self.scale = measurements, scale

    def speed(self, back_off: BackOff, threads: int, hold_cycles: int) -> float:
        """Throughput over that of a pause."""
        return self._over_pause(self.measurements.throughput, back_off, threads, hold_cycles)

    def power(self, back_off: BackOff, threads: int, hold_cycles: int) -> float:
        """Mean power over that of a pause."""
        return self._over_pause(lambda cell: self.measurements.watts(cell).value, back_off, threads, hold_cycles)

    def power_range(self, back_off: BackOff, threads: int, hold_cycles: int) -> tuple[float, float]:
        """The same with all coefficients of the machine's energy at the ends of their ranges."""
        ours, pause = (self.measurements.watts(self.scale.of(each, threads, hold_cycles)) for each in (back_off, PAUSE))
        ends = (ours.low / pause.low, ours.high / pause.high)
        return min(ends), max(ends)

    def harmless_us(self, threads: int) -> float | None:
        """The shortest holding time of the map, as measured with a pause, from which on catnap does no harm; none where
        the longest one does."""
        harmless = None
        for hold in reversed(self.scale.map_holds):
            if self.speed(CATNAP, threads, hold) < HARMLESS:
                break
            harmless = self.measurements.hold(self.scale.of(PAUSE, threads, hold)) / CLOCK_MHZ
        return harmless

    def waits_over_formula(self, threads: int) -> float:
        """The sum of the waits of all threads that ask at once, over the paper's formula with measured times."""
        cell = grid.once(threads)
        hold, handover = self.measurements.hold(cell), self.measurements.handover(cell)
        return self.measurements.waits(cell) / total_wait(threads, hold, handover)

    def _over_pause(self, of: Callable[[Cell], float], back_off: BackOff, threads: int, hold_cycles: int) -> float:
        return of(self.scale.of(back_off, threads, hold_cycles)) / of(self.scale.of(PAUSE, threads, hold_cycles))


def total_wait(threads: int, hold: float, handover: float) -> float:
    """What all waits of `threads` that ask at once come to at worst, by the paper: the kth waits for k sections and
    k - 1 hand-overs."""
    return sum(k * hold + (k - 1) * handover for k in range(1, threads))


def curves(found: Measured, exhibit: str | None) -> list[Curves]:
    """Figures 9 and 10, a figure for each holding time."""
    figures = []
    kinds: list[tuple[str, str, str, Callable[[BackOff, int, int], float]]] = [
        ("figure_9", "Throughput", "throughput over a pause's", found.speed),
        ("figure_10", "Mean power of the chip", "power over a pause's", found.power),
    ]
    for name, title, unit, of in kinds:
        if exhibit not in (None, name):
            continue
        for part, hold in zip("ab", FIGURE_9_HOLDS, strict=True):
            points = {each.name: [(float(n), of(each, n, hold)) for n in found.scale.threads] for each in BACK_OFFS}
            runs = {
                (each.name, float(n)): found.scale.of(each, n, hold).label
                for each in BACK_OFFS
                for n in found.scale.threads
            }
            figures.append(
                Curves(
                    f"{name}{part}",
                    f"Figure {name.removeprefix('figure_')}{part}: {title.lower()}, held for {hold:,} cycles",
                    f"Held for {hold / CLOCK_MHZ:.2f} us. With more than {grid.CORES} threads cores are shared.",
                    "threads",
                    unit,
                    points,
                    runs=runs,
                )
            )
    return figures


def grids(found: Measured, exhibit: str | None) -> list[Grid]:
    """What is a table."""
    tables = {
        "figure_7": _map,
        "figure_10": _watts,
        "waiting_time": _waits,
        "requests": _requests,
    }
    return [draw(found) for name, draw in tables.items() if exhibit in (None, name)]


def _map(found: Measured) -> Grid:
    """Figure 7."""
    holds = found.scale.map_holds
    rows = []
    for n in found.scale.map_threads:
        harmless = found.harmless_us(n)
        last = "-" if harmless is None else f"{harmless:.2f}"
        rows.append((str(n), *(f"{found.speed(CATNAP, n, hold):.3f}" for hold in holds), last))
    caption = (
        "Catnap's throughput over that of qspinlock with a pause. The last column is the shortest time from which on "
        f"it leaves {HARMLESS:g} or more, us, as measured: siblings make it longer."
    )
    columns = ("threads", *(f"{hold:,} cycles" for hold in holds), "harmless from")
    return Grid("figure_7", "Figure 7: catnap by threads and holding time", caption, columns, tuple(rows))


def _watts(found: Measured) -> Grid:
    """Watts behind figure 10, with their ranges."""
    rows = []
    for hold in FIGURE_9_HOLDS:
        for n in found.scale.threads:
            cells = [f"{found.measurements.watts(found.scale.of(each, n, hold)).value:.1f}" for each in BACK_OFFS]
            low, high = found.power_range(CATNAP, n, hold)
            rows.append((f"{hold:,} cycles, {n}", *cells, f"{low:.3f} to {high:.3f}"))
    caption = "The last column: monitor/mwait over a pause with all coefficients at the ends of their ranges."
    columns = ("held, threads", *(f"{each.name}, W" for each in BACK_OFFS), "over a pause")
    return Grid("figure_10", "Mean power of the chip", caption, columns, tuple(rows))


def _waits(found: Measured) -> Grid:
    """The formula."""
    rows = []
    for n in found.scale.once:
        cell = grid.once(n)
        hold, handover = found.measurements.hold(cell), found.measurements.handover(cell)
        cells = (hold, handover, found.measurements.waits(cell) / 1000, total_wait(n, hold, handover) / 1000)
        rows.append((str(n), *(f"{value:,.0f}" for value in cells), f"{found.waits_over_formula(n):.3f}"))
    caption = (
        "Each thread acquires once. Section and hand-over are means of the same run; sums in thousands of cycles. The "
        "formula leaves out the first hand-over of each wait and what an acquire costs that does not wait."
    )
    columns = ("threads", "section", "hand-over", "sum of waits", "formula", "ratio")
    return Grid("waiting_time", "All threads ask at once", caption, columns, tuple(rows))


def _requests(found: Measured) -> Grid:
    """Who leaves the tile while it waits."""
    counts = grid.COUNTED_THREADS
    rows = tuple(
        (each.name if each is not PAUSE else "qspinlock", *(f"{requests(found, each, n):.1f}" for n in counts))
        for each in COUNTED
    )
    columns = ("lock", *(f"{n} threads" for n in counts))
    caption = f"Requests to homes for each acquisition, held for {grid.SHORT:,} cycles; waiters pause."
    return Grid("requests", "Accesses that leave their tile", caption, columns, rows)


def requests(found: Measured, back_off: BackOff, threads: int) -> float:
    """Requests to homes for each acquisition."""
    return found.measurements.requests(found.scale.of(back_off, threads, grid.SHORT))
