"""The runs, and every figure of the reference file that can be worked out from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loiter import reference
from loiter.errors import RunFault
from loiter.method import fame
from loiter.results import Result
from loiter.studies.base import Point, Tolerance

REFERENCE = "opensparc_t1_rtl"
SOURCE = "RTL of OpenSPARC T1 1.1.7"
HOLDER = "hold"
OPERATIONS = 64
"""Operations of a round of a kernel."""
ROUNDS = 200
HOLD_CYCLES = 50_000
MIB = 1024

# Kernels whose operations are compared alone: the name in the reference file.
LATENCIES = {
    "load_load": "membar_load_load",
    "store_load": "membar_store_load",
    "branch": "branch",
    "sdivx": "sdivx",
    "fdivd": "fdivd",
    "fp_load": "fp_load",
    "fmuld": "fmuld",
    "faddd": "faddd",
    "fmovd": "fmovd",
    "fp_store": "fp_store",
}
PROGRAMS = ("add", "mulx", "l1_hit", "l2_hit", "baa")


@dataclass(frozen=True, order=True)
class Cell:
    """A kernel on context 0, beside so many spinners of a loop in the same core. The loop alone: the kernel `hold`."""

    kernel: str
    loop: str = ""
    spinners: int = 0

    @property
    def label(self) -> str:
        """Its name, for people and for the result directory."""
        return f"{self.kernel}.{self.spinners}-{self.loop}" if self.spinners else f"{self.kernel}.alone"

    def placements(self, contexts: int) -> list[str]:
        """The tasks on their contexts, as --place writes them."""
        if self.kernel == HOLDER:
            return [f"{HOLDER}={contexts}", f"spin_{self.loop}={_list(0, self.spinners)}"]
        words = [f"{_task(self.kernel)}=0"]
        if self.spinners:
            words.append(f"spin_{self.loop}={_list(1, self.spinners)}")
        return words

    def arguments(self, factor: int) -> tuple[str, ...]:
        """The words of the program's command line."""
        if self.kernel == HOLDER:
            return (f"iterations={HOLD_CYCLES * factor}",)
        walks = {
            "l1_hit": ("footprint_kib=4",),
            "l2_hit": (f"footprint_kib={3 * MIB // 2}", "stride=64"),
            "element": ("stride=0",),
            "element_miss": (f"footprint_kib={32 * MIB}", "stride=64"),
        }
        return (f"iterations={ROUNDS * factor}", *walks.get(self.kernel, ()))


def _list(first: int, count: int) -> str:
    return ",".join(str(context) for context in range(first, first + count))


def _task(kernel: str) -> str:
    """Several kernels are one task with other arguments."""
    return {"l1_hit": "rtl_load", "l2_hit": "rtl_load", "element_miss": "rtl_element"}.get(kernel, f"rtl_{kernel}")


BESIDE_FDIV = ("fp_load", "fp_store", "element", "element_miss")

CELLS = (
    Cell("empty"),
    *(Cell(kernel) for kernel in LATENCIES),
    *(Cell(program) for program in PROGRAMS),
    Cell("element"),
    Cell("element_miss"),
    *(Cell(kernel, "fdiv", 1) for kernel in BESIDE_FDIV),
    *(Cell(program, "default", 1) for program in PROGRAMS),
    *(Cell(program, "default", 3) for program in PROGRAMS),
    *(Cell(kernel, "fdiv", 3) for kernel in BESIDE_FDIV),
    Cell(HOLDER, "default", 1),
    Cell(HOLDER, "default", 3),
    Cell(HOLDER, "idiv", 3),
)


