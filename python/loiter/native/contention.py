"""One lock under contention on this machine: what `loiter locks -m native` measures.

The program `contend` has the loop of the guest program `locks`. Each point is run twice: without probes, for
throughput, fairness and energy, and with them, for waits and hand-overs. Repeats go over all points in turn, so that
what changes on the machine meanwhile changes all points alike. Cycles are those of the machine's constant counter.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loiter import contention, locks
from loiter.contention import Contention
from loiter.errors import RunFault, UserFault, unknown
from loiter.images import cache
from loiter.native import build, host, peers, topology
from loiter.native.topology import Cpu, Topology

if TYPE_CHECKING:
    import pandas as pd

NAME = "native"
"""What a machine's name is for this one."""

METHODS = (*contention.METHODS, "yield", "park")
"""How a thread waits between two looks at the lock."""
WINDOW_CYCLES = 200_000_000
"""Long enough for some time slices of the scheduler."""
MOST_THREADS = 1024
"""The program has room for as many."""

_MACROS = ("SPIN", "PAUSE", "FENCE", "DIVIDE", "FDIVIDE", "CAS", "BACK_OFF", "NAP", "YIELD", "PARK")
_SECONDS_BEFORE, _SECONDS_EACH = 60.0, 2.0
"""A run may take as long, and so much for each thread: one that waits in order of arrival may wait a slice for each."""


@dataclass
class Measured:
    """What was measured, and what could not be."""

    frame: pd.DataFrame
    """A row for each point, as `loiter.contention.measure` has them."""
    tick_rate_mhz: float
    """What a cycle is."""
    remarks: list[str] = field(default_factory=list)
    """What was done otherwise than asked, or left out: sentences, each once."""


def own_names() -> dict[str, bool]:
    """Locks of `locks/`, and whether their waiters may park."""
    said = host.run(_program(None, Contention(), probes=False), ["--list"])
    return {name: facts["parks"] for name, facts in said.items()}


def names() -> list[str]:
    """Locks of `locks/`, and those of libraries that are installed."""
    return [*own_names(), *peers.installed()]


