"""Linux's own hypervisor on harts with guests: its KVM runs a guest, on the reference engine and on timed cores.

The kernel with KVM takes minutes to build, so this is for `make test-long`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from linux_guest import loiter_
from loiter import images
from loiter.images import tools

pytestmark = [
    pytest.mark.simulator,
    pytest.mark.long,
    pytest.mark.skipif(tools.find("apt-get") is None, reason="images are built with apt"),
]

ROOT = Path(__file__).parents[2]
IMAGE, RECIPE = "debian-kvm", images.Recipe("debian", kernel="small-kernel", fragments=("kvm",))
QEMU_IMAGE = "debian-qemu"
QEMU_RECIPE = images.Recipe("debian", kernel="small-kernel", fragments=("kvm",), packages=("qemu-system-riscv",))
# What guests/linux/kvm/kvm.c prints: a sum, one more than a device of its host has said, whether its clock goes on.
SAID = ["guest writes 500500 at 0", "guest writes 42 at 4", "guest writes 1 at 12", "guest ends, event 1"]


@pytest.fixture(scope="module", autouse=True)
def _image() -> None:
    images.build(IMAGE, RECIPE)


def compiled(folder: Path, name: str) -> Path:
    compiler = ["riscv64-linux-gnu-gcc", "-O2", "-static", "-pthread", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*compiler, "-o", str(folder / name), str(ROOT / f"guests/linux/kvm/{name}.c")], check=True)
    return folder / name


def run(program: Path, machine: str, harts: int, *words: str) -> list[str]:
    command = [sys.executable, "-c", "from loiter.cli import main; main()", "exec", "--image", IMAGE, "-m", machine]
    command += ["--harts", str(harts), "--set", "hart.isa=+h", "--", f"./{program.name}", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=program.parent, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("machine", ["virt", "t1", "p-core"])
def test_a_kernel_has_a_guest(machine: str, tmp_path: Path) -> None:
    assert run(compiled(tmp_path, "kvm"), machine, 1) == SAID


@pytest.mark.parametrize("nap", ["0", "1"])
def test_virtual_cpus_of_kvm_meet_at_a_lock(nap: str, tmp_path: Path) -> None:
    (said,) = run(compiled(tmp_path, "contend"), "virt", 4, "4", "100", "2000", "20000", nap, "4")
    found = dict(word.split("=") for word in said.split())
    assert found["counted"] == "400"
    # Of 4 CPUs, beside as many rivals, the guest has about half.
    share = float(found["cpu_ms"]) / float(found["wall_ms"]) / 4
    assert 0.3 < share < 0.8, said


@pytest.fixture(scope="module")
def _qemu_image() -> None:
    images.build(QEMU_IMAGE, QEMU_RECIPE)


@pytest.fixture
def linux_guest(_qemu_image: None, tmp_path: Path) -> Path:
    """A folder with a kernel, and an initramfs with nothing but programs."""
    (tmp_path / "qemu.sh").symlink_to(ROOT / "guests/linux/kvm/qemu.sh")
    (tmp_path / "Image").symlink_to(images.build(QEMU_IMAGE, QEMU_RECIPE).kernel)
    root = tmp_path / "root"
    root.mkdir()
    compiled(tmp_path, "guest").rename(root / "init")
    (root / "manycore").symlink_to(ROOT / "guests/build/manycore")
    command = [
        "cpio",
        "--create",
        "--format=newc",
        "--owner=0:0",
        "--dereference",
        "--quiet",
        "--file",
        tmp_path / "guest.cpio",
    ]
    subprocess.run(command, input="init\nmanycore\n", text=True, cwd=root, check=True)
    return tmp_path


@pytest.mark.parametrize(("machine", "vcpus"), [("virt", 1), ("virt", 4), ("t1", 4), ("p-core", 2)])
def test_debians_qemu_has_a_linux_guest(machine: str, vcpus: int, linux_guest: Path) -> None:
    system = ["--image", QEMU_IMAGE, "-m", machine, "--harts", str(vcpus), "--memory", "1G", "--set", "hart.isa=+h"]
    # QEMU itself, and the guest's boot, take hundreds of millions of instructions.
    phases = ["--phases", "reference until console:guest: begins, timing", "--out", "result"]
    timed = [] if machine == "virt" else phases
    files = ["--put", "Image", "--put", "guest.cpio", "--no-stdin"]
    work = ["./qemu.sh", str(vcpus), "0", "on", "/manycore", "fops", str(vcpus), "50"]
    done = loiter_("exec", *system, *timed, *files, "--", *work, cwd=linux_guest, limit_seconds=900)
    assert done.returncode == 0, done.stdout + done.stderr
    (said,) = (line for line in done.stdout.decode().splitlines() if line.startswith("guest: cpus="))
    found = dict(word.split("=") for word in said.split()[1:])
    # KVM offers Zawrs to a guest as its own host has it.
    assert {name: found[name] for name in ("cpus", "naps", "status")} == {
        "cpus": str(vcpus),
        "naps": "1",
        "status": "0",
    }
    assert float(found["wall_ms"]) > 0
    if timed:
        assert json.loads((linux_guest / "result/manifest.json").read_text())["timing_instructions"] > 100_000
