"""A lock of `locks/` under the mutexes of an unmodified program: a library that is preloaded into it.

The library (`locks/native/wrap.c`) says which mutexes get the lock and which stay with the C library. Each process of
the program writes its statistics into a file that is mapped into it, so they are there however it ends.
"""

from __future__ import annotations

import mmap
import os
import shutil
import signal
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loiter import contention, locks
from loiter.errors import InternalFault, UserFault, unknown
from loiter.native import build, host
from loiter.resources import LOCKS

if TYPE_CHECKING:
    import pandas as pd

FORMS = {
    "test_and_set": "WORD",
    "test_and_test_and_set": "WORD",
    "ticket": "WORD",
    "mcs": "HIDDEN",
    "k42": "LINKED",
    "malthusian": "HIDDEN",
    "cna": "PLACED",
    "qspinlock": "OF_CPUS",
    "spin_then_park": "SPINS",
}
"""Locks that a mutex can be, which need an attempt and nothing of the caller; with how `wrap_locks.h` calls them."""

METHODS = (*contention.METHODS, "yield", "park")
_MACROS = ("SPIN", "PAUSE", "FENCE", "DIVIDE", "FDIVIDE", "CAS", "BACK_OFF", "NAP", "YIELD", "PARK")
PARKING = ("mcs", "k42", "malthusian", "cna")
"""Locks all whose waiters may park."""
PATIENCE = 100
"""Looks before a waiter yields: a program may have more threads than there are CPUs."""

_FLAGS = ("-shared", "-fPIC", "-fvisibility=hidden", "-fexceptions", "-ftls-model=initial-exec")
_DIRECTORY = "LOITER_WRAP_STATISTICS"

# wrap_statistics.h
_MAGIC = 0x31706172774C
_HEADER = struct.Struct("<5Q4056s")
_CLASS = struct.Struct("<3Q232s")
_CLASSES = 1024
_USE = struct.Struct("<2Q68Q68Q68Q2Q")
_DURATIONS = (("wait", "acquisitions"), ("hold", "holds"), ("handover", "handovers"))


@dataclass(frozen=True)
class Asked:
    """Which lock, and how its waiters wait."""

    lock: str
    method: str = "pause"
    repeat: int = 1
    patience: int = PATIENCE
    statistics: bool = True
    """Counted at each acquire and release; False: the program runs without probes."""

    def check(self) -> None:
        """Raises `UserFault` where something is not to be had."""
        if self.lock not in FORMS:
            advice = ""
            if self.lock in locks_elsewhere():
                advice = (
                    "That lock needs something of its callers that a mutex has not: `loiter locks -m native` has it."
                )
            raise unknown("lock", self.lock, FORMS, advice)
        if self.method not in METHODS:
            raise unknown("policy", self.method, METHODS)
        if self.method == "park" and self.lock not in PARKING:
            raise UserFault(
                f"--policy park: waiters of {self.lock} cannot park by a policy; those of {', '.join(PARKING)} can. "
                "Those of spin_then_park always do."
            )
        for name, least in (("repeat", 1), ("patience", 0)):
            if getattr(self, name) < least:
                raise UserFault(f"{name} = {getattr(self, name)}: it is {least} at least.")


@dataclass(frozen=True)
class Wrapped:
    """What became of the program."""

    status: int
    """Its exit status; 128 and the signal's number where one killed it."""
    rows: tuple[dict[str, Any], ...]
    """By process, class of mutexes and thread, as rows of `locks.parquet` with further columns: `pid`, `process`,
    `name`, `mutexes`, `is_left` (to the C library)."""
    tick_rate_mhz: float
    """What a cycle is."""
    processes: int
    """Those in which the library was loaded."""
    lost: int
    """Uses for which there was no room."""

    def table(self) -> pd.DataFrame:
        """A row for each class of each process, as `loiter.locks.table` has them."""
        keys = sorted({(row["pid"], row["name"], row["is_left"]) for row in self.rows})
        numbers = {key: number for number, key in enumerate(keys)}
        rows = [{**row, "lock": numbers[row["pid"], row["name"], row["is_left"]]} for row in self.rows]
        first = {row["lock"]: row for row in rows}
        frame = locks.table(rows)
        if not rows:
            return frame
        for column in ("mutexes", "is_left", "process", "pid", "name"):
            frame.insert(1, column, [first[number][column] for number in frame["lock"]])
        del frame["lock"]
        return frame


