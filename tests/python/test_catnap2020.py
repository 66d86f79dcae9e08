"""The study of a queued lock whose waiters sleep: its grid, its rules on both sides, and what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import loiter
from loiter import contention, energy, reference, studies
from loiter import engine as engines
from loiter.errors import RunFault, UserFault
from loiter.studies.base import Verdict
from loiter.studies.catnap2020 import grid, mixes, statements, torture
from loiter.studies.catnap2020.findings import Measured, total_wait
from loiter.studies.catnap2020.grid import (
    CATNAP,
    CORES,
    LONG,
    MFENCE,
    PAUSE,
    PAUSE_3,
    SHORT,
    TEST_AND_SET,
    TICKET,
    Cell,
)
from loiter.studies.catnap2020.measurements import Measurements

SCALE = grid.SCALES["default"]
SOURCE = "test"


class Told(Measurements):
    """Measurements as the paper has them, but for what a test changes: by back-off, threads and cycles held."""

    def __init__(self, **changed: Any) -> None:
        super().__init__({})
        self._changed = {
            "speed": as_published,
            "power": power_as_published,
            "requests": requests_as_published,
        } | changed

    def throughput(self, cell: Cell) -> float:
        return float(self._changed["speed"](cell.back_off, cell.threads, cell.hold_cycles)) / cell.hold_cycles

    def watts(self, cell: Cell) -> energy.Value:
        value = 100 * float(self._changed["power"](cell.back_off, cell.threads, cell.hold_cycles))
        return energy.Value(value, value, value, "")

    def hold(self, cell: Cell) -> float:
        return float(cell.hold_cycles)

    def handover(self, cell: Cell) -> float:
        return 400.0

    def waits(self, cell: Cell) -> int:
        return round(self._changed.get("waits", 1.0) * total_wait(cell.threads, self.hold(cell), self.handover(cell)))

    def requests(self, cell: Cell) -> float:
        return float(self._changed["requests"](cell.back_off, cell.threads))

    def acquire(self, cell: Cell) -> float:
        return {PAUSE.name: 15.0, TICKET.name: 14.0}[cell.back_off] * self._changed.get("alone", {}).get(
            cell.back_off, 1
        )


def as_published(back_off: str, threads: int, hold: int) -> float:
    """Throughput over a pause's: catnap gains past the cores, more for long holds; a fence loses past 128 threads."""
    more = max(0, threads - CORES) / 192
    if back_off == CATNAP.name:
        harmless = 1900 if threads <= 8 else 1300
        return (0.93 if hold < harmless else 1.0) + (0.05 + 0.2 * more * hold / LONG if more else 0)
    if back_off == MFENCE.name:
        return 1 - 0.1 * max(0, threads - 128) / 128
    return 1.0


def power_as_published(back_off: str, threads: int, hold: int) -> float:
    if back_off == CATNAP.name:
        return 0.95 - 0.1 * max(0, threads - CORES) / 192
    if back_off == MFENCE.name and threads >= 128:
        return 0.975 + 0.0001 * (threads - 128)
    return {MFENCE.name: 0.975, PAUSE_3.name: 0.975}.get(back_off, 1.0)


def requests_as_published(back_off: str, threads: int) -> float:
    return {TEST_AND_SET.name: threads * 2.0, TICKET.name: 1.0 * threads}.get(back_off, 10.0)


def judged(**changed: Any) -> dict[str, bool | None]:
    found = Measured(Told(**changed), SCALE)
    return {each.id.removeprefix("statements."): each.holds for each in statements.statements(found, None)}


def test_every_statement_of_locktorture_holds_for_what_was_published() -> None:
    holds = judged()
    assert holds == dict.fromkeys(statements.JUDGES, True)


