"""What the runs say: where the guest's time goes, and how long its waits are."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from loiter.engine import Json
from loiter.errors import RunFault
from loiter.results import Result
from loiter.studies.friebel2008.grid import CLOCK_MHZ, SLICE_LOG2, Case, Scale

_MS = CLOCK_MHZ * 1000
CALLS = "loiter_calls"
"""Stands for a lock where the guest's kernel waits until other CPUs have executed a function."""


def _is_lock(symbol: str) -> bool:
    return symbol != CALLS


@dataclass(frozen=True)
class Times:
    """A guest's times, in milliseconds."""

    wall: float
    """To its end, or to that of the run."""
    guest: float
    """That its virtual CPUs ran, all together."""
    spinning: float
    """Of that, in waits for locks."""
    rivals: float
    switching: float
    """Of all CPUs."""
    host: float
    """Of that, for the guest: as its part of all changes between virtual CPUs is."""
    idle: float
    over: bool
    """Whether the guest has done its work."""
    yields: float
    helped: float
    slept: float
    """Times that a virtual CPU slept until it was kicked."""

    @property
    def spinning_percent(self) -> float:
        """Of the guest's time."""
        return 100 * self.spinning / self.guest

    @classmethod
    def mean(cls, of: Sequence[Times]) -> Times:
        """Of several runs; over only if all are."""
        names = (each.name for each in fields(cls) if each.name != "over")
        means = {name: statistics.fmean(getattr(times, name) for times in of) for name in names}
        return cls(over=all(times.over for times in of), **means)


@dataclass(frozen=True)
class Waits:
    """The waits of a run, or in the mean of several, by the log2 of their cycles."""

    counts: Mapping[int, float]
    cycles: Mapping[int, float]

    @property
    def count(self) -> float:
        """All."""
        return sum(self.counts.values())

    @property
    def mode(self) -> int:
        """The log2 of which there are most; 0 without any."""
        return max(self.counts, key=lambda log2: (self.counts[log2], -log2), default=0)

    def share_below(self, log2: int) -> float:
        """Per cent of the waits that are shorter than 2^log2 cycles."""
        return 100 * sum(n for at, n in self.counts.items() if at < log2) / self.count if self.count else 100.0

    def long(self, log2: int = SLICE_LOG2 - 2) -> dict[int, float]:
        """Those of 2^log2 cycles and more."""
        return {at: n for at, n in self.counts.items() if at >= log2}

    @property
    def second_mode(self) -> int:
        """The log2 of which there are most among the long ones; 0 without any."""
        long = self.long()
        return max(long, key=lambda log2: (long[log2], log2), default=0)

    def time_share(self, log2: int = SLICE_LOG2 - 2) -> float:
        """Per cent of the time of all waits that the long ones take."""
        every = sum(self.cycles.values())
        return 100 * sum(n for at, n in self.cycles.items() if at >= log2) / every if every else 0.0


