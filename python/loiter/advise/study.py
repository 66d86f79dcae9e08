"""`loiter advise` as a study: a plan of runs, and what they say of each policy."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loiter.advise import calibrate, demand, effects
from loiter.advise.demand import Demand, Measured, measured
from loiter.advise.effects import Effect, Recommendation
from loiter.advise.plan import Case
from loiter.advise.policies import Policy
from loiter.advise.profile import Profile
from loiter.engine import Engine
from loiter.machines import Machine
from loiter.results import Result
from loiter.runs.worker import Job
from loiter.studies.base import Chart, Exhibit, Findings, Grid

SCHEMA = 1
"""Version of what --json prints."""

OBJECTIVES: Mapping[str, tuple[str, bool, str]] = {
    "throughput": ("throughput", True, "acquisitions per 1000 cycles"),
    "wait": ("wait", False, "mean wait of an acquire, cycles"),
    "energy": ("energy", False, "nJ of the whole machine for each acquisition"),
}
"""What can be wanted: the field of `Measured`, whether more of it is better, and what it is."""


@dataclass(frozen=True)
class Asked:
    """What is to be run, once all cases are calibrated."""

    machine: Machine
    profile: Profile
    cases: tuple[Case, ...]
    policies: tuple[Policy, ...]
    """The current one first."""
    seeds: int
    acquisitions: int
    """Of each run, about, with the current policy."""
    objective: str = "throughput"

    @property
    def current(self) -> Policy:
        return self.policies[0]

    def demand(self, case: Case) -> Demand:
        """Of the runs that policies are compared by."""
        found = case.calibration
        return found.demand.windowed(1 / found.found.rate_per_cycle, self.acquisitions)


class Advice:
    """What each policy would do to the locks of a profile. See `loiter.studies.base.Study`."""

    name = "advise"
    citation = ""
    legend = ""
    exhibits: tuple[Exhibit, ...] = ()
    scales: Mapping[str, str] = {"advise": "as many seeds and acquisitions as the command names"}
    method = (
        "Each class of the profile becomes synthetic contention for one lock: as many threads as the profile or the "
        "user says, sections as long as those of the profile, and work outside with which what is matched (the share "
        "of acquires that contend, their mean wait, or the rate) is the profile's under the current policy. Each "
        "policy runs that load with the same seeds. Intervals are of changes over the current policy, seed by seed, "
        "95 % for all policies of a class together (Student's t, Bonferroni); they say how sure the simulation is, not "
        "how like the synthetic load is to the program. Energy is that of the whole machine, by the event model."
    )

    found: Found
    """What the runs say, once they are evaluated."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self.title = f"Advice for the locks of {asked.profile.path.name} on {asked.machine.name}"

    def plan(self, engine: Engine, scale: str, exhibit: str | None) -> list[Job]:
        """A job for each case, policy and seed."""
        asked = self._asked
        jobs = []
        for case in asked.cases:
            load = asked.demand(case)
            for policy in asked.policies:
                for seed in _seeds(asked):
                    request = load.request(engine, asked.machine, policy, seed)
                    jobs.append(Job(_label(case, policy, seed), request, load.window_cycles * len(load.contexts)))
        return jobs

    def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
        """Tables, intervals and recommendations; nothing is published to compare with."""
        self.found = found = Found(self._asked, results)
        return Findings(
            points=(),
            statements=(),
            grids=[_calibrations(found), *(_policies(found, case) for case in self._asked.cases), _advice(found)],
            charts=_charts(found),
            rows=[row for case in self._asked.cases for row in found.rows(case)],
            warnings=[warning for case in self._asked.cases for warning in found.warnings(case)],
        )


def _seeds(asked: Asked) -> range:
    return range(1, asked.seeds + 1)


def _label(case: Case, policy: Policy, seed: int) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", case.name).strip("-") or "lock"
    return f"{name}.{policy.label}.seed{seed}"