def measure(
    chosen: Sequence[str],
    threads: Sequence[int],
    asked: Contention,
    *,
    fresh: bool = False,
    progress: Callable[[float], None] = lambda share: None,
) -> Measured:
    """Runs each lock with each number of threads; a row for each. Runs that are kept are not carried out again, unless
    `fresh`.

    Columns are those of `loiter.contention.measure` without energy where it cannot be read, and `switches`, context
    switches per 1000 acquisitions, and performance counters per acquisition where the kernel allows them.
    """
    import pandas as pd

    asked.check(METHODS, topology.FILLS)
    programs = _programs(chosen, asked)
    found = topology.find()
    for count in threads:
        if not 1 <= count <= MOST_THREADS:
            raise UserFault(f"{count} threads: take 1 to {MOST_THREADS}.")
    order = [None] if asked.fill == "unpinned" else list(found.order(asked.fill))
    refused = host.energy_refused()
    energy = [] if refused else host.energy_files()
    step = _step(found, fresh)
    points = [(name, count) for name in chosen for count in threads]
    kept: dict[tuple[str, int], list[_Pair]] = {point: [] for point in points}
    failed: dict[tuple[str, int], str] = {}
    done = 0
    for seed in range(1, asked.seeds + 1):
        for count in threads:
            for name in chosen:
                words = _words(name, found, order, count, asked, seed, step, energy)
                seconds = _SECONDS_BEFORE + _SECONDS_EACH * count
                try:
                    pair = _Pair(*(_kept(each, words, found, seconds, fresh) for each in programs[name]))
                    kept[name, count].append(pair)
                except RunFault as fault:
                    failed[name, count] = str(fault)
                done += 1
                progress(done / (len(points) * asked.seeds))
    rows = [
        {"lock": name, "threads": count} | _row(kept[name, count], failed.get((name, count))) for name, count in points
    ]
    frame = pd.DataFrame(rows)
    runs = [pair.plain for pairs in kept.values() for pair in pairs]
    if refused:
        frame = frame.drop(columns=[name for name in frame.columns if name.startswith("energy_")])
    rates = sorted(run["tick_rate_hz"] / 1e6 for run in runs)
    rate = rates[len(rates) // 2] if rates else 0.0
    return Measured(frame, rate, list(_remarks(chosen, threads, asked, runs, len(found.cpus), refused)))


@dataclass(frozen=True)
class _Pair:
    """A run without probes and one with them."""

    plain: Mapping[str, Any]
    probed: Mapping[str, Any]


def _program(peer: peers.Peer | None, asked: Contention, *, probes: bool) -> build.Program:
    flags = [f"-DPROBES={int(probes)}"]
    if peer is None:
        flags.append(f"-DCONTENTION_METHOD=LOITER_{_MACROS[METHODS.index(asked.method)]}")
        flags += [f"-DCONTENTION_REPEAT={asked.repeat}", f"-DCONTENTION_PATIENCE={asked.patience}"]
        return build.Program("contend", "contend.c", tuple(flags))
    found = peers.flags(peer)
    return build.Program("contend", "contend.c", (*flags, f'-DPEERS="peers/{peer.header}"', *found.compile), found.link)


def _programs(chosen: Sequence[str], asked: Contention) -> dict[str, tuple[build.Program, build.Program]]:
    """The programs, without and with probes, of each lock."""
    own = own_names()
    out = {}
    for name in chosen:
        peer = None if name in own else peers.find(name)
        if name not in own and peer is None:
            raise unknown("lock", name, (*own, *peers.names()))
        if peer is None and asked.method == "park" and name not in _WAIT_BY_THEMSELVES and not own[name]:
            parking = sorted(each for each, parks in own.items() if parks)
            raise UserFault(
                f"--policy park: waiters of {name} cannot park by a policy; those of {', '.join(parking)} can. "
                "Those of spin_then_park always do: there a policy says how they spin before."
            )
        out[name] = (_program(peer, asked, probes=False), _program(peer, asked, probes=True))
    return out


_WAIT_BY_THEMSELVES = ("catnap", "delay_between_references", "hbo")
"""Locks that wait in their own way, whatever the policy."""


def _words(
    name: str,
    found: Topology,
    order: Sequence[Cpu | None],
    count: int,
    asked: Contention,
    seed: int,
    step: int,
    energy: Sequence[Path],
) -> list[str]:
    taken = [order[n % len(order)] for n in range(count)]
    words: dict[str, object] = {
        "cpus": ",".join("-1" if cpu is None else str(cpu.number) for cpu in taken),
        "places": ",".join("0" if cpu is None else str(max(0, found.node(cpu))) for cpu in taken),
        "hold": asked.hold_cycles,
        "think": asked.think_cycles,
        "lines": asked.lines,
        "cycles": asked.window_cycles,
        "step": step,
        "seed": seed,
    }
    if energy:
        words["energy"] = ",".join(map(str, energy))
    return [name, *(f"{key}={value}" for key, value in words.items())]


def _step(found: Topology, fresh: bool) -> int:
    """Ticks of 1000 steps of work. Measured once, so that all locks are given the same work: a clock that changes would
    otherwise give each run another."""
    words = ["mcs", f"cpus={found.cpus[0].number}", "cycles=1"]
    return int(_kept(_program(None, Contention(), probes=False), words, found, _SECONDS_BEFORE, fresh)["step"])


def _kept(
    program: build.Program, words: Sequence[str], found: Topology, seconds: float, fresh: bool
) -> Mapping[str, Any]:
    """The result of a run that is kept, or of one carried out now."""
    key = hashlib.sha256(repr((build.built(program).parent.name, list(words), found)).encode()).hexdigest()[:32]
    path = cache.root() / "native" / "runs" / f"{key}.json"
    if not fresh:
        try:
            return dict(json.loads(path.read_text()))
        except (OSError, ValueError):
            pass
    said = host.run(program, words, seconds)
    with cache.reporting(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".incoming-{os.getpid()}-{path.name}")
        temporary.write_text(json.dumps(said))
        temporary.replace(path)
    return dict(said)


def _row(pairs: Sequence[_Pair], error: str | None) -> dict[str, Any]:
    if error is not None:
        return {"error": error}
    probed = [row for pair in pairs for row in pair.probed["rows"]]
    out = contention.combine([_metrics(pair) for pair in pairs], probed)
    threads = [thread for pair in pairs for thread in pair.plain["threads"]]
    acquisitions = sum(thread["acquisitions"] for thread in threads)
    out["switches_per_1000"] = 1000 * sum(thread["switches"] for thread in threads) / acquisitions
    for name in ("cycles", "instructions", "cache_misses"):
        if all(name in thread for thread in threads):
            out[f"core_{name}_per_acquisition"] = sum(thread[name] for thread in threads) / acquisitions
    return out


def _metrics(pair: _Pair) -> dict[str, float | None]:
    threads, rows = pair.plain["threads"], pair.probed["rows"]
    acquisitions = sum(thread["acquisitions"] for thread in threads)
    waits = sum(row["acquisitions"] for row in rows)
    handovers = sum(row["handovers"] for row in rows)
    energy_uj = _energy_uj(pair.plain)
    return {
        "acquisitions_per_1000_cycles": 1000 * acquisitions / pair.plain["cycles"],
        "wait_mean_cycles": sum(row["wait_sum_cycles"] for row in rows) / waits,
        "handover_mean_cycles": sum(row["handover_sum_cycles"] for row in rows) / handovers if handovers else None,
        "jain": locks.fairness([thread | {"wait_max_cycles": 0} for thread in threads]).jain,
        "energy_per_acquisition_nj": None if energy_uj is None else 1000 * energy_uj / acquisitions,
    }


def _energy_uj(run: Mapping[str, Any]) -> int | None:
    """Of all packages during a run. Each counter goes round at a place of its own; where one did, it is not known."""
    used = [end - begin for begin, end in run["energy_uj"]]
    return sum(used) if used and min(used) >= 0 else None


def _remarks(
    chosen: Sequence[str],
    threads: Sequence[int],
    asked: Contention,
    runs: Sequence[Mapping[str, Any]],
    cpus: int,
    energy: str | None,
) -> Iterator[str]:
    yield from sorted({run["fallback"] for run in runs if run["fallback"]})
    if energy:
        yield f"{energy}: the column is left out"
    if any(run["threads"] and "instructions" not in run["threads"][0] for run in runs):
        yield "the kernel allows no performance counters (`loiter native` says why): the columns are left out"
    if max(threads) > cpus and not asked.patience and asked.method not in ("yield", "park"):
        yield (
            f"more threads than the {cpus} CPUs: waiters of locks with an order of arrival wait whole time slices; "
            "--patience LOOKS makes them yield"
        )


@contextmanager
def shown(console: Any) -> Iterator[Callable[[float], None]]:
    """Shows progress while the block runs."""
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("locks on this machine", total=1.0)
        yield lambda share: progress.update(task, completed=share)
