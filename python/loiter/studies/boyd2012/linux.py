"""What is run on Linux: one process on each of so many cores, on kernels whose spin locks are tickets or queues."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from loiter import images, machines, resources
from loiter.engine import Engine
from loiter.images import Image, Recipe, cache
from loiter.images.kinds import SMALL_KERNEL
from loiter.machines import Machine
from loiter.runs.linux import LinuxRequest
from loiter.runs.worker import Job
from loiter.studies.boyd2012.grid import CORES, MACHINE
from loiter.systems import prepared
from loiter.systems.request import seat

PROGRAM = "manycore"

POLLS = "hart.isa=-zawrs"
"""Waiters of the paper's ticket lock poll it. With Zawrs those of Linux on RISC-V sleep until its line is written."""


@dataclass(frozen=True)
class Kernel:
    """A kernel by its spin locks, and what its configuration has beside the small kernel's."""

    name: str
    fragments: tuple[str, ...] = ()

    @property
    def image(self) -> str:
        """Name of the image, which is Debian on this kernel."""
        return "-".join(["debian", SMALL_KERNEL, *self.fragments])

    @property
    def recipe(self) -> Recipe:
        """Of the image."""
        return Recipe("debian", kernel=SMALL_KERNEL, fragments=self.fragments)

    @property
    def build(self) -> str:
        """The command that builds the image."""
        options = f" --fragments {','.join(self.fragments)}" if self.fragments else ""
        return f"loiter image build {self.image} --kernel {SMALL_KERNEL}{options}"


TICKETS, QUEUES = Kernel("ticket"), Kernel("queued", ("queued-spin-locks",))
KERNELS = (TICKETS, QUEUES)
BUILD = " and ".join(f"`{kernel.build}`" for kernel in KERNELS)
"""The commands that build the images."""


@dataclass(frozen=True)
class Workload:
    """A workload of the program `manycore`, and how long it is measured at the default scale."""

    name: str
    title: str
    operation: str
    """What its throughput counts."""
    cycles: int
    """Of the window; a quarter comes before it on timed cores, until they wait for each other as they do then."""
    pieces: int = 1
    """Of an operation, each with a probe."""

    @property
    def unit(self) -> str:
        """Of its throughput."""
        return f"{self.operation} in a million cycles"


FOPS = Workload("fops", "FOPS: all open and close one file", "opens", 1_000_000)
MEMPOP = Workload("mempop", "MEMPOP: each maps and unmaps 64 KiB, populated", "maps", 2_000_000)
PFIND = Workload("pfind", "PFIND: each reads directories of its own", "directories", 300_000)
EXIM = Workload("exim", "EXIM: three processes a message, files in shared directories", "messages", 3_000_000, 3)
WORKLOADS = {each.name: each for each in (FOPS, MEMPOP, PFIND, EXIM)}

_REFERENCE_CYCLES, _WARM_CYCLES = 1_000_000, 500_000
"""Before any core is timed: in the first all begin, the second warms the caches."""


@dataclass(frozen=True)
class LinuxScale:
    """How much is run."""

    counts: tuple[int, ...]
    """Numbers of cores, one and all among them."""
    part: float = 1
    """Of the windows."""


LINUX_SCALES = {
    "quick": LinuxScale((1, 24, CORES), 1 / 6),
    "default": LinuxScale((1, 6, 12, 24, 40, CORES)),
}

PROFILED = (40, CORES)
"""Numbers of cores of Exim's profiles in the paper."""


def counts(scale: LinuxScale, workload: Workload) -> list[int]:
    """Numbers of cores that a workload is run on."""
    return sorted({*scale.counts, *(PROFILED if workload == EXIM else ())})


@dataclass(frozen=True)
class Run:
    """A workload on a kernel and the first so many cores; the others idle."""

    workload: Workload
    kernel: Kernel
    cores: int

    @property
    def label(self) -> str:
        """Its name, for people and for the result directory."""
        return f"linux.{self.workload.name}.{self.kernel.name}.{self.cores}"

    def window_cycles(self, scale: LinuxScale) -> int:
        """How long it is measured."""
        return round(self.workload.cycles * scale.part)

    def phases(self, scale: LinuxScale) -> str:
        """As `--phases` has it. The window is the last of them."""
        window = self.window_cycles(scale)
        reference = f"reference for {_REFERENCE_CYCLES} cycles, reference warm for {_WARM_CYCLES} cycles"
        return (
            f"reference until probe:roi_begin, {reference}, timing for {window // 4} cycles, timing for {window} cycles"
        )


def runs(scale: str, workloads: Sequence[str]) -> list[Run]:
    """Those of some workloads."""
    return [
        Run(workload, kernel, n)
        for workload in map(WORKLOADS.__getitem__, workloads)
        for kernel in KERNELS
        for n in counts(LINUX_SCALES[scale], workload)
    ]


def are_there() -> bool:
    """Whether the images are built, as they would be today."""
    found = ((kernel, cache.lookup(kernel.image)) for kernel in KERNELS)
    return all(image is not None and image.key == kernel.recipe.key() for kernel, image in found)


@functools.cache
def _image(kernel: Kernel) -> Image:
    """Built where it is missing."""
    return images.build(kernel.image, kernel.recipe, Console(stderr=True))


def jobs(engine: Engine, scale: str, workloads: Sequence[str]) -> list[Job]:
    """A job for each run. All cores boot whatever is run: systems differ in the kernel alone."""
    machine, _ = seat(engine, machines.load(engine, MACHINE, [POLLS]), CORES, None)
    return [_job(engine, machine, run, LINUX_SCALES[scale]) for run in runs(scale, workloads)]


def _job(engine: Engine, machine: Machine, run: Run, scale: LinuxScale) -> Job:
    image = _image(run.kernel)
    # With phases, harts go to the cores of the machine when the first timed one begins.
    boot = replace(prepared.request(machine, CORES, image), untimed=True)
    if image.system_map is not None:
        boot = replace(boot, symbols=(image.system_map,))
    script = f"exec ./{PROGRAM} {run.workload.name} {run.cores}\n"
    plan = str(engine.describe_phases(run.phases(scale))["plan"])
    request = LinuxRequest(boot, script, plan, put=(resources.GUESTS / PROGRAM,), profiled=True)
    return Job(run.label, request, weight=run.cores * run.window_cycles(scale) / 1000)
