"""What is run: hosts whose guests have one lock or build a C program, and how much of it at each scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from loiter.studies.base import Exhibit
from loiter.studies.friebel2008 import build, mix, web

PAPER = "friebel2008"

EXHIBITS = (
    Exhibit("waits", "Waits for locks by their length: native, alone, preempted, yielding"),
    Exhibit("executed", "Waits for locks by the cycles in which CPUs executed who waits"),
    Exhibit("window", "Waits for locks natively, in a part of the build that timed cores can go through"),
    Exhibit("results", "Wall time, guest time and spinning, by lock"),
    Exhibit("efficiency", "Gains of guest time and of wall time"),
    Exhibit("queued", "Queued spin locks, plain and para-virtual"),
    Exhibit("fences", "Remote fences, with and without numbers of address spaces"),
    Exhibit("cpus", "The build on more virtual CPUs"),
    Exhibit("contended", "A lock of the kernel in which all CPUs meet"),
    Exhibit("pairs", "Two builds, and a web server beside a build"),
    Exhibit("threshold", "When a waiter yields"),
    Exhibit("guests", "Guests on the same CPUs"),
    Exhibit("choice", "Who runs instead of a waiter that yields"),
)

CLOCK_MHZ = 1000
SLICE_US = 30_000
SLICE_LOG2 = 24
"""Of the cycles of a slice, 30 million; the paper's, at 2.2 GHz, are of 2^26."""
AFTER_LOG2 = 16
"""The paper's threshold."""
TURN_CYCLES = 1000
"""Waits of less mean little (docs/virtual.md)."""

TEST_AND_SET, TICKET, QUEUED, PARAVIRTUAL = "test_and_set", "ticket", "queued", build.PARAVIRTUAL
LOCKS = (TEST_AND_SET, TICKET)
"""The paper's."""
QUEUED_LOCKS = (QUEUED, PARAVIRTUAL)
"""Of another kernel."""
LOOKS = 2**AFTER_LOG2 // TURN_CYCLES
"""Of a para-virtual waiter before it sleeps: a pause between two looks lasts for the rest of a turn."""
SECTIONS, BUILD, WEB, MIX = "sections", "build", "web", "mix"
LOADS = {
    SECTIONS: "one lock on bare metal",
    BUILD: "a C build on Linux",
    WEB: "a web server and its clients on Linux",
    MIX: "processes on Linux that meet in one spin lock",
}
"""What the guest does, in words."""
CHOICES = ("nobody", "next", "directed", "published")

NATIVE, ALONE, PREEMPTED, YIELDING = "native", "alone", "preempted", "yielding"
MODES = (NATIVE, ALONE, PREEMPTED, YIELDING)

SBI, IPI = "sbi", "ipi"
FENCES = {SBI: "the firmware", IPI: "the kernel"}
"""Who sends fences to other CPUs: only the kernel's waits are seen, and yield."""

ASID_BITS = 0
"""Of the paper's processors (AMD, 2008): x86 had no numbers of address spaces before Intel's Westmere (PCID, 2010), and
Linux does not use those of x86 before 4.14. A change to another process forgets a CPU's translations, so that later
changes of its page tables concern no CPU where it has been before."""
MOST_ASID_BITS = 16
"""Of RISC-V, and what harts have elsewhere."""


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    cpus: int
    """Of the host, and virtual ones of each guest."""
    acquisitions: int
    hold: int
    think: int
    """Steps of work in a section and outside."""
    units: int
    """Of the program that is built."""
    jobs: int
    """Side by side, of the build."""
    clients: int
    """Side by side, of the web server."""
    run_us: int
    """After which a run is given up."""
    published_us: int
    """The same of the build as published, whose runs are to come to their ends."""
    thresholds: tuple[int, ...]
    guests: tuple[int, ...]
    times: tuple[int, ...]
    """As many CPUs, and as much to build, as that of these."""
    repetitions: int
    """Of a build as published, which begin at other places of a slice."""
    window_begins_us: int
    """In the midst of the build."""
    window_us: int

    @property
    def description(self) -> str:
        """For `loiter study list`."""
        return (
            f"guests of {self.cpus} virtual CPUs on {self.cpus} CPUs; {self.acquisitions:,} acquisitions of one lock, "
            f"and a build of {self.units} units"
        )

    def enlarged(self, times: int) -> Scale:
        """With so many times the CPUs, and as much to build for each."""
        return replace(self, cpus=self.cpus * times, units=self.units * times, jobs=self.jobs * times)