class Measurements:
    """The results of the runs."""

    def __init__(self, results: Mapping[str, Result], factor: int) -> None:
        self._results = results
        self._rounds = ROUNDS * factor

    def round(self, cell: Cell) -> float:
        """Cycles of a round of the kernel."""
        marks = self._results[cell.label].rows("marks")
        timing = fame.timing(fame.repetitions(marks, hart=0), maiv_percent=1, at_least=5)
        return timing.mean_cycles / self._rounds

    def each(self, cell: Cell) -> float:
        """Cycles of an operation: the empty round alone is taken off."""
        return (self.round(cell) - self.round(Cell("empty"))) / OPERATIONS

    def slowdown(self, program: str, spinners: int) -> float:
        """Percent more time beside default spinners."""
        return (self.round(Cell(program, "default", spinners)) / self.round(Cell(program)) - 1) * 100

    def period(self, cell: Cell) -> float:
        """Cycles between two reads of the lock by a spinner."""
        rows = [row for row in self._results[cell.label].rows("lock_reads") if row["intervals"]]
        if not rows:
            raise RunFault(f"{cell.label}: no spinner read the lock twice")
        return float(sum(row["interval_sum_cycles"] for row in rows) / sum(row["intervals"] for row in rows))

    def counter(self, cell: Cell, component: str, name: str) -> int:
        """A counter of core 0."""
        rows = self._results[cell.label].rows("counters")
        found = [row["value"] for row in rows if (row["component"], row["name"]) == (f"core0{component}", name)]
        if not found:
            raise RunFault(f"{cell.label}: core0{component} has no counter {name}")
        return int(sum(found))

    def reads(self, cell: Cell) -> int:
        """Reads of the lock by all spinners."""
        return sum(row["reads"] for row in self._results[cell.label].rows("lock_reads"))


def points(m: Measurements) -> list[Point]:
    """Every figure of the reference file that is a time, alone and beside one spinner, and the divider's lost slots."""
    found = [_cycles("load.latency_cycles", m.each(Cell("l1_hit")), "a chain of loads that hit")]
    misses = m.counter(Cell("l2_hit"), ".l1d", "misses")
    lost = m.counter(Cell("l2_hit"), "", "miss_slots") / misses
    found.append(_cycles("load.miss_extra_slots", lost, "slots lost for each miss, alone", unit="slots"))
    for kernel, name in LATENCIES.items():
        found.append(_cycles(f"latency_alone_cycles.{name}", m.each(Cell(kernel)), ""))
    found.append(_cycles("spin_loop.alone_cycles", m.period(Cell(HOLDER, "default", 1)), "time between two reads"))
    for kernel in ("fp_load", "fp_store"):
        ours = m.each(Cell(kernel, "fdiv", 1))
        found.append(_cycles(f"floating_point.{kernel}_beside_one_fdiv_spinner_cycles", ours, ""))
    for kernel in ("element", "element_miss"):
        for place, cell in (("alone", Cell(kernel)), ("beside_one_fdiv_spinner", Cell(kernel, "fdiv", 1))):
            found.append(_cycles(f"floating_point.{kernel}_cycles.{place}", m.round(cell), "a round of one element"))
    slowdowns = {program: m.slowdown(program, 1) for program in PROGRAMS}
    slowdowns["average"] = sum(slowdowns.values()) / len(slowdowns)
    for program, ours in slowdowns.items():
        found.append(_slowdown(f"slowdown_percent.one_default_spinner.{program}", ours))
    return found


def beyond(m: Measurements) -> list[tuple[str, float]]:
    """Values for which the reference file has words at most."""
    idiv = Cell(HOLDER, "idiv", 3)
    l2 = Cell("l2_hit", "default", 3)
    fills = m.counter(l2, "", "fill_waits") / m.counter(l2, ".l1d", "misses")
    return [
        ("slots lost a divide, three idiv spinners (the RTL: 2)", m.counter(idiv, "", "retracted") / m.reads(idiv)),
        ("cycles from one divide to the next, three idiv spinners", m.period(idiv) / 3),
        ("cycles that a fill waits beside three default spinners", fills),
        ("cycles of a load from the L2 beside three default spinners, less 22 (the RTL: about 3)", m.each(l2) - 22),
        ("cycles of the default loop, three together", m.period(Cell(HOLDER, "default", 3))),
        *(
            (f"slowdown of {program} beside three default spinners, percent", m.slowdown(program, 3))
            for program in PROGRAMS
        ),
        *(
            (f"cycles of {kernel} beside three fdiv spinners", _any(m, Cell(kernel, "fdiv", 3)))
            for kernel in BESIDE_FDIV
        ),
    ]


def _any(m: Measurements, cell: Cell) -> float:
    return m.round(cell) if cell.kernel.startswith("element") else m.each(cell)


def _published(key: str) -> float:
    return float(reference.lookup(REFERENCE, key))


def _cycles(key: str, ours: float, note: str, unit: str = "cycles") -> Point:
    published = _published(key)
    percent = max(2.0, 50 / published)
    return Point(key, unit, ours, published, SOURCE, note, Tolerance(round(percent, 1), relative=True))


def _slowdown(key: str, ours: float) -> Point:
    published = _published(key)
    return Point(key, "%", ours, published, SOURCE, "", Tolerance(round(2 * (1 + published / 100), 2)))
