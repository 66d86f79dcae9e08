"""Curves, tables, and what they say of the paper's statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from loiter import reference
from loiter.studies.base import Curves, Grid, Statement, judged
from loiter.studies.mcs1991 import grid
from loiter.studies.mcs1991.grid import BACK_OFF, COUNTED, CPUS, FEW_CPUS, LOCKS, MCS, PLAIN, QUEUES, Lock, Scale
from loiter.studies.sections import Cell, Measurements

MARGIN = 0.01
"""Times that differ by less than this share count as equal."""
SCALES_UP_TO = 1.25
"""A lock scales if it takes at most so many times as long for each acquisition with all CPUs as with few."""
SAME_TRANSFERS = 0.02
"""Counts of bus requests that differ by less than this share count as equal: a run's first misses are among them."""

Judgement = tuple[bool, str]


class Findings17:
    """The measurements of a scale, by exhibit."""

    def __init__(self, measurements: Measurements, scale: Scale) -> None:
        self.measurements, self.scale = measurements, scale

    @property
    def limit(self) -> int:
        """The longest delay with which back-off is fastest on all CPUs."""
        time = self.measurements.cycles
        return min(self.scale.limits, key=lambda limit: time(grid.empty(self.scale, BACK_OFF, CPUS, limit)))

    def cell(self, lock: Lock, cpus: int) -> Cell:
        """The run of a lock with an empty section."""
        return grid.empty(self.scale, lock, cpus, self.limit)

    def time(self, lock: Lock, cpus: int) -> float:
        """Cycles for each acquisition, empty section."""
        return self.measurements.cycles(self.cell(lock, cpus))

    def requests(self, lock: Lock, cpus: int, hold: int) -> float:
        """Bus requests for each acquisition, beside a section of so many cycles."""
        cell = grid.held(self.scale, lock, cpus, self.scale.limits[-1], hold)
        return self.measurements.per_acquisition(cell, "bus", "requests")


def curves(found: Findings17) -> list[Curves]:
    """Figure 17."""
    points: dict[str, list[tuple[float, float]]] = {}
    runs: dict[tuple[str, float], str] = {}
    for lock in LOCKS:
        cells = {count: found.cell(lock, count) for count in found.scale.counts}
        points[lock.name] = [(n, found.measurements.cycles(cell)) for n, cell in cells.items()]
        runs |= {(lock.name, n): cell.label for n, cell in cells.items()}
    title = "Figure 17: time for each acquisition on a Sequent Symmetry, empty section"
    caption = f"Back-off from one pause to {found.limit}, of the longest delays tried the fastest on all CPUs."
    return [Curves("figure_17", title, caption, "CPUs", "cycles for each acquisition", points, runs=runs)]


def alone(measurements: Measurements, scale: Scale) -> Grid:
    """What each lock costs where nobody contends."""
    rows = []
    for lock in LOCKS:
        cell = grid.empty(scale, lock, 1, scale.limits[0])
        both, microseconds = measurements.cycles(cell), measurements.seconds(cell, 1) * 1e6
        rows.append((lock.name, f"{measurements.acquire(cell):.0f}", f"{both:.0f}", f"{microseconds:.1f}"))
    caption = "The pair is acquire, release and the loop around them, which is the same for all locks."
    columns = ("lock", "acquire, cycles", "pair, cycles", "pair, us")
    return Grid("alone", "Latency of each lock alone", caption, columns, tuple(rows))


def transfers(found: Findings17) -> Grid:
    """Who uses the bus while it waits."""
    cases = [(cpus, hold) for cpus in (FEW_CPUS, CPUS) for hold in grid.SECTIONS_CYCLES]
    rows = tuple((lock.name, *(f"{found.requests(lock, *case):.1f}" for case in cases)) for lock in COUNTED)
    columns = ("lock", *(f"{cpus} CPUs, section {hold}" for cpus, hold in cases))
    caption = "Bus requests for each acquisition. The section touches no memory, and there is no work outside."
    return Grid("transfers", "Bus requests of waiters", caption, columns, rows)


def _told(values: Mapping[str, float], digits: int = 0) -> str:
    order = sorted(values.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in order)


def _trade(found: Findings17) -> Judgement:
    """Alone each queue takes longer than each plain lock. From few to all CPUs each queue scales and no plain lock
    does, and with all CPUs each queue is faster than each plain lock."""
    alone_, few, all_of_them = ({lock.name: found.time(lock, n) for lock in LOCKS} for n in (1, FEW_CPUS, CPUS))
    costs_more = all(alone_[queue.name] > alone_[lock.name] * (1 + MARGIN) for queue in QUEUES for lock in PLAIN)
    growth = {name: all_of_them[name] / few[name] for name in few}
    scales = all(growth[lock.name] <= SCALES_UP_TO for lock in QUEUES)
    does_not = all(growth[lock.name] > SCALES_UP_TO for lock in PLAIN)
    faster = all(all_of_them[lock.name] > all_of_them[queue.name] * (1 + MARGIN) for queue in QUEUES for lock in PLAIN)
    told = (
        f"cycles an acquisition, 1 CPU: {_told(alone_)}; {CPUS}: {_told(all_of_them)}; "
        f"times as long with {CPUS} as with {FEW_CPUS}: {_told(growth, 2)}"
    )
    return costs_more and scales and does_not and faster, told


def _one_transfer(found: Findings17) -> Judgement:
    """With all CPUs, MCS makes as many bus requests for each acquisition however long the section is, and test-and-set
    more beside a longer one."""
    short, long = grid.SECTIONS_CYCLES
    counts = {lock.name: (found.requests(lock, CPUS, short), found.requests(lock, CPUS, long)) for lock in COUNTED}
    same = abs(counts[MCS.name][1] / counts[MCS.name][0] - 1) < SAME_TRANSFERS
    more = counts[grid.TEST_AND_SET.name][1] > counts[grid.TEST_AND_SET.name][0] * (1 + SAME_TRANSFERS)
    told = ", ".join(f"{name} {first:.1f} and {second:.1f}" for name, (first, second) in counts.items())
    return same and more, f"bus requests an acquisition, {CPUS} CPUs, sections of {short} and {long} cycles: {told}"


JUDGES: dict[str, tuple[str, Callable[[Findings17], Judgement]]] = {
    "mcs1991.findings.0": ("figure_17", _trade),
    "statements.mcs_trade": ("figure_17", _trade),
    "statements.mcs_one_transfer": ("transfers", _one_transfer),
}
"""By key of the reference file: the exhibit whose runs it needs, and its rule."""


def statements(found: Findings17, exhibit: str | None) -> list[Statement]:
    """All of them; those of other exhibits are named as not measured."""
    return [
        judged(key, str(reference.lookup(grid.REFERENCE, key)), exhibit, (needs,), partial(rule, found))
        for key, (needs, rule) in JUDGES.items()
    ]
