"""Synthetic contention: what so many threads ask of one lock, and what a run of it says."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from loiter import contention, energy, locks, programs
from loiter.advise import holds
from loiter.advise.policies import Policy
from loiter.engine import Engine
from loiter.errors import RunFault
from loiter.machines import Machine
from loiter.results import Result
from loiter.runs.request import Request

PROGRAM = "profiled"
ARRIVALS = ("uniform", "exponential")
"""How work outside is distributed, in the order of the program's argument `arrivals`."""

_MOST_CONTEXT_CYCLES = 40_000_000
"""Of a run, unless it is said: so it ends, however rarely somebody asks for the lock."""
_LEAST_WINDOW = 20_000
_ROUNDS = 8
FEW_ROUNDS = 4
"""Acquisitions of a thread, of which fewer say little."""
_SLACK = 200
"""Windows in which a run has come to a stop."""


@dataclass(frozen=True)
class Demand:
    """What threads do, each on one of these contexts."""

    contexts: tuple[int, ...]
    lengths: holds.Lengths
    think_cycles: float
    arrivals: str = "exponential"
    lines: int = 1
    window_cycles: int = 200_000
    most_cycles: int | None = None
    """Of a window; None: so many that all contexts together have a bounded number."""

    def windowed(self, period_cycles: float, acquisitions: int) -> Demand:
        """With a window for so many acquisitions, one in each period, and `_ROUNDS` of each thread, as far as a run may
        take that long."""
        wanted = max(period_cycles * max(acquisitions, _ROUNDS * len(self.contexts)), _LEAST_WINDOW)
        most = self.most_cycles or _MOST_CONTEXT_CYCLES // len(self.contexts)
        return replace(self, window_cycles=int(min(wanted, most)))

    def request(self, engine: Engine, machine: Machine, policy: Policy, seed: int) -> Request:
        """A run of it."""
        program = programs.load(engine, PROGRAM)
        placement = programs.place([f"{policy.lock}={','.join(map(str, self.contexts))}"], program, machine)
        facts = {
            "method": contention.METHODS.index(policy.method),
            "repeat": policy.steps,
            "hold": max(1, round(holds.mean(self.lengths))),
            "think": max(0, round(self.think_cycles)),
            "arrivals": ARRIVALS.index(self.arrivals),
            "lines": self.lines,
            "cycles": self.window_cycles,
            "place_harts": contention.node_contexts(machine),
            "seed": seed,
        }
        for at, (cycles, odds) in enumerate(self.lengths, 1):
            facts |= {f"hold{at}": round(cycles), f"odds{at}": odds}
        words = tuple(f"{name}={value}" for name, value in facts.items())
        plan = str(engine.describe_phases(contention.PHASES)["plan"])
        most = contention.MOST_CYCLES + _SLACK * self.window_cycles
        return Request(machine, program, placement, words, max_cycles=most, phases=plan)


@dataclass(frozen=True)
class Observed:
    """What one run, or several of one demand together, say of the lock."""

    acquisitions: int
    contentions: int
    contended_cycles: float
    hold_mean_cycles: float
    cycles: float
    """From the first acquire to the last release, of all runs together."""

    @property
    def share(self) -> float:
        """Of the acquires, those that contend."""
        return self.contentions / self.acquisitions

    @property
    def wait_mean_cycles(self) -> float:
        """Of those that contend; 0 where there are none."""
        return self.contended_cycles / self.contentions if self.contentions else 0.0

    @property
    def rate_per_cycle(self) -> float:
        """Acquisitions."""
        return self.acquisitions / self.cycles


def observed(results: Sequence[Result]) -> Observed:
    """Runs of one demand, with different seeds."""
    rows = [row for result in results for row in result.rows("locks")]
    cycles = sum(max(row["value"] for row in result.rows("reports") if row["name"] == "cycles") for result in results)
    acquisitions = sum(row["acquisitions"] for row in rows)
    if not acquisitions:
        raise RunFault("nobody acquired the lock within the window.")
    return Observed(
        acquisitions,
        sum(row["contentions"] for row in rows),
        sum(row["contended_sum_cycles"] for row in rows),
        sum(row["hold_sum_cycles"] for row in rows) / max(1, sum(row["holds"] for row in rows)),
        cycles,
    )


@dataclass(frozen=True)
class Measured:
    """One policy under one demand, seed by seed."""

    throughput: tuple[float, ...]
    """Acquisitions in 1000 cycles, of all threads."""
    wait: tuple[float, ...]
    """Cycles from the beginning of an acquire to its end, mean."""
    energy: tuple[float | None, ...]
    """nJ of the whole machine for each acquisition."""
    wait_p99_below: int
    """A power of two below which 99 of 100 waits are, of all seeds together."""
    acquisitions: int
    energy_range: tuple[float, float] | None
    """The mean with all coefficients of the machine's energy at the ends of their ranges."""


def measured(results: Sequence[Result]) -> Measured:
    """The runs of a policy, in the order of their seeds."""
    each = [contention.metrics_of(result) for result in results]
    rows = [row for result in results for row in result.rows("locks")]
    histogram = locks.added([row["wait_log2_histogram"] for row in rows])
    return Measured(
        tuple(_number(run["acquisitions_per_1000_cycles"]) for run in each),
        tuple(_number(run["wait_mean_cycles"]) for run in each),
        tuple(run["energy_per_acquisition_nj"] for run in each),
        locks.percentile(histogram, 99),
        sum(row["acquisitions"] for row in rows),
        _energy_range(results),
    )


def _number(value: float | None) -> float:
    assert value is not None
    return value


def _energy_range(results: Sequence[Result]) -> tuple[float, float] | None:
    ends = []
    for result in results:
        used = energy.of(result)
        if used is None:
            return None
        acquisitions = sum(row["acquisitions"] for row in result.rows("locks"))
        ends.append((used.total.low * 1e9 / acquisitions, used.total.high * 1e9 / acquisitions))
    low, high = (statistics.fmean(each[end] for each in ends) for end in (0, 1))
    return low, high


def queue(threads: int, section: float, think: float) -> tuple[float, float, float]:
    """A closed queue with one server, by mean value analysis: the time from one departure to the next, the time that a
    customer spends there, and the share of arrivals that find it busy. Sections and thinking have exponential times."""
    length, stay, period, busy = 0.0, section, math.inf, 0.0
    for count in range(1, threads + 1):
        stay = section * (1 + length)
        busy = 0.0 if count == 1 else min(1.0, section / period)
        period = (stay + think) / count
        length = stay / period
    return period, stay, busy