class Found:
    """What the runs say, by case and policy."""

    def __init__(self, asked: Asked, results: Mapping[str, Result]) -> None:
        self.asked = asked
        self._measured = {
            (case.name, policy.name): measured([results[_label(case, policy, seed)] for seed in _seeds(asked)])
            for case in asked.cases
            for policy in asked.policies
        }

    def of(self, case: Case, policy: Policy) -> Measured:
        return self._measured[case.name, policy.name]

    def values(self, case: Case, objective: str) -> dict[str, Sequence[float]] | None:
        """Of each policy, by seed; none where the machine does not say it."""
        field = OBJECTIVES[objective][0]
        found = {policy.name: getattr(self.of(case, policy), field) for policy in self.asked.policies}
        # Who is never kept waiting still takes some cycles to acquire.
        return None if any(value is None for values in found.values() for value in values) else found

    def recommendation(self, case: Case, objective: str | None = None) -> Recommendation | None:
        """By what is wanted, or by another objective."""
        wanted = objective or self.asked.objective
        values = self.values(case, wanted)
        if values is None:
            return None
        return effects.recommend(values, self.asked.current.name, more_is_better=OBJECTIVES[wanted][1])

    def bounded(self) -> dict[str, tuple[str | None, str]]:
        """Of each class whose hold is known by its bounds only: the policy that is best at both of them, and advice."""
        by_class: dict[str, list[Recommendation]] = {}
        for case in self.asked.cases:
            recommended = self.recommendation(case)
            if recommended is not None:
                by_class.setdefault(case.of.name, []).append(recommended)
        found: dict[str, tuple[str | None, str]] = {}
        for name, each in by_class.items():
            if len(each) > 1:
                policies = {recommended.policy for recommended in each}
                agreed = policies.pop() if len(policies) == 1 else None
                differ = "it depends on how long it is held: no policy is best at both bounds"
                found[name] = (agreed, f"take {agreed} at both bounds of its hold" if agreed else differ)
                if agreed is None and not policies:
                    found[name] = (None, f"keep {self.asked.current.name} at both bounds of its hold")
        return found

    def rows(self, case: Case) -> list[dict[str, Any]]:
        """A row for each policy, for pandas and DuckDB."""
        by_objective = {name: self.recommendation(case, name) for name in OBJECTIVES}
        wanted = by_objective[self.asked.objective]
        rows = []
        for policy in self.asked.policies:
            each = self.of(case, policy)
            row: dict[str, Any] = {
                "class": case.of.name,
                "case": case.name,
                "policy": policy.name,
                "current": policy == self.asked.current,
                "recommended": wanted is not None and wanted.policy == policy.name,
                "acquisitions": each.acquisitions,
                "acquisitions_per_1000_cycles": statistics.fmean(each.throughput),
                "wait_mean_cycles": statistics.fmean(each.wait),
                "wait_p99_below_cycles": each.wait_p99_below,
                "energy_per_acquisition_nj": _mean(each.energy),
                "energy_per_acquisition_least_nj": None if each.energy_range is None else each.energy_range[0],
                "energy_per_acquisition_most_nj": None if each.energy_range is None else each.energy_range[1],
            }
            for name, recommended in by_objective.items():
                change = None if recommended is None else recommended.effects.get(policy.name)
                row |= {
                    f"{name}_change_percent": None if change is None else change.percent,
                    f"{name}_change_low_percent": None if change is None else change.low,
                    f"{name}_change_high_percent": None if change is None else change.high,
                }
            rows.append(row)
        return rows

    def warnings(self, case: Case) -> list[str]:
        """What to keep in mind of a case."""
        rounds = self.of(case, self.asked.current).acquisitions / self.asked.seeds / case.threads
        few = (
            f"{case.name} is acquired {rounds:.1f} times by each thread of a run, which says little: take --most-cycles"
        )
        return [*case.warnings, *([few] if rounds < demand.FEW_ROUNDS else [])]

    def json(self) -> dict[str, Any]:
        """All of it, for other programs."""
        asked = self.asked
        return {
            "schema": SCHEMA,
            "machine": asked.machine.name,
            "machine_hash": asked.machine.hash,
            "profile": {"path": str(asked.profile.path), "format": asked.profile.format},
            "objective": asked.objective,
            "current": asked.current.name,
            "confidence": effects.CONFIDENCE,
            "seeds": asked.seeds,
            "cases": [self._case_json(case) for case in asked.cases],
            "bounded": [
                {"class": name, "policy": policy, "advice": advice} for name, (policy, advice) in self.bounded().items()
            ],
        }

    def _case_json(self, case: Case) -> dict[str, Any]:
        found, load = case.calibration, self.asked.demand(case)
        recommended, warnings = self.recommendation(case), self.warnings(case)
        return {
            "class": case.of.name,
            "case": case.name,
            "kind": case.of.kind or None,
            "threads": case.threads,
            "threads_from": case.threads_from,
            "contexts": list(load.contexts),
            "calibration": {
                "match": found.target.match,
                "matches": found.matches,
                "runs": found.runs,
                "think_cycles": load.think_cycles,
                "sections": [{"cycles": cycles, "odds": odds} for cycles, odds in load.lengths],
                "window_cycles": load.window_cycles,
                **{
                    name: {"profile": wanted, "simulated": simulated, "residual": residual}
                    for name, wanted, simulated, residual in calibrate.told(found)
                },
            },
            "policies": self.rows(case),
            "recommendation": None
            if recommended is None
            else {
                "policy": recommended.policy,
                "change_percent": None if recommended.effect is None else recommended.effect.percent,
                "change_low_percent": None if recommended.effect is None else recommended.effect.low,
                "change_high_percent": None if recommended.effect is None else recommended.effect.high,
                "alike": list(recommended.alike),
                "advice": recommended.advice,
            },
            "warnings": warnings,
        }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _short(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:,.{digits}g}" if abs(value) < 1000 else f"{value:,.0f}"