SCALES = {
    "quick": Scale(
        cpus=4,
        acquisitions=20_000,
        hold=2_000,
        think=20_000,
        units=8,
        jobs=8,
        clients=8,
        run_us=3_000_000,
        published_us=3_000_000,
        thresholds=(10, 16, 22),
        guests=(1, 2, 4),
        times=(1, 2, 4),
        repetitions=2,
        window_begins_us=200_000,
        window_us=20_000,
    ),
    "default": Scale(
        cpus=16,
        acquisitions=100_000,
        hold=2_000,
        think=80_000,
        units=64,
        jobs=32,
        clients=32,
        run_us=5_000_000,
        published_us=300_000_000,
        thresholds=tuple(range(10, 23, 2)),
        guests=(1, 2, 3, 4),
        times=(1, 2),
        repetitions=5,
        window_begins_us=333_000,
        window_us=40_000,
    ),
}


@dataclass(frozen=True)
class Case:
    """A run of a guest beside so many rivals."""

    load: str
    lock: str
    policy: str = "nobody"
    after_log2: int = 0
    """Of the cycles after which a waiter yields; 0: never."""
    rivals: int = 1
    native: bool = False
    """Whether the host costs nothing: the guest is as without one, where no other is beside it."""
    fences: str = SBI
    """Who tells the guest's other CPUs to forget translations and instructions."""
    beside: str = ""
    """What another guest does, which is waited for as well; empty: there is none but rivals."""
    times: int = 1
    """The CPUs, virtual and not, and the build, of those of the scale."""
    asid_bits: int = ASID_BITS
    """Of the numbers of address spaces of a guest on Linux."""
    window: bool = False
    """Whether only the waits of a part of the build count."""
    repetition: int = 0
    """Which of several that differ in where in a slice the guest begins to work."""

    @property
    def label(self) -> str:
        """Its name, for people and for the result directory."""
        again = f".again{self.repetition}" if self.repetition else ""
        if self.native:
            return f"{self.load}.{self.lock}.native{'.window' if self.window else ''}{again}"
        load = f"{self.load}+{self.beside}" if self.beside else self.load
        load = load if self.fences == SBI else f"{load}.{self.fences}"
        larger = f".times{self.times}" if self.times > 1 else ""
        larger += f".asid{self.asid_bits}" if self.asid_bits != ASID_BITS else ""
        return f"{load}.{self.lock}.{self.policy}.after{self.after_log2}.rivals{self.rivals}{larger}{again}"

    def rests_us(self, scale: Scale) -> int:
        """How long the guest sleeps before it works: repetitions are evenly spread over a slice."""
        return self.repetition * SLICE_US // scale.repetitions

    def begins_us(self, scale: Scale) -> int:
        """When its waits begin to count."""
        return scale.window_begins_us if self.window else 0

    @property
    def on_linux(self) -> bool:
        """Whether it needs an image."""
        return self.load != SECTIONS

    @property
    def image(self) -> str:
        """That the guest boots which builds."""
        return build.QUEUED_IMAGE if self.lock in QUEUED_LOCKS else build.IMAGE

    def file(self, scale: Scale) -> str:
        """The host, as `loiter vm` reads it."""
        scale = scale.enlarged(self.times)
        work = _linux("work", self.load, self, scale) if self.on_linux else _sections(self, scale)
        if self.beside:
            work += _linux("beside", self.beside, self, scale)
        rivals = "".join(_rival(number, scale) for number in range(self.rivals))
        costs = "switch_cycles = 0\ncall_cycles = 0" if self.native else ""
        memory_mib = build.MEMORY_MIB * (2 if self.beside else 1) + 64 * self.rivals
        run_us = scale.published_us if replace(self, repetition=0) in modes(BUILD) else scale.run_us
        run_us = self.begins_us(scale) + scale.window_us if self.window else run_us
        return _HOST.format(scale=scale, case=self, memory_mib=memory_mib, run_us=run_us, costs=costs) + work + rivals


