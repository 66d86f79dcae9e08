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
from loiter.results import Result
from loiter.runs.request import Request

OPERATIONS = ("load", "store", "fetch and add", "swap", "compare and swap")
"""In the order of the program's argument `operation`."""

STATES = ("modified", "owned", "exclusive", "shared", "uncached")
"""States of a line before the access, in the order of the program's argument `state`; an owned one has been written by
its holder and then read by one more, a shared one has been read by two."""

DISTANCES = (
    "own core",
    "same core",
    "same cluster",
    "same socket",
    "other core",
    "same package",
    "one hop",
    "two hops",
    "more hops",
    "memory",
)
"""Of the holder of a line, or of its memory where that is divided among sockets."""

LINES = 32
"""Lines that each mean is over."""

FAR_BYTES = 16448
"""Distance of lines that memory supplies: each in a row of its own, and in turn over homes."""

_MOST_CYCLES = 1_000_000_000_000

_STORE = OPERATIONS.index("store")
_OWNED = STATES.index("owned")
_UNCACHED = STATES.index("uncached")


@dataclass(frozen=True)
class Latency:
    """One operation on lines in one state, which a context at one distance has."""

    operation: str
    state: str
    distance: str
    """One of `DISTANCES`."""
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
    place = Place.of(machine)
    states = [state for state in range(len(STATES)) if state != _OWNED or place.has_owned]
    runs = [(operation, state) for operation in range(len(OPERATIONS)) for state in states]
    table: list[Latency] = []
    for number, (operation, state) in enumerate(runs):
        done(number / (len(runs) + 1))
        found = _run(machine, place, contexts, (operation, state), 1)[0]
        by_distance: dict[str, list[float]] = {}
        for holder, cycles in found.items():
            distance = place.of_memory(holder) if state == _UNCACHED else place.of_holder(holder)
            by_distance.setdefault(distance, []).append(cycles)
        for distance, each in by_distance.items():
            mean = sum(each) / len(each)
            table.append(Latency(OPERATIONS[operation], STATES[state], distance, mean, min(each), max(each)))
    done(len(runs) / (len(runs) + 1))
    matrix: tuple[tuple[float, ...], ...] = ()
    if len(cores) > 1:
        firsts = [core * per_core for core in cores]
        pairs = _run(machine, place, firsts, (0, 0), 0)
        matrix = tuple(tuple(pairs[asker][holder] for holder in firsts) for asker in firsts)
    done(1.0)
    return Latencies(machine, tuple(table), cores, matrix)


def transfers_request(machine: Machine) -> Request:
    """The run of the matrix, for who plans runs of their own: loads by each core of lines that another has modified."""
    per_core = machine.contexts_per_core
    return _request(machine, Place.of(machine), range(0, machine.contexts, per_core), (0, 0), 0)


def transfer_cycles(machine: Machine, result: Result) -> float:
    """The mean of that matrix: how long a core waits for a line that another one has modified."""
    found = _read(machine, 0, result)
    each = [cycles for asker, row in found.items() for holder, cycles in row.items() if holder != asker]
    return sum(each) / len(each)


def _run(
    machine: Machine, place: Place, contexts: Sequence[int], access: tuple[int, int], askers: int
) -> Mapping[int, dict[int, float]]:
    """Cycles of an access, an operation on lines in a state, by asker and holder."""
    request = _request(machine, place, contexts, access, askers)
    return _read(machine, access[0], api.carry_out(request))


def _request(machine: Machine, place: Place, contexts: Sequence[int], access: tuple[int, int], askers: int) -> Request:
    operation, state = access
    step = FAR_BYTES if state == _UNCACHED else 64
    arguments = {"operation": operation, "state": state, "lines": LINES, "askers": askers, "line_bytes": step}
    arguments |= {"node_harts": place.node_contexts, "node_bytes": place.node_bytes}
    # Whoever is not asked sleeps, and wakes up from an idle state for each of its turns.
    placed = {"core": list(contexts)}
    return api.request(machine, "latency", place=placed, arguments=arguments, max_cycles=_MOST_CYCLES)


def _read(machine: Machine, operation: int, result: Result) -> Mapping[int, dict[int, float]]:
    """What a run gave: cycles by asker and holder."""
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
            less = 0 if operation == _STORE else loops[asker] - LINES * alu_cycles
            found.setdefault(asker, {})[int(name.removeprefix("from."))] = (cycles - less) / LINES
    return found


@dataclass(frozen=True)
class Place:
    """Where contexts and memory of a machine are, as seen from its first context."""

    core_contexts: int
    cluster_contexts: int
    """0 where there are no clusters."""
    socket_contexts: int
    """0 where there is one socket."""
    package_sockets: int
    hops: tuple[int, ...]
    """Links from the first socket to each."""
    node_contexts: int
    """Contexts whose socket has a contiguous part of memory; 0 where all memory is interleaved."""
    node_bytes: int
    has_owned: bool
    """A core that has written a line keeps supplying it when others read."""

    @staticmethod
    def of(machine: Machine) -> Place:
        """The place that the parameters of a machine give."""
        each = machine.contexts_per_core
        if machine.value("system.memory") != "directory":
            return Place(each, 0, 0, 1, (0,), 0, 0, has_owned=False)
        by_cluster = "cluster" in (machine.value("l2.shared_by"), machine.value("l3.shared_by"))
        cluster = min(machine.count("cluster.cores", 1) * each, machine.contexts) if by_cluster else 0
        sockets = machine.count("network.sockets", 1) if machine.value("network.topology") == "sockets" else 1
        child = cluster or each
        children = machine.contexts // child
        socket = (machine.count("network.socket_nodes", 0) or -(-children // sockets)) * child if sockets > 1 else 0
        nodes = machine.count("home.nodes", 1)
        return Place(
            core_contexts=each,
            cluster_contexts=cluster,
            socket_contexts=socket,
            package_sockets=machine.count("network.package_sockets", 1),
            hops=_hops(str(machine.value("network.links")), sockets),
            node_contexts=socket if nodes == sockets else 0,
            node_bytes=(machine.count("system.ram_mib", 1) << 20) // nodes,
            has_owned=machine.value("coherence.states") == "moesi",
        )

    def of_holder(self, context: int) -> str:
        """How far the caches of a context are."""
        if context == 0:
            return "own core"
        if context < self.core_contexts:
            return "same core"
        if context < self.cluster_contexts:
            return "same cluster"
        if not self.socket_contexts:
            return "other core"
        if context < self.socket_contexts:
            return "same socket"
        return self._of_socket(context // self.socket_contexts)

    def of_memory(self, context: int) -> str:
        """How far the memory is that a context is nearest to."""
        if not self.node_contexts or context < self.node_contexts:
            return "memory"
        return self._of_socket(context // self.socket_contexts)

    def _of_socket(self, socket: int) -> str:
        if socket < self.package_sockets:
            return "same package"
        return {1: "one hop", 2: "two hops"}.get(self.hops[socket], "more hops")


def _hops(links: str, sockets: int) -> tuple[int, ...]:
    """The fewest links from the first socket to each."""
    ends = [word.partition(":")[0].split("-") for word in links.split()]
    near: dict[int, set[int]] = {}
    for one, other in ends:
        near.setdefault(int(one), set()).add(int(other))
        near.setdefault(int(other), set()).add(int(one))
    hops = {0: 0}
    reached = [0]
    for socket in reached:
        for next_one in sorted(near.get(socket, set()) - hops.keys()):
            hops[next_one] = hops[socket] + 1
            reached.append(next_one)
    return tuple(hops.get(socket, 0) for socket in range(sockets))
