"""The grid: waiting methods, the programs that work beside them, and how many wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loiter import machines, reference
from loiter.engine import Engine
from loiter.errors import UserFault, unknown
from loiter.machines import Machine

PROGRAM = "spinloops"

METHODS = {
    "default": "reads the lock as fast as it can",
    "idiv": "a divide after each read",
    "casx": "an atomic on a line of its own after each read",
    "fdiv": "a double-precision divide after each read",
    "l2miss": "a load that misses all caches after each read",
    "pause": "a pause after each read",
    "backoff": "pauses after each read, twice as many each time, up to 64",
    "wrs_nto": "sleeps until another hart writes the line (wrs.nto)",
    "wrs_sto": "the same, or for a short time (wrs.sto)",
    "wfi": "sleeps until the releaser sends an interrupt (wfi)",
    "smt_lock": "blocks in the hardware lock",
}
"""Every method that the guest has, and what a waiter does."""

_NEEDS = {"wrs_nto": "zawrs", "wrs_sto": "zawrs", "smt_lock": "xloiterlock"}
"""Extensions without which a method is an illegal instruction."""
_LOCK = "smt_lock"

BENCHMARKS: tuple[str, ...] = (
    *reference.lookup("cakarevic2008", "active.single_behaviour"),
    *reference.lookup("cakarevic2008", "active.multiple_behaviour"),
)
"""The programs that Cakarevic et al. (2008) measured spin loops beside."""

_TIMED = ("fgmt", "smt")
_ISA = "hart.isa"
# Up to so many waiters each number is measured.
_EACH_UP_TO = 8


@dataclass(frozen=True)
class Work:
    """How much one repetition of a program is, and how often it is repeated, by scale."""

    arguments: tuple[str, ...]
    repetitions: dict[str, int]
    seconds: float
    """Rough host seconds of a repetition on a busy core; no result depends on it."""


_MANY = {"quick": 15, "default": 40, "full": 100}
_FEW = {"quick": 8, "default": 15, "full": 40}

WORK = {
    "add": Work(("iterations=12",), _MANY, 0.01),
    "mulx": Work(("iterations=3",), _MANY, 0.01),
    "baa": Work(("iterations=12",), _MANY, 0.01),
    "l1_hit": Work(("iterations=6",), _MANY, 0.01),
    "l2_hit": Work(("iterations=1", "footprint_kib=1536"), _MANY, 0.01),
    "hash": Work(("iterations=100",), _MANY, 0.01),
    "sort": Work(("footprint_kib=8",), _MANY, 0.03),
    "mbv_int": Work(("iterations=16", "footprint_kib=65536"), _FEW, 0.15),
    "mbv_fp": Work(("iterations=1", "footprint_kib=65536"), _MANY, 0.02),
}

SCALES = {
    "quick": "one waiter and as many as there is room for, beside four programs, 8 to 15 wake-ups each",
    "default": "every number of waiters up to 8, then powers of two and the most, all programs, 15 to 40 wake-ups",
    "full": "every number of waiters, 40 to 100 wake-ups",
}
_QUICK_BENCHMARKS = ("add", "l1_hit", "hash", "sort")


@dataclass(frozen=True, order=True)
class Cell:
    """One run: a program on context 0 and so many waiters of one method beside it; 0 of "" is the program alone."""

    benchmark: str
    method: str = ""
    waiters: int = 0

    @property
    def label(self) -> str:
        """Its name, for people and for the result directory."""
        return f"{self.benchmark}.{f'{self.waiters}-{self.method}' if self.waiters else 'alone'}"

    def placements(self) -> list[str]:
        """The tasks on their contexts, as --place writes them."""
        words = [f"{self.benchmark}=0"]
        if self.waiters:
            words.append(f"spin_{self.method}={','.join(map(str, range(1, self.waiters + 1)))}")
        return words


@dataclass(frozen=True)
class Choice:
    """What a person wants to see of the grid."""

    machine: Machine
    scale: str
    methods: tuple[str, ...]
    benchmarks: tuple[str, ...]
    waiters: tuple[int, ...]

    def machine_of(self, engine: Engine, cell: Cell) -> Machine:
        """The machine of a run. No preset has the hardware lock; who waits in it is given one."""
        if cell.method != _LOCK or self.machine.has_extension(_NEEDS[_LOCK]):
            return self.machine
        sets = [each for each in self.machine.sets if not each.startswith(f"{_ISA}=")]
        isa = f"{_ISA}={self.machine.value(_ISA)}_{_NEEDS[_LOCK]}"
        return machines.changed(engine, self.machine, [*sets, isa])

    def cells(self) -> list[Cell]:
        """The runs, those alone first."""
        alone = [Cell(each) for each in self.benchmarks]
        return alone + [
            Cell(each, method, waiters)
            for each in self.benchmarks
            for method in self.methods
            for waiters in self.waiters
        ]

    def arguments(self, cell: Cell) -> tuple[str, ...]:
        """The words of the program's command line."""
        work = WORK[cell.benchmark]
        repetitions = work.repetitions[self.scale]
        words = [*work.arguments, f"reps_min={repetitions}", f"reps_max={repetitions}", "handovers=1"]
        if cell.method == "l2miss":
            words += _chain(self.machine)
        return tuple(words)

    def weight(self, cell: Cell) -> float:
        """Expected cost of a run, roughly in host seconds."""
        work = WORK[cell.benchmark]
        return work.seconds * work.repetitions[self.scale] * (1 + 0.5 * cell.waiters)


