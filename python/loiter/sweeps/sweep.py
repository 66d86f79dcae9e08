"""A sweep: what every point runs, what of it is there already, and the table of all points.

A point is a run like any other: it has a key, by which the store has its result or has not. The table keeps the rows of
points by key as well, so that a sweep that is complete is read and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loiter import api
from loiter.errors import UserFault, unknown
from loiter.machines import Machine
from loiter.runs.request import Request
from loiter.sweeps.grid import Grid

ARGUMENT = "argument."
"""What axes begin with that vary an argument of the program."""

_OF_A_RUN = ("machine", "program", "place", "phases", "fast_forward", "max_cycles", "waiting")
"""Axes that vary something else than a parameter of the machine."""


@dataclass(frozen=True)
class Plan:
    """What all points have in common, and the grid over which they differ."""

    grid: Grid
    machine: str | Machine | None = None
    program: str | None = None
    place: api.Place | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    phases: str | None = None
    fast_forward: bool = False
    max_cycles: int | None = None
    waiting: str | None = None


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
    of_run = {key: values.get(key, getattr(plan, key)) for key in _OF_A_RUN}
    changes = {key: value for key, value in values.items() if _is_parameter(key)}
    arguments = {**plan.arguments, **{_name(key): value for key, value in values.items() if key.startswith(ARGUMENT)}}
    machine = _machine(of_run.pop("machine"), machines)
    if changes:
        machine = machine.set(changes)
    return api.request(machine, of_run.pop("program"), arguments=arguments, **of_run)


def _check_axes(plan: Plan, machines: dict[Any, Machine]) -> None:
    values = {axis.key: axis.values for axis in plan.grid.axes}
    for needed in ("machine", "program"):
        if getattr(plan, needed) is None and needed not in values:
            raise UserFault(f"a sweep has a {needed}, or an axis of that name.")
    known: set[str] = set()
    for name in values.get("machine", (plan.machine,)):
        known |= {parameter.key for parameter in _machine(name, machines).parameters}
    for key in values:
        if key.startswith(ARGUMENT) or key in _OF_A_RUN:
            continue
        if key not in known:
            raise unknown("axis", key, [*known, *_OF_A_RUN, f"{ARGUMENT}NAME"])


def _machine(name: Any, machines: dict[Any, Machine]) -> Machine:
    if isinstance(name, Machine):
        return name
    if name not in machines:
        machines[name] = api.machine(name)
    return machines[name]


def _is_parameter(key: str) -> bool:
    return key not in _OF_A_RUN and not key.startswith(ARGUMENT)


def _name(key: str) -> str:
    return key.removeprefix(ARGUMENT)
