"""OpenSBI from its authors' source, for more harts than Debian's package is made for."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from loiter import resources
from loiter.images import tools
from loiter.images.apt import Deb
from loiter.images.initramfs import TIMESTAMP

PATCHES = "firmware/patches/*.patch"
CROSS = "riscv64-linux-gnu-"


def build(source: Deb, tree: Path, out: Path) -> None:
    """Builds fw_dynamic of the generic platform, as Debian does, with our patches."""
    tools.extract(source.path, tree)
    tools.patch(tree, resources.LINUX.glob(PATCHES))
    environment = {
        # Nothing of the day is to be seen in the firmware.
        "SOURCE_DATE_EPOCH": str(TIMESTAMP),
        # A make that calls us is not to take part.
        "MAKEFLAGS": "",
        "MFLAGS": "",
    }
    jobs = str(len(os.sched_getaffinity(0)))
    words = ["PLATFORM=generic", f"CROSS_COMPILE={CROSS}", "FW_JUMP=n", "FW_PAYLOAD=n"]
    tools.run(["make", "--jobs", jobs, *words], "firmware", directory=tree, environment=environment)
    shutil.copyfile(tree / "build/platform/generic/firmware/fw_dynamic.bin", out)
