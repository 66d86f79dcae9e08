"""The program that was profiled, run again with other policies: what they really do, beside what was predicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loiter import api, contention, locks
from loiter.advise.demand import PROGRAM, Measured, measured
from loiter.advise.effects import Effect, effect
from loiter.advise.policies import Policy
from loiter.advise.study import OBJECTIVES, Found
from loiter.errors import UserFault
from loiter.machines import Machine
from loiter.results import Result

_PROGRAMS = (contention.PROGRAM, PROGRAM)


@dataclass(frozen=True)
class Checked:
    """What a policy does to the program, in percent over its current policy."""

    case: str
    policy: str
    predicted: Effect
    measured: Effect

    @property
    def error_points(self) -> float:
        """Predicted less measured."""
        return self.predicted.percent - self.measured.percent

    @property
    def holds(self) -> bool:
        """Whether the intervals meet."""
        return self.predicted.low <= self.measured.high and self.measured.low <= self.predicted.high

    def json(self) -> dict[str, Any]:
        """For other programs."""
        facts: dict[str, Any] = {"case": self.case, "policy": self.policy}
        for name, each in (("predicted", self.predicted), ("measured", self.measured)):
            facts |= {
                f"{name}_percent": each.percent,
                f"{name}_low_percent": each.low,
                f"{name}_high_percent": each.high,
            }
        return facts | {"error_points": self.error_points, "intervals_meet": self.holds}


def refuse_others(path: Path, machine: Machine, current: Policy) -> None:
    """Raises `UserFault` where the program cannot be run again on the machine with another policy."""
    if not path.is_dir():
        raise UserFault(f"--check: {path} is no result directory, so there is no program that could be run again.")
    result, _ = locks.of_directory(path)
    program = result.manifest.get("program", {}).get("name")
    if program not in _PROGRAMS:
        what = f"program {program}" if program else "Linux"
        raise UserFault(
            f"--check: {result.path} is a result of {what}; only runs of the program {contention.PROGRAM} can be "
            "repeated with another policy."
        )
    if result.manifest["machine"]["hash"] != machine.hash:
        raise UserFault(
            f"--check: {result.path} is of another machine than -m (or of other --set); what was predicted for one "
            "cannot be checked on another."
        )
    task, _, arguments = _command(result)
    ran = Policy(task, contention.METHODS[int(arguments.get("method", 1))], int(arguments.get("repeat", 1)))
    if ran.name != current.name:
        raise UserFault(f"--check: {result.path} ran {ran.name}; take --current {ran.name}.")


def check(found: Found, every: bool, workers: int | None, *, quiet: bool) -> list[Checked]:
    """Runs the recommended policy of each case, or every one, and the current one, with the seeds of the prediction."""
    asked = found.asked
    result, _ = locks.of_directory(asked.profile.path)
    field, _, _ = OBJECTIVES[asked.objective]
    out = []
    for case in asked.cases:
        recommended = found.recommendation(case)
        if recommended is None:
            continue
        tried = [each for each in asked.policies[1:] if every or each.name == recommended.policy]
        if not tried:
            continue
        by_policy = _run(result, asked.machine, [asked.current, *tried], asked.seeds, workers, quiet)
        base = getattr(by_policy[asked.current.name], field)
        for policy in tried:
            real = effect(getattr(by_policy[policy.name], field), base, len(tried))
            out.append(Checked(case.name, policy.name, recommended.effects[policy.name], real))
    return out


def _command(result: Result) -> tuple[str, list[int], dict[str, str]]:
    """The task, its contexts and the arguments of a run of `locks`."""
    words = dict(word.split("=", 1) for word in result.manifest["request"]["bootargs"].split())
    tasks = {name.removeprefix("task."): where for name, where in words.items() if name.startswith("task.")}
    ((task, where),) = tasks.items()
    arguments = {name: value for name, value in words.items() if not name.startswith("task.")}
    return task, [int(each) for each in where.split(",")], arguments


def _run(
    result: Result, machine: Machine, policies: Sequence[Policy], seeds: int, workers: int | None, quiet: bool
) -> dict[str, Measured]:
    manifest = result.manifest
    _, contexts, arguments = _command(result)
    labels = {(policy, seed): f"{policy.label}.seed{seed}" for policy in policies for seed in range(1, seeds + 1)}
    requests = {
        label: api.request(
            machine,
            manifest["program"]["name"],
            place={policy.lock: contexts},
            arguments=arguments
            | {"method": contention.METHODS.index(policy.method), "repeat": policy.steps, "seed": seed},
            phases=manifest["request"]["phases"],
            max_cycles=manifest["request"]["max_cycles"],
        )
        for (policy, seed), label in labels.items()
    }
    results = api.results(requests, workers=workers, quiet=quiet)
    return {
        policy.name: measured([results[labels[policy, seed]] for seed in range(1, seeds + 1)]) for policy in policies
    }
