"""The kinds of images, each a module of this package. A new one is a new file and its name in this list.

A kind's module has

    DESCRIPTION   one line
    HAS_ROOT      whether it has a Debian root file system, which takes packages and a kernel
    FILES         our files under guests/linux that go into it, as patterns
    CODE          our modules that decide what goes into it, relative to loiter/images
    TOOLS         commands of the host it needs
    steps(recipe) the steps of a build
    build(work)   does it
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from loiter.errors import unknown

if TYPE_CHECKING:
    from loiter.images.apt import Apt, Package
    from loiter.images.image import Image
    from loiter.images.progress import Step, Steps
    from loiter.images.recipe import Recipe

SMALL_KERNEL = "small-kernel"
NAMES = ("debian", "kernel", SMALL_KERNEL, "workloads")
KERNELS = ("kernel", SMALL_KERNEL)


@dataclass(frozen=True)
class Work:
    """What a kind builds with."""

    recipe: Recipe
    key: str
    apt: Apt
    # Where the image's files go, and where all else does.
    out: Path
    scratch: Path
    steps: Steps
    # The kernel image that goes with a root file system.
    kernel: Image | None


@dataclass(frozen=True)
class Outcome:
    """What the manifest says of a finished image, beside the hashes of its files."""

    packages: Sequence[Package]
    command_line: str
    kernel_release: str
    # How a kernel mounts a root file system by itself; None if it needs the initial RAM file system for that.
    root_command_line: str | None = None


class Kind(Protocol):
    """A kind of image."""

    DESCRIPTION: str
    HAS_ROOT: bool
    FILES: tuple[str, ...]
    CODE: tuple[str, ...]
    TOOLS: tuple[str, ...]

    def steps(self, recipe: Recipe) -> list[Step]:
        """The steps of a build."""

    def build(self, work: Work) -> Outcome:
        """Builds an image."""


def load(name: str) -> Kind:
    """A kind by its name."""
    if name not in NAMES:
        raise unknown("kind of image", name, NAMES)
    return cast(Kind, importlib.import_module(f"{__name__}.{name.replace('-', '_')}"))
