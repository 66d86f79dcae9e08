"""How many bytes cores read in a cycle, by how much they read over and over, and how long a load takes meanwhile.

The guest program `bandwidth` does both: in its task `stream` all contexts of one core, or of all cores, read buffers of
their own; in its tasks `chase` and `load` one context loads lines that nobody has while other cores read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loiter import api
from loiter.latency import FAR_BYTES, check_timed
from loiter.machines import Machine

GAPS = (512, 256, 128, 64, 32, 16, 8, 4, 2)
"""Turns of an empty loop between two loads of those that read, for the curve of loaded latency."""

_CHASED_LINES = 256
_LEAST_MEASURED_LINES, _MOST_MEASURED_LINES = 1024, 16384
_MEASURED_LINES = 65536
"""Of all contexts together, as far as each has no less than the least and no more than the most."""

_LEAST_BUFFER_KIB = 2048
_TIMES_LAST_CACHE = 4


@dataclass(frozen=True)
class Bandwidth:
    """What cores read together."""

    footprint_kib: int
    """What each core reads over and over; its contexts have equal parts."""
    cores: int
    line_bytes_per_cycle: float
    """With one load of each line: bytes of the lines."""
    word_bytes_per_cycle: float
    """With loads of eight bytes of everything."""


@dataclass(frozen=True)
class Loaded:
    """The latency of a load that memory supplies while other cores read."""

    cores: int
    """Cores that read."""
    gap: int
    """Turns of an empty loop between two of their loads."""
    bytes_per_cycle: float
    """Bytes of the lines that they read."""
    latency_cycles: float


def gigabytes_per_second(machine: Machine, bytes_per_cycle: float) -> float:
    """Bytes per cycle of the machine as 10^9 bytes per second."""
    return bytes_per_cycle * machine.count("system.clock_mhz", 1) / 1000


def last_cache_kib(machine: Machine, cores: int) -> int:
    """Capacity of the last level of caches that hold data, of those parts of it that so many cores use."""
    if machine.value("system.memory") != "directory":
        return machine.count("l2.size_kib", 0)
    clusters = -(-cores // machine.count("cluster.cores", 1))
    parts = {"core": cores, "cluster": clusters, "homes": machine.count("home.count", 1)}
    for level in ("l3", "l2"):
        shared_by = str(machine.value(f"{level}.shared_by"))
        if shared_by != "none":
            return parts[shared_by] * machine.count(f"{level}.size_kib", 0)
    return cores * machine.count("l1d.size_kib", 0)


def footprints_kib(machine: Machine, cores: int) -> list[int]:
    """Of each of so many cores: from half of a data cache to some times the last cache, by powers of two."""
    least = max(machine.count("l1d.size_kib", 1) // 2, 1)
    # Half of the RAM is room enough for code and the program's own data.
    most = min(_TIMES_LAST_CACHE * last_cache_kib(machine, cores), machine.count("system.ram_mib", 0) * 512) // cores
    found = []
    while least <= max(most, machine.count("l1d.size_kib", 1)):
        found.append(least)
        least *= 2
    return found


def measure(machine: Machine, done: Callable[[float], None] = lambda share: None) -> tuple[Bandwidth, ...]:
    """The bandwidth of one core and of all by footprint. `done` hears the share of the runs carried out so far."""
    check_timed(machine)
    cores = machine.contexts // machine.contexts_per_core
    runs = [(count, kib) for count in sorted({1, cores}) for kib in footprints_kib(machine, count)]
    found = []
    for number, (count, kib) in enumerate(runs):
        done(number / len(runs))
        found.append(stream(machine, count, kib))
    done(1.0)
    return tuple(found)


def stream(machine: Machine, cores: int, kib: int) -> Bandwidth:
    """What the first so many cores read together when each reads `kib` over and over."""
    per_core = machine.contexts_per_core
    line = machine.count("l1d.line_bytes", 64)
    contexts = list(range(cores * per_core))
    lines = min(max(_MEASURED_LINES // len(contexts), _LEAST_MEASURED_LINES), _MOST_MEASURED_LINES)
    arguments = {"footprint_bytes": kib * 1024 // per_core, "line_bytes": line, "measure_lines": lines}
    result = api.run(machine, "bandwidth", place={"stream": contexts}, arguments=arguments)
    rates = dict.fromkeys(("lines", "words"), 0.0)
    for row in result.rows("reports"):
        # Everybody reads until all have measured, so that their rates add up.
        rates[str(row["name"])] += lines * line / int(row["value"])
    return Bandwidth(kib, cores, rates["lines"], rates["words"])


def measure_loaded(machine: Machine, done: Callable[[float], None] = lambda share: None) -> tuple[Loaded, ...]:
    """The latency of a dependent load while none, some or all other cores read, all also with gaps."""
    check_timed(machine)
    others = machine.contexts // machine.contexts_per_core - 1
    some = [2**n for n in range(others.bit_length()) if 2**n < others]
    runs = [(count, 0) for count in sorted({0, *some, others})] + [(others, gap) for gap in GAPS if others]
    found = []
    for number, (count, gap) in enumerate(runs):
        done(number / len(runs))
        found.append(chase(machine, count, gap))
    done(1.0)
    return tuple(found)


def chase(machine: Machine, cores: int, gap: int) -> Loaded:
    """The latency of a dependent load of the first core, while so many others read with a gap."""
    per_core = machine.contexts_per_core
    line = machine.count("l1d.line_bytes", 64)
    readers = list(range(per_core, (cores + 1) * per_core))
    buffer = max(_LEAST_BUFFER_KIB, _TIMES_LAST_CACHE * last_cache_kib(machine, cores + 1) // max(len(readers), 1))
    # Before they have read it all, nothing that they read has been there before.
    buffer = min(buffer, machine.count("system.ram_mib", 0) * 512 // max(len(readers), 1))
    arguments = {"footprint_bytes": buffer * 1024, "line_bytes": line, "gap": gap}
    arguments |= {"chase_lines": _CHASED_LINES, "chase_bytes": FAR_BYTES}
    place: dict[str, list[int]] = {"chase": [0]}
    if readers:
        place["load"] = readers
    result = api.run(machine, "bandwidth", place=place, arguments=arguments)
    rate, reported = 0.0, {(int(row["hart"]), str(row["name"])): int(row["value"]) for row in result.rows("reports")}
    for hart in readers:
        rate += reported[hart, "load.lines"] * line / reported[hart, "load.cycles"]
    # The loop without loads has a move instead, of a cycle.
    cycles = reported[0, "chase"] - reported[0, "loop"] + _CHASED_LINES
    return Loaded(cores, gap, rate, cycles / _CHASED_LINES)
