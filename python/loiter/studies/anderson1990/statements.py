"""What the paper states in words: its findings and statements in the reference file, and what was measured of each.

Two times differ where one is more than `MARGIN` of the other away from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

from loiter import reference
from loiter.studies.anderson1990 import grid
from loiter.studies.anderson1990.grid import (
    BACK_OFF,
    CPUS,
    LIGHT_CPUS,
    LOCKS,
    PLAIN,
    QUEUE,
    STATIC,
    TEST_AND_SET,
    TEST_AND_TEST_AND_SET,
    Lock,
    Scale,
)
from loiter.studies.base import Statement, judged
from loiter.studies.sections import Cell, Measurements

MARGIN = 0.01
COLLAPSE = 2.0
"""So many times the best time of a lock is a collapse."""

Judgement = tuple[bool, str]


class Judge:
    """The measurements of a scale, and what they say of each statement."""

    def __init__(self, measurements: Measurements, scale: Scale) -> None:
        self.measurements, self.scale = measurements, scale

    def tuned(self, lock: Lock) -> int:
        """The slot of a delay: that with which the static one is fastest on all CPUs, to which it is tuned."""
        static = lock if lock.delay != "back-off" else STATIC[BACK_OFF.index(lock)]
        if not static.delay:
            return self.scale.slots[0]
        return min(self.scale.slots, key=lambda slot: self.time(static, CPUS, slot))

    def cell(self, lock: Lock, cpus: int) -> Cell:
        """The run of a lock, with its tuned slot."""
        return grid.cell(self.scale, lock, cpus, self.tuned(lock))

    def time(self, lock: Lock, cpus: int, slot: int | None = None) -> float:
        """Cycles for each acquisition."""
        run = grid.cell(self.scale, lock, cpus, slot) if slot is not None else self.cell(lock, cpus)
        return self.measurements.cycles(run)

    def times(self, cpus: int) -> dict[str, float]:
        """The same of all locks, by name."""
        return {lock.name: self.time(lock, cpus) for lock in LOCKS}

    def preempted(self, lock: Lock, cpus: int) -> list[float]:
        """How many times as long two threads a CPU take as one, of each repetition."""
        one, two = grid.preempted(self.scale, lock, cpus)
        return [self.measurements.cycles(each) / self.measurements.cycles(one) for each in two]


def _exceeds(greater: float, less: float) -> bool:
    return greater > less * (1 + MARGIN)


def _told(values: Mapping[str, float], digits: int = 0) -> str:
    order = sorted(values.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in order)


def _tas_worst(judge: Judge) -> Judgement:
    """With all CPUs, no other lock takes as long."""
    times = judge.times(CPUS)
    worst = times[TEST_AND_SET.name]
    others = [value for name, value in times.items() if name != TEST_AND_SET.name]
    return all(_exceeds(worst, value) for value in others), f"cycles an acquisition, {CPUS} CPUs: {_told(times)}"


def _tas_collapses(judge: Judge) -> Judgement:
    times = {count: judge.time(TEST_AND_SET, count) for count in judge.scale.counts}
    best = min(times, key=lambda count: times[count])
    ratio = times[CPUS] / times[best]
    told = f"{times[CPUS]:.0f} cycles an acquisition with {CPUS} CPUs, {ratio:.2f} times those with {best}"
    return ratio >= COLLAPSE, told


def _ttas_disappoints(judge: Judge) -> Judgement:
    """Faster than test-and-set with all CPUs, and its hand-over takes twice as long with them as at light load."""
    plain, tested = (judge.time(lock, CPUS) for lock in (TEST_AND_SET, TEST_AND_TEST_AND_SET))
    cells = [judge.cell(TEST_AND_TEST_AND_SET, count) for count in (LIGHT_CPUS, CPUS)]
    light, heavy = (judge.measurements.handover(cell) for cell in cells)
    told = (
        f"{tested:.0f} cycles an acquisition with {CPUS} CPUs, test-and-set {plain:.0f}; "
        f"a hand-over takes {light:.0f} cycles with {LIGHT_CPUS} CPUs, {heavy:.0f} with {CPUS}"
    )
    return _exceeds(plain, tested) and heavy >= 2 * light, told


def _holder_slowed(judge: Judge) -> Judgement:
    """With all CPUs the section takes longer beside those that spin on the lock than beside those in a queue, and
    longer than with few CPUs."""
    locks = (TEST_AND_SET, TEST_AND_TEST_AND_SET, QUEUE)
    light, heavy = (
        {lock.name: judge.measurements.hold(judge.cell(lock, count)) for lock in locks} for count in (LIGHT_CPUS, CPUS)
    )
    spinning = [lock.name for lock in locks[:-1]]
    holds = all(_exceeds(heavy[name], max(heavy[QUEUE.name], light[name])) for name in spinning)
    return holds, f"cycles of the section, {LIGHT_CPUS} CPUs: {_told(light)}; {CPUS}: {_told(heavy)}"


def _pairs(judge: Judge, cpus: int) -> list[tuple[float, float, str]]:
    """Static and back-off with the same longest delay, and that in words."""
    found = []
    for static, dynamic in zip(STATIC, BACK_OFF, strict=True):
        slot = judge.tuned(static)
        values = judge.time(static, cpus, slot), judge.time(dynamic, cpus, slot)
        where = static.name.partition(",")[0]
        found.append((*values, f"{where} (slots of {slot}): static {values[0]:.0f}, back-off {values[1]:.0f}"))
    return found


def _static_wrong_load(judge: Judge) -> Judgement:
    """A static delay that is tuned to all CPUs, with few: it takes longer than back-off, wherever the delay is."""
    pairs = _pairs(judge, LIGHT_CPUS)
    told = "; ".join(words for *_, words in pairs)
    return all(_exceeds(static, dynamic) for static, dynamic, _ in pairs), f"{LIGHT_CPUS} CPUs, {told}"


def _dynamic_right_load(judge: Judge) -> Judgement:
    """The same static delay with all CPUs: back-off takes longer."""
    pairs = _pairs(judge, CPUS)
    told = "; ".join(words for *_, words in pairs)
    return all(_exceeds(dynamic, static) for static, dynamic, _ in pairs), f"{CPUS} CPUs, {told}"


def _queue_contended(judge: Judge) -> Judgement:
    """The fastest with all CPUs, the slowest with one."""
    alone, all_of_them = judge.times(1), judge.times(CPUS)
    wins = all(_exceeds(all_of_them[lock.name], all_of_them[QUEUE.name]) for lock in PLAIN)
    loses = all(_exceeds(alone[QUEUE.name], alone[lock.name]) for lock in PLAIN)
    return wins and loses, f"cycles an acquisition, 1 CPU: {_told(alone)}; {CPUS}: {_told(all_of_them)}"


def _queue_preempted(judge: Judge) -> Judgement:
    """Two threads a CPU make the queue slower by a greater factor than any plain lock, at both loads: medians of the
    repetitions."""
    details, holds = [], True
    for count in (LIGHT_CPUS, CPUS):
        repeated = {lock.name: judge.preempted(lock, count) for lock in LOCKS}
        factors = {name: median(each) for name, each in repeated.items()}
        holds &= all(_exceeds(factors[QUEUE.name], factors[lock.name]) for lock in PLAIN)
        queue = repeated[QUEUE.name]
        runs = f"; the queue's {len(queue)} runs {min(queue):.2f} to {max(queue):.2f}" if len(queue) > 1 else ""
        details.append(f"{count} CPUs, times as long: {_told(factors, 2)}{runs}")
    return holds, "; ".join(details)


def _both(*judges: Callable[[Judge], Judgement]) -> Callable[[Judge], Judgement]:
    def judged(judge: Judge) -> Judgement:
        found = [each(judge) for each in judges]
        return all(holds for holds, _ in found), "; ".join(told for _, told in found)

    return judged


JUDGES: dict[str, tuple[str, Callable[[Judge], Judgement]]] = {
    "anderson1990.findings.0": ("elapsed", _tas_collapses),
    "anderson1990.findings.1": ("elapsed", _ttas_disappoints),
    "anderson1990.findings.2": ("delays", _both(_static_wrong_load, _dynamic_right_load)),
    "anderson1990.findings.3": ("all", _both(_queue_contended, _queue_preempted)),
    "statements.tas_worst": ("elapsed", _tas_worst),
    "statements.ttas_disappoints": ("elapsed", _ttas_disappoints),
    "statements.holder_slowed": ("elapsed", _holder_slowed),
    "statements.static_wrong_load": ("delays", _static_wrong_load),
    "statements.dynamic_right_load": ("delays", _dynamic_right_load),
    "statements.queue_contended": ("elapsed", _queue_contended),
    "statements.queue_preempted": ("preempted", _queue_preempted),
}
"""By key of the reference file: the exhibit whose runs it needs, and its rule."""


def of(judge: Judge, exhibit: str | None) -> list[Statement]:
    """All of them; those of other exhibits are named as not measured."""
    found = []
    for key, (needs, rule) in JUDGES.items():
        text = str(reference.lookup(grid.REFERENCE, key))
        # The runs of `elapsed` have those of `delays` among them.
        exhibits = (needs, "elapsed") if needs == "delays" else (needs,)
        found.append(judged(key, text, exhibit, exhibits, partial(rule, judge)))
    return found