_HOST = f"""
[host]
cpus = {{scale.cpus}}
clock_mhz = {CLOCK_MHZ}
memory_mib = {{memory_mib}}
run_us = {{run_us}}
turn_cycles = {TURN_CYCLES}
{{costs}}

[scheduler]
slice_us = {SLICE_US}

[helping]
policy = "{{case.policy}}"
"""


def arguments(case: Case, scale: Scale) -> list[str]:
    """Of the program `virtual`, but for its task."""
    return [
        f"acquisitions={scale.acquisitions}",
        f"hold={scale.hold}",
        f"think={scale.think}",
        f"yield_after={case.after_log2}",
    ]


def _sections(case: Case, scale: Scale) -> str:
    words = " ".join([f"task.{case.lock}={_all(scale)}", *arguments(case, scale)])
    return _guest("work", scale, 'program = "virtual"', f'arguments = "{words}"', "memory_mib = 64")


def command(case: Case, load: str, scale: Scale) -> str:
    """What a guest on Linux runs. At this clock a cycle is a nanosecond."""
    after_ns = 2**case.after_log2 * 1000 // CLOCK_MHZ if case.after_log2 else 0
    chosen = build.choices(case.lock, after_ns, LOOKS if case.lock == PARAVIRTUAL else 0)
    if case.fences != SBI:
        chosen.append(build.choice("fences", case.fences))
    if case.repetition:
        chosen.append(f"sleep {case.rests_us(scale) / 1e6}")
    if load == WEB:
        return web.command(scale.clients, chosen)
    return mix.command(scale.cpus, chosen) if load == MIX else build.command(scale.units, scale.jobs, chosen)


def _linux(name: str, load: str, case: Case, scale: Scale) -> str:
    text = command(case, load, scale).replace("\\", "\\\\").replace('"', '\\"')
    boots = [f'append = "loiter_yield.lock={PARAVIRTUAL}"'] if case.lock == PARAVIRTUAL else []
    machine = (f"memory_mib = {build.MEMORY_MIB}", f'machine_set = "hart.asid_bits={case.asid_bits}"')
    return _guest(name, scale, f'image = "{case.image}"', *boots, f'command = """\n{text}"""', *machine)


def _rival(number: int, scale: Scale) -> str:
    task = f'arguments = "task.pausing_rival={_all(scale)}"'
    return _guest(f"rival{number}", scale, 'program = "virtual"', task, "memory_mib = 64", "background = true")


def _guest(name: str, scale: Scale, *lines: str) -> str:
    return "\n".join(["", "[[guests]]", f'name = "{name}"', f"harts = {scale.cpus}", *lines, ""])


def _all(scale: Scale) -> str:
    return ",".join(map(str, range(scale.cpus)))


def mode(load: str, lock: str, name: str) -> Case:
    """One of the four modes of the paper's histograms."""
    if name == NATIVE:
        return Case(load, lock, rivals=0, native=True)
    if name == YIELDING:
        return Case(load, lock, "published", AFTER_LOG2)
    return Case(load, lock, rivals=0 if name == ALONE else 1)


WINDOW = replace(mode(BUILD, TEST_AND_SET, NATIVE), window=True)
"""A part of the build with nothing beside it."""


