"""One lock under contention: what `loiter locks` measures.

The guest program `locks` has a task for each lock. So many harts acquire it, work in its section, release it and work
outside, until a number of cycles has passed. What each acquire cost, the simulator notes without the guest's help.
`loiter.native.contention` does the same on this machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loiter import api, energy, locks, programs, store
from loiter import engine as engines
from loiter.errors import UserFault, unknown
from loiter.latency import Place, check_timed
from loiter.machines import Machine
from loiter.results import Result

if TYPE_CHECKING:
    import pandas as pd

PROGRAM = "locks"

METHODS = ("spin", "pause", "fence", "divide", "divide_doubles", "compare_and_swap", "back_off", "nap")
"""How a hart waits between two looks at the lock, in the order of the program's argument `method`."""

METRICS = {
    "throughput": ("acquisitions_per_1000_cycles", "acquisitions per 1000 cycles, of all harts"),
    "latency": ("wait_mean_cycles", "cycles from the beginning of an acquire to its end, mean"),
    "handover": ("handover_mean_cycles", "cycles from a release to the acquire of who waited, mean"),
    "fairness": ("jain", "Jain's index of acquisitions by hart"),
    "energy": ("energy_per_acquisition_nj", "nJ of the whole machine per acquisition"),
}
"""What can be shown: the column of the table, and its meaning with its unit."""

PHASES = "reference until probe:work_begin, timing"
"""The program times its work before the region of interest."""
MOST_CYCLES = 1_000_000_000
_MOST_WINDOWS = 1000
"""A run that takes longer, of the set-up and of windows, has come to a stop."""

FILLS = ("cores", "siblings", "across")
"""Which contexts come first: one of each core, all of a core, or nodes of the machine in turn."""


@dataclass(frozen=True)
class Contention:
    """What harts do."""

    method: str = "pause"
    """One of `METHODS`."""
    repeat: int = 1
    """Steps of the method between two looks at the lock."""
    hold_cycles: int = 100
    """Work in the section, of a hart that is alone."""
    think_cycles: int = 500
    """Mean of the work outside, from none to twice as much."""
    lines: int = 1
    """Lines that the section writes."""
    window_cycles: int = 200_000
    """After so many cycles a hart acquires no more."""
    fill: str = "cores"
    """One of `FILLS`."""
    seeds: int = 3
    """Runs of each point, which differ in the work outside."""
    patience: int = 0
    """After so many looks a waiter also yields to the scheduler; 0: never. Simulated harts have none."""

    def check(self, methods: Sequence[str] = METHODS, fills: Sequence[str] = FILLS) -> None:
        """Raises `UserFault` where something is out of its range, or not among what the machine can do."""
        if self.method not in methods:
            raise unknown("policy", self.method, methods)
        if self.fill not in fills:
            raise unknown("order of contexts", self.fill, fills)
        least = {
            "repeat": 1,
            "patience": 0,
            "hold_cycles": 1,
            "think_cycles": 0,
            "lines": 0,
            "window_cycles": 1,
            "seeds": 1,
        }
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise UserFault(f"{name.removesuffix('_cycles')} = {getattr(self, name)}: it is {lowest} at least.")

    def arguments(self, machine: Machine) -> dict[str, int]:
        """As the program has them."""
        return {
            "method": METHODS.index(self.method),
            "repeat": self.repeat,
            "hold": self.hold_cycles,
            "think": self.think_cycles,
            "lines": self.lines,
            "cycles": self.window_cycles,
            "place_harts": node_contexts(machine),
        }


def method_and_steps(policy: str, option: str = "--policy") -> tuple[str, int]:
    """`NAME[:STEPS]` of an option."""
    method, _, steps = policy.partition(":")
    if steps and not steps.isdecimal():
        raise UserFault(f"{option} {policy}: steps are a number, as in pause:4.")
    return method, int(steps or 1)


def names() -> tuple[str, ...]:
    """The locks that there are."""
    return programs.load(engines.load(), PROGRAM).tasks


def node_contexts(machine: Machine) -> int:
    """Contexts of what locks that know nodes of the machine take for one: a socket, or else those below one shared
    cache. 0 where all are in one."""
    place = Place.of(machine)
    return place.socket_contexts or place.cluster_contexts


