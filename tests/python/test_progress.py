"""The remaining time: from what finished runs cost."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from loiter.runs.progress import Display, Estimate


def test_nothing_is_known_before_a_run_has_ended() -> None:
    estimate = Estimate(total=10, workers=2)
    assert estimate.seconds_left({}) is None
    assert estimate.seconds_left({"a": (4, 100.0)}) is None
    assert estimate.share({"a": (4, 100.0)}) == 0


def test_remaining_time_follows_the_cost_of_finished_runs() -> None:
    estimate = Estimate(total=10, workers=2)
    estimate.add(weight=2, seconds=6)
    # 8 units are left at 3 s each, by two workers.
    assert estimate.seconds_left({}) == pytest.approx(12)
    assert estimate.share({}) == pytest.approx(0.2)
    # A run of 4 units that has lasted 6 s has done 2 of them.
    assert estimate.seconds_left({"a": (4, 6.0)}) == pytest.approx(9)
    assert estimate.share({"a": (4, 6.0)}) == pytest.approx(0.4)


def test_a_run_that_takes_too_long_is_almost_done_never_done() -> None:
    estimate = Estimate(total=4, workers=1)
    estimate.add(weight=2, seconds=2)
    left = estimate.seconds_left({"a": (2, 1000.0)})
    assert left is not None
    assert 0 < left < 0.2
    assert estimate.share({"a": (2, 1000.0)}) < 1


def test_no_work_is_all_done() -> None:
    assert Estimate(total=0, workers=1).share({}) == 1


def test_a_pipe_gets_lines_not_bars() -> None:
    text = io.StringIO()
    with Display(Console(file=text, width=100), jobs=0, reused=7, estimate=Estimate(0, 1)):
        pass
    assert text.getvalue() == "7 of 7 runs are there already\n"
