"""Runs on Linux: the workloads on the kernel whose way to wait is a boot parameter, and a window of time in it."""

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

    settle_cycles: str
    """Until programs have read their files and are at work. In the reference engine each CPU that does not sleep
    executes an instruction a cycle, whatever the others do: programs stand at the same place in all ways to wait."""
    warm_cycles: str
    cycles: str

    def plan(self) -> str:
        """As `--phases` has it."""
        return (
            f'reference until console:"{_BEGUN}", reference for {self.settle_cycles} cycles, '
            f"reference warm for {self.warm_cycles} cycles, timing for {self.cycles} cycles"
        )


WINDOWS = {
    "quick": Window("20M", "2M", "500k"),
    "default": Window("50M", "8M", "5M"),
    "full": Window("100M", "25M", "50M"),
}


PATCHED, DEBIAN = "small-kernel", "kernel"
"""Kernels: ours, whose ways to wait are a boot parameter, and Debian's own."""


@functools.cache
def _image(kernel: str) -> Image:
    """The workloads on a kernel. Built where it is missing."""
    name = "workloads" if kernel == DEBIAN else f"workloads-{kernel}"
    return images.build(name, Recipe("workloads", kernel=kernel), Console(stderr=True))


def request(
    engine: Engine, machine: Machine, commands: Sequence[str], append: str, window: Window, kernel: str = PATCHED
) -> LinuxRequest:
    """Commands that never end, all at once; each context of the machine is a CPU."""
    if kernel == PATCHED:
        machine = machines.changed(engine, machine, [*machine.sets, HARDWARE_LOCK])
    seated, harts = seat(engine, machine, machine.contexts_per_core, MEMORY_MIB)
    lines = [f"{command} > /dev/null &" for command in commands]
    script = "\n".join([*lines, f"echo {_BEGUN} > /dev/console", "wait", ""])
    image = _image(kernel)
    # With phases, harts go to the cores of the machine when the first timed one begins.
    boot = replace(prepared.request(seated, harts, image, append), untimed=True)
    if boot.waiting is not None and image.system_map is not None:
        # The table of waiting functions names them.
        boot = replace(boot, symbols=(image.system_map,))
    return LinuxRequest(boot, script, str(engine.describe_phases(window.plan())["plan"]))
