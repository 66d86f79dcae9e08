"""What is run: locks, numbers of CPUs, and how much of it at each scale."""

from __future__ import annotations

from dataclasses import dataclass

from loiter.studies.base import Exhibit
from loiter.studies.sections import Cell

REFERENCE = "locks"
"""The reference file, which has several papers."""
PAPER = "mcs1991"
MACHINE = "symmetry"
CPUS = 20
FEW_CPUS = 4

EXHIBITS = (
    Exhibit("figure_17", "Time for each acquisition, empty section"),
    Exhibit("alone", "Latency of each lock alone"),
    Exhibit("transfers", "Bus requests of waiters, by section and number of CPUs"),
)

SECTIONS_CYCLES = (100, 1000)
"""What is held while others wait, where bus requests are counted."""


@dataclass(frozen=True)
class Lock:
    """A lock: its name in the paper, and the task."""

    name: str
    task: str
    is_queue: bool = False


TEST_AND_SET = Lock("test-and-set", "test_and_set")
"""Not in the paper's figure: where bus requests are counted, it is what waits on the bus."""
TEST_AND_TEST_AND_SET = Lock("test-and-test-and-set", "test_and_test_and_set")
BACK_OFF = Lock("test-and-set, exponential back-off", "test_and_set_delay")
ANDERSON = Lock("Anderson array queue", "anderson", is_queue=True)
MCS = Lock("MCS", "mcs", is_queue=True)
LOCKS = (TEST_AND_TEST_AND_SET, ANDERSON, BACK_OFF, MCS)
"""Those of the figure."""
PLAIN = tuple(lock for lock in LOCKS if not lock.is_queue)
QUEUES = tuple(lock for lock in LOCKS if lock.is_queue)
COUNTED = (TEST_AND_SET, *LOCKS)


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    acquisitions: int
    counts: tuple[int, ...]
    limits: tuple[int, ...]
    """Pauses of the longest delay: the paper tunes them, here the fastest with all CPUs is taken."""

    @property
    def description(self) -> str:
        """For `loiter study list`."""
        return f"{self.acquisitions:,} acquisitions, {len(self.counts)} numbers of CPUs"


SCALES = {
    "quick": Scale(1_000, (1, 2, FEW_CPUS, CPUS), (64, 256)),
    "default": Scale(20_000, (1, 2, 3, FEW_CPUS, 6, 8, 10, 12, 14, 16, 18, CPUS), (16, 64, 256, 1024)),
}


def empty(scale: Scale, lock: Lock, cpus: int, limit: int) -> Cell:
    """A run with an empty section."""
    return held(scale, lock, cpus, limit, 0)


def held(scale: Scale, lock: Lock, cpus: int, limit: int, hold: int) -> Cell:
    """A run whose section works for so many cycles, without an access to memory; there is no work outside."""
    limit = limit if lock is BACK_OFF else 0
    return Cell(lock.task, cpus, scale.acquisitions, hold, think=0, lines=0, checks=0, limit=limit)


def cells(scale: Scale, exhibit: str) -> list[Cell]:
    """The runs of an exhibit."""
    if exhibit == "alone":
        return [empty(scale, lock, 1, scale.limits[0]) for lock in LOCKS]
    if exhibit == "figure_17":
        return [empty(scale, lock, n, limit) for lock in LOCKS for limit in scale.limits for n in scale.counts]
    return [
        held(scale, lock, n, scale.limits[-1], hold)
        for lock in COUNTED
        for n in (FEW_CPUS, CPUS)
        for hold in SECTIONS_CYCLES
    ]
