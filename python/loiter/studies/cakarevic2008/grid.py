"""The grid of runs: machines, benchmarks, spin loops and places, and which exhibit needs which cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loiter import reference
from loiter.machines import Machine
from loiter.studies.base import Exhibit

PAPER = "cakarevic2008"
PROGRAM = "spinloops"
MACHINES = ("t1", "t2")
LOOPS = ("default", "idiv", "casx", "fdiv", "l2miss")
OTHER_LOOPS = LOOPS[1:]
SINGLE: tuple[str, ...] = tuple(reference.lookup(PAPER, "active.single_behaviour"))
MULTIPLE: tuple[str, ...] = tuple(reference.lookup(PAPER, "active.multiple_behaviour"))
BENCHMARKS = SINGLE + MULTIPLE
INSTRUCTIONS_FOR_ONE = {"baa": 2}
"""A branch of the reference and its delay slot are one instruction of Table II; here they are a jump and a nop."""
HOLDER = "hold"
"""The foreground task that only holds the lock, for a look at a spinner by itself."""

SAME = "same_pipe"
OTHER_PIPE = "other_pipe"
OTHER_CORE = "other_core"

EXHIBITS = (
    Exhibit("figure_4", "Figure 4: T1, one and three default spinners in the same core; likewise T2"),
    Exhibit("figure_5", "Figure 5: T1, one spinner of each loop in the same core"),
    Exhibit("figure_6", "Figure 6: T1, three spinners of each loop in the same core"),
    Exhibit("t1_other_core", "T1, four spinners of each loop in the other core"),
    Exhibit("figure_7", "Figure 7: T2, three spinners of each loop in the same pipe"),
    Exhibit("figure_8", "Figure 8: T2, four spinners of each loop in the other pipe"),
    Exhibit("t2_other_core", "T2, eight spinners of each loop in the other core"),
    Exhibit("table_1", "Table I: latencies, measured by running loops"),
    Exhibit("table_2", "Table II: CPI of the benchmarks alone"),
)
"""Numbered as in the paper."""

PLACES: dict[str, tuple[str, str, int]] = {
    "figure_5": ("t1", SAME, 1),
    "figure_6": ("t1", SAME, 3),
    "t1_other_core": ("t1", OTHER_CORE, 4),
    "figure_7": ("t2", SAME, 3),
    "figure_8": ("t2", OTHER_PIPE, 4),
    "t2_other_core": ("t2", OTHER_CORE, 8),
}
"""Exhibits of all benchmarks with each loop: on which machine, where the spinners are, and how many."""


@dataclass(frozen=True, order=True)
class Cell:
    """One run: a benchmark on context 0 of a machine, with so many spinners of one loop in one place.

    Without spinners `loop` and `place` are empty. A spinner by itself has the benchmark `hold`, in the other core.
    """

    machine: str
    benchmark: str
    loop: str = ""
    place: str = ""
    spinners: int = 0

    @property
    def label(self) -> str:
        """Its name, for people and for the result directory."""
        what = f"{self.spinners}-{self.loop}.{self.place}" if self.spinners else "alone"
        return f"{self.machine}.{self.benchmark}.{what}"

    @property
    def is_loop_alone(self) -> bool:
        """A spinner by itself."""
        return self.benchmark == HOLDER

    def placements(self, machine: Machine) -> list[str]:
        """The tasks on their contexts, as --place writes them."""
        if self.is_loop_alone:
            # The spinner sits where the others sit too; what holds the lock is out of its way.
            return [f"{HOLDER}={machine.contexts_per_core}", f"spin_{self.loop}=0"]
        words = [f"{self.benchmark}=0"]
        if self.spinners:
            first = _first_context(self.place, machine)
            contexts = range(first, first + self.spinners)
            words.append(f"spin_{self.loop}={','.join(map(str, contexts))}")
        return words


def alone(machine: str) -> list[Cell]:
    """Every benchmark by itself."""
    return [Cell(machine, benchmark) for benchmark in BENCHMARKS]


def loops_alone(machine: str) -> list[Cell]:
    """Every spin loop by itself."""
    return [Cell(machine, HOLDER, loop, OTHER_CORE, 1) for loop in LOOPS]


def with_spinners(
    machine: str, place: str, spinners: int, benchmarks: Iterable[str] = BENCHMARKS, loops: Iterable[str] = LOOPS
) -> list[Cell]:
    """Benchmarks with spinners of each loop."""
    return [Cell(machine, benchmark, loop, place, spinners) for benchmark in benchmarks for loop in loops]


def cells(exhibit: str, machines: Iterable[str] = MACHINES) -> list[Cell]:
    """The runs an exhibit needs, on the given machines."""
    wanted: list[Cell] = []
    match exhibit:
        case "table_1":
            for machine in MACHINES:
                wanted += loops_alone(machine) + [Cell(machine, benchmark) for benchmark in ("add", "baa", "l1_hit")]
        case "table_2":
            wanted = alone("t1") + alone("t2")
        case "figure_4":
            for machine in MACHINES:
                wanted += alone(machine)
                wanted += with_spinners(machine, SAME, 1, loops=["default"])
                wanted += with_spinners(machine, SAME, 3, loops=["default"])
        case _:
            machine, place, spinners = PLACES[exhibit]
            wanted = alone(machine) + with_spinners(machine, place, spinners)
    return [cell for cell in wanted if cell.machine in machines]


def needed_for(cell: Cell) -> list[str]:
    """The exhibits that a run belongs to."""
    return [exhibit.id for exhibit in EXHIBITS if cell in cells(exhibit.id)]


def _first_context(place: str, machine: Machine) -> int:
    per_pipe = machine.contexts_per_core // machine.count("core.pipes", 1)
    return {SAME: 1, OTHER_PIPE: per_pipe, OTHER_CORE: machine.contexts_per_core}[place]
