"""Programs on a kernel with naps by selection: their runs, and what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loiter import energy, locks, resources, sampling
from loiter.engine import Engine, Json
from loiter.errors import RunFault
from loiter.machines import Machine
from loiter.results import Result
from loiter.runs.linux import LinuxRequest
from loiter.studies.catnap2020 import linux
from loiter.studies.catnap2020.torture import NONE

if TYPE_CHECKING:
    import pandas as pd

FIGURE_3, FIGURE_11, TABLES_2_3 = "figure_3", "figure_11", "tables_2_3"
EXHIBITS = (FIGURE_3, FIGURE_11, TABLES_2_3)

CONTEXTS = 4
"""CPUs of a core."""

SITES = ("__page_cache_release.part.0", "folio_batch_move_lru", "__rmqueue_pcplist", "free_pcppages_bulk")
"""For the selection `list`: functions that acquire spin locks that are waited for, and held for longer than the paper's
threshold: those of the lists of pages that may be reclaimed, and of free pages."""

_ENDED = "cat /tmp/said >&2; exit 1"
"""Nothing is to be measured of a program that has ended."""
_GOES_ON = f"kill -0 $! 2> /dev/null || {{ {_ENDED}; }}"
UNTIMED_SPEED, STARTING_SPEED = 70, 1_000
"""So many times as fast as timed cores is the reference engine, about; and where it has a few CPUs that work."""
_TASKS = "tasks() { read -r _ _ _ each _ < /proc/loadavg; echo ${each#*/}; }"


@dataclass(frozen=True)
class Mix:
    """A program of the paper's, and what stands for it."""

    name: str
    stands_for: str
    prepare: str
    """A line of the script that is run before it."""
    command: str
    """Which starts it: {threads} stands for their number."""
    settle_cycles: int = 3_000_000
    """Which pass once its threads are there, on the reference engine."""
    halved: bool = False
    """Whether it starts with one thread more than half of them, and how many there are is its choice from then on."""
    helpers: int = 0
    """Threads that it has beside them and that are there first. One of those starts one after the other, with pauses;
    on the reference engine that takes the longer, the more of them work meanwhile. So all are started on a CPU that no
    thread is to have, and have theirs at once when they are there."""
    starting_cycles: int = 0
    """That pass from one of its threads to the next, about."""

    def start(self, threads: int) -> str:
        """The command."""
        return self.command.format(threads=threads)

    def begun(self, threads: int) -> int:
        """Threads that there are once it has started."""
        return self.helpers + (1 + threads // 2 if self.halved else threads)


PROGRAM = "multiuser"
"""The guest's program that has the mixes of Re-aim, of which the paper takes four."""

_JOB_CYCLES = 60_000_000
"""Users are in the midst of different jobs by then: the longest are 60 million additions."""


def _users(name: str, stands_for: str) -> Mix:
    return Mix(name, stands_for, "mkdir users; cd users", f"../{PROGRAM} {name} {{threads}}", _JOB_CYCLES)


# A sphere on a plane in a light, without any file of another package.
_SCENE = (
    "camera { location <0, 2, -4> look_at 0 } light_source { <5, 9, -5> rgb 1 } "
    "plane { y, -1 pigment { checker rgb 0 rgb 1 } } "
    "sphere { 0, 1 pigment { rgb <1, 0.5, 0> } finish { reflection 0.4 } }"
)

COMPUTE = _users("compute", "arithmetic, numerics, some files")
DBASE = _users("dbase", "files that are read and updated, shared memory, sorting")
FSERVER = _users("fserver", "large files that are written, read and removed, directories, sockets")
SHARED = _users("shared", "processes and shells, small files, messages")
VIPS = Mix(
    "vips",
    "a convolution of an image",
    # As wide as the largest of PARSEC's, and so high that no window comes near its end. With less to
    # do for each value than a mask of 11 by 11 asks for, threads may have no work (docs/validation.md).
    "vips black /tmp/in.v 18000 2000 --bands 3; vips gaussmat /tmp/mask.mat 3 0.2",
    "env VIPS_CONCURRENCY={threads} vips conv /tmp/in.v /tmp/out.v /tmp/mask.mat",
    # Each thread has done a part by then, so that there are as many as the program wants.
    settle_cycles=120_000_000,
    # libvips ends threads while more than three wait for their next part of the image, and starts more while less than
    # two do (vips_threadpool_run in its iofuncs/threadpool.c).
    halved=True,
)
RAYTRACE = Mix(
    "raytrace",
    "a scene rendered by povray",
    f"echo '{_SCENE}' > /tmp/scene.pov",
    "povray +I/tmp/scene.pov +O/tmp/scene.png +W4096 +H4096 +WT{threads} -D -V",
    # Of povray 3.7, as its list of tasks has them.
    helpers=6,
    # One every 8 ms.
    starting_cycles=10_400_000,
)
MIXES = {each.name: each for each in (COMPUTE, DBASE, FSERVER, SHARED, VIPS, RAYTRACE)}


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    threads: tuple[int, ...]
    cycles: int
    """Of a window."""
    learning_cycles: int
    """Of timed cores before a window: automatic naps know of locks by then what they will know."""
    mixes: tuple[str, ...] = tuple(MIXES)
    harts: int = linux.MOST_HARTS
    """CPUs: of all cores, or of some."""
    long_waits: tuple[str, ...] = ()
    """Mixes that are run as `LONG_WAITS` says."""

    @property
    def cores(self) -> int:
        """Whose CPUs there are."""
        return self.harts // CONTEXTS

    @property
    def most(self) -> int:
        """Threads that have a CPU each, one being left to all else."""
        return self.harts - 1

    @property
    def description(self) -> str:
        """For `loiter study list`."""
        left_out = [each for each in MIXES if each not in self.mixes]
        less = f", without {', '.join(left_out)}" if left_out else ""
        threads = ", ".join(map(str, self.threads))
        return f"on Linux {', '.join(self.mixes)} with {threads} threads on {self.harts} CPUs{less}"

    @property
    def cases(self) -> list[tuple[str, int]]:
        """Each mix with each number of threads."""
        return [(mix, n) for mix in self.mixes for n in self.threads]

    def cell(self, mix: str, selection: str, threads: int) -> Cell:
        """A run."""
        if mix not in self.long_waits:
            return Cell(mix, selection, threads, self.cycles, self.learning_cycles, self.harts)
        long, run_in_cycles = LONG_WAITS, threads * LONG_WAITS.run_in_cycles
        return Cell(mix, selection, threads, long.cycles, self.learning_cycles, self.harts, run_in_cycles, long.parts)


@dataclass(frozen=True)
class LongWaits:
    """How a mix is run whose threads wait for longer than a window. The reference engine leaves another share of them
    waiting than there is on timed cores."""

    run_in_cycles: int
    """For each thread, of timed cores, before anybody naps."""
    cycles: int
    """Of the window."""
    parts: int
    """Of it: how much they differ says how sure the whole is."""


# With 255 users of `fserver` half of them wait when timed cores begin, and a third from 2.5 to 3 million cycles on. A
# wait takes 1 million.
LONG_WAITS = LongWaits(run_in_cycles=10_000, cycles=400_000, parts=2)

SCALES = {
    "quick": Scale((16, 63), 300_000, 150_000, (FSERVER.name, SHARED.name, DBASE.name), harts=64),
    # The paper's threads and CPUs.
    "default": Scale((64, 128, 192, 255), 300_000, 200_000, long_waits=(FSERVER.name, DBASE.name)),
}


@dataclass(frozen=True, order=True)
class Cell:
    """A run."""

    mix: str
    selection: str
    threads: int
    cycles: int
    learning_cycles: int
    harts: int
    run_in_cycles: int = 0
    parts: int = 1
    """Of its window."""

    @property
    def label(self) -> str:
        """Its name, for people and for the result directory."""
        return f"linux_{self.mix}.{self.selection}.{self.threads}"

    @property
    def cost_cycles(self) -> int:
        """As many cycles of timed cores take the host as long as it all, about: what takes longest is run first. One
        selection makes what the others continue."""
        mix = MIXES[self.mix]
        timed_cycles = self.learning_cycles + self.cycles
        if self.selection != NONE:
            return timed_cycles
        started = mix.settle_cycles // UNTIMED_SPEED + self.threads * mix.starting_cycles // STARTING_SPEED
        return started + self.run_in_cycles + timed_cycles

    def request(self, engine: Engine, machine: Machine) -> LinuxRequest:
        """All selections continue the same system, whose threads are there."""
        script, settle_cycles = start(self.mix, self.threads, self.harts), MIXES[self.mix].settle_cycles
        began = linux.lead_in(engine, script, f"wait; {_ENDED}", settle_cycles, self.run_in_cycles)
        window = linux.Window(self.learning_cycles, self.cycles, self.parts)
        request = linux.request_after(engine, machine, self.harts, began, self.selection, window)
        return replace(request, put=(resources.GUESTS / PROGRAM,))


def start(name: str, threads: int, harts: int) -> list[str]:
    """Lines that start a mix, without naps, and wait until its threads are there."""
    mix, taken = MIXES[name], seats(threads, harts)
    cpus, spare = ",".join(map(str, taken)), max(set(range(harts)).difference(taken))
    first, held, let_go = (spare, *_held(mix.helpers, cpus)) if mix.helpers else (cpus, [], [])
    return [
        *linux.waits(SITES),
        f"cp {PROGRAM} /tmp",
        "cd /tmp",
        mix.prepare,
        _TASKS,
        "before=$(tasks)",
        f"taskset -c {first} {mix.start(threads)} > /tmp/said 2>&1 &",
        *held,
        f"until [ $(tasks) -ge $((before + {mix.begun(threads)})) ]; do {_GOES_ON}; sleep 0.001; done",
        *let_go,
    ]


def _held(helpers: int, cpus: str) -> tuple[list[str], list[str]]:
    """Lines by which a program on one CPU starts its threads there, and those by which they have theirs. Who starts
    them is one of the first, some of which work; so all of those go before the threads that are started, which do not
    inherit that, and take turns."""
    there = "ls -U /proc/$!/task"
    each = "for each in $first; do"
    return (
        [
            "echo 1 > /proc/sys/kernel/sched_rr_timeslice_ms",
            f"until [ $({there} | wc -l) -ge {helpers + 2} ]; do {_GOES_ON}; sleep 0.001; done",
            f"first=$({there} | head -n {helpers + 1})",
            f"{each} chrt --reset-on-fork --rr --pid 1 $each || true; done",
        ],
        # Of those, one is not there any more when threads work.
        [f"{each} chrt --other --pid 0 $each || true; done", f"taskset -a -p -c {cpus} $! > /dev/null"],
    )


def seats(threads: int, harts: int) -> list[int]:
    """CPUs of so many threads, of `harts`: one of each core first."""
    order = [cpu for context in range(CONTEXTS) for cpu in range(context, harts, CONTEXTS)]
    return sorted(order[:threads])


def cells_of(scale: Scale, exhibits: Iterable[str]) -> list[Cell]:
    """The runs of some exhibits; those that they share are there once."""
    return list(dict.fromkeys(cell for each in exhibits for cell in cells(scale, each)))


def cells(scale: Scale, exhibit: str) -> list[Cell]:
    """The runs of an exhibit. Neighbours continue different systems, so that workers of a cluster need not wait for one
    another."""
    selections = linux.SELECTIONS if exhibit == FIGURE_11 else (NONE,)
    threads = scale.threads[-1:] if exhibit == TABLES_2_3 else scale.threads
    return [scale.cell(mix, selection, n) for n in threads for selection in selections for mix in scale.mixes]


@dataclass(frozen=True)
class Measured:
    """What a run says."""

    work: float
    """Instructions of programs and of the kernel in a microsecond, of all CPUs."""
    watts: float
    spinning: float
    """Share of the time in which CPUs do not sleep for want of work that they wait for locks."""


_WORKING = ("user", "kernel")
"""Activities whose instructions are work: not in lock functions, in the firmware and in interrupts."""
_WAITING = ("spinning", "pausing", "napping")
_ASLEEP = ("idle", "vacant")


class Mixed:
    """What the runs of a scale say; each is read once."""

    def __init__(self, results: Mapping[str, Result], scale: Scale) -> None:
        self._results, self.scale = results, scale
        self._measured: dict[str, tuple[Measured, list[Measured]]] = {}

    def measured(self, cell: Cell) -> Measured:
        """Of a run."""
        return self._read(cell.label)[0]

    def parts(self, cell: Cell) -> list[Measured]:
        """Of each part of its window."""
        return self._read(cell.label)[1]

    def time(self, mix: str, selection: str, threads: int) -> float:
        """Time for the same work over that without naps."""
        return _time(*map(self.measured, self._both(mix, selection, threads)))

    def energy(self, mix: str, selection: str, threads: int) -> float:
        """Energy for the same work likewise."""
        return _energy(*map(self.measured, self._both(mix, selection, threads)))

    def times(self, mix: str, selection: str, threads: int) -> list[float]:
        """Time likewise, of each part of the window."""
        return list(map(_time, *map(self.parts, self._both(mix, selection, threads))))

    def energies(self, mix: str, selection: str, threads: int) -> list[float]:
        """Energy likewise."""
        return list(map(_energy, *map(self.parts, self._both(mix, selection, threads))))

    def spinning(self, mix: str, selection: str, threads: int) -> float:
        """Share of the time of CPUs that do not sleep which is spent waiting for locks."""
        return self.measured(self.scale.cell(mix, selection, threads)).spinning

    def locks(self, mix: str) -> pd.DataFrame:
        """A row for each class of locks, without naps and with the most threads."""
        cell = self.scale.cell(mix, NONE, max(self.scale.threads))
        return locks.table(self._results[cell.label].rows("locks"), ("class",))

    def _both(self, mix: str, selection: str, threads: int) -> tuple[Cell, Cell]:
        return self.scale.cell(mix, NONE, threads), self.scale.cell(mix, selection, threads)

    def _read(self, label: str) -> tuple[Measured, list[Measured]]:
        if label not in self._measured:
            result = self._results[label]
            tables, samples = sampling.counted(result)
            parts = samples.each() if samples else []
            whole, *each = (measured(label, result, one) for one in (tables, *parts))
            self._measured[label] = whole, each or [whole]
        return self._measured[label]


def measured(label: str, result: Result, tables: Mapping[str, Sequence[Json]]) -> Measured:
    """What a run of this label says, by the tables of all its samples or of one."""
    found = energy.of(result, tables)
    if found is None:
        raise RunFault(f"{label}: its machine says nothing of energy")
    cycles: Counter[str] = Counter()
    work = 0
    for row in tables["activities"]:
        cycles[row["activity"]] += row["cycles"]
        work += row["instructions"] if row["activity"] in _WORKING else 0
    if not work:
        raise RunFault(f"{label}: nobody worked")
    awake = sum(count for activity, count in cycles.items() if activity not in _ASLEEP)
    waited = sum(cycles[activity] for activity in _WAITING)
    return Measured(work / (found.seconds * 1e6), found.chip_watts.value, waited / awake)


def _time(before: Measured, after: Measured) -> float:
    return before.work / after.work


def _energy(before: Measured, after: Measured) -> float:
    return (after.watts / after.work) / (before.watts / before.work)