def contexts(machine: Machine, fill: str) -> list[int]:
    """All contexts in the order in which threads take them."""
    per_core, all_of_them = machine.contexts_per_core, range(machine.contexts)
    if fill == "siblings":
        return list(all_of_them)
    if fill == "across" and (node := node_contexts(machine)):
        return sorted(all_of_them, key=lambda context: (context % per_core, context % node, context))
    return sorted(all_of_them, key=lambda context: (context % per_core, context))


def measure(
    machine: Machine,
    chosen: Sequence[str],
    threads: Sequence[int],
    contention: Contention | None = None,
    *,
    workers: int | None = None,
    quiet: bool = False,
) -> pd.DataFrame:
    """Runs each lock with each number of threads; a row for each. Runs that are in the store are not carried out again.

    Columns: `lock`, `threads`, those of `METRICS`, each a mean over seeds with its `_least`, `_most` and `_each` (by
    seed), further ones of `loiter.locks.table` for all seeds together, and `error` where a run failed.
    """
    import pandas as pd

    asked = contention or Contention()
    asked.check()
    if asked.patience:
        raise UserFault(f"patience = {asked.patience}: simulated harts have no scheduler to yield to; leave it 0.")
    check_timed(machine)
    known = names()
    for name in chosen:
        if name not in known:
            raise unknown("lock", name, known)
    order = contexts(machine, asked.fill)
    for count in threads:
        if not 1 <= count <= len(order):
            raise UserFault(f"{count} threads: {machine.name} has {len(order)} contexts; take 1 to {len(order)}.")
    places = [{name: order[:count]} for name in chosen for count in threads]
    frame = api.sweep(
        {"place": places, "argument.seed": list(range(1, asked.seeds + 1))},
        machine,
        PROGRAM,
        arguments=asked.arguments(machine),
        phases=PHASES,
        max_cycles=MOST_CYCLES + _MOST_WINDOWS * asked.window_cycles,
        workers=workers,
        quiet=quiet,
    )
    points = [(name, count) for name in chosen for count in threads]
    runs = list(frame.to_dict("records"))
    rows = [
        {"lock": name, "threads": count} | _point(runs[number * asked.seeds : (number + 1) * asked.seeds])
        for number, (name, count) in enumerate(points)
    ]
    found: pd.DataFrame = pd.DataFrame(rows)
    return found


def _point(runs: Sequence[Mapping[Any, Any]]) -> dict[str, Any]:
    """The runs of one point put together."""
    errors = [str(run["error"]) for run in runs if isinstance(run.get("error"), str) and run["error"]]
    if errors:
        return {"error": errors[0]}
    measured, rows = [], []
    for run in runs:
        result = store.read(Path(run["result"]))
        rows += result.rows("locks")
        measured.append(metrics_of(result))
    return combine(measured, rows)


def combine(measured: Sequence[Mapping[str, float | None]], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The runs of one point as a row: metrics as mean, least and most, and all columns of `loiter.locks.table`."""
    out: dict[str, Any] = {}
    for column, _ in METRICS.values():
        out[f"{column}_each"] = [each[column] for each in measured]
        values = [value for each in measured if (value := each[column]) is not None]
        out[column] = statistics.fmean(values) if values else None
        out[f"{column}_least"] = min(values, default=None)
        out[f"{column}_most"] = max(values, default=None)
    [total] = locks.table([{**row, "lock": 0} for row in rows]).to_dict("records")
    return out | {str(key): value for key, value in total.items() if key not in ("lock", *out)}


def metrics_of(result: Result) -> dict[str, float | None]:
    """The columns of `METRICS` of a run."""
    rows, reports = result.rows("locks"), result.rows("reports")
    cycles = max(int(row["value"]) for row in reports if row["name"] == "cycles")
    acquisitions = sum(row["acquisitions"] for row in rows)
    handovers = sum(row["handovers"] for row in rows)
    used = energy.of(result)
    return {
        "acquisitions_per_1000_cycles": 1000 * acquisitions / cycles,
        "wait_mean_cycles": sum(row["wait_sum_cycles"] for row in rows) / acquisitions,
        "handover_mean_cycles": sum(row["handover_sum_cycles"] for row in rows) / handovers if handovers else None,
        "jain": locks.fairness(rows).jain,
        "energy_per_acquisition_nj": None if used is None else used.total.value * 1e9 / acquisitions,
    }
