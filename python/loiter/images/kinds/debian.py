"""A Debian root file system on ext4, with the packages a person wants, and a kernel to boot it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from loiter.errors import RunFault
from loiter.images import assemble, image
from loiter.images.kinds import Outcome, Work
from loiter.images.progress import Step
from loiter.images.recipe import Recipe

DESCRIPTION = "a Debian root file system with packages of your choice"
HAS_ROOT = True
FILES = ("root/*",)
CODE = ("kinds/debian.py", "assemble.py", "unpack.py", "settle.py", "ext4.py")
TOOLS = ("apt-get", "apt-cache", "dpkg-deb", "update-alternatives", "tar", "fakeroot", "mke2fs", "debugfs", "dumpe2fs")

# What every root has: what Debian calls essential, and what our init calls.
BASE = ("?essential", "busybox-static", "mount")
# What is there beside the packages that a person names.
DEFAULT = ("apache2", "curl", "gcc", "libc6-dev", "less", "perl", "procps", "python3", "sqlite3")


def steps(recipe: Recipe) -> list[Step]:
    """The steps of a build."""
    return [Step("lists", 2), Step("packages", 1), Step("download", 15), Step("root file system", 13)]


def build(work: Work) -> Outcome:
    """Builds the image."""
    return build_with(work, (), {}, {})


def build_with(
    work: Work, packages: tuple[str, ...], files: Mapping[str, Path], programs: Mapping[str, Path]
) -> Outcome:
    """Builds an image with more in it, by the paths in the guest: files, which may be executed if the host's may, and
    programs to be compiled from C with the image's own library."""
    kernel = work.kernel
    assert kernel is not None, "a root file system comes with a kernel"
    recipe, apt, steps = work.recipe, work.apt, work.steps
    with steps.step("lists"):
        apt.update(steps.share, steps.say)
    with steps.step("packages"):
        chosen = apt.with_dependencies([*BASE, *DEFAULT, *packages, *recipe.packages])
        steps.detail(f"{len(chosen)} packages, {sum(each.bytes for each in chosen) / 1e6:.0f} MB")
    with steps.step("download"):
        debs = apt.download(chosen, steps.share)
    with steps.step("root file system"):
        out = work.out / image.ROOT
        order = {
            "debs": [str(deb.path) for deb in debs],
            "out": str(out),
            "scratch": str(work.scratch),
            "size_mib": recipe.size_mib,
            "key": work.key,
            "files": {target: str(source) for target, source in files.items()},
            "programs": {target: str(source) for target, source in programs.items()},
        }
        assemble.run(order, work.scratch, steps.share)
        if not out.is_file():
            raise RunFault("the root file system was not written")
    by_itself: str | None = kernel.manifest["root_command_line"]
    for name in kernel.manifest["files"]:
        if name == image.INITRD and by_itself is not None:
            continue
        # One file under two names; who removes one image leaves the other whole.
        os.link(kernel.path / name, work.out / name)
    return Outcome(
        [deb.package for deb in debs], by_itself or kernel.command_line, kernel.manifest["kernel_release"], by_itself
    )
