#!/usr/bin/env python3
"""Run every guest program on QEMU and check exit code and output.

    run_qemu.py <directory with the ELFs> [--only TEXT] [--jobs N]

QEMU knows no cycles, so this shows that the programs are right, not how fast they are.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

QEMU = "qemu-system-riscv64"
TIMEOUT_S = 60

SPINNERS = ["spin_default", "spin_idiv", "spin_casx", "spin_fdiv", "spin_l2miss"]
# Their loops differ in what QEMU does not show; wrs and the hardware lock it does not know.
OTHER_SPINNERS = ["spin_retry", "spin_pause", "spin_backoff", "spin_wfi"]

# Each measured task with its smallest sensible arguments.
ACTIVE = {
    "add": "iterations=20",
    "mulx": "iterations=20",
    "baa": "iterations=20",
    "l1_hit": "iterations=20",
    "l2_hit": "iterations=20 footprint_kib=64",
    "hash": "iterations=300 entries=10000",
    "sort": "footprint_kib=16",
    "mbv_fp": "iterations=1 footprint_kib=16384",
    "mbv_int": "iterations=1 footprint_kib=16384",
    "hold": "iterations=1000",
    "intmix": "iterations=1",
    "rtl_load": "iterations=20",
    "rtl_element": "iterations=20",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """One run: what to start, and what must come of it."""

    elf: str
    bootargs: str
    expected: tuple[str, ...]  # regular expressions that must match somewhere in the output
    code: int = 0
    harts: int = 4
    memory: str = "2G"

    def __str__(self) -> str:
        return f"{self.elf} {self.bootargs}"


def measured(name: str) -> str:
    return rf"^{name}: \d+ repetitions.*, \d+ cycles, \d+ instructions, checksum 0x[0-9a-f]+$"


def active_cases() -> list[Case]:
    cases = []
    for name, arguments in ACTIVE.items():
        cases.append(Case("spinloops", f"task.{name}=0 {arguments}", (measured(name),)))
        for spinner in SPINNERS:
            bootargs = f"task.{name}=0 task.{spinner}=1,2,3 {arguments}"
            cases.append(Case("spinloops", bootargs, (measured(name),)))
    for spinner in OTHER_SPINNERS:
        bootargs = f"task.add=0 task.{spinner}=1,2,3 {ACTIVE['add']}"
        cases.append(Case("spinloops", bootargs, (measured("add"),)))
        cases.append(Case("spinloops", f"{bootargs} handovers=1 reps_min=30", (measured("add"),)))
    window = "task.intmix=0,1 task.sort=2 task.spin_wfi=3 window_cycles=1000000"
    cases.append(Case("spinloops", window, (measured("intmix"), measured("sort"))))
    return cases


def placement_cases() -> list[Case]:
    """Tasks on any hart, several of them, machines of other sizes."""
    mixed = "task.add=2 task.spin_default=0 task.spin_l2miss=3 task.spin_casx=1"
    both = "task.add=1 task.mulx=3 task.spin_idiv=0,2 iterations=20"
    unsettled = "task.add=0 iterations=5 maiv_per_mille=0 reps_max=7"
    return [
        Case("hello", "task.hello=0", (r"\Ahello from hart 0\n\Z",)),
        Case("hello", "task.hello=3", (r"\Ahello from hart 3\n\Z",)),
        Case("hello", "task.hello=0,1,2,3", tuple(f"^hello from hart {i}$" for i in range(4))),
        Case("hello", " task.hello=0x1  task.hello=15 ", ("hart 1$", "hart 15$"), harts=16),
        Case("spinloops", mixed, (measured("add"),)),
        Case("spinloops", both, (measured("add"), measured("mulx"))),
        Case("spinloops", unsettled, (r"^add: 7 repetitions \(IPC has not settled\)",)),
        Case("spinloops", "task.add=0 iterations=1k reps_min=9 reps_max=9", ("add: 9 rep",)),
        Case("spinloops", "task.l2_hit=0 iterations=1 footprint_kib=2k", (measured("l2_hit"),)),
        Case(
            "coremix",
            "task.intmix=0 iterations=3",
            (r"^intmix: hart 0, 3 rounds, \d+ instructions",),
        ),
        Case("coremix", "task.intmix=0,3 iterations=3", ("^intmix: hart 0", "^intmix: hart 3")),
    ]


def section_cases() -> list[Case]:
    """Locks of one and of two threads a hart; the program fails by itself where one loses an acquisition."""
    locks = ["test_and_set", "test_and_test_and_set", "delay_between_references", "ticket", "k42", "hclh"]
    one = [Case("sections", f"task.{lock}=0,1,2,3 acquisitions=2000", ()) for lock in locks]
    two = [Case("sections", f"task.{lock}=0,1 acquisitions=20001 threads=2 slice=300", ()) for lock in locks[:3]]
    too_many = "task.mcs=0,1 threads=3"
    return [*one, *two, Case("sections", too_many, ("^error: threads=3: a hart has 1 or 2",), code=2)]


def drawn_cases() -> list[Case]:
    """Sections and work outside that are drawn; the program fails by itself where a lock loses an acquisition."""
    drawn = "hold1=50 odds1=3 hold2=700 odds2=1 cycles=100000"
    even = "task.qspinlock=0,1,2,3 hold=100 arrivals=0 cycles=100000"
    return [
        Case("profiled", f"task.mcs=0,1,2,3 {drawn}", ()),
        Case("profiled", even, ()),
        Case("profiled", "task.mcs=0,1 lines=1000", ("^error: lines=1000: the section has 256 at most",), code=2),
    ]


def virtual_cases() -> list[Case]:
    """Without a host nobody yields; the program fails by itself where a lock lets two in."""
    locks = ["ticket", "test_and_set", "ticket_kick", "test_and_set_kick"]
    return [
        *[Case("virtual", f"task.{lock}=0,1,2,3 acquisitions=2000 hold=50 think=200", ()) for lock in locks],
        Case("virtual", "task.ticket=0,1,2,3 acquisitions=2000 hold=50 think=200 user=1", ()),
        Case("virtual", "task.ticket=1,2", ("^error: hart .: the harts of a lock",), code=2),
        Case("virtual", "task.ticket=0,1 acquisitions=1", ("^error: acquisitions=1: each of 2 harts",), code=2),
    ]


def error_cases() -> list[Case]:
    def error(bootargs: str, *expected: str, memory: str = "2G", code: int = 2) -> Case:
        return Case("spinloops", bootargs, expected, code=code, memory=memory)

    return [
        error("", "^error: the command line places no task$", "^  spin_idiv .background.$"),
        error("task.spin_default=1", "^error: only background tasks are placed"),
        error("task.ad=0", "^error: this program has no task 'ad'$", "^Tasks of this program:.* add"),
        error("task.add=4", "^error: task add: this machine has no hart 4$"),
        error("task.add=300", "^error: task add: hart 300 is beyond"),
        error("task.add=0 task.baa=0", "^error: hart 0 is given twice: to task add and to task baa$"),
        error("task.add=", "^error: task add: the harts must be numbers"),
        error("task.add=0,", "^error: task add: the harts must be numbers"),
        error("task.add=zero", "^error: task add: the harts must be numbers.*'zero'"),
        error(
            "task.add=0 rep_min=3",
            "^error: no task of this program has an argument 'rep_min'$",
            "^  reps_min=5 ",
        ),
        error("task.add=0 reps_min=3x", "^error: argument reps_min=3x: the value must be"),
        error("task.add=0 reps_min=99999999999999999999", "^error: argument reps_min=9+: the value"),
        error("task.add=0 verbose", "^error: cannot understand 'verbose'"),
        error("task.add=0 iterations=0", "^error: argument iterations=0 is too small for task add"),
        error(
            "task.mbv_fp=0 footprint_kib=8192",
            "^error: argument footprint_kib=8192 is too small for task mbv_fp: at least 16384$",
        ),
        error("task.mbv_int=0", "^error: task mbv_int wants 13.... KiB of memory", memory="64M", code=1),
        error("task.add=0 task.spin_l2miss=1 l2miss_stride_kib=48", "48 is no power of two"),
    ]


def run(directory: pathlib.Path, case: Case) -> str | None:
    """Run one case; the complaint, or None when all is well."""
    command = [QEMU, "-M", "virt", "-bios", "none", "-nographic", "-m", case.memory]
    command += ["-smp", str(case.harts), "-kernel", str(directory / f"{case.elf}.elf")]
    command += ["-append", case.bootargs]
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as expired:
        return f"no end within {TIMEOUT_S} s; output so far: {expired.stdout!r}"
    output = done.stdout.replace("\r\n", "\n")
    if done.returncode != case.code:
        return f"exit code {done.returncode} instead of {case.code}\n{output}{done.stderr}"
    for pattern in case.expected:
        if not re.search(pattern, output, re.MULTILINE):
            return f"output lacks /{pattern}/\n{output}{done.stderr}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=pathlib.Path, help="where the ELFs are")
    parser.add_argument("--only", default="", help="only cases that contain this text")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    options = parser.parse_args()

    if shutil.which(QEMU) is None:
        print(f"{QEMU} is missing: install the package qemu-system-misc", file=sys.stderr)
        return 2
    every = [*active_cases(), *placement_cases(), *section_cases(), *drawn_cases(), *virtual_cases(), *error_cases()]
    cases = [each for each in every if options.only in str(each)]
    if not cases:
        print(f"no case contains '{options.only}'", file=sys.stderr)
        return 2

    failures = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        complaints = pool.map(lambda case: run(options.directory, case), cases)
        for case, complaint in zip(cases, complaints, strict=True):
            if complaint:
                failures += 1
                print(f"FAILED {case}\n  {complaint}")
    print(f"{len(cases) - failures} of {len(cases)} runs on QEMU as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