def _calibrations(found: Found) -> Grid:
    """How like the profile the synthetic load is."""
    how: dict[str, Callable[[float | None], str]] = {
        "hold": _short,
        "share": lambda value: "–" if value is None else f"{100 * value:.1f} %",
        "wait": _short,
        "rate": lambda value: _short(None if value is None else 1000 * value),
    }
    rows = []
    for case in found.asked.cases:
        row = [case.name, str(case.threads), case.calibration.target.match]
        for name, wanted, simulated, residual in calibrate.told(case.calibration):
            off = "" if residual is None else f" ({100 * residual:+.0f} %)"
            row.append(f"{how[name](wanted)}: {how[name](simulated)}{off}")
        row.append(_short(case.calibration.demand.think_cycles))
        rows.append(tuple(row))
    columns = ("lock", "threads", "matched", "section", "contended", "their wait", "acquisitions", "work outside")
    return Grid(
        "calibration",
        "Synthetic contention beside the profile, with the current policy",
        "The profile's: simulated (difference). Sections and waits in cycles, acquisitions in 1000 cycles. – is not in "
        "the profile.",
        columns,
        tuple(rows),
    )


def _policies(found: Found, case: Case) -> Grid:
    """What each policy does to one class."""
    by_objective = {name: found.recommendation(case, name) for name in OBJECTIVES}
    rows = []
    for policy in found.asked.policies:
        each = found.of(case, policy)

        def change(name: str, policy: Policy = policy) -> Effect | None:
            recommended = by_objective[name]
            return None if recommended is None else recommended.effects.get(policy.name)

        speed, wait, energy = (change(name) for name in OBJECTIVES)
        rows.append(
            (
                policy.name,
                _short(statistics.fmean(each.throughput)),
                "current" if speed is None else str(speed),
                _short(statistics.fmean(each.wait)),
                "" if wait is None else f"{wait.percent:+.1f} %",
                f"{each.wait_p99_below:,}",
                _short(_mean(each.energy)),
                "" if energy is None else str(energy),
            )
        )
    columns = ("policy", "acquisitions", "change", "wait", "change", "99 % below", "energy", "change")
    return Grid(
        f"policies-{found.asked.cases.index(case) + 1}",
        f"{case.name}: {case.threads} threads",
        "Acquisitions in 1000 cycles; wait of an acquire in cycles, mean and a power of two below which 99 % are; "
        "energy in nJ for each acquisition. Changes are over the current policy, with 95 % intervals of all policies "
        "together.",
        columns,
        tuple(rows),
    )


def _advice(found: Found) -> Grid:
    """What to do."""
    rows = []
    for case in found.asked.cases:
        recommended = found.recommendation(case)
        rows.append((case.name, "the machine has no energy" if recommended is None else recommended.advice))
    rows += [(name, advice) for name, (_, advice) in found.bounded().items()]
    title = f"Advice, for {found.asked.objective}"
    caption = (
        "How sure the simulation is of its own load. A load that is like the profile in these numbers need not be like "
        "the program."
    )
    return Grid("advice", title, caption, ("lock", "advice"), tuple(rows), words=2)


def _charts(found: Found) -> list[Chart]:
    """Changes with their intervals."""
    asked = found.asked
    groups = tuple(case.name for case in asked.cases)
    series = tuple(policy.name for policy in asked.policies[1:])
    charts = []
    for objective, (_, _, what) in OBJECTIVES.items():
        by_case = {case.name: found.recommendation(case, objective) for case in asked.cases}
        if any(each is None for each in by_case.values()):
            continue
        values = {
            (name, policy): (change.percent, (change.high - change.low) / 2)
            for name, each in by_case.items()
            if each is not None
            for policy, change in each.effects.items()
        }
        runs = {
            (case.name, policy.name): tuple(_label(case, policy, seed) for seed in _seeds(asked))
            for case in asked.cases
            for policy in asked.policies[1:]
        }
        charts.append(
            Chart(
                objective,
                f"{asked.machine.name}: change of {what} over {asked.current.name}",
                "Whiskers: 95 % intervals of all policies of a lock together.",
                "change, percent",
                groups,
                series,
                values,
                runs=runs,
            )
        )
    return charts