def choose(
    machine: Machine,
    scale: str,
    methods: Sequence[str] = (),
    benchmarks: Sequence[str] = (),
    waiters: Sequence[int] = (),
) -> Choice:
    """The part of the grid that was chosen; what was not said is all that the scale has."""
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    able = [
        method for method in METHODS if method == _LOCK or method not in _NEEDS or machine.has_extension(_NEEDS[method])
    ]
    room = machine.contexts_per_core - 1
    _refuse(machine, methods, able, benchmarks)
    for each in waiters:
        if not 1 <= each <= room:
            raise UserFault(f"--waiters {each}: beside a program, a core of {machine.name} has room for 1 to {room}.")
    return Choice(
        machine,
        scale,
        tuple(dict.fromkeys(methods)) or tuple(able),
        tuple(dict.fromkeys(benchmarks)) or (_QUICK_BENCHMARKS if scale == "quick" else BENCHMARKS),
        tuple(sorted(set(waiters))) or _numbers(room, scale),
    )


def _refuse(machine: Machine, methods: Sequence[str], able: Sequence[str], benchmarks: Sequence[str]) -> None:
    """A machine on which nobody waits, methods and programs that there are not."""
    for method in methods:
        if method not in METHODS:
            raise unknown("waiting method", method, METHODS)
        if method not in able:
            raise UserFault(
                f"--methods {method}: harts of {machine.name} do not have {_NEEDS[method].capitalize()} ({_ISA})."
            )
    for benchmark in benchmarks:
        if benchmark not in BENCHMARKS:
            raise unknown("benchmark", benchmark, BENCHMARKS)
    if machine.value("core.kind") not in _TIMED:
        raise UserFault(f"machine {machine.name} has no timed cores, so waiting costs nothing there; name another.")
    if machine.contexts_per_core == 1:
        raise UserFault(
            f"machine {machine.name} has one context a core: nobody can wait beside a program. Name a multithreaded "
            'machine, or give it contexts, as in "--set core.contexts=2".'
        )


def _numbers(room: int, scale: str) -> tuple[int, ...]:
    if scale == "quick":
        return tuple(sorted({1, room}))
    if scale == "full" or room <= _EACH_UP_TO:
        return tuple(range(1, room + 1))
    return tuple(sorted({*(2**n for n in range(room.bit_length())), room}))


def _chain(machine: Machine) -> list[str]:
    """A ring of lines of one set of the second level, and so of the first: more than either has ways."""
    size_kib, ways = machine.count("l2.size_kib", 0), machine.count("l2.ways", 1)
    way_kib = 1 << (size_kib // ways - 1).bit_length()
    lines = 2 * max(ways, machine.count("l1d.ways", 1)) + 1
    return [f"l2miss_stride_kib={way_kib}", f"l2miss_lines={lines}"]
