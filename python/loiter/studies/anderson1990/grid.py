"""What is run: locks, numbers of CPUs, slots of the delays, and how much of it at each scale."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loiter import reference
from loiter.studies.base import Exhibit
from loiter.studies.sections import Cell

REFERENCE = "locks"
"""The reference file, which has several papers."""
PAPER = "anderson1990"
MACHINE = "symmetry"

CPUS = int(reference.lookup(REFERENCE, f"{PAPER}.cpus"))
LIGHT_CPUS = 4
"""Their sections and the work outside leave the lock free for a third of the time."""

HOLD_CYCLES, LINES = 100, 4
"""The section: so many cycles of work, and lines that it writes. The paper's is not known in more detail."""
SECTION_CYCLES = 229
"""What that takes with one CPU, with its lines and the look whether it is alone. A point says how true it is."""
THINK_CYCLES = int(reference.lookup(REFERENCE, f"{PAPER}.compute_mean_over_section")) * SECTION_CYCLES

SLICES_US = (1000, 980, 990, 1010, 1020)
"""For which each of two threads has its CPU: assumed. Who is preempted where is chance, so runs with a slice that is a
little shorter or longer repeat the first one."""

EXHIBITS = (
    Exhibit("elapsed", "Elapsed time by lock and number of CPUs"),
    Exhibit("delays", "Static against dynamic delays, at light and at heavy load"),
    Exhibit("preempted", "Two threads a CPU: what waits is preempted"),
)


@dataclass(frozen=True)
class Lock:
    """A lock as the paper lists it: its name there, the task, and for those that delay how."""

    name: str
    task: str
    delay: str = ""
    """"static" or "back-off"."""

    def at(self, slot: int, cell: Cell) -> Cell:
        """The cell with this lock's delays: `slot` pauses from CPU to CPU, or back-off up to the longest such delay."""
        if not self.delay:
            return cell
        return replace(cell, slot=slot, limit=0) if self.delay == "static" else replace(cell, limit=longest(slot))


def longest(slot: int) -> int:
    """Pauses of the last CPU's slot: at worst back-off becomes the static case."""
    return 1 + (CPUS - 1) * slot


TEST_AND_SET = Lock("test-and-set", "test_and_set")
TEST_AND_TEST_AND_SET = Lock("test-and-test-and-set", "test_and_test_and_set")
STATIC = (
    Lock("delay after release, static", "delay_after_release", "static"),
    Lock("delay between references, static", "delay_between_references", "static"),
)
BACK_OFF = (
    Lock("delay after release, back-off", "delay_after_release", "back-off"),
    Lock("delay between references, back-off", "delay_between_references", "back-off"),
)
DELAYS = (*STATIC, *BACK_OFF)
QUEUE = Lock("array queue", "anderson")
LOCKS = (TEST_AND_SET, TEST_AND_TEST_AND_SET, *DELAYS, QUEUE)
PLAIN = LOCKS[:-1]
"""All but the queue."""


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    acquisitions: int
    counts: tuple[int, ...]
    """Numbers of CPUs."""
    slots: tuple[int, ...]
    """Pauses from one CPU's delay to the next one's."""
    slices_us: tuple[int, ...] = SLICES_US

    @property
    def middle_slot(self) -> int:
        """The one of delays where threads are preempted."""
        return self.slots[len(self.slots) // 2]

    @property
    def description(self) -> str:
        """For `loiter study list`."""
        published = int(reference.lookup(REFERENCE, f"{PAPER}.iterations"))
        return f"{self.acquisitions:,} acquisitions (paper: {published:,}), {len(self.counts)} numbers of CPUs"


SCALES = {
    "quick": Scale(1_000, (1, LIGHT_CPUS, CPUS), (2, 8), SLICES_US[:1]),
    "default": Scale(10_000, (1, 2, 3, LIGHT_CPUS, 6, 8, 12, 16, CPUS), (1, 2, 4, 8, 16)),
}


def cell(scale: Scale, lock: Lock, cpus: int, slot: int) -> Cell:
    """A run of the paper's benchmark."""
    return lock.at(slot, Cell(lock.task, cpus, scale.acquisitions, HOLD_CYCLES, THINK_CYCLES, LINES))


def preempted(scale: Scale, lock: Lock, cpus: int) -> tuple[Cell, list[Cell]]:
    """The run with one thread a CPU, and those with two."""
    one = cell(scale, lock, cpus, scale.middle_slot)
    return one, [replace(one, threads=2, slice=each) for each in scale.slices_us]


def cells(scale: Scale, exhibit: str) -> list[Cell]:
    """The runs of an exhibit."""
    if exhibit == "preempted":
        runs = [preempted(scale, lock, n) for lock in LOCKS for n in (LIGHT_CPUS, CPUS)]
        return [each for one, two in runs for each in (one, *two)]
    if exhibit == "delays":
        return [cell(scale, lock, n, slot) for lock in DELAYS for slot in scale.slots for n in (LIGHT_CPUS, CPUS)]
    return [cell(scale, lock, n, slot) for lock in LOCKS for slot in scale.slots for n in scale.counts]
