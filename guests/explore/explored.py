"""Builds `lock.c` of any lock of locks/test/kinds.c, for the explorer.

from explored import LOCKS, build
build("mcs", times=1, to=Path("mcs.elf"))
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "guests" / "explore"
LOCKS_TEST = ROOT / "locks" / "test"
HEADERS = ROOT / "locks" / "include"

CROSS = os.environ.get("CROSS", "riscv64-linux-gnu-")
_MACHINE = ["-march=rv64gc", "-mabi=lp64d", "-mcmodel=medany"]
_BARE = ["-ffreestanding", "-fno-pic", "-nostdlib", "-static", f"-Wl,-T,{HERE / 'link.ld'}", "-Wl,--build-id=none"]
_C = ["-std=c11", "-O2", "-g", "-Wall", "-Wextra"]

_BACKS_OFF = "-DBACKS_OFF"
_SHARED = "-DSHARED_BY_OTHERS"
LOCKS: dict[str, list[str]] = {
    "test_and_set": ["-DEXPLORED=test_and_set"],
    "test_and_test_and_set": ["-DEXPLORED=test_and_test_and_set"],
    "delay_after_release": ["-DEXPLORED=delay", "-DBY=after_release"],
    "delay_between_references": ["-DEXPLORED=delay", "-DBY=between_references", _BACKS_OFF],
    "ticket": ["-DEXPLORED=ticket"],
    "ticket_proportional": ["-DEXPLORED=ticket", "-DBY=proportional"],
    "anderson": ["-DEXPLORED=anderson"],
    "graunke_thakkar": ["-DEXPLORED=graunke_thakkar"],
    "mcs": ["-DEXPLORED=mcs"],
    "clh": ["-DEXPLORED=clh"],
    "k42": ["-DEXPLORED=k42"],
    "qspinlock": ["-DEXPLORED=qspinlock"],
    "malthusian": ["-DEXPLORED=malthusian"],
    "cna": ["-DEXPLORED=cna"],
    "hbo": ["-DEXPLORED=hbo", _BACKS_OFF],
    "hmcs": ["-DEXPLORED=hmcs"],
    "hclh": ["-DEXPLORED=hclh"],
    "c_bo_mcs": ["-DEXPLORED=c_bo_mcs"],
    "c_mcs_tkt": ["-DEXPLORED=c_mcs_tkt"],
    "spin_then_park": ["-DEXPLORED=spin_then_park"],
    "phase_fair_ticket": ["-DEXPLORED=phase_fair_ticket"],
    "phase_fair_ticket_shared": ["-DEXPLORED=phase_fair_ticket", _SHARED],
    "phase_fair_queue": ["-DEXPLORED=phase_fair_queue"],
    "phase_fair_queue_shared": ["-DEXPLORED=phase_fair_queue", _SHARED],
}
"""What can be explored, and how it is compiled. A catnap lock is a qspinlock where nothing naps, as here; the hardware
lock is a test-and-test-and-set where there is none."""

WITHOUT_TRY = frozenset({"graunke_thakkar", "clh", "hclh"})
"""Locks that cannot be tried."""


def compile_guest(sources: Sequence[Path], to: Path, options: Sequence[str] = (), headers: Path = HEADERS) -> None:
    """Compiles a program for the explorer.

    Raises:
        subprocess.CalledProcessError: it does not compile.
    """
    include = [f"-I{HERE}", f"-I{headers}", f"-I{LOCKS_TEST}"]
    command = [f"{CROSS}gcc", *_MACHINE, *_C, *options, *_BARE, *include, "-o", to, *sources]
    subprocess.run(list(map(str, command)), check=True)


def build(lock: str, times: int, to: Path, options: Sequence[str] = (), headers: Path = HEADERS) -> Path:
    """Compiles `lock.c` of one of `LOCKS`, which each hart takes so many times. Returns `to`."""
    compile_guest([HERE / "lock.c"], to, [*LOCKS[lock], f"-DTIMES={times}", *options], headers)
    return to
