"""The arithmetic of the method, worked out by hand."""

from __future__ import annotations

import pytest

from loiter.errors import RunFault
from loiter.method import fame
from loiter.method.fame import Repetition


def mark(hart: int, kind: str, value: int, cycle: int, retired: int) -> dict[str, object]:
    return {"hart": hart, "kind": kind, "value": value, "cycle": cycle, "retired": retired}


def timed(cycles: list[int], instructions: int | list[int] = 100) -> fame.Timing:
    work = instructions if isinstance(instructions, list) else [instructions] * len(cycles)
    measured = [Repetition(number, *each) for number, each in enumerate(zip(cycles, work, strict=True))]
    return fame.timing(measured, maiv_percent=1, at_least=5)


def test_work_marks_are_paired_by_hart() -> None:
    marks = [
        mark(0, "work_begin", 0, 100, 10),
        mark(1, "work_begin", 0, 105, 7),
        mark(0, "work_end", 0, 160, 30),
        mark(0, "acquire", 64, 161, 30),
        mark(0, "work_begin", 1, 165, 31),
        mark(1, "work_end", 0, 170, 8),
        mark(0, "work_end", 1, 240, 51),
    ]
    assert fame.repetitions(marks, 0) == [Repetition(0, 60, 20), Repetition(1, 75, 20)]
    assert fame.repetitions(marks, 1) == [Repetition(0, 65, 1)]
    assert fame.repetitions(marks, 2) == []


@pytest.mark.parametrize(
    "marks",
    [
        [mark(0, "work_end", 0, 1, 1)],
        [mark(0, "work_begin", 0, 1, 1), mark(0, "work_begin", 1, 2, 2)],
        [mark(0, "work_begin", 0, 1, 1), mark(0, "work_end", 1, 2, 2)],
    ],
)
def test_marks_without_a_partner_are_refused(marks: list[dict[str, object]]) -> None:
    with pytest.raises(RunFault, match="hart 0"):
        fame.repetitions(marks, 0)


def test_mean_deviation_and_cpi() -> None:
    of = timed([100, 110, 90, 100, 100])
    assert of.mean_cycles == 100
    assert of.deviation_cycles == pytest.approx(50**0.5)  # (0 + 100 + 100 + 0 + 0) / 4, then the root
    assert of.cpi == 1.0
    assert of.cpi_deviation == pytest.approx(50**0.5 / 100)


def test_fewer_repetitions_than_asked_are_no_measurement() -> None:
    with pytest.raises(RunFault, match="4 repetitions"):
        timed([100, 100, 100, 100])


def test_settled_means_one_more_repetition_moves_the_average_by_less_than_one_percent() -> None:
    # Five of 100, then x: the average moves by (x - 100) / 6, in percent of 100.
    assert timed([100, 100, 100, 100, 100, 105]).settled
    assert not timed([100, 100, 100, 100, 100, 107]).settled
    assert fame.last_change_percent([100, 100, 106]) == pytest.approx(2.0)


def test_slowdown_and_its_deviation() -> None:
    alone = timed([100, 100, 100, 100, 100])
    loaded = timed([150, 160, 140, 150, 150])
    found = fame.slowdown(loaded, alone)
    assert found.percent == pytest.approx(50.0)
    assert found.deviation == pytest.approx(1.5 * 100 * (50**0.5 / 150))
    assert fame.slowdown(alone, alone).percent == 0
    assert fame.slowdown(alone, loaded).percent < 0


def test_different_work_is_no_slowdown() -> None:
    with pytest.raises(RunFault, match="repetition 0 did not do the same work: 101 instructions, but 100 alone"):
        fame.slowdown(timed([100] * 5, instructions=101), timed([100] * 5, instructions=100))


def test_repetitions_that_differ_in_work_and_number_compare_by_instruction() -> None:
    alone = timed([200, 220, 180, 200, 200], [100, 110, 90, 100, 100])
    loaded = timed([300, 330, 270, 300, 300, 600, 600], [100, 110, 90, 100, 100, 200, 200])
    found = fame.slowdown(loaded, alone)
    assert found.percent == pytest.approx(50)
    assert found.deviation == pytest.approx(0, abs=1e-9)


def test_marks_that_enclose_nothing_are_refused() -> None:
    with pytest.raises(RunFault, match="without cycles or instructions"):
        timed([100] * 5, instructions=0)
