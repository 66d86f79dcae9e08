"""The study of Redstone (2002): what its windows measure, its plan at every scale, and what it says when not run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from loiter import engine as engines
from loiter import reference, studies
from loiter.errors import UserFault
from loiter.studies.base import Findings, Verdict
from loiter.studies.redstone2002.common import CONFIGURATIONS, PAPER, gain_percent
from loiter.studies.runner import Order, carry_out


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Table 4.2, with short windows."""
    out = tmp_path_factory.mktemp("redstone")
    order = Order(studies.load(PAPER), "quick", "table_4_2", 2, out, "loiter study run redstone2002")
    return carry_out(order, engines.load(), Console(file=io.StringIO(), width=200)).findings


def test_pure_spinning_is_as_fast_as_the_loops_arithmetic(pure: Findings) -> None:
    """The lock loop: four instructions, a taken branch ends fetch, all contexts fetch from one bank of the cache: 4.
    The idle loop: 17 instructions with eight loads, two of which may go each cycle: 17 / 4."""
    ours = {point.id: point.ours for point in pure.points}
    for machine in ("superscalar", "smt"):
        assert ours[f"spin.pure.lock_acquire_ipc.{machine}"] == pytest.approx(4.0, rel=0.02)
        assert ours[f"spin.pure.idle_ipc.{machine}"] == pytest.approx(17 / 4, rel=0.02)


def test_every_published_value_of_a_table_is_there(pure: Findings) -> None:
    measured = {point.id for point in pure.points if point.ours is not None}
    published = {path for path, _ in reference.leaves(reference.lookup(PAPER, "spin.pure_iq"), "spin.pure_iq")}
    assert {path for path in published if "apache" not in path} <= measured
    # What belongs to exhibits that were not run is named, not left out.
    missing = [point for point in pure.points if point.verdict is Verdict.NOT_MEASURED]
    assert all("table_4_2" in point.note for point in missing)
    unsaid = [statement for statement in pure.statements if statement.holds is None]
    assert unsaid


@pytest.mark.parametrize("scale", ["quick", "default", "full"])
def test_a_plan_has_every_machine_of_the_paper(scale: str) -> None:
    jobs = studies.load(PAPER).plan(engines.load(), scale, "spin_mix")
    labels = [job.label for job in jobs]
    assert len(labels) == len(set(labels))
    assert {job.request.machine.name for job in jobs} == {each.preset for each in CONFIGURATIONS.values()}
    perfect = next(job for job in jobs if "perfect" in job.label)
    assert perfect.request.machine.value("l1d.perfect") is True


def test_refuses_an_exhibit_that_it_has_not(tmp_path: Path) -> None:
    with pytest.raises(UserFault, match="table_4_2"):
        studies.load(PAPER).plan(engines.load(), "quick", "table_4_3")


def test_gain_is_of_what_was_lost() -> None:
    assert gain_percent(2.0, 3.0) == pytest.approx(50)
    assert gain_percent(3.0, 3.0) == 0
