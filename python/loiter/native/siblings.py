"""What a waiter costs the program beside it in the same core: the first study's question, on this machine."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from loiter.errors import UserFault
from loiter.native import build, host, topology
from loiter.native.topology import Topology

_ALONE = "alone"
_LEAST_BYTES = 64 << 10


@dataclass(frozen=True)
class Slowdown:
    """Of one program beside one waiting method: its time as a multiple of that alone, round by round."""

    program: str
    method: str
    median: float
    least: float
    most: float


@dataclass(frozen=True)
class Beside:
    """A program on one CPU and a waiter on another."""

    cpus: tuple[int, int]
    relation: str
    """One of `topology.RELATIONS`."""
    slowdowns: tuple[Slowdown, ...]


def measure(pair: tuple[int, int] | None = None) -> Beside:
    """Measures on the first SMT siblings, or on a pair of CPUs; about two seconds.

    Raises `UserFault` where there are none.
    """
    found = topology.find()
    first, second = _pair(found, pair)
    said = host.run(build.Program("siblings", "siblings.c"), [f"{first},{second}", str(_far_bytes(found))])
    by_number = {cpu.number: cpu for cpu in found.cpus}
    rows = []
    for program in said["programs"]:
        alone = program["took_ns"].pop(_ALONE)
        for method, took in program["took_ns"].items():
            ratios = [beside / before for beside, before in zip(took, alone, strict=True)]
            rows.append(Slowdown(program["name"], method, statistics.median(ratios), min(ratios), max(ratios)))
    return Beside((first, second), found.relation(by_number[first], by_number[second]), tuple(rows))


def _pair(found: Topology, pair: tuple[int, int] | None) -> tuple[int, int]:
    if pair is None:
        siblings = found.pairs().get(topology.RELATIONS[0])
        if siblings is None:
            raise UserFault(
                "this process may use no two CPUs of one core, so there are no SMT siblings to measure; "
                "--pair A,B takes any two CPUs."
            )
        return siblings[0].number, siblings[1].number
    known = [cpu.number for cpu in found.cpus]
    for cpu in pair:
        if cpu not in known:
            raise UserFault(f"--pair: CPU {cpu}: this process may use {', '.join(map(str, known))}.")
    if pair[0] == pair[1]:
        raise UserFault("--pair: two CPUs, not one twice.")
    return pair


def _far_bytes(found: Topology) -> int:
    """More than the first data cache, and half of the second or less."""
    of_level = {cache.level: cache.bytes for cache in found.caches if cache.kind != "instructions"}
    return max(_LEAST_BYTES, of_level.get(2, 0) // 2, 4 * of_level.get(1, 0) if 2 not in of_level else 0)
