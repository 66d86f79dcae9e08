"""The initial RAM file system: busybox, our init, kernel modules. The same contents make the same bytes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from loiter import resources
from loiter.errors import RunFault
from loiter.images import tools
from loiter.images.modules import Modules

# 2026-01-01, the time at which our machines start by default.
TIMESTAMP = 1767225600

_DIRECTORIES = ("bin", "dev", "mnt", "modules", "proc", "root", "sys", "tmp")
# What init itself calls before busybox has made its links.
_APPLETS = ("sh", "mount", "insmod", "grep")


def build(packages: Path, modules: Modules, tree: Path, out: Path) -> None:
    """Makes the file system in `tree` from the unpacked packages and writes it to `out`."""
    for name in _DIRECTORIES:
        (tree / name).mkdir(parents=True)
    shutil.copyfile(_busybox(packages), tree / "bin/busybox")
    for applet in _APPLETS:
        (tree / "bin" / applet).symlink_to("busybox")
    shutil.copyfile(resources.LINUX / "initramfs/init", tree / "init")
    for name, data in modules.files.items():
        (tree / "modules" / name).write_bytes(data)
    for name, order in modules.orders.items():
        (tree / "modules" / name).write_text("".join(f"{file}\n" for file in order))
    for program in ("bin/busybox", "init"):
        (tree / program).chmod(0o755)
    _pack(tree, out)


def _busybox(packages: Path) -> Path:
    for place in ("usr/bin/busybox", "bin/busybox"):
        if (packages / place).is_file():
            return packages / place
    raise RunFault("busybox-static has no bin/busybox; has Debian changed the package?")


def _pack(tree: Path, out: Path) -> None:
    paths = sorted(path.relative_to(tree) for path in tree.rglob("*"))
    for path in paths:
        if not (tree / path).is_symlink() and path.suffix != "" and (tree / path).is_file():
            (tree / path).chmod(0o644)
        elif (tree / path).is_dir():
            (tree / path).chmod(0o755)
        os.utime(tree / path, (TIMESTAMP, TIMESTAMP), follow_symlinks=False)
    # cpio takes devices and inode numbers from the host unless told to number them anew. Not compressed: to unpack it
    # the guest would need more time than the host saves.
    tools.run(
        ["cpio", "--create", "--format=newc", "--owner=0:0", "--reproducible", "--null", "--quiet", "--file", out],
        "packing the initramfs",
        directory=tree,
        given=b"".join(os.fsencode(path) + b"\0" for path in paths),
    )