def locks_elsewhere() -> tuple[str, ...]:
    """Locks of `locks/` that no mutex can be."""
    headers = (LOCKS / "include" / "loiter").glob("*.h")
    names = {path.stem for path in headers if f"loiter_{path.stem}_acquire(" in path.read_text(encoding="utf-8")}
    return tuple(sorted(names - set(FORMS)))


def library(asked: Asked) -> Path:
    """The library to preload, compiled at first use."""
    asked.check()
    flags = [
        *_FLAGS,
        f"-DPROBES={int(asked.statistics)}",
        f"-DWRAP_NAME={asked.lock}",
        f"-DWRAP_FORM={FORMS[asked.lock]}",
        f"-DCONTENTION_METHOD=LOITER_{_MACROS[METHODS.index(asked.method)]}",
        f"-DCONTENTION_REPEAT={asked.repeat}",
        f"-DCONTENTION_PATIENCE={asked.patience}",
    ]
    return build.built(build.Program("libloiter-wrap.so", "wrap.c", tuple(flags), ("-ldl",)))


def run(command: Sequence[str], asked: Asked) -> Wrapped:
    """Runs a program with the lock under its mutexes, and with our standard input and output."""
    preloaded = library(asked)
    if shutil.which(command[0]) is None:
        raise UserFault(f"{command[0]}: no such program.")
    rate = float(host.run(build.Program("host", "host.c"), ["--rate"])["tick_rate_hz"]) / 1e6
    with tempfile.TemporaryDirectory(prefix="loiter-wrap-") as name:
        before = os.environ.get("LD_PRELOAD")
        environment = {
            **os.environ,
            "LD_PRELOAD": f"{preloaded}:{before}" if before else str(preloaded),
            _DIRECTORY: name if asked.statistics else "",
        }
        status = _carry_out(command, environment)
        rows: list[dict[str, Any]] = []
        lost = 0
        paths = sorted(Path(name).glob("*.stats"))
        for path in paths:
            found, without_room = _read(path)
            rows += found
            lost += without_room
    return Wrapped(status, tuple(rows), rate, len(paths), lost)


def _carry_out(command: Sequence[str], environment: dict[str, str]) -> int:
    # The terminal sends Ctrl-C to the program, too, and it is the program's to say what comes of it. A handler, unlike
    # what is ignored, is not the child's.
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        process = subprocess.Popen(list(command), env=environment)
        status = process.wait()
    except OSError as error:
        raise UserFault(f"{command[0]}: cannot be run: {error.strerror}.") from None
    finally:
        signal.signal(signal.SIGINT, before)
    return status if status >= 0 else 128 - status


def _read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The rows of one process, and how many uses had no room."""
    begin = _HEADER.size + _CLASSES * _CLASS.size
    if path.stat().st_size < begin:
        return [], 0  # it ended while it began
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        magic, pid, _, uses, lost, program = _HEADER.unpack_from(data, 0)
        if magic == 0:
            return [], 0
        if magic != _MAGIC:
            raise InternalFault(f"{path.name}: statistics of another library: {magic:#x}.")
        names = [_CLASS.unpack_from(data, _HEADER.size + number * _CLASS.size) for number in range(_CLASSES)]
        room = (len(data) - begin) // _USE.size
        process = _text(program)
        rows = []
        for number in range(min(uses, room)):
            words = _USE.unpack_from(data, begin + number * _USE.size)
            site, is_left, mutexes, name = names[words[0]]
            rows.append(
                {
                    "pid": pid,
                    "process": process,
                    "name": _text(name),
                    "mutexes": mutexes,
                    "is_left": bool(is_left),
                    "lock": words[0],
                    "site": site >> 1,
                    "hart": words[1],
                    **dict(_columns(words)),
                }
            )
    return [row for row in rows if row["acquisitions"]], int(lost)


def _columns(words: Sequence[int]) -> Iterator[tuple[str, Any]]:
    at = 2
    for name, count in _DURATIONS:
        yield count, words[at]
        yield f"{name}_sum_cycles", words[at + 1]
        yield f"{name}_min_cycles", words[at + 2]
        yield f"{name}_max_cycles", words[at + 3]
        histogram = list(words[at + 4 : at + 68])
        while histogram and not histogram[-1]:
            histogram.pop()
        yield f"{name}_log2_histogram", histogram
        at += 68
    yield "contentions", words[at]
    yield "bounces", words[at + 1]


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode(errors="replace").strip()
