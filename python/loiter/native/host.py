"""What this machine is for waiters: its instructions, what the kernel allows, and what they cost, measured now."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loiter.errors import RunFault, UserFault
from loiter.native import build, topology
from loiter.native.topology import Topology

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
POWERCAP = Path("/sys/class/powercap")
_SECONDS_AT_MOST = 120


@dataclass(frozen=True)
class Cost:
    """Of one instruction or hand-over. The least is what it costs undisturbed."""

    name: str
    least_ns: float
    median_ns: float


@dataclass(frozen=True)
class Between:
    """A word that goes from one CPU to another."""

    relation: str
    """One of `topology.RELATIONS`."""
    cpus: tuple[int, int]
    one_way: tuple[Cost, ...]
    """From a store to the end of the wait for it, half of there and back, by waiting method."""


@dataclass(frozen=True)
class Host:
    """This machine, as far as this process may use it."""

    topology: Topology
    nap: str
    """The instruction that naps, or `none`."""
    umwait_limit_cycles: int | None
    """The longest nap that the kernel allows with WAITPKG; 0: as long as it takes; None: no such limit here."""
    tick_rate_hz: float
    """Of the counter that times locks: the time-stamp counter of x86, the virtual counter of AArch64."""
    instructions: tuple[Cost, ...]
    between: tuple[Between, ...]
    counters: dict[str, str | None]
    """Performance counters; with why the kernel refuses one."""
    energy: str | None
    """Why the package's energy cannot be read; None: it can."""


def measure() -> Host:
    """Asks hwloc and the kernel, and times instructions and hand-overs; about a second."""
    found = topology.find()
    pairs = found.pairs()
    words = [str(found.cpus[0].number), *(f"{first.number},{second.number}" for first, second in pairs.values())]
    said = run(build.Program("host", "host.c"), words)
    rate = float(said["tick_rate_hz"])
    if rate <= 0:
        raise RunFault("this machine's counter stands still, so nothing can be timed.")
    limit = int(said["umwait_limit_cycles"])
    return Host(
        found,
        said["nap"],
        None if limit < 0 else limit,
        rate,
        tuple(_costs(said["instructions"], rate)),
        tuple(
            Between(relation, (each["cpus"][0], each["cpus"][1]), tuple(_costs(each["one_way"], rate)))
            for relation, each in zip(pairs, said["pairs"], strict=True)
        ),
        dict(said["counters"]),
        energy_refused(),
    )


def nap() -> str:
    """The instruction by which waiters nap here, or `none`."""
    return str(run(build.Program("host", "host.c"), ["--rate"])["nap"])


def run(program: build.Program, words: Sequence[str], seconds: float = _SECONDS_AT_MOST) -> Any:
    """Runs a program of `locks/native` and reads the JSON that it prints."""
    path = build.built(program)
    try:
        done = subprocess.run(
            [str(path), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise RunFault(f"{program.name} {' '.join(words)}: has not ended after {seconds:.0f} s.") from None
    if done.returncode != 0:
        how = f"was killed by signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        text = done.stderr.strip().removeprefix("error: ") or how
        raise (UserFault if done.returncode == UserFault.exit_status else RunFault)(text)
    return json.loads(done.stdout)


def energy_files(root: Path = POWERCAP) -> list[Path]:
    """The energy counters (RAPL) of the packages, in microjoules, those below them left out."""
    found = root.glob("intel-rapl:*/energy_uj") if root.is_dir() else ()
    return sorted(path for path in found if path.parent.name.count(":") == 1)


def energy_refused(root: Path = POWERCAP) -> str | None:
    """Why the packages' energy cannot be read; None: it can."""
    files = energy_files(root)
    if not files:
        return "the kernel shows no energy counter (RAPL)"
    refused = [path for path in files if not os.access(path, os.R_OK)]
    return f"{refused[0]} may not be read by this user" if refused else None


def counters_advice() -> str:
    """What decides whether performance counters may be used."""
    try:
        return f"kernel.perf_event_paranoid = {_PARANOID.read_text().strip()}"
    except OSError:
        return "this kernel has no perf events"


def _costs(rows: Sequence[dict[str, Any]], rate: float) -> list[Cost]:
    return [Cost(row["name"], row["least_ticks"] * 1e9 / rate, row["median_ticks"] * 1e9 / rate) for row in rows]
