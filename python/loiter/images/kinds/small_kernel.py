"""A small kernel from Debian's source, with a configuration and patches of ours: boots fast, and can be changed. And
OpenSBI, as Debian has it and for more harts."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from loiter import resources
from loiter.errors import RunFault
from loiter.images import firmware, image, initramfs, linux, modules, tools
from loiter.images.apt import Deb
from loiter.images.initramfs import TIMESTAMP
from loiter.images.kinds import Outcome, Work
from loiter.images.kinds.kernel import FIRMWARE, SHELL
from loiter.images.progress import Step
from loiter.images.recipe import Recipe, files, fragments, patches_of

DESCRIPTION = "a small kernel from Debian's source, with patches; OpenSBI and a busybox shell"
HAS_ROOT = False
FILES = ("initramfs/*", "kernel/**/*", "firmware/**/*")
CODE = ("kinds/small_kernel.py", "firmware.py", "linux.py", "initramfs.py", "symbols.py")
TOOLS = (
    *("apt-get", "apt-cache", "dpkg-deb", "cpio", "tar", "xz", "patch"),
    *("make", "cc", "riscv64-linux-gnu-gcc", "flex", "bison", "bc"),
)

META = "linux-source"
CROSS = "riscv64-linux-gnu-"
CONFIGURATION = Path("kernel/small.config")
# Options that the patches bring.
PATCHED_CONFIGURATION = Path("kernel/patched.config")
PATCHES = "kernel/patches/*.patch"

# What make says of a file it makes, and how many it makes with our configuration, for the bar.
_MADE = re.compile(r"^  (CC|AS|LD|AR) ")
_MADE_IN_ALL = 1250
_OPTION = re.compile(r"^(CONFIG_\w+=.*|# CONFIG_\w+ is not set)$", re.MULTILINE)


def steps(recipe: Recipe) -> list[Step]:
    """The steps of a build."""
    return [
        *(Step("lists", 2), Step("download", 4), Step("unpack", 30), Step("patch", 1), Step("configure", 10)),
        *(Step("compile", 170), Step("firmware", 20), Step("initramfs", 1)),
    ]


def build(work: Work) -> Outcome:
    """Builds the image."""
    apt, steps = work.apt, work.steps
    with steps.step("lists"):
        apt.update(steps.share, steps.say)
    with steps.step("download"):
        source = apt.dependency(META, f"{META}-")
        debs = apt.download(apt.exactly([source, FIRMWARE, SHELL]), steps.share)
        opensbi = apt.source(next(deb.package for deb in debs if deb.package.name == FIRMWARE), steps.share)
    packages, tree = work.scratch / "tree", work.scratch / "linux"
    with steps.step("unpack"):
        _unpack(debs, packages, tree)
    configurations = [CONFIGURATION]
    chosen = [path for name, path in fragments().items() if name in work.recipe.fragments]
    with steps.step("patch"):
        if work.recipe.patches:
            tools.patch(tree, [resources.LINUX / path for path in files(FILES) if path.match(PATCHES)])
            configurations.append(PATCHED_CONFIGURATION)
        tools.patch(tree, patches_of(chosen))
    configurations += chosen
    wanted = work.scratch / "wanted.config"
    wanted.write_text("".join((resources.LINUX / each).read_text(encoding="utf-8") for each in configurations))
    make = _make(tree, wanted)
    with steps.step("configure"):
        _configure(tree, wanted, make)
    with steps.step("compile"):
        made = 0

        def on_line(line: str) -> None:
            nonlocal made
            made += bool(_MADE.match(line))
            steps.share(min(made / _MADE_IN_ALL, 1.0))

        make(["--jobs", str(len(os.sched_getaffinity(0))), "Image"], on_line)
        linux.install_kernel(tree / "arch/riscv/boot/Image", work.out / image.KERNEL)
        shutil.copyfile(tree / "System.map", work.out / image.SYSTEM_MAP)
        shutil.copyfile(tree / ".config", work.out / image.CONFIG)
        release = make(["--silent", "kernelrelease"], None).strip()
    linux.install_firmware(packages, work.out / image.FIRMWARE)
    with steps.step("firmware"):
        firmware.build(opensbi, work.scratch / "opensbi", work.out / image.MANY_HARTS_FIRMWARE)
    with steps.step("initramfs"):
        nothing = modules.Modules({}, {name: [] for name in modules.WANTED})
        initramfs.build(packages, nothing, work.scratch / "initramfs", work.out / image.INITRD)
    used = [deb.package for deb in (*debs, opensbi)]
    return Outcome(used, image.CONSOLE, release, f"{image.CONSOLE} root=/dev/vda rw")


def missing_options(wanted: str, got: str) -> list[str]:
    """The options that the kernel's configuration does not have as it was told."""
    have = set(_OPTION.findall(got))
    asked = _OPTION.findall(wanted)
    if not asked:
        raise RunFault("the kernel's configuration fragment names no option")
    return [line for line in asked if line not in have]


def _unpack(debs: list[Deb], packages: Path, tree: Path) -> None:
    for deb in debs:
        tools.run(["dpkg-deb", "-x", deb.path, packages], f"unpacking {deb.path.name}")
    archives = list((packages / "usr/src").glob(f"{META}-*.tar.xz"))
    if len(archives) != 1:
        raise RunFault(f"Debian's kernel source has {len(archives)} archives, not one; has the package changed?")
    tools.extract(archives[0], tree)


def _make(tree: Path, wanted: Path) -> Callable[[list[str], Callable[[str], None] | None], str]:
    # Nothing of the host or of the day is to be seen in the kernel.
    environment = {
        "ARCH": "riscv",
        "CROSS_COMPILE": CROSS,
        "KCONFIG_ALLCONFIG": str(wanted.resolve()),
        "KBUILD_BUILD_TIMESTAMP": f"@{TIMESTAMP}",
        "KBUILD_BUILD_USER": "loiter",
        "KBUILD_BUILD_HOST": "loiter",
        "KBUILD_BUILD_VERSION": "1",
        "LOCALVERSION": "-loiter",
        "SOURCE_DATE_EPOCH": str(TIMESTAMP),
        # A make that calls us is not to take part.
        "MAKEFLAGS": "",
        "MFLAGS": "",
    }

    def make(words: list[str], on_line: Callable[[str], None] | None = None) -> str:
        return tools.run(["make", *words], "kernel", directory=tree, environment=environment, on_line=on_line)

    return make


def _configure(tree: Path, wanted: Path, make: Callable[[list[str], Callable[[str], None] | None], str]) -> None:
    make(["allnoconfig"], None)
    got = (tree / ".config").read_text(encoding="utf-8")
    missing = missing_options(wanted.read_text(encoding="utf-8"), got)
    if missing:
        listed = ", ".join(missing)
        raise RunFault(f"{CONFIGURATION.parent}: this kernel does not take {listed}. Has a name changed?")
