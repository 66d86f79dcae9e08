"""What is made of the rows of locks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from commands import run
from loiter import locks
from loiter.cli import lock_stats
from loiter.errors import UserFault


def row(lock: int, site: int, hart: int, waits: list[int], **counts: int | str) -> dict[str, Any]:
    found: dict[str, Any] = {"lock": lock, "lock_symbol": "", "site": site, "site_symbol": "", "hart": hart}
    found |= {"acquisitions": len(waits), "contentions": 0}
    found |= {"bounces": 0, "holds": len(waits), "handovers": 0}
    for name, cycles in (("wait", waits), ("hold", [5] * len(waits)), ("handover", [])):
        histogram = [0] * max((each.bit_length() for each in cycles), default=0)
        for each in cycles:
            histogram[each.bit_length() - 1] += 1
        found |= {
            f"{name}_sum_cycles": sum(cycles),
            f"{name}_min_cycles": min(cycles, default=0),
            f"{name}_max_cycles": max(cycles, default=0),
            f"{name}_log2_histogram": histogram,
        }
    return found | counts


def test_rows_of_a_lock_add_up_and_the_most_waited_for_comes_first() -> None:
    rows = [
        row(64, 8, 0, [3, 9], contentions=1, bounces=1),
        row(64, 16, 1, [100], bounces=1),
        row(128, 8, 0, [500], contentions=1),
    ]
    found = locks.table(rows)
    assert list(found["lock"]) == [128, 64]
    second = found.iloc[1]
    assert (second["acquisitions"], second["contentions"], second["acq-bounces"]) == (3, 1, 2)
    assert (second["waittime-min"], second["waittime-max"], second["waittime-total"]) == (3, 100, 112)
    assert second["waittime-avg"] == pytest.approx(112 / 3)
    assert (second["holdtime-avg"], second["handovertime-avg"]) == (5, 0)
    # 3 and 9 are below 16, 100 below 128.
    assert (second["waittime-p50"], second["waittime-p99"]) == (16, 128)
    places = locks.table(rows, by=("lock", "site"))
    assert len(places) == 3
    with pytest.raises(UserFault, match="sites"):
        locks.table(rows, by=("sites",))


def test_waits_that_have_not_ended_count_among_those_waited_for_most() -> None:
    waiting = {"waiting": 2, "waiting_sum_cycles": 700, "waiting_max_cycles": 600}
    none = dict.fromkeys(waiting, 0)
    rows = [row(64, 8, 0, [500], **none), row(128, 8, 0, [], **waiting), row(128, 8, 1, [50], **none)]
    found = locks.table(rows)
    assert list(found["lock"]) == [128, 64]
    first = found.iloc[0]
    assert (first["acquisitions"], first["waittime-total"]) == (1, 50)
    assert (first["waiting"], first["waitingtime-total"], first["waitingtime-max"]) == (2, 700, 600)
    assert (first["waitingtime-avg"], found.iloc[1]["waitingtime-avg"]) == (350, 0)


def test_a_result_that_does_not_say_who_waits_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As those of an earlier loiter."""
    monkeypatch.setattr(locks, "of_directory", lambda _: (None, [row(64, 8, 0, [3, 9])]))
    shown = run("lock-stats", str(tmp_path))
    assert (shown.status, "waiting" in shown.out) == (0, False)


@pytest.mark.parametrize("width", [80, 120, 160, 200])
def test_names_and_numbers_are_whole_in_terminals_of_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waiting = {"waiting": 7, "waiting_sum_cycles": 1_400_000, "waiting_max_cycles": 600_000}
    rows = [row(64, 8, 0, [123_456] * 9, **waiting, contentions=9, site_symbol="do_mprotect_pkey.constprop.0+0xc4")]
    monkeypatch.setattr(locks, "of_directory", lambda _: (None, rows))
    console = Console(file=io.StringIO(), width=width)
    monkeypatch.setattr(lock_stats, "out", lambda: console)
    assert run("lock-stats", str(tmp_path)).status == 0
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    for whole in ("(do_mprotect_pkey.constprop.0)", "1,111,104"):
        assert whole in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    assert ("no room for acq-bounces" in shown) == (width < 200)


def test_a_class_is_a_symbol_or_the_function_that_acquires() -> None:
    rows = [
        row(64, 8, 0, [30], lock_symbol="tasks", site_symbol="fork+0x8"),
        row(72, 8, 0, [20], lock_symbol="tasks+0x8", site_symbol="exit+0x8"),
        row(4096, 8, 0, [3], site_symbol="alloc+0x8"),
        row(8192, 16, 0, [4], site_symbol="alloc+0x10"),
        row(8192, 24, 0, [1]),
    ]
    found = locks.table(rows, by=("class",))
    assert list(found["class"]) == ["tasks", "(alloc)", "(0x18)"]
    assert list(found["acquisitions"]) == [2, 2, 1]


@pytest.mark.parametrize(
    ("counts", "jain", "busier"),
    [([4, 4, 4, 4], 1.0, 0.5), ([8, 0, 0, 0], 0.25, 1.0), ([6, 3, 3], 0.889, 0.625), ([5], 1.0, 0.5)],
)
def test_fairness_is_over_harts(counts: list[int], jain: float, busier: float) -> None:
    rows = [row(64, 8, hart, [2] * count) for hart, count in enumerate(counts)]
    found = locks.fairness(rows)
    assert found.jain == pytest.approx(jain, abs=0.001)
    assert found.busier_half == pytest.approx(busier)
    assert found.longest_wait_cycles == 2


def test_a_lock_that_nobody_has_acquired_has_no_fairness() -> None:
    with pytest.raises(UserFault, match="nobody"):
        locks.fairness([row(64, 8, 0, [])])
    assert "jain" not in locks.table([row(64, 8, 0, [])]).columns


def test_percentiles_are_upper_bounds_of_bins() -> None:
    assert locks.percentile([], 50) == 0
    assert locks.percentile([1, 1, 2], 50) == 4
    assert locks.percentile([1, 1, 2], 51) == 8
    assert locks.percentile([0, 0, 7], 1) == 8
