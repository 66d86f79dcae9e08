"""A sweep: what every point runs, what of it is there already, and the table of all points.

A point is a run like any other: it has a key, by which the store has its result or has not. The table keeps the rows of
points by key as well, so that a sweep that is complete is read and nothing else.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loiter import api
from loiter.errors import UserFault, unknown
from loiter.machines import Machine
from loiter.runs.request import Runnable
from loiter.sweeps.grid import Grid

ARGUMENT = "argument."
"""What axes begin with that vary an argument of the program."""


@dataclass(frozen=True)
class Plan:
    """What all points have in common, and the grid over which they differ."""

    grid: Grid
    words: Mapping[str, Any]
    """By the words of `api.request`, or of `api.exec_request` with `arguments` that stand in the command."""

    def command(self) -> str:
        """The call of `loiter sweep` that asks for the same."""
        words = ["loiter", "sweep"]
        machine = self.words["machine"]
        if isinstance(machine, Machine):
            words += ["-m", machine.name, *(word for each in machine.sets for word in ("--set", each))]
        elif machine is not None:
            words += ["-m", str(machine)]
        for each in api.places(self.words.get("place")):
            words += ["--place", each]
        for key, value in self.words["arguments"].items():
            words += ["--argument", f"{key}={value}"]
        defaults = _words_of(api.exec_request if self.is_of_linux else api.request)
        without_option = []
        for key, value in self.words.items():
            if key in ("machine", "place", "arguments") or value == defaults.get(key):
                continue
            if key in _OPTIONS:
                words += _said(_OPTIONS[key], value)
            else:
                without_option.append(f"{key}={value!r}")
        for axis in self.grid.axes:
            words += ["--grid", f"{axis.key}={','.join(str(value) for value in axis.values)}"]
        # A comment to a shell: what only a file or Python can say.
        return shlex.join(words) + (f"  # {', '.join(without_option)}" if without_option else "")

    def is_word(self, key: str) -> bool:
        """Whether an axis varies a word of the call; others vary an argument of the program or a parameter."""
        return key in self.words and key != "arguments"

    @property
    def is_of_linux(self) -> bool:
        """Whether a point runs a command on a booted system."""
        return "command" in self.words


_OPTIONS = {
    "program": "-p",
    "command": "--command",
    "phases": "--phases",
    "waiting": "--waiting",
    "max_cycles": "--max-cycles",
    "harts": "--harts",
    "memory_mib": "--memory",
    "image": "--image",
    "packages": "--packages",
    "put": "--put",
    "environment": "--env",
    "append": "--append",
    "network": "--network",
    "seed": "--seed",
    "roi": "--roi",
    "timeout_s": "--timeout",
}
"""Options of `loiter sweep` for words of the call."""


def _said(option: str, value: Any) -> list[str]:
    """An option as often as it has values."""
    if value is True:
        return [option]
    if option == "--command" and not isinstance(value, str):
        value = shlex.join(value)
    if isinstance(value, Mapping):
        value = [f"{key}={each}" for key, each in value.items()]
    values = value if isinstance(value, list | tuple) else [value]
    return [word for each in values for word in (option, str(each))]


def plan(grid: Grid, given: Mapping[str, Any]) -> Plan:
    """The plan of a sweep of which these words are given: of a bare-metal program, or of a command on Linux."""
    axes = {axis.key for axis in grid.axes}
    linux = given.get("command") is not None or "command" in axes
    if linux and (given.get("program") is not None or "program" in axes):
        raise UserFault("a sweep runs a bare-metal program or a command on Linux, not both.")
    known, other = _words_of(api.request), _words_of(api.exec_request)
    if linux:
        known, other = other | {"arguments": None}, known
    words = dict(known)
    for key in [*(key for key, value in given.items() if value is not None), *axes]:
        if key in other and key not in words:
            whom = "a bare-metal program" if linux else "a command on Linux"
            raise UserFault(f"{key}: a word for {whom}; this sweep has {'none' if linux else 'no `command`'}.")
    for key, value in given.items():
        if key in words:
            words[key] = value
        elif key not in other:
            raise unknown("word", key, [*known, "out", "workers", "cluster", "quiet"])
    return Plan(grid, words)


def _words_of(request: Any) -> dict[str, Any]:
    """The words of a call, with their defaults."""
    parameters = inspect.signature(request).parameters.values()
    return {each.name: None if each.default is each.empty else each.default for each in parameters}


@dataclass(frozen=True)
class Point:
    """A point of the grid: the values, and the run, or why there can be none."""

    values: Mapping[str, Any]
    request: Runnable | None
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


def _request(plan: Plan, values: Mapping[str, Any], machines: dict[Any, Machine]) -> Runnable:
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
    if not plan.is_of_linux:
        return api.request(**words)
    words["command"] = _filled(words["command"], words.pop("arguments"))
    return api.exec_request(**words)


def _filled(command: str | Sequence[str], arguments: Mapping[str, Any]) -> list[str]:
    """The command with its arguments, each in the place of its name in braces, as one word or part of one."""
    words = shlex.split(command) if isinstance(command, str) else list(command)
    for name, value in arguments.items():
        place = f"{{{name}}}"
        if not any(place in word for word in words):
            raise UserFault(f"argument.{name}: the command {shlex.join(words)} has no {place}, where it would stand.")
        words = [word.replace(place, str(value)) for word in words]
    return words


def _check_axes(plan: Plan, machines: dict[Any, Machine]) -> None:
    values = {axis.key: axis.values for axis in plan.grid.axes}
    for needed in ("machine", "command" if plan.is_of_linux else "program"):
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