def modes(load: str) -> list[Case]:
    """Of the table of results: without and with a rival, and yielding, of both locks."""
    return [mode(load, lock, name) for lock in LOCKS for name in (ALONE, PREEMPTED, YIELDING)]


def cases(scale: Scale, exhibit: str, loads: Iterable[str]) -> list[Case]:
    """The runs of an exhibit, of the loads that there are."""
    found: list[Case] = []
    of_build: dict[str, Callable[[], list[Case]]] = {
        "window": lambda: [WINDOW],
        "queued": queued,
        "fences": fences,
        "cpus": lambda: more_cpus(scale),
        "contended": contended,
        "pairs": pairs,
    }
    for load in loads:
        if exhibit == "waits" or (exhibit == "executed" and load == BUILD):
            found += repeated(scale, [mode(load, TEST_AND_SET, name) for name in MODES])
        elif exhibit in ("results", "efficiency"):
            found += repeated(scale, modes(load))
        elif load == BUILD and exhibit in of_build:
            found += of_build[exhibit]()
    if exhibit == "threshold":
        found = [Case(SECTIONS, lock, "published", after) for lock in LOCKS for after in scale.thresholds]
    elif exhibit == "guests":
        found = [overcommitted(lock, n, yields) for lock in LOCKS for n in scale.guests for yields in (False, True)]
    elif exhibit == "choice":
        found = [Case(SECTIONS, TICKET, choice, AFTER_LOG2) for choice in CHOICES]
    return list(dict.fromkeys(found))


def repeated(scale: Scale, once: Iterable[Case]) -> list[Case]:
    """The same with their repetitions: of the build, but where waiters for ticket locks never yield, which takes longer
    than all else."""
    longest = mode(BUILD, TICKET, PREEMPTED)
    return [
        replace(case, repetition=n)
        for case in once
        for n in range(scale.repetitions if case.load == BUILD and case != longest else 1)
    ]


def queued() -> list[Case]:
    """Of queued locks, of the build and where all CPUs meet in one. Para-virtual waiters never yield."""
    return [
        mode(load, lock, name)
        for load in (BUILD, MIX)
        for lock in QUEUED_LOCKS
        for name in (ALONE, PREEMPTED, YIELDING)
        if name != YIELDING or lock != PARAVIRTUAL
    ]


def more_cpus(scale: Scale) -> list[Case]:
    """The build with ticket locks, on more and more CPUs."""
    return [replace(mode(BUILD, TICKET, name), times=times) for times in scale.times for name in (PREEMPTED, YIELDING)]


def contended() -> list[Case]:
    """Where all CPUs meet in one spin lock of the kernel, and the build alone beside it."""
    return [mode(BUILD, lock, ALONE) for lock in LOCKS] + modes(MIX)


def fences() -> list[Case]:
    """The build with test-and-set locks, by the bits of numbers of address spaces, by who sends fences, and by mode."""
    return [
        replace(mode(BUILD, TEST_AND_SET, name), fences=who, asid_bits=bits)
        for bits in (MOST_ASID_BITS, ASID_BITS)
        for who in FENCES
        for name in (ALONE, PREEMPTED, YIELDING)
    ]


def pairs() -> list[Case]:
    """Guests that work side by side: two builds, and a web server beside a build; each alone; and with yield."""
    alone = [Case(load, lock, rivals=0) for load in (BUILD, WEB) for lock in LOCKS]
    loads = ((BUILD, BUILD), (WEB, BUILD))
    ways = (("nobody", 0), ("published", AFTER_LOG2))
    return alone + [
        Case(load, lock, policy, after, rivals=0, beside=beside)
        for load, beside in loads
        for lock in LOCKS
        for policy, after in ways
    ]


def overcommitted(lock: str, guests: int, yields: bool) -> Case:
    """One of so many guests on the same CPUs."""
    if yields:
        return Case(SECTIONS, lock, "published", AFTER_LOG2, rivals=guests - 1)
    return Case(SECTIONS, lock, rivals=guests - 1)
