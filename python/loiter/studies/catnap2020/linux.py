"""Runs on Linux: a kernel whose spin locks are queued and whose queued waiters nap by selection. Its CPUs are the
contexts of all cores of the machine, or of some."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from loiter import images
from loiter.engine import Engine
from loiter.errors import UserFault
from loiter.images import Image, Recipe, cache
from loiter.machines import Machine
from loiter.runs.linux import CONTINUE, LeadIn, LinuxRequest
from loiter.systems import prepared
from loiter.systems.request import Boot, seat

IMAGE = "catnap2020"
PACKAGES = ("libvips-tools", "povray")
FRAGMENTS = ("locktorture", "queued-spin-locks")
MEMORY_MIB = 8192
"""Half of it is for files: as many as 255 users of a file server have. The paper's machine has 208 GiB."""
MOST_HARTS = 256
WARM_CYCLES = 20_000
"""Caches are warm with so much of what comes before timed cores."""

SELECTIONS = ("none", "all", "list", "automatic")
"""Whose queued waiters nap."""

_PARAMETERS = "/sys/module/{}/parameters/{}"
_READY, _BEGUN = "catnap2020: ready", "catnap2020: begun"
_WARM = f"reference warm for {WARM_CYCLES} cycles"
# The test is built in, and all that makes it random is off. Writers are pinned, one a core first.
APPEND = " ".join(
    f"locktorture.{name}={value}"
    for name, value in {
        **dict.fromkeys(("stutter", "shuffle_interval", "rt_boost", "stat_interval", "long_hold", "verbose"), 0),
        "pin_stride": 4,
    }.items()
)


@dataclass(frozen=True)
class Window:
    """When what a run says is measured."""

    later_cycles: int
    """Passes on the reference engine before any core is timed."""
    learning_cycles: int
    """Passes on timed cores before the window begins."""
    cycles: int
    """Of the window."""


def recipe() -> Recipe:
    """Of the image."""
    return Recipe("debian", packages=PACKAGES, kernel="small-kernel", fragments=FRAGMENTS)


BUILD = (
    f"loiter image build {IMAGE} --kind debian --kernel small-kernel --fragments {','.join(FRAGMENTS)} "
    f"--packages {','.join(PACKAGES)}"
)


def is_there() -> bool:
    """Whether the image is built, as it would be today."""
    found = cache.lookup(IMAGE)
    return found is not None and found.key == recipe().key()


@functools.cache
def _image() -> Image:
    return images.build(IMAGE, recipe(), Console(stderr=True))


def write(module: str, parameter: str, value: str) -> str:
    """A line of a script that sets a parameter of the kernel."""
    return f"echo '{value}' > {_PARAMETERS.format(module, parameter)}"


def select(selection: str) -> str:
    """A line that says whose queued waiters nap."""
    return write("loiter_catnap", "selection", selection)


def waits(selection: str, sites: Sequence[str] = ()) -> list[str]:
    """Lines that choose how the kernel waits: a pause everywhere, but where the selection says that queued waiters nap.
    The list is set in any case: what is compared does the same before."""
    return [
        write("loiter_wait", "relax", "pause"),
        write("loiter_catnap", "list", ",".join(sites)),
        select(selection),
    ]


def request_after(
    engine: Engine, machine: Machine, harts: int, lead_in: LeadIn, lines: Sequence[str], window: Window
) -> LinuxRequest:
    """Lines that the shell of a lead-in continues with, after which timed cores learn and the window begins."""
    later = f"reference for {window.later_cycles} cycles, " if window.later_cycles else ""
    timed = f"timing warm for {window.learning_cycles} cycles, timing for {window.cycles} cycles"
    phases = f"{_until(_BEGUN)}, {later}{_WARM}, repeat ({timed}) for 1 times"
    boot, line = _boot(engine, machine, harts), "; ".join([*lines, _say(_BEGUN), "wait"])
    return LinuxRequest(boot, line, _plan(engine, phases), lock_stats=True, lead_in=lead_in)


def lead_in(engine: Engine, lines: Sequence[str], settle_cycles: int) -> LeadIn:
    """Lines of a script, after which the system settles on the reference engine."""
    script = "\n".join(["set -e", *lines, _say(_READY), CONTINUE, ""])
    return LeadIn(script, _plan(engine, f"{_until(_READY)}, reference for {settle_cycles} cycles"))


def _boot(engine: Engine, machine: Machine, harts: int) -> Boot:
    seated, harts = seat(engine, machine, harts, MEMORY_MIB)
    image = _image()
    boot = replace(prepared.request(seated, harts, image, APPEND), untimed=True)
    if image.system_map is None:
        raise UserFault(f"image {image.name} has no System.map, by which locks are counted. Build it again.")
    return replace(boot, symbols=(image.system_map,))


def _say(word: str) -> str:
    return f"echo {word} > /dev/console"


def _until(word: str) -> str:
    return f'reference until console:"{word}"'


def _plan(engine: Engine, phases: str) -> str:
    return str(engine.describe_phases(phases)["plan"])
