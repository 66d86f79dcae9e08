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
from loiter.runs.linux import LeadIn, LinuxRequest
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
_VARIABLE, _VARIABLE_BYTES = "catnap_selection", 4
"""The kernel's, an enumeration in the order of `SELECTIONS`."""
_NAPS_THROUGH = "catnap_naps_through"
"""The kernel's: whether naps with interrupts masked go on while one is pending, 1 at first, one byte."""
_READY = "catnap2020: ready"
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

    learning_cycles: int
    """Passes on timed cores before it begins."""
    cycles: int
    """Of the window."""
    parts: int = 1
    """That are measured each, one after the other."""


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


def waits(sites: Sequence[str]) -> list[str]:
    """Lines that choose how the kernel waits: a pause everywhere, and nobody naps. The list is set in any case: what is
    compared does the same before. Automatic naps work out what they need as they are selected, and so are once."""
    return [
        write("loiter_wait", "relax", "pause"),
        write("loiter_catnap", "list", ",".join(sites)),
        *(write("loiter_catnap", "selection", each) for each in ("automatic", "none")),
    ]


def request_after(
    engine: Engine, machine: Machine, harts: int, lead_in: LeadIn, selection: str, window: Window
) -> LinuxRequest:
    """A selection from the end of a lead-in on, after which timed cores learn and the window begins."""
    parts = [f"timing for {window.cycles // window.parts} cycles"] * window.parts
    timed = ", ".join([f"timing warm for {window.learning_cycles} cycles", *parts])
    warm = "" if lead_in.ends_timed(engine) else f"{_WARM}, "
    phases = _plan(engine, f"{warm}repeat ({timed}) for 1 times")
    variable = (_VARIABLE, SELECTIONS.index(selection).to_bytes(_VARIABLE_BYTES, "little"))
    boot = _boot(engine, machine, harts)
    return LinuxRequest(boot, "", phases, lock_stats=True, lead_in=lead_in, variables=(variable,))


def ended_by_interrupts(request: LinuxRequest) -> LinuxRequest:
    """The same, but naps with interrupts masked end while one is pending, as a wrs does."""
    return replace(request, variables=(*request.variables, (_NAPS_THROUGH, b"\0")))


def lead_in(engine: Engine, lines: Sequence[str], meanwhile: str, settle_cycles: int, run_in_cycles: int = 0) -> LeadIn:
    """Lines of a script that start what is measured, and one for its shell to wait with. The system settles on the
    reference engine from there on, and then runs in on timed cores."""
    script = "\n".join(["set -e", *lines, f"echo {_READY} > /dev/console", meanwhile, ""])
    phases = f'reference until console:"{_READY}", reference for {settle_cycles} cycles'
    if run_in_cycles:
        phases += f", {_WARM}, timing for {run_in_cycles} cycles"
    return LeadIn(script, _plan(engine, phases))


def _boot(engine: Engine, machine: Machine, harts: int) -> Boot:
    seated, harts = seat(engine, machine, harts, MEMORY_MIB)
    image = _image()
    boot = replace(prepared.request(seated, harts, image, APPEND), untimed=True)
    if image.system_map is None:
        raise UserFault(f"image {image.name} has no System.map, by which locks are counted. Build it again.")
    return replace(boot, symbols=(image.system_map,))


def _plan(engine: Engine, phases: str) -> str:
    return str(engine.describe_phases(phases)["plan"])
