"""The kernel image for real: from the mirror of this host, or from the cache if it has been built before.

Cold it takes about half a minute, of which most is the index of the kernel's modules.
"""

from __future__ import annotations

import shutil
import subprocess
import threading

import pytest

from loiter import images
from loiter.images import Image, tools
from loiter.images.apt import sha256

pytestmark = pytest.mark.skipif(tools.find("apt-get") is None, reason="images are built with apt")


# A boot takes five seconds on a host that has nothing else to do.
_LIMIT_SECONDS = 180


@pytest.fixture(scope="module")
def image() -> Image:
    """The kernel image in the user's own cache."""
    return images.ensure("kernel")


def test_it_is_what_its_manifest_says(image: Image) -> None:
    assert set(image.manifest["files"]) == {
        *("Image", "System.map", "config", "fw_dynamic.bin", "initrd.cpio"),
    }
    for name, facts in image.manifest["files"].items():
        assert sha256(image.path / name) == facts["sha256"], name
    packages = {each["name"]: each for each in image.manifest["packages"]}
    assert {"opensbi", "busybox-static"} < set(packages)
    assert all(len(each["sha256"]) == 64 and each["version"] for each in packages.values())


def test_the_kernel_is_debians_with_its_symbols(image: Image) -> None:
    assert image.manifest["kernel_release"].encode() in image.kernel.read_bytes()
    assert image.system_map is not None
    symbols = dict(reversed(line.split(" ")[::2]) for line in image.system_map.read_text().splitlines())
    assert len(symbols) > 50_000
    assert symbols["_start"] == "ffffffff80000000"
    assert int(symbols["_start"], 16) < int(symbols["start_kernel"], 16) < int(symbols["_end"], 16)


def test_the_initial_file_system_has_the_drivers_a_root_needs(image: Image) -> None:
    assert image.initrd is not None
    archive = image.initrd.read_bytes()
    command = [str(tools.find("cpio")), "-it", "--quiet"]
    listed = subprocess.run(command, input=archive, stdout=subprocess.PIPE, check=True)
    names = listed.stdout.decode().split()
    assert {"init", "bin/busybox", "modules/ext4.ko", "modules/virtio_mmio.ko", "modules/virtio_blk.ko"} <= set(names)


@pytest.mark.skipif(shutil.which("qemu-system-riscv64") is None, reason="needs QEMU")
def test_qemu_boots_it_to_a_shell(image: Image) -> None:
    assert image.initrd is not None
    words = ["-machine", "virt", "-m", "512M", "-smp", "2", "-nographic", "-no-reboot"]
    files = ["-bios", image.firmware, "-kernel", image.kernel, "-initrd", image.initrd, "-append", image.command_line]
    command = ["qemu-system-riscv64", *words, *files]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as qemu:
        assert qemu.stdin is not None
        limit = threading.Timer(_LIMIT_SECONDS, qemu.kill)
        limit.start()
        before = _read_to(qemu, b"~ # ")
        # `poweroff` goes to init, which powers the machine off.
        qemu.stdin.write(b"echo sum $((6 * 7)) of $(uname -r); poweroff\n")
        qemu.stdin.flush()
        after = _read_to(qemu, None)
        limit.cancel()
    assert "loiter: init" in before
    assert f"sum 42 of {image.manifest['kernel_release']}" in after
    assert "Power down" in after
    assert qemu.returncode == 0


def _read_to(qemu: subprocess.Popen[bytes], end: bytes | None) -> str:
    assert qemu.stdout is not None
    said = b""
    while not (end and said.endswith(end)) and (byte := qemu.stdout.read(1)):
        said += byte
    return said.decode(errors="replace")
