"""What is tried: a kind of lock and how its waiters wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loiter import contention
from loiter.errors import UserFault, unknown
from loiter.machines import Machine

DEFAULT_LOCK = "qspinlock"
"""Linux's spin lock."""

OWN_WAY = ("catnap", "delay_between_references", "hbo", "hardware_lock")
"""Locks that wait in one way, whatever the method."""

MOST = 12
"""Beside the current one: colours of a chart, and comparisons that share one error."""

_NEEDS = {"hardware_lock": "xloiterlock"}


@dataclass(frozen=True)
class Policy:
    """A lock and a method of `loiter.contention.METHODS`, with so many steps between two looks."""

    lock: str
    method: str = "pause"
    steps: int = 1

    @property
    def name(self) -> str:
        """As --policies has it."""
        if self.lock in OWN_WAY:
            return self.lock
        return f"{self.lock}/{self.method}" + (f":{self.steps}" if self.steps > 1 else "")

    @property
    def label(self) -> str:
        """As part of the label of a run."""
        return self.name.replace("/", "-").replace(":", "x")

    def needs_naps(self) -> bool:
        """Whether some waiters nap, where harts can."""
        return self.method == "nap" or self.lock == "catnap"


def parse(word: str, lock: str) -> Policy:
    """`METHOD[:STEPS]` of this lock, `LOCK`, or `LOCK/METHOD[:STEPS]`."""
    name, slash, way = word.partition("/")
    if not slash and name.partition(":")[0] in contention.METHODS:
        name, way = lock, name
    if name not in contention.names():
        raise unknown("policy", word, [*contention.METHODS, *contention.names()])
    if not way:
        return Policy(name)
    method, steps = contention.method_and_steps(way, "--policies")
    if method not in contention.METHODS:
        raise unknown("policy", method, contention.METHODS)
    if steps < 1:
        raise UserFault(f"--policies {word}: so many steps wait for nothing; write 1 or more.")
    if name in OWN_WAY:
        raise UserFault(f"--policies {word}: {name} waits in a way of its own; write {name}.")
    return Policy(name, method, steps)


def chosen(machine: Machine, words: Sequence[str], current: Policy) -> tuple[Policy, ...]:
    """The current policy first, then the others once each. Raises `UserFault` where a machine cannot do one."""
    found = tuple(dict.fromkeys([current, *(parse(word, current.lock) for word in words)]))
    for each in found:
        need = "zawrs" if each.needs_naps() else _NEEDS.get(each.lock)
        if need and not machine.has_extension(need):
            has_not = f"harts of {machine.name} do not have {need.capitalize()} (hart.isa)"
            raise UserFault(f"--policies {each.name}: {has_not}.")
    if len(found) > 1 + MOST:
        raise UserFault(f"--policies: {len(found) - 1} beside {current.name}; at most {MOST} are told apart.")
    if len(found) == 1:
        raise UserFault(f"--policies: there is only {current.name}, which is the current one; name another.")
    return found
