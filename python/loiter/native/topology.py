"""Which CPUs this machine has and what they share, by hwloc."""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.etree import ElementTree

from loiter.errors import RunFault, UserFault, unknown
from loiter.images import tools

_LSTOPO = "lstopo-no-graphics"
# Without devices, and without CPUs that this process may not use.
_ARGUMENTS = ("--no-io", "--restrict", "binding", "--of", "xml", "-")

RELATIONS = ("SMT siblings", "one last cache", "one package", "two packages")
"""What two CPUs share, nearest first."""

FILLS = ("cores", "siblings", "across", "unpinned")
"""Which CPUs threads take first: one of each core, last cache by last cache; all of a core; last caches or packages in
turn; or whichever the scheduler gives them."""


@dataclass(frozen=True)
class Cpu:
    """A hardware thread."""

    number: int
    """The kernel's."""
    core: int
    last_cache: int
    """Which of the last caches it is below, counted from 0."""
    package: int


@dataclass(frozen=True)
class Cache:
    """Caches of one kind."""

    level: int
    kind: str
    """data, instructions, or unified"""
    bytes: int
    line_bytes: int
    count: int
    cpus: int
    """CPUs that share one."""


@dataclass(frozen=True)
class Topology:
    """The CPUs that this process may use."""

    model: str
    cpus: tuple[Cpu, ...]
    caches: tuple[Cache, ...]
    memory_nodes: int

    def relation(self, first: Cpu, second: Cpu) -> str:
        """One of `RELATIONS`."""
        if first.core == second.core:
            return RELATIONS[0]
        if first.last_cache == second.last_cache:
            return RELATIONS[1]
        return RELATIONS[2] if first.package == second.package else RELATIONS[3]

    def pairs(self) -> dict[str, tuple[Cpu, Cpu]]:
        """The first pair of CPUs of each relation that there is."""
        found: dict[str, tuple[Cpu, Cpu]] = {}
        for index, first in enumerate(self.cpus):
            for second in self.cpus[index + 1 :]:
                found.setdefault(self.relation(first, second), (first, second))
        return {name: found[name] for name in RELATIONS if name in found}

    def node(self, cpu: Cpu) -> int:
        """What locks that know nodes of the machine take for this CPU's: its package, or its last cache where there is
        one package."""
        return cpu.package if len({each.package for each in self.cpus}) > 1 else cpu.last_cache

    def order(self, fill: str) -> list[Cpu]:
        """All CPUs in the order in which threads take them; one of `FILLS`."""
        if fill not in FILLS:
            raise unknown("order of CPUs", fill, FILLS)
        seen: dict[int, int] = {}
        ranked = []
        for cpu in self.cpus:
            sibling = seen[cpu.core] = seen.get(cpu.core, -1) + 1
            ranked.append((sibling, cpu))
        if fill == "siblings":
            return sorted(self.cpus, key=lambda cpu: (cpu.package, cpu.last_cache, cpu.core, cpu.number))
        near = [
            cpu
            for _, cpu in sorted(ranked, key=lambda each: (each[1].package, each[1].last_cache, each[0], each[1].core))
        ]
        if fill != "across":
            return near
        turns: dict[int, int] = {}
        keyed = []
        for cpu in near:
            turn = turns[self.node(cpu)] = turns.get(self.node(cpu), -1) + 1
            keyed.append((turn, self.node(cpu), cpu))
        return [cpu for _, _, cpu in sorted(keyed, key=lambda each: each[:2])]


@functools.cache
def find() -> Topology:
    """Asks hwloc. Raises `UserFault` where it is not installed."""
    if tools.find(_LSTOPO) is None:
        root = "" if os.geteuid() == 0 else "sudo "
        raise UserFault(
            f"no {_LSTOPO}: hwloc finds what this machine's CPUs share. Install it, on Debian with: "
            f"{root}apt-get install hwloc-nox"
        )
    done = subprocess.run(
        [_LSTOPO, *_ARGUMENTS],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": tools.path(), "LC_ALL": "C"},
        check=False,
    )
    if done.returncode != 0:
        raise RunFault(f"{_LSTOPO} ended with status {done.returncode}: {done.stderr.strip()}")
    return parse(done.stdout)


def parse(text: str) -> Topology:
    """From hwloc's XML, version 2."""
    root = ElementTree.fromstring(text)
    reader = _Reader()
    reader.visit(root, _Above())
    if not reader.cpus:
        raise RunFault("hwloc found no CPU.")
    models = [info.get("value", "") for info in root.iter("info") if info.get("name") == "CPUModel"]
    return Topology(
        models[0] if models else "",
        tuple(sorted(reader.cpus, key=lambda cpu: cpu.number)),
        tuple(_caches(reader.caches)),
        sum(1 for each in root.iter("object") if each.get("type") == "NUMANode"),
    )


@dataclass(frozen=True)
class _Above:
    """What an object of hwloc's tree is in; None: nothing of that kind."""

    package: int = 0
    last_cache: int | None = None
    core: int | None = None


class _Reader:
    """Walks hwloc's tree and numbers what it meets."""

    def __init__(self) -> None:
        self.cpus: list[Cpu] = []
        self.caches: dict[tuple[int, str, int, int], list[int]] = {}
        self.counts = {"Package": 0, "Cache": 0, "Core": 0}

    def visit(self, element: ElementTree.Element, above: _Above) -> int:
        """Returns how many CPUs there are below."""
        kind = element.get("type", "")
        if kind == "PU":
            self.cpus.append(self._cpu(element, above))
            return 1
        is_cache = kind.endswith("Cache")
        if kind == "Package":
            above = _Above(self._number("Package"))
        elif kind == "Core":
            above = replace(above, core=self._number("Core"))
        elif is_cache and above.last_cache is None:
            above = replace(above, last_cache=self._number("Cache"))
        below = sum(self.visit(child, above) for child in element.findall("object"))
        if is_cache:
            self.caches.setdefault(_kind(element), []).append(below)
        return below

    def _number(self, kind: str) -> int:
        self.counts[kind] += 1
        return self.counts[kind] - 1

    def _cpu(self, element: ElementTree.Element, above: _Above) -> Cpu:
        core = self._number("Core") if above.core is None else above.core
        # Where hwloc knows of no cache, the CPUs of a package share the package.
        last_cache = -1 - above.package if above.last_cache is None else above.last_cache
        return Cpu(int(element.get("os_index", "0")), core, last_cache, above.package)


def _kind(element: ElementTree.Element) -> tuple[int, str, int, int]:
    names = {"0": "unified", "1": "data", "2": "instructions"}
    level, kind = element.get("depth", "0"), names.get(element.get("cache_type", ""), "unified")
    return int(level), kind, int(element.get("cache_size", "0")), int(element.get("cache_linesize", "0"))


def _caches(found: dict[tuple[int, str, int, int], list[int]]) -> Iterator[Cache]:
    for (level, kind, size, line), cpus in sorted(found.items()):
        yield Cache(level, kind, size, line, len(cpus), max(cpus))