def otherwise(back_off: str, of: Any, value: float, *, threads: int = 0, hold: int = 0) -> Any:
    """`of`, but for one back-off, with so many threads and so long a hold, if they are given."""

    def changed(name: str, count: int, held: int = 0) -> float:
        here = name == back_off and threads in (0, count) and hold in (0, held)
        return value if here else float(of(name, count) if of is requests_as_published else of(name, count, held))

    return changed


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("queue_local_spinning", {"requests": otherwise(PAUSE.name, requests_as_published, 16, threads=CORES)}),
        ("queue_local_spinning", {"requests": otherwise(TICKET.name, requests_as_published, 10)}),
        ("pending_as_fast_as_ticket", {"alone": {PAUSE.name: 1.1}}),
        ("catnap_short_few_loses", {"speed": otherwise(CATNAP.name, as_published, 1.01, threads=4, hold=SHORT)}),
        ("catnap_four_threads", {"speed": otherwise(CATNAP.name, as_published, 0.985, threads=4, hold=1500)}),
        ("threshold_depends_on_threads", {"speed": otherwise(CATNAP.name, as_published, 1.0)}),
        ("threshold_depends_on_threads", {"speed": otherwise(CATNAP.name, as_published, 0.9, threads=16, hold=4800)}),
        ("long_hold_never_worse", {"speed": otherwise(CATNAP.name, as_published, 0.97, threads=32, hold=LONG)}),
        ("gain_jumps_past_cores", {"speed": otherwise(CATNAP.name, as_published, 1.0, threads=96, hold=LONG)}),
        ("gain_jumps_past_cores", {"power": otherwise(CATNAP.name, power_as_published, 0.96, threads=96)}),
        ("gain_larger_for_long_holds", {"speed": otherwise(CATNAP.name, as_published, 1.3, threads=255, hold=SHORT)}),
        ("gain_larger_for_long_holds", {"speed": otherwise(CATNAP.name, as_published, 1.06, threads=224, hold=LONG)}),
        ("power_falls_always", {"power": otherwise(CATNAP.name, power_as_published, 1.0, threads=4, hold=SHORT)}),
        ("mfence_pause3_small", {"power": otherwise(PAUSE_3.name, power_as_published, 0.95)}),
        ("mfence_pause3_small", {"power": otherwise(MFENCE.name, power_as_published, 0.9, threads=255)}),
        ("mfence_hurts_siblings", {"speed": otherwise(MFENCE.name, as_published, 1.0, threads=192, hold=SHORT)}),
        ("mfence_hurts_siblings", {"power": otherwise(MFENCE.name, power_as_published, 0.97, threads=192)}),
    ],
)
def test_a_statement_that_the_runs_contradict_does_not_hold(key: str, changed: dict[str, Any]) -> None:
    assert judged(**changed)[key] is False


def test_points_stand_beside_what_the_text_gives() -> None:
    found = {each.id: each for each in statements.points(Measured(Told(), SCALE), None, SOURCE)}
    assert found["locktorture.harmless_catnap_threshold_us"].ours == pytest.approx(2100 / 1300)
    assert found["locktorture.mwait_short_hold_below_64_threads_loss_max_percent"].ours == pytest.approx(7)
    saving = found["locktorture.mfence_and_pause3_power_saving_percent.pause_x3"]
    assert (saving.ours, saving.published) == (pytest.approx(2.5), 2.5)
    assert {each.verdict for each in found.values()} == {Verdict.WITHIN}
    waits = {each.id: each for each in statements.points(Measured(Told(waits=0.8), SCALE), "waiting_time", SOURCE)}
    assert len(waits) == len(SCALE.once)
    assert {each.verdict for each in waits.values()} == {Verdict.MISS}


def test_where_catnap_always_harms_there_is_no_threshold() -> None:
    found = Measured(Told(speed=otherwise(CATNAP.name, as_published, 0.9)), SCALE)
    assert found.harmless_us(4) is None
    points = {each.id: each for each in statements.points(found, "figure_7", SOURCE)}
    assert points["locktorture.harmless_catnap_threshold_us"].verdict is Verdict.NOT_MEASURED


