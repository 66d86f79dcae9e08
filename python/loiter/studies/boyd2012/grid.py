"""What is run: locks, sections, shares of the time in them, numbers of cores, and how much of it at each scale."""

from __future__ import annotations

from dataclasses import dataclass

from loiter import reference
from loiter.studies.base import Exhibit
from loiter.studies.sections import Cell

REFERENCE = "locks"
"""The reference file, which has several papers."""
PAPER = "boyd2012"
MACHINE = "opteron48"
CORES = int(reference.lookup(REFERENCE, f"{PAPER}.cores"))
DIE_CORES = 6
"""For HCLH, which has a queue on each die."""

EXHIBITS = (
    Exhibit("sections", "A ticket lock's throughput by section and number of cores, beside the Markov model"),
    Exhibit("shares", "The same by share of the time in the section"),
    Exhibit("locks", "Throughput of other locks, short section"),
    Exhibit("alone", "Latency of each lock alone"),
    Exhibit("fops", "Linux, all open and close one file: throughput by cores, and the time in lock functions"),
    Exhibit("mempop", "Linux, each maps and unmaps populated memory"),
    Exhibit("pfind", "Linux, each reads directories of its own"),
    Exhibit("exim", "Linux, a message of three processes and files in shared directories; its profiles"),
)

SHORT, LONG = 400, 25_600
PERCENT = float(reference.lookup(REFERENCE, f"{PAPER}.short_section_percent_of_time"))
"""Of a core's time in the section, where it is alone."""


@dataclass(frozen=True)
class Lock:
    """A lock: its name, and the task."""

    name: str
    task: str


TICKET = Lock("ticket", "ticket")
PROPORTIONAL = Lock("ticket, proportional back-off", "ticket_proportional")
MCS = Lock("MCS", "mcs")
SCALABLE = (MCS, Lock("CLH", "clh"), Lock("K42", "k42"), Lock("HCLH", "hclh"))
LOCKS = (TICKET, PROPORTIONAL, *SCALABLE)


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    acquisitions: int
    """Of all cores together, with the short section."""
    long_acquisitions: int
    """The same of longer sections."""
    fine: tuple[int, ...]
    """Numbers of cores around the collapse of the short section."""
    counts: tuple[int, ...]
    """Numbers of cores of everything else; one is among them."""
    sections: tuple[int, ...]
    """Cycles."""
    percents: tuple[float, ...]
    """Shares of the time in the short section."""

    @property
    def description(self) -> str:
        """For `loiter study list`."""
        return f"{self.acquisitions:,} acquisitions, {len(self.fine)} numbers of cores, {len(self.sections)} sections"


SCALES = {
    "quick": Scale(400, 200, (1, 12, 16, 20, 24, CORES), (1, 24, CORES), (SHORT, LONG), (PERCENT,)),
    "default": Scale(
        1_000,
        500,
        (1, 4, 8, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 24, 26, 28, 32, 40, CORES),
        (1, 8, 12, 16, 24, 32, 40, CORES),
        (SHORT, 1_600, 6_400, LONG),
        (0.2, 1, PERCENT, 3),
    ),
}


def counts(scale: Scale, lock: Lock, section: int, percent: float) -> tuple[int, ...]:
    """Numbers of cores of a curve."""
    return scale.fine if (lock, section, percent) == (TICKET, SHORT, PERCENT) else scale.counts


def cell(scale: Scale, lock: Lock, section: int, percent: float, cores: int) -> Cell:
    """A run: as many acquisitions on few cores as on all."""
    think = round(section * (100 / percent - 1))
    acquisitions = scale.acquisitions if section == SHORT else scale.long_acquisitions
    return _cell(lock, cores, acquisitions, section, think)


def alone(lock: Lock) -> Cell:
    """A lock that nobody contends for, without any work."""
    return _cell(lock, 1, 1000, 0, 0)


def in_turn() -> Cell:
    """Two cores with nothing outside, on dies of their own: the period is the section and a hand-over to the one who
    waits."""
    return _cell(TICKET, 2, 1000, SHORT, 0)


def _cell(lock: Lock, cores: int, acquisitions: int, hold: int, think: int) -> Cell:
    return Cell(lock.task, cores, acquisitions, hold, think, lines=0, checks=0, limit=0, place_harts=DIE_CORES)


def cells(scale: Scale, exhibit: str) -> list[Cell]:
    """The runs of an exhibit."""
    if exhibit == "alone":
        return [alone(lock) for lock in LOCKS]
    curves: dict[str, list[tuple[Lock, int, float]]] = {
        "sections": [(TICKET, section, PERCENT) for section in scale.sections],
        "shares": [(TICKET, SHORT, percent) for percent in scale.percents],
        "locks": [(lock, SHORT, PERCENT) for lock in LOCKS],
    }
    # What runs on Linux has no such cells.
    chosen = curves.get(exhibit, [])
    return [cell(scale, *curve, cores) for curve in chosen for cores in counts(scale, *curve)]
