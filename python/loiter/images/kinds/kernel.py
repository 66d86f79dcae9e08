"""Debian's stock kernel, Debian's OpenSBI, and a busybox initial RAM file system with the modules a boot needs."""

from __future__ import annotations

from pathlib import Path

from loiter.errors import RunFault
from loiter.images import image, initramfs, linux, modules, tools
from loiter.images.kinds import Outcome, Work
from loiter.images.progress import Step
from loiter.images.recipe import Recipe

DESCRIPTION = "Debian's stock kernel, OpenSBI and a busybox shell"
HAS_ROOT = False
FILES = ("initramfs/*",)
CODE = ("kinds/kernel.py", "linux.py", "initramfs.py", "modules.py", "symbols.py")
TOOLS = ("apt-get", "apt-cache", "dpkg-deb", "depmod", "modprobe", "cpio")

META = "linux-image-riscv64"
FIRMWARE = "opensbi"
SHELL = "busybox-static"


def steps(recipe: Recipe) -> list[Step]:
    """The steps of a build."""
    return [Step("lists", 2), Step("download", 4), Step("unpack", 5), Step("initramfs", 10), Step("symbols", 1)]


def build(work: Work) -> Outcome:
    """Builds the image."""
    apt, steps = work.apt, work.steps
    with steps.step("lists"):
        apt.update(steps.share, steps.say)
    with steps.step("download"):
        kernel = apt.dependency(META, "linux-image-")
        debs = apt.download(apt.exactly([kernel, FIRMWARE, SHELL]), steps.share)
    tree = work.scratch / "tree"
    with steps.step("unpack"):
        for number, deb in enumerate(debs):
            steps.share(number / len(debs), deb.package.name)
            tools.run(["dpkg-deb", "-x", deb.path, tree], f"unpacking {deb.path.name}")
        release = _release(tree)
        linux.install_kernel(tree / "boot" / f"vmlinux-{release}", work.out / image.KERNEL)
        linux.install_firmware(tree, work.out / image.FIRMWARE)
        (tree / "boot" / f"config-{release}").rename(work.out / image.CONFIG)
    with steps.step("initramfs"):
        needed = modules.load_orders(tree / "usr", release, work.scratch)
        initramfs.build(tree, needed, work.scratch / "initramfs", work.out / image.INITRD)
    with steps.step("symbols"):
        # Debian's own System.map is a stub; the real one is in a package of a gigabyte.
        linux.write_symbols(work.out / image.KERNEL, work.out / image.SYSTEM_MAP)
    return Outcome([deb.package for deb in debs], image.CONSOLE, release)


def _release(tree: Path) -> str:
    found = [path.name for path in (tree / "usr/lib/modules").glob("*")]
    if len(found) != 1:
        raise RunFault(f"the kernel package has modules of {len(found)} kernels, not of one; has Debian changed it?")
    return found[0]
