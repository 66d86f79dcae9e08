#!/usr/bin/env python3
"""Check, in the built ELF, that the hand-written kernels are what the reference describes.

    check_kernels.py <spinloops.elf>

The disassembler of the cross compiler ($CROSS, else riscv64-linux-gnu-) is asked, not the source.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

OBJDUMP = os.environ.get("CROSS", "riscv64-linux-gnu-") + "objdump"

# Between the barrier and the branch back, after which the loop begins with the nop of the delay slot.
DELAYS: dict[str, list[str]] = {
    "spin_default": [],
    "spin_idiv": ["div"],
    "spin_casx": ["amoor.d"],
    "spin_fdiv": ["fdiv.d"],
    "spin_l2miss": ["ld"],
}
PROBE = "slti"
# From the read to the branch back: what Redstone (2002) says of the loop.
RETRY = ["lbu", PROBE, "addi", "beq", "bne"]
# A jump has the nop of its delay slot.
BLOCKS = {"block_add": ["add"], "block_mul": ["mul"], "block_jump": ["jal", "addi"], "block_load": ["ld"]}
# A branch back over 512 jumps with their nops is out of its range.
BLOCK_LENGTH = {"block_jump": 510}

Instruction = tuple[int, int, str, str]  # address, bytes, mnemonic, operands


def disassemble(elf: str, symbol: str) -> list[Instruction]:
    command = [OBJDUMP, "-d", "-M", "no-aliases", f"--disassemble={symbol}", elf]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    listing = []
    for line in text.splitlines():
        match = re.match(r"\s*([0-9a-f]+):\s+([0-9a-f]+)\s+(\S+)\s*(.*)", line)
        if match:
            address, code, name, operands = match.groups()
            listing.append((int(address, 16), len(code) // 2, name, operands))
    return listing


def target_of(operands: str) -> int:
    return int(operands.split(",")[-1].split()[0], 16)


def loop_of(listing: list[Instruction]) -> list[Instruction]:
    """From the target of the first conditional branch up to that branch."""
    for index, (_, _, name, operands) in enumerate(listing):
        if name == "bne":
            return [i for i in listing[: index + 1] if i[0] >= target_of(operands)]
    return []


def complain_about(kernel: str, loop: list[Instruction], expected: list[str]) -> list[str]:
    complaints = []
    names = [name for _, _, name, _ in loop]
    if names != expected:
        complaints.append(f"{kernel}: the loop is {' '.join(names[:12])} ({len(names)} instructions)")
    if any(size != 4 for _, size, _, _ in loop):
        complaints.append(f"{kernel}: the loop has compressed instructions")
    if any(name == "fence" and operands != "r,r" for _, _, name, operands in loop):
        complaints.append(f"{kernel}: the barrier does not order reads with reads")
    if any(name == "jal" and target_of(operands) != at + 4 for at, _, name, operands in loop):
        complaints.append(f"{kernel}: a jump goes elsewhere than to the next instruction")
    if loop and loop[0][0] % 64:
        complaints.append(f"{kernel}: the loop does not begin a line of 64 bytes")
    return complaints


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    elf = sys.argv[1]
    complaints = []
    for kernel, delay in DELAYS.items():
        expected = ["addi", "lbu", PROBE, "fence", *delay, "bne"]  # addi: nop
        complaints += complain_about(kernel, loop_of(disassemble(elf, kernel)), expected)
    complaints += complain_about("spin_retry", loop_of(disassemble(elf, "spin_retry")), RETRY)
    for kernel, kind in BLOCKS.items():
        expected = kind * BLOCK_LENGTH.get(kernel, 512) + ["addi", *kind, "bne"]
        complaints += complain_about(kernel, loop_of(disassemble(elf, kernel)), expected)
    for complaint in complaints:
        print(f"FAILED {complaint}")
    print(f"{len(DELAYS) + 1 + len(BLOCKS)} kernels checked, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