def test_the_formula_is_the_papers() -> None:
    """N(N-1)/2 sections and (N-1)(N-2)/2 hand-overs; the paper's example has four threads."""
    example = reference.lookup("catnap2020", "waiting_time.example_4_threads")
    assert total_wait(4, 1, 0) == example["t_crit"]
    assert total_wait(4, 0, 1) == example["t_hand"]
    for count in (2, 16, 255):
        assert total_wait(count, 1, 0) == count * (count - 1) / 2
        assert total_wait(count, 0, 1) == (count - 1) * (count - 2) / 2


@pytest.mark.simulator
@pytest.mark.parametrize("scale", grid.SCALES)
def test_every_exhibit_plans_its_runs_once(scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Those on Linux, which test_catnap2020_linux has, are of an image that would have to be built.
    monkeypatch.setattr(torture, "cells", lambda *_: [])
    monkeypatch.setattr(mixes, "cells", lambda *_: [])
    study, engine = studies.load("catnap2020"), engines.load()
    labels = [job.label for job in study.plan(engine, scale, None)]
    assert len(labels) == len(set(labels))
    of_exhibits = {exhibit.id: study.plan(engine, scale, exhibit.id) for exhibit in study.exhibits}
    assert {exhibit for exhibit, jobs in of_exhibits.items() if not jobs} == set(grid.ON_LINUX)
    assert set(labels) == {job.label for jobs in of_exhibits.values() for job in jobs}
    assert [job.label for job in of_exhibits["figure_9"]] == [job.label for job in of_exhibits["figure_10"]]
    with pytest.raises(UserFault, match="figure_9"):
        study.plan(engine, scale, "figure_8")


@pytest.mark.simulator
def test_threads_have_a_core_each_first() -> None:
    jobs = studies.load("catnap2020").plan(engines.load(), "quick", "figure_9")
    words = {word for job in jobs for word in job.request.native()["bootargs"].split()}
    assert "task.qspinlock=0,4,8,12" in words
    assert "task.catnap=" + ",".join(str(4 * n) for n in range(CORES)) in words


@pytest.mark.simulator
def test_measurements_are_those_of_the_run() -> None:
    """Four threads of two tiles: throughput, section and waits by the program's own reports."""
    machine = loiter.machine("knl", "system.cores=4")
    cell = Cell("pause", "qspinlock", 1, 1, 4, 600, 40)
    arguments = dict(each.split("=") for each in cell.arguments)
    place = {"qspinlock": [0, 1, 8, 9]}
    result = loiter.run(machine, "locks", place=place, arguments=arguments, phases=contention.PHASES)
    found = Measurements({cell.label: result})
    reports = result.rows("reports")
    acquired = sum(row["value"] for row in reports if row["name"] == "acquisitions")
    assert found.acquisitions(cell) == acquired > 100
    longest = max(row["value"] for row in reports if row["name"] == "cycles")
    assert found.throughput(cell) == pytest.approx(acquired * 1300 / longest)
    assert 450 < found.hold(cell) < 900
    # All four want it all the time: each waits for the three before.
    assert found.acquire(cell) == pytest.approx(3 * (found.hold(cell) + found.handover(cell)), rel=0.15)
    assert 1 < found.requests(cell) < 100
    assert found.watts(cell).low < found.watts(cell).value < found.watts(cell).high


def test_a_machine_without_homes_has_no_requests() -> None:
    class Bare:
        def rows(self, table: str) -> list[dict[str, Any]]:
            return [{"component": "l2", "name": "requests", "value": 7}]

    results: Any = {grid.once(2).label: Bare()}
    with pytest.raises(RunFault, match="no home"):
        Measurements(results).requests(grid.once(2))


@pytest.mark.slow
@pytest.mark.simulator
def test_the_quick_scale_writes_figures_and_a_page(tmp_path: Path) -> None:
    outcome = loiter.study("catnap2020", scale="quick", out=tmp_path)
    assert outcome.findings is not None
    # With its image there are those of Linux, too.
    curves = {curves.id for curves in outcome.findings.curves if curves.id.startswith("figure_")}
    assert curves >= {"figure_9a", "figure_9b", "figure_10a", "figure_10b"}
    assert {path.name for path in outcome.files} >= {"figure_9a.png", "figure_10b.png", "report.html", "points.json"}
