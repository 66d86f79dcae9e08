"""A study with changed machines and programs: an experiment, marked and stored apart."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from loiter import studies
from loiter.engine import Engine
from loiter.errors import UserFault
from loiter.runs.linux import LinuxRequest
from loiter.runs.worker import Job
from loiter.studies.cakarevic2008 import grid
from loiter.studies.changes import Changes
from loiter.studies.runner import Order, Outcome, carry_out
from loiter.systems.request import Boot

CLOCK = "system.clock_mhz=2000"


def carry(engine: Engine, out: Path, changes: Changes) -> Outcome:
    order = Order(studies.load(grid.PAPER), "default", "table_1", 2, out, "loiter study run", changes)
    return carry_out(order, engine, Console(file=io.StringIO(), width=200))


def responsiveness(out: Path) -> dict[str, float]:
    found = {point["id"]: point["ours"] for point in json.loads((out / "points.json").read_text())["points"]}
    return {machine: found[f"result.responsiveness_ns.{machine}_l2miss"] for machine in grid.MACHINES}


def test_changes_reach_the_machine_that_is_named_and_are_told(engine: Engine, tmp_path: Path) -> None:
    carry(engine, tmp_path / "plain", Changes())
    outcome = carry(engine, tmp_path / "changed", Changes((f"t2:{CLOCK}",), ("extra=1",)))
    plain, changed = responsiveness(tmp_path / "plain"), responsiveness(tmp_path / "changed")
    assert changed["t1"] == plain["t1"]
    assert changed["t2"] == pytest.approx(plain["t2"] * 1400 / 2000)
    assert "--set t2:system.clock_mhz=2000 --argument extra=1" in outcome.findings.warnings[0]
    assert json.loads((tmp_path / "changed" / "points.json").read_text())["changed"][1] == f"t2:{CLOCK}"
    assert "changed" not in json.loads((tmp_path / "plain" / "points.json").read_text())
    assert "Warning: changed by --set" in (tmp_path / "changed" / "points.md").read_text()
    assert "not the figures of the study" in (tmp_path / "changed" / "report.html").read_text()


def test_a_change_without_a_machine_is_for_all(engine: Engine) -> None:
    jobs = studies.load(grid.PAPER).plan(engine, "default", "table_1")
    changed = Changes((CLOCK,), ("extra=1",)).apply(engine, jobs)
    assert len(changed) == len(jobs) > 10
    for before, after in zip(jobs, changed, strict=True):
        assert after.label == before.label
        assert after.request.machine.value("system.clock_mhz") == 2000
        assert after.request.key(engine) != before.request.key(engine)
    assert Changes().apply(engine, jobs) == jobs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (Changes(("t9:core.contexts=8",)), 'unknown machine of this study "t9"'),
        (Changes(("system.clok_mhz=1",)), "did you mean system.clock_mhz"),
        (Changes(("core.contexts=2",)), "cannot be changed"),
        (Changes(appended=("nohlt",)), "--append nohlt: nothing that is to run here runs on Linux"),
        (Changes(("vm:host.turn_cycles=100",)), 'unknown machine of this study "vm"'),
    ],
)
def test_changes_that_cannot_be_made_are_refused(engine: Engine, changes: Changes, message: str) -> None:
    jobs = studies.load(grid.PAPER).plan(engine, "default", "table_1")
    with pytest.raises(UserFault, match=message):
        changes.apply(engine, jobs)


def test_words_for_kernels_reach_what_runs_on_linux(engine: Engine) -> None:
    (first, *_) = studies.load(grid.PAPER).plan(engine, "default", "table_1")
    boot = Boot(first.request.machine, 1, Path("firmware"), Path("kernel"), None, "locktorture.pin_stride=4")
    jobs = [first, Job("linux", LinuxRequest(boot, "true", "timing"))]
    changed = Changes(appended=("locktorture.pin_stride=8", "nohlt"))
    before, after = changed.apply(engine, jobs)
    assert before == first
    assert after.request.boot.bootargs == "locktorture.pin_stride=4 locktorture.pin_stride=8 nohlt"
    assert changed.options() == ["--append", "locktorture.pin_stride=8", "--append", "nohlt"]
    assert changed.directory("s") == "s+locktorture.pin_stride=8,nohlt"
    two = Changes(appended=("two words",))
    with pytest.raises(UserFault, match="one word for the kernel"):
        two.check(engine)
    with pytest.raises(UserFault, match="one word for the kernel"):
        carry(engine, Path("nowhere"), two)


def test_experiments_have_directories_of_their_own() -> None:
    assert Changes().directory("study-quick") == "study-quick"
    named = Changes(("t1:core.alternates=false",), ("columns=20",)).directory("study-quick")
    assert named == "study-quick+t1:core.alternates=false,columns=20"
    long = Changes(tuple(f"core.key{number}=1" for number in range(40))).directory("s")
    assert len(long) < 40
    assert "/" not in Changes(("a=b/c",)).directory("s")
