"""How long an access takes to a line, by the state of the line and by who has it: what `loiter latency` measures.

The guest program `latency` runs on one context of each core, and on a second one of the first core. One hart brings
lines into a state, the first hart accesses them one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from loiter import api
from loiter.errors import UserFault
from loiter.machines import Machine

OPERATIONS = ("load", "store", "fetch and add", "swap", "compare and swap")
"""In the order of the program's argument `operation`."""

STATES = ("modified", "exclusive", "shared", "uncached")
"""States of a line before the access, in the order of the program's argument `state`; a shared one, by two."""

LINES = 32
"""Lines that each mean is over."""

FAR_BYTES = 16448
"""Distance of lines that memory supplies: each in a row of its own, and in turn over homes."""

_STORE = OPERATIONS.index("store")
_UNCACHED = STATES.index("uncached")


@dataclass(frozen=True)
class Latency:
    """One operation on lines in one state, which a context at one distance has."""

    operation: str
    state: str
    distance: str
    """own core, same core (another context), same cluster, or other core; memory for lines that nobody has."""
    mean_cycles: float
    least_cycles: float
    most_cycles: float
    """Over the holders at that distance, each a mean over lines."""


@dataclass(frozen=True)
class Latencies:
    """What was measured on a machine."""

    machine: Machine
    table: tuple[Latency, ...]
    cores: tuple[int, ...]
    """Cores of the matrix."""
    matrix: tuple[tuple[float, ...], ...]
    """Cycles of a load by one core (row) of a line that another (column) has modified; empty for one core."""

    def nanoseconds(self, cycles: float) -> float:
        """Cycles of the machine as time."""
        return cycles * 1000 / self.machine.count("system.clock_mhz", 1)


def check_timed(machine: Machine) -> None:
    """Raises `UserFault` where a machine has no timing."""
    if not machine.is_timed:
        raise UserFault(f"{machine.name} has no timing; take a machine whose core.kind is another than reference.")


def measure(machine: Machine, done: Callable[[float], None] = lambda share: None) -> Latencies:
    """Measures a machine. `done` hears the share of the runs that have been carried out."""
    check_timed(machine)
    per_core = machine.contexts_per_core
    cores = tuple(range(machine.contexts // per_core))
    contexts = sorted({core * per_core for core in cores} | {min(1, per_core - 1)})
    runs = [(operation, state) for operation in range(len(OPERATIONS)) for state in range(len(STATES))]
    table: list[Latency] = []
    for number, (operation, state) in enumerate(runs):
        done(number / (len(runs) + 1))
        found = _run(machine, contexts, operation, state, LINES, 1)[0]
        by_distance: dict[str, list[float]] = {}
        for holder, cycles in found.items():
            distance = "memory" if state == _UNCACHED else _distance(machine, holder)
            by_distance.setdefault(distance, []).append(cycles)
        for distance, each in by_distance.items():
            mean = sum(each) / len(each)
            table.append(Latency(OPERATIONS[operation], STATES[state], distance, mean, min(each), max(each)))
    done(len(runs) / (len(runs) + 1))
    matrix: tuple[tuple[float, ...], ...] = ()
    if len(cores) > 1:
        firsts = [core * per_core for core in cores]
        pairs = _run(machine, firsts, 0, 0, LINES, 0)
        matrix = tuple(tuple(pairs[asker][holder] for holder in firsts) for asker in firsts)
    done(1.0)
    return Latencies(machine, tuple(table), cores, matrix)


def _run(
    machine: Machine, contexts: Sequence[int], operation: int, state: int, lines: int, askers: int
) -> Mapping[int, dict[int, float]]:
    """Cycles of an access by asker and holder."""
    step = FAR_BYTES if state == _UNCACHED else 64
    arguments = {"operation": operation, "state": state, "lines": lines, "askers": askers, "line_bytes": step}
    result = api.run(machine, "latency", place={"core": list(contexts)}, arguments=arguments)
    rows = [(int(row["hart"]), str(row["name"]), int(row["value"])) for row in result.rows("reports")]
    alu_cycles = machine.count("latency.alu_cycles", 1)
    loops: dict[int, int] = {}
    for asker, name, cycles in rows:
        if name == "loop":
            # Before its first turn a hart has not predicted all of the loop's branches.
            loops[asker] = min(cycles, loops.get(asker, cycles))
    found: dict[int, dict[int, float]] = {}
    for asker, name, cycles in rows:
        if name != "loop":
            # The loop without an access has a move instead; a store is not part of what the loop waits for.
            less = 0 if operation == _STORE else loops[asker] - lines * alu_cycles
            found.setdefault(asker, {})[int(name.removeprefix("from."))] = (cycles - less) / lines
    return found


def _distance(machine: Machine, holder: int) -> str:
    core = holder // machine.contexts_per_core
    if holder == 0:
        return "own core"
    if core == 0:
        return "same core"
    cluster = _cluster_cores(machine)
    if cluster is not None and core < cluster:
        return "same cluster"
    return "other core"


def _cluster_cores(machine: Machine) -> int | None:
    if machine.value("system.memory") != "directory":
        return None
    if "cluster" not in (machine.value("l2.shared_by"), machine.value("l3.shared_by")):
        return None
    return machine.count("cluster.cores", 1)