class Measured:
    """The runs of a scale."""

    def __init__(self, results: Mapping[str, Result], scale: Scale) -> None:
        self._results = results
        self._scale = scale
        self._times: dict[tuple[Case, int], Times] = {}

    def _work(self, case: Case, number: int = 0) -> Json:
        work: Json = self._results[case.label].manifest["guests"][number]
        return work

    def repetitions(self, case: Case) -> list[Case]:
        """All runs of a case."""
        each = (replace(case, repetition=n) for n in range(self._scale.repetitions))
        return [one for one in each if one.label in self._results]

    def times(self, case: Case, number: int = 0) -> Times:
        """In the mean of the repetitions, of the guest that works, or the one beside it."""
        return Times.mean([self.times_of(one, number) for one in self.repetitions(case)])

    def spread(self, case: Case, value: Callable[[Times], float]) -> tuple[float, float] | None:
        """From the least to the greatest of the repetitions, if there are any."""
        return interval([value(self.times_of(one)) for one in self.repetitions(case)])

    def times_of(self, case: Case, number: int = 0) -> Times:
        """Of one run. A guest on Linux that is done and has not said so has failed."""
        if (case, number) not in self._times:
            self._times[case, number] = self._read(case, number)
        return self._times[case, number]

    def _read(self, case: Case, number: int) -> Times:
        result, work = self._results[case.label], self._work(case, number)
        over = work["over_cycle"] is not None
        if over and case.on_linux and "checked" not in work["stdout"]:
            raise RunFault(f"{case.label}: what {work['name']} did is not checked")
        mine = [row for row in result.rows("vcpus") if row["guest"] == work["name"]]
        others = [row for row in result.rows("vcpus") if row["guest"] != work["name"]]
        cpus = result.rows("cpus")
        return Times(
            wall=(work["over_cycle"] if over else result.cycles) / _MS - case.rests_us(self._scale) / 1000,
            guest=_sum(mine, "run_cycles"),
            spinning=_sum(mine, "spinning_cycles"),
            rivals=_sum(others, "run_cycles"),
            switching=_sum(cpus, "switching_cycles"),
            host=_sum(cpus, "switching_cycles") * _part(mine, mine + others, "switches"),
            idle=_sum(cpus, "idle_cycles"),
            over=over,
            yields=sum(row["yields"] for row in mine),
            helped=sum(row["helped"] for row in mine),
            slept=sum(row["kick_waits"] for row in mine),
        )

    def waits(self, case: Case) -> Waits:
        """Of the guest that works, those for locks that were not free, and that have ended. Linux shows no others."""
        return self._waits(self.repetitions(case), _is_lock, _which(case))

    def executed(self, case: Case) -> Waits:
        """All its waits by the cycles in which CPUs executed who waits: without those in which it had no CPU."""
        return self._waits(self.repetitions(case), _is_lock, "executed_")

    def waits_of_each(self, case: Case) -> list[Waits]:
        """The same of each repetition."""
        return [self._waits([run], _is_lock, _which(case)) for run in self.repetitions(case)]

    def acquires(self, case: Case) -> float:
        """How many times it had a lock, free or not. On Linux, where only others show, nobody knows."""
        return self._waits(self.repetitions(case), _is_lock).count

    def calls(self, case: Case) -> Waits:
        """Its waits until other CPUs have executed a function."""
        return self._waits(self.repetitions(case), lambda symbol: symbol == CALLS)

    def _waits(self, runs: Sequence[Case], wanted: Callable[[str], bool], which: str = "") -> Waits:
        counts, cycles = Counter[int](), Counter[int]()
        for run in runs:
            for row in self._results[run.label].rows("waits"):
                if row["guest"] == self._work(run)["name"] and wanted(row["lock_symbol"]):
                    counts[row["log2_cycles"]] += row[f"{which}waits"]
                    cycles[row["log2_cycles"]] += row[f"{which}wait_cycles"]
        means = ({log2: n / len(runs) for log2, n in sorted(each.items()) if n} for each in (counts, cycles))
        return Waits(*means)

    def row(self, case: Case) -> dict[str, str | float]:
        """One line of the study's own table."""
        times, waits = self.times_of(case), self._waits([case], _is_lock, _which(case))
        facts: dict[str, str | float] = {
            "run": case.label,
            "load": case.load,
            "lock": case.lock,
            "policy": case.policy,
            "yield_after_log2": case.after_log2,
            "guests": case.rivals + 1,
            "over": times.over,
        }
        names = ("wall", "guest", "spinning", "rivals", "switching", "idle")
        facts |= {f"{name}_ms": getattr(times, name) for name in names}
        return facts | {
            "yields": times.yields,
            "helped": times.helped,
            "slept": times.slept,
            "waits": waits.count,
            "waits_mode_log2": waits.mode,
            "waits_below_2_16_percent": waits.share_below(16),
        }


def interval(each: Sequence[float]) -> tuple[float, float] | None:
    """From the least to the greatest of several."""
    return (min(each), max(each)) if len(each) > 1 else None


def _which(case: Case) -> str:
    return "" if case.on_linux else "contended_"


def _sum(rows: list[Json], name: str) -> float:
    return float(sum(row[name] for row in rows) / _MS)


def _part(rows: list[Json], of: list[Json], name: str) -> float:
    every = sum(row[name] for row in of)
    return sum(row[name] for row in rows) / every if every else 0.0
