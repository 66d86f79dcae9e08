"""Stands in for the compiled simulator in tests of the command line, the store and the arithmetic.

It knows no instruction: a benchmark takes a fixed number of cycles and every spinner adds a fixed share, so the tests
can work out what the package must find. Environment variables make single runs misbehave.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomlkit

ELF = b"\x7fELF"
REPETITIONS = 6
CYCLES = {"add": 1000, "mulx": 11000, "baa": 4000, "l1_hit": 3000, "l2_hit": 22000, "hash": 4200, "sort": 3200}
INSTRUCTIONS = 1000
FAST_FORWARDED = 100
SHARE = {"default": 0.10, "idiv": 0.03, "casx": 0.02, "fdiv": 0.04, "l2miss": 0.01}
PERIOD = {"default": 9, "idiv": 81, "casx": 48, "fdiv": 92, "l2miss": 110}


class UserError(Exception):
    """The user's mistake."""


class InternalError(Exception):
    """As in the native module."""


class GuestError(Exception):
    """The program failed."""


class Interrupted(Exception):
    """A progress callback said stop."""


class PanicException(BaseException):
    """As pyo3 raises it for a panic."""


def machine_text(shown: str, path: Path, presets: Path) -> str:
    return path.read_text()


def describe_machine(name: str, toml: str, sets: list[str]) -> str:
    facts = tomlkit.parse(toml)
    values = {f"{section}.{key}": value for section, inner in facts.items() if isinstance(inner, dict)
              for key, value in inner.items()}  # fmt: skip
    changed = {}
    for each in sets:
        key, _, value = each.partition("=")
        if key not in values:
            close = difflib.get_close_matches(key, values)
            raise UserError(f'unknown key "{key}"; did you mean {", ".join(close) or "nothing"}?')
        changed[key] = int(value)
    parameters = [
        {
            "key": key,
            "value": changed.get(key, value),
            "unit": "MHz" if key.endswith("mhz") else "",
            "type": type(value).__name__,
            "description": f"what {key} is",
            "source": "changed by the user" if key in changed else "assumed: a test",
            "changed": key in changed,
        }
        for key, value in values.items()
    ]
    text = json.dumps([toml, sorted(changed.items())])
    return json.dumps(
        {
            "name": facts["name"],
            "description": facts["description"],
            "hash": hashlib.sha256(text.encode()).hexdigest(),
            "sources": [["test", "the tests"]],
            "parameters": parameters,
        }
    )


def inspect_program(path: str, elf: bytes) -> str:
    if not elf.startswith(ELF):
        raise UserError(f"{path}: no ELF file (it begins with {elf[:4].hex()})")
    return json.dumps(
        {
            "entry": 0x8000_0000,
            "tasks": json.loads(elf.removeprefix(ELF))["tasks"],
            "symbols": 1,
            "hash": hashlib.sha256(elf).hexdigest(),
            "segments": [],
        }
    )


