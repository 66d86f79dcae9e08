"""Runs on Linux: the workloads on the kernel whose waiting method is a boot parameter, and a window of time in it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from loiter import images, machines
from loiter.engine import Engine
from loiter.images import Image, Recipe
from loiter.machines import Machine
from loiter.runs.linux import LinuxRequest
from loiter.studies.redstone2002.common import HARDWARE_LOCK
from loiter.systems import prepared
from loiter.systems.request import seat

BENCH = "/usr/lib/loiter/bench"
MEMORY_MIB = 1024
_BEGUN = "the programs have begun"


@dataclass(frozen=True)
class Window:
    """How long a window is, and what comes before it."""

    settle_seconds: float
    """Of the guest, until programs have read their files and are at work, and waiting methods are changed."""
    settle_cycles: str
    """Likewise, of programs that say by a probe when all of their processes begin."""
    warm_cycles: str
    cycles: str

    def plan(self, has_region: bool) -> str:
        """As `--phases` has it."""
        console = f'until console:"{_BEGUN}"'
        begins = f"until probe:roi_begin, reference for {self.settle_cycles} cycles" if has_region else console
        return f"reference {begins}, reference warm for {self.warm_cycles} cycles, timing for {self.cycles} cycles"


WINDOWS = {
    "quick": Window(0.02, "5M", "2M", "500k"),
    "default": Window(0.06, "20M", "8M", "5M"),
    "full": Window(0.12, "50M", "25M", "50M"),
}


BOOTED_WINDOWS = {**WINDOWS, "default": replace(WINDOWS["default"], cycles="10M")}
"""Of comparisons of systems that booted differently, where boots differ more than what is compared."""

WHOLE = "reference until probe:roi_begin, timing until probe:roi_end"
"""Phases of commands that end: all that they do, from the beginning. The same work whatever is compared, and no state
that an untimed phase has left; for programs that never come to a steady state."""


@dataclass(frozen=True)
class Waits:
    """How idle CPUs wait from the end of settling on, which our kernel can change while it runs. Runs that differ in
    nothing else have the same programs at the same place, in the same pages."""

    idle: str
    """wfi, poll, or block: in hardware."""
    relax: str = "stock"
    """cpu_relax: stock, bare, pause."""

    def lines(self) -> list[str]:
        """Of a script; as long for all."""
        changes = {"relax": self.relax, "idle": self.idle}
        return [f"echo '{how:5}' > /sys/module/loiter_wait/parameters/{name}" for name, how in changes.items()]


BOOTS = {"quick": 1, "default": 3, "full": 5}
"""How often a comparison of systems that booted differently is repeated."""
MOST_BOOTS = {**BOOTS, "default": 5}
"""The same where boots differ more than what is compared."""


def boot_word(boot: int) -> str:
    """A word of the command line that the kernel does not know. Boots that differ in it lay out memory differently."""
    return f"loiter.boot={boot}"


PATCHED, DEBIAN = "small-kernel", "kernel"
"""Kernels: ours, whose waiting methods are a boot parameter, and Debian's own."""


@functools.cache
def _image(kernel: str) -> Image:
    """The workloads on a kernel. Built where it is missing."""
    name = "workloads" if kernel == DEBIAN else f"workloads-{kernel}"
    return images.build(name, Recipe("workloads", kernel=kernel), Console(stderr=True))


def request(
    engine: Engine,
    machine: Machine,
    commands: Sequence[str],
    window: Window,
    *,
    append: str = "",
    waits: Waits | None = None,
    kernel: str = PATCHED,
    whole: bool = False,
) -> LinuxRequest:
    """Commands that never end, all at once; each context of the machine is a CPU. `append` is of the kernel's command
    line. The window begins some time after idle CPUs have changed their waiting method; without that, after the
    region of one of the commands has begun. With `whole`, commands end, and their region is timed instead."""
    if kernel == PATCHED:
        machine = machines.changed(engine, machine, [*machine.sets, HARDWARE_LOCK])
    seated, harts = seat(engine, machine, machine.contexts_per_core, MEMORY_MIB)
    lines = [f"{command} > /dev/null &" for command in commands]
    if waits:
        lines += [f"sleep {window.settle_seconds}", *waits.lines(), f"echo {_BEGUN} > /dev/console"]
    script = "\n".join(["set -e", *lines, "wait", ""])
    image = _image(kernel)
    # With phases, harts go to the cores of the machine when the first timed one begins.
    boot = replace(prepared.request(seated, harts, image, append), untimed=True)
    if boot.waiting is not None and image.system_map is not None:
        # The table of waiting functions names them.
        boot = replace(boot, symbols=(image.system_map,))
    phases = WHOLE if whole else window.plan(has_region=waits is None)
    return LinuxRequest(boot, script, str(engine.describe_phases(phases)["plan"]))
