"""The kernel and the firmware as a boot wants them."""

from __future__ import annotations

import gzip
import shutil
import struct
from pathlib import Path

from loiter.errors import RunFault
from loiter.images import symbols

# Documentation/arch/riscv/boot-image-header.rst of Linux: "RSC\x05" at byte 56.
_MAGIC = (56, b"RSC\x05")
_GZIP = b"\x1f\x8b"


def install_kernel(source: Path, out: Path) -> None:
    """Puts a kernel in place as a raw `Image`."""
    data = source.read_bytes()
    if data.startswith(_GZIP):
        data = gzip.decompress(data)
    at, magic = _MAGIC
    if data[at : at + len(magic)] != magic:
        raise RunFault(f"{source.name} is no RISC-V Linux Image (no {magic!r} at byte {at}).")
    out.write_bytes(data)


def install_firmware(packages: Path, out: Path) -> None:
    """Puts OpenSBI's generic firmware in place."""
    shutil.copyfile(packages / "usr/lib/riscv64-linux-gnu/opensbi/generic/fw_dynamic.bin", out)


def write_symbols(kernel: Path, out: Path) -> None:
    """Writes a `System.map` from the symbols the kernel carries for itself."""
    try:
        found = symbols.read(kernel.read_bytes())
    except (symbols.NoSymbols, struct.error) as error:
        raise RunFault(f"{kernel.name}: cannot read the kernel's symbols: {error}") from None
    out.write_text("".join(f"{each.address:016x} {each.kind} {each.name}\n" for each in found))