def run(request_text: str, elf: bytes, progress: Callable[[str], bool] | None) -> str:
    request = json.loads(request_text)
    machine = tomlkit.parse(request["machine_toml"])
    changed = dict(each.split("=", 1) for each in request["set"])
    words = dict(word.split("=", 1) for word in request["bootargs"].split())
    tasks = {key[5:]: [int(each) for each in value.split(",")] for key, value in words.items() if key[:5] == "task."}
    label = f"{request['machine_name']}:{'+'.join(tasks)}"
    _misbehave(label, progress)
    spinners = {name.removeprefix("spin_"): harts for name, harts in tasks.items() if name.startswith("spin_")}
    foreground = next(name for name in tasks if not name.startswith("spin_"))
    marks, end = _marks(foreground, tasks[foreground][0], spinners)
    code = 1 if os.environ.get("FAKE_EXIT", "-") in label else 0
    start = FAST_FORWARDED if request["fast_forward"] else 0
    cores, contexts = 2, machine["core"]["contexts"]
    return json.dumps(
        {
            "exit": {"reason": "finisher", "code": code, "message": "the program said so" if code else ""},
            "console": f"{foreground} on {request['machine_name']}\n",
            "cycles": end,
            "timing_from_cycle": start,
            "instructions": end * 2,
            "timing_instructions": (end - start) * 2,
            "timing_cycles": end - start,
            "phases": [],
            "missed_phase": None,
            "log_faults": [],
            "checked_instructions": 0,
            "clock_mhz": int(changed.get("system.clock_mhz", machine["system"]["clock_mhz"])),
            "host_seconds": 0.01,
            "counters": [{"component": "core0.l1d", "name": "misses", "unit": "accesses", "value": 7}],
            "accounts": [
                {"context": each, "hart": each, "activity": "machine" if each == 0 else "idle",
                 "slot": "retired" if each == 0 else "idle", "cycles": end - start}
                for each in range(cores * contexts)
            ],
            "activities": [
                {"context": 0, "hart": 0, "activity": "machine", "cycles": end - start, "instructions": end * 2}
            ],
            "histograms": [
                {"component": "core0", "name": "issued", "unit": "instructions", "value": 2, "cycles": end - start}
            ],
            "marks": marks,
            "reports": [{"hart": 0, "name": "repetitions", "value": REPETITIONS, "cycle": end}],
            "samples": [],
            "seats": [
                {"hart": each, "context": each, "core": each // contexts, "from_cycle": start, "until_cycle": end}
                for each in range(cores * contexts)
            ],
            "lock_reads": [_reads(loop, hart, end) for loop, harts in spinners.items() for hart in harts],
            "locks": [_lock(hart, end) for harts in spinners.values() for hart in harts],
        }
    )  # fmt: skip


def _marks(foreground: str, hart: int, spinners: dict[str, list[int]]) -> tuple[list[dict[str, Any]], int]:
    share = sum(SHARE[loop] * len(harts) for loop, harts in spinners.items())
    cycles = round(CYCLES.get(foreground, 5000) * (1 + share))
    waiting = [(each, loop) for loop, harts in spinners.items() for each in harts]
    marks = [{"hart": each, "kind": "acquire", "value": 64, "cycle": 10, "retired": 0} for each, _ in waiting]
    now = 100
    for number in range(REPETITIONS):
        marks.append(_mark(hart, "work_begin", number, now, number * INSTRUCTIONS))
        now += cycles + number % 2
        marks.append(_mark(hart, "work_end", number, now, (number + 1) * INSTRUCTIONS))
    if os.environ.get("FAKE_SHORT_SPINNERS"):
        now -= cycles
    for each, loop in waiting:
        marks.append(_mark(each, "acquired", 64, now + 10, 4 * now // PERIOD[loop]))
    return marks, now + 100


def _mark(hart: int, kind: str, value: int, cycle: int, retired: int) -> dict[str, Any]:
    return {"hart": hart, "kind": kind, "value": value, "cycle": cycle, "retired": retired}


def _reads(loop: str, hart: int, end: int) -> dict[str, Any]:
    """What a spinner did in two waits: the time between them is none between two reads."""
    period = PERIOD[loop]
    reads = end // period
    return {
        "hart": hart,
        "lock": 64,
        "reads": reads,
        "intervals": reads - 2,
        "interval_sum_cycles": (reads - 2) * period,
        "interval_min_cycles": period,
        "interval_max_cycles": period,
        "log2_histogram": [0, 0, 0, reads - 2],
    }


def _lock(hart: int, end: int) -> dict[str, Any]:
    """One wait for a lock and one section, with a hand-over."""
    row: dict[str, Any] = {"lock": 64, "lock_symbol": "word+0x8", "site": 128, "site_symbol": "", "hart": hart}
    row |= {"acquisitions": 1, "contentions": 1, "bounces": 0}
    row |= {"holds": 1, "handovers": 1}
    for name, cycles in (("wait", end // 2), ("contended", end // 2), ("hold", 7), ("handover", 3)):
        histogram = [0] * (cycles.bit_length() - 1) + [1]
        row |= {f"{name}_{which}_cycles": cycles for which in ("sum", "min", "max")}
        row[f"{name}_log2_histogram"] = histogram
    return row | {"waiting": 0, "waiting_sum_cycles": 0, "waiting_max_cycles": 0}


def _misbehave(label: str, progress: Callable[[str], bool] | None) -> None:
    if os.environ.get("FAKE_KILL", "-") in label:
        os.kill(os.getpid(), signal.SIGKILL)
    once = os.environ.get("FAKE_KILL_ONCE")
    if once and not os.path.exists(once):
        open(once, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("FAKE_PANIC", "-") in label:
        raise PanicException("index out of bounds")
    if os.environ.get("FAKE_GUEST_ERROR", "-") in label:
        raise GuestError("illegal instruction at pc 0x80000010 in task_add")
    log = os.environ.get("FAKE_LOG")
    if log:
        with open(log, "a") as file:
            file.write(label + "\n")
    seconds = float(os.environ.get("FAKE_SECONDS", "0"))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.01)
        facts = {"cycle": 1, "simulated_seconds": 1e-9, "instructions": 1, "host_seconds": 0.01, "ipc": 1.0,
                 "ipc_by_context": [1.0], "phase": "timing"}  # fmt: skip
        if progress is not None and not progress(json.dumps(facts)):
            raise Interrupted("stopped")


def ran(log: Path) -> int:
    """How many runs a log has since this was asked last."""
    count = len(log.read_text().splitlines())
    log.write_text("")
    return count
