"""Linux's own hypervisor on harts with guests: its KVM runs a guest, on the reference engine and on timed cores.

The kernel with KVM takes minutes to build, so this is for `make test-long`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from loiter import images
from loiter.images import tools

pytestmark = [
    pytest.mark.simulator,
    pytest.mark.long,
    pytest.mark.skipif(tools.find("apt-get") is None, reason="images are built with apt"),
]

ROOT = Path(__file__).parents[2]
IMAGE, RECIPE = "debian-kvm", images.Recipe("debian", kernel="small-kernel", fragments=("kvm",))
# What guests/linux/kvm/kvm.c prints: a sum, one more than a device of its host has said, whether its clock goes on.
SAID = ["guest writes 500500 at 0", "guest writes 42 at 4", "guest writes 1 at 12", "guest ends, event 1"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("kvm") / "kvm"
    compiler = ["riscv64-linux-gnu-gcc", "-O2", "-static", "-Wall", "-Wextra", "-Werror", "-o", str(out)]
    subprocess.run([*compiler, str(ROOT / "guests/linux/kvm/kvm.c")], check=True)
    images.build(IMAGE, RECIPE)
    return out


@pytest.mark.parametrize("machine", ["virt", "t1", "p-core"])
def test_a_kernel_has_a_guest(machine: str, program: Path) -> None:
    command = [sys.executable, "-c", "from loiter.cli import main; main()", "exec", "--image", IMAGE, "-m", machine]
    command += ["--harts", "1", "--set", "hart.isa=+h", "--", "./kvm"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=program.parent, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == SAID
