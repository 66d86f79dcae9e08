"""A sweep: what every point runs, what of it is there already, and the table of all points.

A point is a run like any other: it has a key, by which the store has its result or has not. The table keeps the rows of
points by key as well, so that a sweep that is complete is read and nothing else.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from loiter import api
from loiter.errors import UserFault, unknown
from loiter.machines import Machine
from loiter.runs.request import Request
from loiter.sweeps.grid import Grid

ARGUMENT = "argument."
"""What axes begin with that vary an argument of the program."""


@dataclass(frozen=True)
class Plan:
    """What all points have in common, by the words of `api.request`, and the grid over which they differ."""

    grid: Grid
    words: Mapping[str, Any]

    def command(self) -> str:
        """The call of `loiter sweep` that asks for the same."""
        words = ["loiter", "sweep"]
        machine = self.words["machine"]
        if isinstance(machine, Machine):
            words += ["-m", machine.name, *(word for each in machine.sets for word in ("--set", each))]
        elif machine is not None:
            words += ["-m", str(machine)]
        words += [] if self.words["program"] is None else ["-p", str(self.words["program"])]
        for each in api.places(self.words["place"]):
            words += ["--place", each]
        for key, value in self.words["arguments"].items():
            words += ["--argument", f"{key}={value}"]
        for key in ("phases", "waiting", "max_cycles"):
            words += [] if self.words[key] is None else [f"--{key.replace('_', '-')}", str(self.words[key])]
        for axis in self.grid.axes:
            words += ["--grid", f"{axis.key}={','.join(str(value) for value in axis.values)}"]
        return shlex.join(words)

    def is_word(self, key: str) -> bool:
        """Whether an axis varies a word of the call; others vary an argument of the program or a parameter."""
        return key in self.words and key != "arguments"


@dataclass(frozen=True)
class Point:
    """A point of the grid: the values, and the run, or why there can be none."""

    values: Mapping[str, Any]
    request: Request | None
    fault: UserFault | None = None


def points(plan: Plan) -> Iterator[Point]:
    """All points. An axis that no machine of the grid knows is a fault; what only some points cannot have is theirs."""
    machines: dict[Any, Machine] = {}
    _check_axes(plan, machines)
    for values in plan.grid.points():
        try:
            yield Point(values, _request(plan, values, machines))
        except UserFault as fault:
            yield Point(values, None, fault)


def _request(plan: Plan, values: Mapping[str, Any], machines: dict[Any, Machine]) -> Request:
    words, changes = dict(plan.words), {}
    words["arguments"] = dict(words["arguments"])
    for key, value in values.items():
        if plan.is_word(key):
            words[key] = value
        elif key.startswith(ARGUMENT):
            words["arguments"][key.removeprefix(ARGUMENT)] = value
        else:
            changes[key] = value
    words["machine"] = _machine(words["machine"], machines)
    if changes:
        words["machine"] = words["machine"].set(changes)
    return api.request(**words)


def _check_axes(plan: Plan, machines: dict[Any, Machine]) -> None:
    values = {axis.key: axis.values for axis in plan.grid.axes}
    for needed in ("machine", "program"):
        if plan.words[needed] is None and needed not in values:
            raise UserFault(f"a sweep has a {needed}, or an axis of that name.")
    known: set[str] = set()
    for name in values.get("machine", (plan.words["machine"],)):
        known |= {parameter.key for parameter in _machine(name, machines).parameters}
    for key in values:
        if not plan.is_word(key) and not key.startswith(ARGUMENT) and key not in known:
            raise unknown("axis", key, [*known, *filter(plan.is_word, plan.words), f"{ARGUMENT}NAME"])


def _machine(name: Any, machines: dict[Any, Machine]) -> Machine:
    if isinstance(name, Machine):
        return name
    if name not in machines:
        machines[name] = api.machine(name)
    return machines[name]
