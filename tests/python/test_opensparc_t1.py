"""The study that sets the T1 beside the RTL of its core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from loiter import reference
from loiter.studies.base import Verdict
from loiter.studies.opensparc_t1 import figures
from loiter.studies.opensparc_t1.figures import CELLS, Cell, Measurements


class FakeResult:
    """Tables of a run whose numbers the test chose."""

    def __init__(self, tables: Mapping[str, list[dict[str, Any]]]) -> None:
        self._tables = tables

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table."""
        return self._tables[table]


def result(round_cycles: int) -> FakeResult:
    """Six repetitions of so many cycles a round, a spinner that reads every eleven cycles, a slot lost for a miss."""
    marks = []
    for number in range(6):
        at = number * 10_000_000
        length = round_cycles * figures.ROUNDS
        for kind, cycle in (("work_begin", at), ("work_end", at + length)):
            marks.append({"hart": 0, "kind": kind, "value": number, "cycle": cycle, "retired": cycle})
    counters = [
        {"component": component, "name": name, "value": 7}
        for component, name in (
            ("core0", "retracted"),
            ("core0", "miss_slots"),
            ("core0", "fill_waits"),
            ("core0.l1d", "misses"),
        )
    ]
    reads = [{"reads": 5, "intervals": 4, "interval_sum_cycles": 44}]
    return FakeResult({"marks": marks, "counters": counters, "lock_reads": reads})


def measured(**rounds: int) -> Measurements:
    """Every cell takes 5 cycles a round but those named."""
    results: Any = {cell.label: result(rounds.get(cell.kernel, 5)) for cell in CELLS}
    return Measurements(results, 1)


def test_every_figure_that_is_a_time_has_its_point() -> None:
    points = {point.id: point for point in figures.points(measured())}
    for section in ("latency_alone_cycles", "slowdown_percent", "spin_loop"):
        numbers = [
            key
            for key, value in reference.leaves(reference.load(figures.REFERENCE)[section], section)
            if isinstance(value, int | float)
        ]
        assert numbers
        assert set(numbers) <= set(points), section
    assert all(points[key].published == reference.lookup(figures.REFERENCE, key) for key in points)


def test_an_empty_round_is_taken_off() -> None:
    points = {point.id: point for point in figures.points(measured(fdivd=5 + 64 * 83, sdivx=5 + 64 * 75))}
    assert points["latency_alone_cycles.fdivd"].ours == pytest.approx(83)
    assert points["latency_alone_cycles.fdivd"].verdict is Verdict.WITHIN
    assert points["latency_alone_cycles.sdivx"].verdict is Verdict.MISS
    assert points["spin_loop.alone_cycles"].ours == pytest.approx(11)
    assert points["load.miss_extra_slots"].ours == pytest.approx(1)


def test_half_a_cycle_is_allowed_and_no_more() -> None:
    for cycles, verdict in ((205, Verdict.WITHIN), (236, Verdict.MISS)):
        points = {point.id: point for point in figures.points(measured(branch=5 + cycles))}
        assert points["latency_alone_cycles.branch"].verdict is verdict, cycles


def test_cells_say_where_everything_runs() -> None:
    assert Cell("element_miss", "fdiv", 1).placements(4) == ["rtl_element=0", "spin_fdiv=1"]
    assert Cell("hold", "idiv", 3).placements(4) == ["hold=4", "spin_idiv=0,1,2"]
    assert len({cell.label for cell in CELLS}) == len(CELLS)
