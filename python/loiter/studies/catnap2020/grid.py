"""What is run: back-offs, numbers of threads, holding times, and how much of it at each scale."""

from __future__ import annotations

from dataclasses import dataclass

from loiter import reference
from loiter.studies.base import Exhibit

PAPER = "catnap2020"
MACHINE = "knl"
PROGRAM = "locks"
CORES = int(reference.lookup(PAPER, "machine.knl.cores"))
CLOCK_MHZ = int(reference.lookup(PAPER, "machine.knl.clock_mhz"))
FIGURE_9_HOLDS: tuple[int, ...] = tuple(reference.lookup(PAPER, "locktorture.fig9_hold_cycles"))
SHORT, LONG = FIGURE_9_HOLDS

EXHIBITS = (
    Exhibit("figure_7", "Catnap's throughput over qspinlock's, by threads and holding time"),
    Exhibit("figure_9", "Throughput of four back-offs by threads, over that of a pause"),
    Exhibit("figure_10", "Mean power of the chip likewise"),
    Exhibit("waiting_time", "All threads ask at once: the sum of their waits beside the paper's formula"),
    Exhibit("requests", "Accesses that leave their tile, by lock and threads"),
    Exhibit(
        "locktorture", "The same on Linux: its own locktorture with naps of none, of all, of a list, and automatic"
    ),
    Exhibit("figure_3", "Programs on Linux: time spent waiting for locks, by threads"),
    Exhibit("tables_2_3", "Programs on Linux: locks with the longest waits and with the shortest holds"),
    Exhibit("figure_11", "Programs on Linux: time and energy with naps of all, of a list, and automatic"),
)
ON_LINUX = ("locktorture", "figure_3", "tables_2_3", "figure_11")
"""Exhibits whose runs need an image."""

THINK_CYCLES = 40
"""Work outside: a random number and two counters of locktorture. Assumed."""

AT_ONCE_CYCLES = 24_000
"""Held where all threads ask at once: long beside the time in which they begin, one after the other as they wake."""


@dataclass(frozen=True)
class BackOff:
    """How waiters wait: its name in the paper, and task and arguments of the program."""

    name: str
    task: str = "qspinlock"
    method: int = 1
    repeat: int = 1


PAUSE = BackOff("pause")
PAUSE_3 = BackOff("pause x3", repeat=3)
MFENCE = BackOff("mfence", method=2)
CATNAP = BackOff("monitor/mwait", task="catnap")
BACK_OFFS = (PAUSE, PAUSE_3, MFENCE, CATNAP)
TICKET = BackOff("ticket", task="ticket")
TEST_AND_SET = BackOff("test-and-set", task="test_and_set")
COUNTED = (TEST_AND_SET, TICKET, PAUSE)
"""Of which accesses are counted; all pause."""
COUNTED_THREADS = (16, CORES)
"""With how many: the fewest are in so many tiles that most hand-overs leave theirs."""


@dataclass(frozen=True, order=True)
class Cell:
    """A run. With `rounds` 0 each thread acquires once."""

    back_off: str
    task: str
    method: int
    repeat: int
    threads: int
    hold_cycles: int
    rounds: int

    @property
    def label(self) -> str:
        """Its name, for people and for the result directory."""
        words = self.back_off.replace(" ", "_").replace("/", "_")
        how_long = f"{self.rounds}_rounds" if self.rounds else "once"
        return f"{words}.{self.threads}-{self.hold_cycles}-{how_long}"

    @property
    def window_cycles(self) -> int:
        """After so long nobody acquires any more: time for so many rounds of all threads, if a hand-over takes a third
        of a microsecond."""
        return max(1, self.rounds * self.threads * (self.hold_cycles + CLOCK_MHZ // 3))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words of the program's command line."""
        given = {
            "method": self.method,
            "repeat": self.repeat,
            "hold": self.hold_cycles,
            "think": THINK_CYCLES,
            "lines": 1,
            "cycles": self.window_cycles,
        }
        return tuple(f"{name}={value}" for name, value in given.items())


def cell(back_off: BackOff, threads: int, hold_cycles: int, rounds: int) -> Cell:
    """A run of a back-off."""
    return Cell(back_off.name, back_off.task, back_off.method, back_off.repeat, threads, hold_cycles, rounds)


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    rounds: int
    """Acquisitions of each thread, about."""
    least_acquisitions: int
    """Of all threads together."""
    threads: tuple[int, ...]
    """Of the four back-offs."""
    map_threads: tuple[int, ...]
    map_holds: tuple[int, ...]
    """Of figure 7, cycles."""
    once: tuple[int, ...]
    """Numbers of threads that ask at once."""

    @property
    def description(self) -> str:
        """For `loiter study list`."""
        return (
            f"{len(self.threads)} numbers of threads, a map of {len(self.map_threads)} by {len(self.map_holds)}, "
            f"each thread acquires about {self.rounds} times"
        )

    def of(self, back_off: BackOff, threads: int, hold_cycles: int) -> Cell:
        """A run that is long enough."""
        rounds = max(self.rounds, -(-self.least_acquisitions // threads))
        return cell(back_off, threads, hold_cycles, rounds)


SCALES = {
    "quick": Scale(1, 64, (4, 64, 128), (4, 64), (600, 1200, 1800, 2400), (4, 64)),
    "default": Scale(
        2,
        500,
        (4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 255),
        (4, 8, 16, 32, 64, 128, 192, 255),
        (300, 600, 900, 1200, 1500, 1800, 2100, 2400, 4800),
        (2, 4, 8, 16, 32, 64, 128, 255),
    ),
}


def once(threads: int) -> Cell:
    """All threads ask at once."""
    return cell(PAUSE, threads, AT_ONCE_CYCLES, 0)


def cells(scale: Scale, exhibit: str) -> list[Cell]:
    """The runs of an exhibit."""
    match exhibit:
        case "figure_7":
            pairs = (PAUSE, CATNAP)
            return [scale.of(each, n, hold) for each in pairs for n in scale.map_threads for hold in scale.map_holds]
        case "figure_9" | "figure_10":
            return [scale.of(each, n, hold) for each in BACK_OFFS for n in scale.threads for hold in FIGURE_9_HOLDS]
        case "waiting_time":
            return [once(n) for n in scale.once]
        case _:
            counted = [scale.of(each, n, SHORT) for each in COUNTED for n in COUNTED_THREADS]
            return [*counted, *(scale.of(each, 1, SHORT) for each in (TICKET, PAUSE))]
