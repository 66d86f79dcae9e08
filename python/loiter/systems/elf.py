"""What a file is that somebody wants to run on a RISC-V system."""

from __future__ import annotations

import struct
from pathlib import Path

from loiter.errors import UserFault

_MAGIC = b"\x7fELF"
_HEADER_BYTES = 20
_RISCV, _CLASS_64 = 243, 2
# e_machine, from the ELF specification's registry: those that a host may well have.
_MACHINES = {
    2: "SPARC", 3: "x86 (32 bits)", 8: "MIPS", 20: "PowerPC", 21: "PowerPC64", 22: "s390", 40: "Arm (32 bits)",
    62: "x86-64", 183: "AArch64", _RISCV: "RISC-V", 258: "LoongArch",
}  # fmt: skip
_KINDS = {1: "an object file, not a linked program", 4: "a core dump, not a program"}
# What a file begins with that is neither ELF nor text.
_OTHERS = {
    b"MZ": "a Windows program",
    b"\xcf\xfa\xed\xfe": "a macOS program",
    b"\xca\xfe\xba\xbe": "a macOS program or a Java class",
    b"\x1f\x8b": "a gzip archive",
    b"PK": "a zip archive",
    b"!<arch>": "a library of object files",
}
_ADVICE = "Build it for riscv64, as with riscv64-linux-gnu-gcc."


def require_program(path: Path, shown: str) -> None:
    """Refuses a file that riscv64 Linux cannot run. Scripts are fine."""
    try:
        if path.is_dir():
            raise UserFault(f"{shown}: a directory, not a program.")
        with path.open("rb") as file:
            start = file.read(1024)
    except OSError as error:
        raise UserFault(f"{shown}: cannot read the program: {error.strerror}.") from None
    if not start:
        raise UserFault(f"{shown}: an empty file, not a program.")
    if start.startswith(_MAGIC):
        _require_riscv(start, shown)
        return
    for magic, what in _OTHERS.items():
        if start.startswith(magic):
            raise UserFault(f"{shown}: {what}; what runs here is a riscv64 ELF or a script. {_ADVICE}")
    if b"\0" in start:
        raise UserFault(f"{shown}: neither an ELF file nor a script (it begins with {start[:4].hex()}). {_ADVICE}")


def _require_riscv(start: bytes, shown: str) -> None:
    if len(start) < _HEADER_BYTES:
        raise UserFault(f"{shown}: an ELF file that ends within its header.")
    width, order = start[4], "<" if start[5] == 1 else ">"
    kind, machine = struct.unpack_from(f"{order}HH", start, 16)
    name = _MACHINES.get(machine, f"machine {machine}")
    if machine != _RISCV:
        raise UserFault(f"{shown}: a program for {name}, not for riscv64. {_ADVICE}")
    if width != _CLASS_64:
        raise UserFault(f"{shown}: a program for 32-bit RISC-V, not for riscv64. {_ADVICE}")
    if kind in _KINDS:
        raise UserFault(f"{shown}: {_KINDS[kind]}.")


def has_symbols(path: Path) -> bool:
    """Whether a file is a riscv64 program or library whose functions have names."""
    symbols, dynamic_symbols = 2, 11
    try:
        data = path.read_bytes()
        _require_riscv(data, path.name)
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        kinds = {struct.unpack_from("<I", data, table + n * size + 4)[0] for n in range(count)}
    except (OSError, UserFault, struct.error):
        return False
    return data.startswith(_MAGIC) and not kinds.isdisjoint((symbols, dynamic_symbols))
