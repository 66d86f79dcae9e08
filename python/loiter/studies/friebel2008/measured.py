"""What the runs say: where the guest's time goes, and how long its waits are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loiter.engine import Json
from loiter.errors import RunFault
from loiter.results import Result
from loiter.studies.friebel2008.grid import CLOCK_MHZ, SLICE_LOG2, Case

_MS = CLOCK_MHZ * 1000
CALLS = "loiter_calls"
"""Stands for a lock where the guest's kernel waits until other CPUs have executed a function."""


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
    yields: int
    helped: int
    slept: int
    """Times that a virtual CPU slept until it was kicked."""

    @property
    def spinning_percent(self) -> float:
        """Of the guest's time."""
        return 100 * self.spinning / self.guest


@dataclass(frozen=True)
class Waits:
    """The waits of a run, by the log2 of their cycles."""

    counts: Mapping[int, int]
    cycles: Mapping[int, int]

    @property
    def count(self) -> int:
        """All."""
        return sum(self.counts.values())

    @property
    def mode(self) -> int:
        """The log2 of which there are most; 0 without any."""
        return max(self.counts, key=lambda log2: (self.counts[log2], -log2), default=0)

    def share_below(self, log2: int) -> float:
        """Per cent of the waits that are shorter than 2^log2 cycles."""
        return 100 * sum(n for at, n in self.counts.items() if at < log2) / self.count if self.count else 100.0

    def long(self, log2: int = SLICE_LOG2 - 2) -> dict[int, int]:
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

    def __init__(self, results: Mapping[str, Result]) -> None:
        self._results = results
        self._times: dict[tuple[Case, int], Times] = {}

    def _work(self, case: Case, number: int = 0) -> Json:
        work: Json = self._results[case.label].manifest["guests"][number]
        return work

    def times(self, case: Case, number: int = 0) -> Times:
        """Of the guest that works, or the one beside it. One on Linux that is done and has not said so has failed."""
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
            wall=(work["over_cycle"] if over else result.cycles) / _MS,
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
        return self._waits(case, lambda symbol: symbol != CALLS, "" if case.on_linux else "contended_")

    def acquires(self, case: Case) -> int:
        """How many times it had a lock, free or not. On Linux, where only others show, nobody knows."""
        return self._waits(case, lambda symbol: symbol != CALLS).count

    def calls(self, case: Case) -> Waits:
        """Its waits until other CPUs have executed a function."""
        return self._waits(case, lambda symbol: symbol == CALLS)

    def _waits(self, case: Case, wanted: Callable[[str], bool], which: str = "") -> Waits:
        counts, cycles = Counter[int](), Counter[int]()
        for row in self._results[case.label].rows("waits"):
            if row["guest"] == self._work(case)["name"] and wanted(row["lock_symbol"]):
                counts[row["log2_cycles"]] += row[f"{which}waits"]
                cycles[row["log2_cycles"]] += row[f"{which}wait_cycles"]
        return Waits(+counts, +cycles)

    def row(self, case: Case) -> dict[str, str | float]:
        """One line of the study's own table."""
        times, waits = self.times(case), self.waits(case)
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


def _sum(rows: list[Json], name: str) -> float:
    return float(sum(row[name] for row in rows) / _MS)


def _part(rows: list[Json], of: list[Json], name: str) -> float:
    every = sum(row[name] for row in of)
    return sum(row[name] for row in rows) / every if every else 0.0
