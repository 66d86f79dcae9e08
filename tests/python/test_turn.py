"""Whose turn it is among runs that wait."""

from __future__ import annotations

from typing import Any, cast

import pytest

from loiter.engine import Engine
from loiter.runs.turn import Waiting
from loiter.runs.worker import Job

BOOT = "boot"
# In the order in which they take longest.
SHARES = {
    "none.255": (BOOT, "255"),
    "all.255": (BOOT, "255"),
    "none.64": (BOOT, "64"),
    "bare": (),
    "bare too": (),
    "list.255": (BOOT, "255"),
}


class Needs:
    """A request that needs what others need, too."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def shares(self, _engine: Engine) -> tuple[str, ...]:
        return self._names


@pytest.fixture
def jobs() -> list[Job]:
    return [Job(label, cast(Any, Needs(*names)), weight=-at) for at, (label, names) in enumerate(SHARES.items())]


@pytest.fixture
def waiting(engine: Engine, jobs: list[Job]) -> Waiting:
    return Waiting(jobs[::-1], engine)


def test_what_takes_longest_is_first(waiting: Waiting) -> None:
    assert [waiting.next([]).label for _ in SHARES] == list(SHARES)
    assert not waiting


def test_nobody_waits_for_what_another_makes_while_there_is_other_work(waiting: Waiting) -> None:
    first = waiting.next([])
    # All others on Linux need the system that it boots.
    assert [waiting.next([first]).label for _ in range(2)] == ["bare", "bare too"]
    # None is left that needs nothing.
    assert waiting.next([first]).label == "all.255"


def test_what_has_been_made_is_used_before_more_is(waiting: Waiting) -> None:
    first = waiting.next([])
    waiting.ended(first)
    assert [waiting.next([]).label for _ in range(2)] == ["all.255", "list.255"]
    second = waiting.next([])
    assert second.label == "none.64"
    # What it comes to with 64 threads is being made, and all else is used up.
    assert waiting.next([second]).label == "bare"


def test_one_whose_worker_has_died_comes_last(waiting: Waiting) -> None:
    first = waiting.next([])
    waiting.again(first)
    assert [waiting.next([]).label for _ in SHARES] == [*list(SHARES)[1:], first.label]
