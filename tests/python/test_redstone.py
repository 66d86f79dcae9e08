"""The study of Redstone (2002): what its windows measure, its plan at every scale, and what it says when not run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from loiter import engine as engines
from loiter import machines, metrics, reference, studies
from loiter.errors import UserFault
from loiter.results import Result
from loiter.studies import redstone2002
from loiter.studies.base import Findings, Verdict
from loiter.studies.redstone2002 import coverage, linux, machine_facts
from loiter.studies.redstone2002.common import CONFIGURATIONS, PAPER, SHARE, Run, gain_percent
from loiter.studies.runner import Order, carry_out


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """Table 4.2, with short windows."""
    out = tmp_path_factory.mktemp("redstone")
    order = Order(studies.load(PAPER), "quick", "table_4_2", 2, out, "loiter study run redstone2002")
    return carry_out(order, engines.load(), Console(file=io.StringIO(), width=200)).findings


def test_pure_spinning_is_as_fast_as_the_loops_arithmetic(pure: Findings) -> None:
    """The lock loop: four instructions, a taken branch ends fetch, all contexts fetch from one bank of the cache: 4.
    The idle loop: 19 instructions with nine loads and a store, two of which have a port each cycle: 19 / 5. Frames of
    eight contexts meet in one set of the data cache, and misses take a little more; with `l1d.ways=8` it is 19 / 5."""
    ours = {point.id: point.ours for point in pure.points}
    for machine in ("superscalar", "smt"):
        assert ours[f"table_4_2.ipc.lock_{machine}"] == pytest.approx(4.0, rel=0.02)
        # One branch of each loop is taken, and always the same one.
        for loop in ("lock", "idle"):
            for key in ("branch_prediction_percent", "l1i_hit_percent"):
                assert ours[f"table_4_2.{key}.{loop}_{machine}"] == pytest.approx(100, abs=0.1)
    assert ours["table_4_2.ipc.idle_superscalar"] == pytest.approx(19 / 5, rel=0.02)
    assert 0.9 * 19 / 5 < ours["table_4_2.ipc.idle_smt"] < 19 / 5
    for column, hits in (
        ("lock_smt", True),
        ("lock_superscalar", True),
        ("idle_superscalar", True),
        ("idle_smt", False),
    ):
        assert (ours[f"table_4_2.l1d_hit_percent.{column}"] > 99.9) is hits


def test_every_published_value_of_a_table_is_there(pure: Findings) -> None:
    measured = {point.id for point in pure.points if point.ours is not None}
    table = reference.leaves(reference.lookup(PAPER, "table_4_2"), "table_4_2")
    cells = {path for path, value in table if isinstance(value, int | float) and path.count(".") == 2}
    assert len(cells) == 30
    assert {path for path in cells if "apache" not in path} <= measured
    # What belongs to exhibits that were not run is named, not left out.
    missing = [point for point in pure.points if point.verdict is Verdict.NOT_MEASURED]
    assert missing
    assert all("table_4_2" in point.note for point in missing)
    unsaid = [statement for statement in pure.statements if statement.holds is None]
    assert unsaid


def _covers(entry: str, key: str) -> bool:
    return key == entry or key.startswith(f"{entry}.") or entry.startswith(f"{key}.")


def test_every_key_of_chapters_2_and_4_has_ours_or_a_note_why_not(pure: Findings) -> None:
    keys: dict[str, object] = {}
    for section in coverage.SECTIONS:
        keys |= dict(reference.leaves(reference.lookup(PAPER, section), section))
    statements = {f"statements.{key}" for key in coverage.STATEMENTS}
    assert len(keys) > 250
    assert statements <= {f"statements.{key}" for key in reference.lookup(PAPER, "statements")}
    shown = {statement.id for statement in pure.statements} - {""}
    assert statements <= shown
    places = {
        "point": {point.id for point in pure.points},
        "statement": shown,
        "alias": set(coverage.ALIASES),
        "note": set(coverage.NOTES),
    }
    found = {key: [kind for kind, entries in places.items() if any(_covers(e, key) for e in entries)] for key in keys}
    assert [key for key, kinds in found.items() if not kinds] == []
    assert {key: kinds for key, kinds in found.items() if len(kinds) > 1} == {}
    # No entry is about a key that there is not.
    for kind, entries in places.items():
        strangers = [entry for entry in entries if not any(_covers(entry, key) for key in keys)]
        beyond = {"point": ("table_3_4.",), "statement": ("statements.",)}.get(kind, ())
        assert [entry for entry in strangers if not entry.startswith(beyond or "\0")] == [], kind


def test_a_key_with_another_name_has_the_same_value() -> None:
    for key, other in coverage.ALIASES.items():
        assert reference.lookup(PAPER, key) == reference.lookup(PAPER, other), key


def test_machine_facts_are_compared_with_the_presets_as_they_are() -> None:
    presets = {name: machines.load(engines.load(), name) for name in ("smt8", "superscalar")}
    ours = {point.id: point.ours for point in machine_facts.points_of(presets)}
    assert ours["machine.smt.queues.integer"] == 32
    assert ours["machine.smt.pipeline_stages.smt"] - ours["machine.smt.pipeline_stages.superscalar"] == 2
    presets["smt8"] = machines.load(engines.load(), "smt8", ["core.integer_queue_entries=64", "l1d.mshrs=16"])
    changed = {point.id: point for point in machine_facts.points_of(presets)}
    for key, value in (("queues.integer", 64), ("mshr.l1", 16)):
        point = changed[f"machine.smt.{key}"]
        assert (point.ours, point.verdict) == (value, Verdict.MISS)
    same = {key for key, value in ours.items() if changed[key].ours == value}
    assert len(same) == len(ours) - 2


def test_the_published_example_of_shares_follows_from_the_formula() -> None:
    example = reference.lookup(PAPER, "formula.example")
    ratio = example["useful_ipc"] / example["spin_ipc"]
    for spinning, key in ((6, "ratio_6_spinning"), (2, "ratio_2_spinning")):
        share = spinning / example["contexts"]
        assert 1 / (share * (1 - ratio) + ratio) == pytest.approx(example[key], abs=0.005)
        # The metrics, by the accounts of such a machine.
        rows = [
            {"context": n, "activity": "spinning" if n < spinning else "user", "cycles": 1000, "instructions": ipc}
            for n, ipc in enumerate([500] * spinning + [250] * (8 - spinning))
        ]
        counters = [{"component": "core0", "name": "cycles", "value": 1000}]
        found = metrics.measure({"activities": rows, "counters": counters, "histograms": []})
        values = {each.metric.name: each.values["all"] for each in found}
        assert values["spin_to_useful_ipc_ratio"] == pytest.approx(2)
        assert values["spin_instructions_percent"] / values["spin_cycles_percent"] == pytest.approx(
            example[key], abs=0.005
        )


def test_a_small_share_is_not_within_ten_points() -> None:
    for ours, published, within in (
        (0.5, 5.0, False),
        (3.1, 5.0, True),
        (-5.17, 1.4, False),
        (40, 50, True),
        (34, 50, False),
    ):
        assert SHARE.allows(ours, published) is within


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


_PUBLISHED = {"figure_4_2_shares", "figure_4_3", "kernel_spin"}
"""Charts over whose bars the dissertation has values."""


class _MadeUp:
    """A result with tables of one smt8 core that did some of everything, other for each run."""

    def __init__(self, label: str) -> None:
        self.path = Path(label)
        self.manifest = {"timing_cycles": 1000, "machine": {"name": "made-up"}, "timing_from_cycle": 0}
        scale = 1 + len(label) % 7
        self._tables = {
            "activities": [
                {"context": n, "hart": n, "activity": activity, "cycles": cycles, "instructions": 10 * scale * (n + 1)}
                for n in range(8)
                for activity, cycles in (
                    *(("user", 300), ("kernel", 300), ("acquiring", 50), ("spinning", 150), ("idle_polling", 100)),
                    *(("interrupt", 50), ("napping", 50)),
                )
            ],
            "counters": [
                {"component": component, "name": name, "value": scale * value}
                for component, values in _COUNTED.items()
                for name, value in values.items()
            ],
            "histograms": [
                {"component": "core0", "name": name, "value": value, "cycles": 100}
                for name in ("integer_issued", "polling_queued")
                for value in range(7)
            ],
            "marks": [],
            "samples": [],
        }

    def rows(self, table: str) -> list[dict[str, object]]:
        return self._tables[table]


_COUNTED = {
    "core0": {
        **dict.fromkeys(("fetchable_contexts", "misled_contexts", "zero_fetch_cycles", "zero_retire_cycles"), 40),
        **dict.fromkeys(("queue_full_cycles", "integer_queue_occupancy", "squashed", "environment_calls"), 50),
        **dict.fromkeys(("trap_returns", "loads", "stores", "l1i_misses", "l1d_misses", "l2_misses"), 20),
        **dict.fromkeys(("fetched", "retired", "l1i_accesses", "l1d_accesses", "l2_accesses"), 900),
    },
    **{
        f"core0.{purpose}": dict.fromkeys(
            ("fetched", "squashed", "integer_issued", "full_queue_entries", "load_lookups", "load_misses"), 30
        )
        for purpose in ("useful", "spinning", "polling")
    },
    "core0.branch": dict.fromkeys(
        [
            *("branches", "branches_taken", "branches_mispredicted", "fixed_jumps", "returns", "returns_mispredicted"),
            *("indirect_jumps", "indirect_jumps_mispredicted"),
        ],
        25,
    ),
    "core0.wait": {"wrs_naps": 3, "woken_by_store": 2},
    "l2": {"misses": 10, "writebacks": 3, "channel_wait_cycles": 4},
}


@pytest.mark.parametrize("scale", ["quick", "default"])
def test_an_exhibit_has_the_same_values_with_its_runs_and_without(scale: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of runs that are made up, so that no system has to boot."""
    monkeypatch.setattr(linux, "request", lambda *arguments, **options: None)
    study, engine = studies.load(PAPER), engines.load()
    for part in redstone2002.PARTS:
        labels = [job.label for job in part.plan(engine, scale)]
        runs = {label: Run(cast(Result, _MadeUp(label))) for label in labels}
        found, without = part.evaluate(runs, scale), part.unmeasured("not run")
        assert [point.id for point in found.points] == [point.id for point in without.points], part.exhibit.id
        assert {line.id for line in found.statements} == {line.id for line in without.statements}
        assert {line.text for line in found.statements} == {line.text for line in without.statements}
        assert all(point.ours is None and point.note == "not run" for point in without.points)
        if scale == "default":
            assert all(point.ours is not None for point in found.points), part.exhibit.id
            assert all(line.holds is not None for line in found.statements)
        else:
            assert all(point.note for point in found.points if point.ours is None)
        for grid in found.grids:
            assert {len(row) for row in grid.rows} == {len(grid.columns)}, grid.id
        for chart in found.charts:
            assert set(chart.runs) == set(chart.values)
            assert all(chart.runs.values()), f"{chart.id}: a bar of no run"
            assert {label for each in chart.runs.values() for label in each} <= set(labels)
            marked = {mark.group for mark in chart.marks}
            assert chart.id in _PUBLISHED or not marked
            assert marked or chart.id not in _PUBLISHED or scale == "quick", chart.id
    assert {part.exhibit.id for part in redstone2002.PARTS} == {exhibit.id for exhibit in study.exhibits}
