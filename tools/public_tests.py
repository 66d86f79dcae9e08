#!/usr/bin/env python3
"""The public RISC-V tests on loiter's machines: builds each, runs it, and says which fail.

    tools/public_tests.py CHECKOUT [--environment DIR] [--machines virt,t1] [--groups hypervisor] [--cross PREFIX]

CHECKOUT is one of riscv-software-src/riscv-tests; its submodule `env` (riscv/riscv-test-env) may lie elsewhere. Timing
cores run with --check. Exit status 1 says that a test failed that `ELSEWHERE` does not name, or was not built.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

import loiter
from loiter import engine as engines
from loiter.engine import Engine
from loiter.errors import Fault

GROUPS = (
    *("rv64ui", "rv64um", "rv64ua", "rv64uf", "rv64ud", "rv64uc", "rv64uzba", "rv64uzbb", "rv64uzbs", "rv64uzicond"),
    *("rv64mi", "rv64si", "hypervisor", "hypervisor-svadu"),
)
"""Those of extensions that loiter has."""
MACHINES = ("virt", "t1", "t2", "symmetry", "smt8", "superscalar", "p-core", "knl", "opteron48", "server")
ELSEWHERE = {
    "rv64mi-p-breakpoint": "loiter has no triggers (Sdtrig), which the test takes for granted",
}
"""Tests that cannot pass, and why."""
NEW = ("rv64uzicond",)
"""Groups that an assembler may be too old for."""
PHYSICAL, VIRTUAL = "p", "v"
"""Environments of the tests: in machine mode, and in user mode with pages mapped on demand."""
ENTROPY = "0x1234567"
"""What the second begins its order of pages with."""
MOST_CYCLES = 30_000_000
"""The longest takes some 100,000 cycles."""
_LONGEST_BUILD_SECONDS = 60.0


def build(source: Path, target: Path, kind: str, checkout: Path, environment: Path, cross: str) -> str | None:
    """Builds a test for an environment as the makefile of the tests does. Returns what the assembler does not know."""
    group = source.parent.name
    march = "rv64gc" if group == "rv64uc" else "rv64g"
    extensions = "_zba_zbb_zbs_zicsr_zifencei"
    of_assembler = f"{march}h" if group.startswith("hypervisor") else march
    own = environment / kind
    command = [f"{cross}gcc", f"-march={march}{extensions}", "-mabi=lp64d", "-static", "-mcmodel=medany", "-nostdlib"]
    command += ["-nostartfiles", "-no-pie", "-fvisibility=hidden", "-Wl,--build-id=none", "-Wa,-mno-arch-attr"]
    command += [f"-Wa,-march={of_assembler}{extensions}", f"-I{own}", f"-I{checkout / 'isa' / 'macros' / 'scalar'}"]
    command += [f"-T{own / 'link.ld'}"]
    if kind == VIRTUAL:
        command += ["-O2", "-std=gnu99", "-ffreestanding", "-fno-pic", "-fno-stack-protector", f"-DENTROPY={ENTROPY}"]
        command += [str(own / "entry.S"), *map(str, sorted(own.glob("*.c")))]
    command += [str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LONGEST_BUILD_SECONDS)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if "rror" in line]
    return lines[0] if lines else done.stderr


def run(engine: Engine, machine: str, program: Path, of_guests: bool) -> str | None:
    """Runs a test. Returns what is wrong."""
    on = loiter.machine(machine).set("hart.isa=+h") if of_guests else machine
    request = loiter.request(on, program, max_cycles=MOST_CYCLES).native()
    try:
        result = engine.run(request | {"observe": {"check": machine != "virt"}}, program.read_bytes())
    except Fault as fault:
        return str(fault).splitlines()[0]
    end = result["exit"]
    return None if end["reason"] == "htif" and end["code"] == 0 else str(end["message"])


def tests(checkout: Path, groups: list[str]) -> Iterator[tuple[Path, str]]:
    """The sources of all tests, with the environments in which they run: those of user mode in both."""
    for group in groups:
        sources = sorted((checkout / "isa" / group).glob("*.S"))
        if not sources:
            sys.exit(f"{checkout}: no tests isa/{group}/*.S: is it a checkout of riscv-tests?")
        for source in sources:
            yield source, PHYSICAL
            if group.startswith("rv64u"):
                yield source, VIRTUAL


def main() -> None:
    """Builds and runs all, and prints a table and what is wrong."""
    parser = argparse.ArgumentParser(description="Runs the public RISC-V tests.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--environment", type=Path)
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--groups", default=",".join(GROUPS))
    parser.add_argument("--cross", default="riscv64-linux-gnu-")
    arguments = parser.parse_args()
    environment = arguments.environment or arguments.checkout / "env"
    if not (environment / "p" / "riscv_test.h").exists():
        sys.exit(f"{environment}: no p/riscv_test.h: give --environment a checkout of riscv-test-env")
    if shutil.which(f"{arguments.cross}gcc") is None:
        sys.exit(f"{arguments.cross}gcc: no such compiler: --cross says how those for riscv64 begin")
    console = Console(stderr=True)
    engine = engines.load()
    names = arguments.machines.split(",")
    rows: dict[str, list[int]] = {}
    wrong: list[str] = []
    unbuilt: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        sources = list(tests(arguments.checkout, arguments.groups.split(",")))
        for source, kind in track(sources, "tests", console=console, transient=True):
            group, name = source.parent.name, f"{source.parent.name}-{kind}-{source.stem}"
            program = Path(scratch) / name
            problem = build(source, program, kind, arguments.checkout, environment, arguments.cross)
            if problem is not None:
                (unbuilt if group in NEW else wrong).append(f"{name}: {problem}")
                continue
            fails = 0
            for machine in names:
                problem = run(engine, machine, program, group.startswith("hypervisor"))
                fails += problem is not None
                if problem is not None and name not in ELSEWHERE:
                    wrong.append(f"{name} on {machine}: {problem}")
            counts = rows.setdefault(f"{group}-{kind}", [0, 0])
            counts[0] += 1
            counts[1] += fails == 0
    table = Table("group", "tests", f"pass on each of {', '.join(names)}")
    for group, (count, passed) in rows.items():
        table.add_row(group, str(count), str(passed))
    Console().print(table)
    if not rows:
        wrong.append("no test was built and run")
    for line in (*unbuilt, *wrong):
        print(line)
    print(*(f"{name}: {why}" for name, why in ELSEWHERE.items()), sep="\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
