"""Programs on Linux in the study of naps: their runs, and each rule on both sides."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import mix_over_time
import pandas as pd
import pytest

from loiter import engine as engines
from loiter import machines, reference
from loiter.studies.base import Verdict
from loiter.studies.catnap2020 import linux, mixes, mixes_findings, statements
from loiter.studies.catnap2020.mixes import FIGURE_3, MIXES, TABLES_2_3, Cell, Measured, Mixed
from loiter.studies.catnap2020.mixes_findings import BEST
from loiter.studies.catnap2020.torture import ALL, AUTOMATIC, LIST, NONE

SCALE = mixes.SCALES["default"]
HARTS, CORES, MANY = SCALE.harts, SCALE.cores, SCALE.most


class Told(Mixed):
    """Runs as they are expected, but for what a test changes: by mix, selection and threads."""

    def __init__(self, scale: mixes.Scale = SCALE, **changed: Any) -> None:
        super().__init__({}, scale)
        self._changed = {"time": time, "power": power, "share": share, "wait": wait, "hold": hold} | changed

    def measured(self, cell: Cell) -> Measured:
        where = (cell.mix, cell.selection, cell.threads)
        told = {name: float(self._changed[name](*where)) for name in ("time", "power", "share")}
        return Measured(1000 / told["time"], 100 * told["power"], told["share"])

    def parts(self, cell: Cell) -> list[Measured]:
        whole = self.measured(cell)
        return [
            replace(whole, work=whole.work * (0.9 if n and cell.selection != NONE else 1)) for n in range(cell.parts)
        ]

    def locks(self, mix: str) -> pd.DataFrame:
        rows = []
        for number in range(10):
            waited, held = (float(self._changed[name](mix, number)) for name in ("wait", "hold"))
            rows.append(
                {
                    "class": f"lock{number}",
                    "acquisitions": 100,
                    "contentions": 10,
                    "holdtime-avg": held * 1300,
                    "contendedtime-avg": waited * 1300,
                    "contendedtime-total": 10 * waited * 1300,
                    # Of each mix one lock is still waited for, longer in each further one.
                    "waiting": 0 if number else 3,
                    "waitingtime-avg": 1300.0 * (1 + list(MIXES).index(mix)),
                    "waitingtime-max": 2600 * (1 + list(MIXES).index(mix)),
                    "waitingtime-total": 3900 * (1 + list(MIXES).index(mix)),
                }
            )
        return pd.DataFrame(rows)


def time(mix: str, selection: str, threads: int) -> float:
    """Of the same work, over that without naps."""
    gain = {"raytrace": 0.0, "fserver": 0.25}.get(mix, 0.05) * max(0, (threads - CORES) / (MANY - CORES)) ** 1.5
    return 1 - {NONE: 0.0, ALL: gain, LIST: 1.2 * gain, AUTOMATIC: 1.2 * gain}[selection]


def power(mix: str, selection: str, threads: int) -> float:
    return 1.0 if selection == NONE or mix == "raytrace" or threads <= CORES else 0.97


def share(mix: str, selection: str, threads: int) -> float:
    return 0.0 if mix == "raytrace" else 0.01 + 0.14 * (threads - CORES) / (MANY - CORES)


def wait(mix: str, number: int) -> float:
    return 2000.0 if number == 0 else 100.0 if number < 4 else 1.0 + number / 10


def hold(mix: str, number: int) -> float:
    return 5.0 if number < 4 else 0.5


def but(of: Any, value: float, **where: Any) -> Any:
    """`of`, but where words are so."""

    def changed(mix: str, *rest: Any) -> float:
        here = dict(zip(("mix", "selection", "threads"), (mix, *rest), strict=False))
        return value if all(here.get(name) == each for name, each in where.items()) else float(of(mix, *rest))

    return changed


BROKEN: dict[str, dict[str, Any]] = {
    "statements.spin_grows_with_threads": {"share": but(share, 0.01, mix="dbase", threads=MANY)},
    "statements.no_gain_without_sharing": {"time": but(time, 0.97, mix="shared", selection=ALL, threads=CORES)},
    "statements.superlinear": {"time": but(time, 1.1, selection=ALL, threads=MANY)},
    "statements.energy_more_than_time": {"power": but(power, 1.05, selection=ALL, threads=MANY)},
    "statements.few_locks_dominate": {"wait": lambda mix, number: 5.0},
    "statements.fserver_gains_most": {"time": but(time, 0.1, mix="vips", selection=ALL, threads=MANY)},
    "statements.selective_beats_all": {"time": but(time, 1.0, selection=LIST)},
    "statements.raytrace_unchanged": {"power": but(power, 0.97, mix="raytrace", selection=LIST)},
    "statements.short_hold_short_wait": {"wait": lambda mix, number: 2000.0 if number == 0 else 100.0},
    "statements.long_wait_long_hold": {"hold": lambda mix, number: 0.5},
    **{text: {"time": but(time, 1.03, mix=mix, selection=AUTOMATIC, threads=CORES)} for mix, text in BEST.items()},
}


def judged(found: Mixed | None) -> dict[str, bool | None]:
    told = mixes_findings.statements(found, mixes.EXHIBITS, "not measured")
    return {each.id or each.text: each.holds for each in told}


def test_what_is_expected_holds() -> None:
    assert set(judged(Told()).values()) == {True}
    assert set(judged(None).values()) == {None}


@pytest.mark.parametrize("key", BROKEN)
def test_each_statement_can_fail(key: str) -> None:
    assert judged(Told(**BROKEN[key]))[key] is False
    assert set(BROKEN) == set(judged(Told()))


def test_what_a_scale_leaves_out_is_not_measured() -> None:
    quick = mixes.SCALES["quick"]
    left_out = set(MIXES) - set(quick.mixes)
    assert left_out
    assert not set(quick.mixes) - set(MIXES)
    assert all(mix in quick.description for mix in quick.mixes)
    found = judged(Told(quick))
    unmeasured = {BEST[mix] for mix in left_out} | {"statements.superlinear", "statements.raytrace_unchanged"}
    assert {key for key, holds in found.items() if holds is None} == unmeasured
    points = {each.id: each.verdict for each in mixes_findings.points(Told(quick), mixes.EXHIBITS, "test")}
    assert points["application.vips_64_threads.time_reduction_percent"] is Verdict.NOT_MEASURED


def test_every_statement_of_the_paper_has_a_rule() -> None:
    rules = {*mixes_findings.JUDGES, *statements.JUDGES}
    assert rules == set(reference.lookup("catnap2020", "statements"))
    assert not set(mixes_findings.JUDGES) & set(statements.JUDGES)


def test_points_stand_beside_what_the_text_gives() -> None:
    found = {each.id: each for each in mixes_findings.points(Told(), mixes.EXHIBITS, "test")}
    assert found["application.fserver_255_spin_share_percent"].ours == pytest.approx(15)
    saved = found["application.fserver_255_threads.all_catnap_time_reduction_percent"]
    assert saved.ours == pytest.approx(100 * (1 - time("fserver", ALL, MANY)))
    assert saved.verdict is Verdict.WITHIN
    assert found["application.spin_share_of_cycles_max_percent"].verdict is Verdict.WITHIN
    shares = mixes_findings.points(Told(share=but(share, 0.3, mix="vips", threads=MANY)), [FIGURE_3], "test")
    assert {each.verdict for each in shares if "_share_of_cycles_max" in each.id} == {Verdict.MISS}
    assert mixes_findings.points(Told(), [TABLES_2_3], "test") == []


@pytest.mark.parametrize("scale", mixes.SCALES.values())
def test_tables_and_curves_have_every_run(scale: mixes.Scale) -> None:
    found = Told(scale)
    rows = mixes_findings.rows(found, mixes.EXHIBITS)
    labels = {cell.label for each in mixes.EXHIBITS for cell in mixes.cells(scale, each)}
    assert len(rows) == len(labels) == 4 * len(scale.cases)
    assert {row["run"] for row in rows} == labels
    drawn = {label for curve in mixes_findings.curves(found, mixes.EXHIBITS) for label in curve.runs.values()}
    assert drawn == labels
    for table in mixes_findings.grids(found, mixes.EXHIBITS):
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_waits_that_have_not_ended_have_a_table() -> None:
    (table,) = [each for each in mixes_findings.grids(Told(), [TABLES_2_3]) if each.id == "waiting"]
    last = len(MIXES)
    assert [row[:4] for row in table.rows] == [
        ("lock0", mix, "3", f"{last - at:.1f}") for at, mix in enumerate(reversed(MIXES))
    ]
    assert next(row[4] for row in table.rows) == f"{2 * last:.1f}"


@pytest.mark.parametrize("mix", MIXES.values(), ids=lambda mix: mix.name)
def test_a_mix_starts_as_many_threads_as_it_is_told(mix: mixes.Mix) -> None:
    for threads in (1, CORES, MANY):
        assert any(str(threads) in word for word in mix.start(threads).split())


def test_threads_have_a_core_each_first() -> None:
    assert mixes.seats(CORES, HARTS) == list(range(0, HARTS, 4))
    assert mixes.seats(CORES + 1, HARTS) == sorted([*range(0, HARTS, 4), 1])
    assert len(mixes.seats(MANY, HARTS)) == MANY
    assert HARTS - 1 not in mixes.seats(MANY, HARTS)


def test_the_default_scale_has_the_threads_of_the_paper() -> None:
    assert list(SCALE.threads) == reference.lookup("catnap2020", "application.threads")
    assert (SCALE.cores, SCALE.most) == (64, 255)
    assert mixes.seats(64, SCALE.harts) == list(range(0, 256, 4))
    found = {each.id: each for each in mixes_findings.points(Told(), mixes.EXHIBITS, "test")}
    for threads in ("128", "192", "255"):
        point = found[f"application.all_catnap_time_reduction_average_percent.{threads}"]
        saved = [100 * (1 - time(mix, ALL, int(threads))) for mix in MIXES]
        assert point.ours == pytest.approx(sum(saved) / len(saved))
        assert point.note == ""
    most = mixes.cells(SCALE, TABLES_2_3)
    assert {cell.mix: cell.threads for cell in most} == dict.fromkeys(MIXES, MANY)


def test_a_run_naps_only_once_its_threads_are_there() -> None:
    lines = mixes.start("fserver", MANY, HARTS)
    begins = next(at for at, line in enumerate(lines) if f"../{mixes.PROGRAM}" in line)
    selected = [at for at, line in enumerate(lines) if line.endswith("/loiter_catnap/parameters/selection")]
    assert selected[-1] < begins
    assert lines[selected[-1]].startswith(f"echo '{NONE}' ")


@pytest.mark.parametrize("ends", [True, False])
def test_a_program_that_ends_before_its_threads_are_there_ends_the_run(ends: bool, tmp_path: Path) -> None:
    """The lines that a mix starts with, in this host's shell, with another program."""
    lines = mixes.start("raytrace", MANY, HARTS)
    begins = next(at for at, line in enumerate(lines) if line.endswith("&"))
    lines[begins] = f"{'echo no scene' if ends else 'sleep 4'} > {tmp_path}/said 2>&1 &"
    del lines[begins + 1]  # How long threads take turns is a matter of the guest's kernel.
    script = "\n".join([*lines[begins - 2 :], "echo there"]).replace("/tmp/said", f"{tmp_path}/said")
    script = f"set -e\n{script}"
    if ends:
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "no scene\n")
    else:
        with pytest.raises(subprocess.TimeoutExpired):
            subprocess.run(["sh", "-c", script], capture_output=True, timeout=2)


def test_vips_has_started_with_the_threads_that_its_pool_begins_with() -> None:
    ready = mixes.start("vips", 255, 256)[-1]
    assert "$((before + 128))" in ready
    assert "VIPS_CONCURRENCY=255" in mixes.start("vips", 255, 256)[-2]


def test_the_threads_of_a_renderer_start_on_a_cpu_that_none_is_to_have() -> None:
    lines = mixes.start("raytrace", 128, 256)
    begins = next(at for at, line in enumerate(lines) if "povray +I" in line)
    turns, found, first, before, there, after, let_go = lines[begins + 1 :]
    assert turns == "echo 1 > /proc/sys/kernel/sched_rr_timeslice_ms"
    assert "| wc -l) -ge 8 ]" in found
    assert first == "first=$(ls -U /proc/$!/task | head -n 7)"
    assert before == "for each in $first; do chrt --reset-on-fork --rr --pid 1 $each || true; done"
    assert after == "for each in $first; do chrt --other --pid 0 $each || true; done"
    # Those of its own are there besides.
    assert "$((before + 134))" in there
    spare, cpus = lines[begins].split()[2], let_go.split()[4]
    assert lines[begins].startswith(f"taskset -c {spare} povray ")
    assert len(cpus.split(",")) == 128
    assert spare not in cpus.split(",")
    assert len(mixes.start("compute", 128, 256)) == len(lines) - 6


def test_selections_continue_one_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "_boot", lambda *_: None)
    engine, machine = engines.load(), machines.load(engines.load(), "knl")
    cells = mixes.cells(SCALE, mixes.FIGURE_11)
    requests = {cell: cell.request(engine, machine) for cell in cells}
    for cell, request in requests.items():
        assert request.lead_in is not None
        assert request.lead_in == requests[replace(cell, selection=NONE)].lead_in
        # The patch's enumeration has them in this order.
        assert request.variables == (("catnap_selection", bytes([linux.SELECTIONS.index(cell.selection), 0, 0, 0])),)
    assert len({(request.lead_in, request.variables, request.phases) for request in requests.values()}) == len(cells)
    # Those that stand side by side need not wait for each other.
    begun = [requests[cell].lead_in for cell in cells]
    assert all(one != other for one, other in pairwise(begun))


def test_mixes_with_long_waits_run_in_on_timed_cores_before_anybody_naps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linux, "_boot", lambda *_: None)
    engine, machine = engines.load(), machines.load(engines.load(), "knl")
    assert set(SCALE.long_waits) == {"fserver", "dbase"}
    for mix in MIXES:
        request = SCALE.cell(mix, ALL, CORES).request(engine, machine)
        lead_in = request.lead_in
        assert lead_in is not None
        timed = lead_in.ends_timed(engine)
        assert timed == (mix in SCALE.long_waits)
        assert lead_in.phases.endswith(", timing for 640000 cycles") == timed
        assert ("timing for 200000 cycles, timing for 200000 cycles" in request.phases) == timed
    (table,) = mixes_findings.grids(Told(), [mixes.FIGURE_11])
    assert "fserver and dbase run on timed cores for 10,000 cycles a thread before naps begin" in table.caption
    (table,) = mixes_findings.grids(Told(mixes.SCALES["quick"]), [mixes.FIGURE_11])
    assert "before naps begin" not in table.caption


def test_runs_that_take_the_host_longest_are_first() -> None:
    cost = {cell: cell.threads * cell.cost_cycles for cell in mixes.cells(SCALE, mixes.FIGURE_11)}
    first = sorted(cost, key=lambda cell: -cost[cell])
    # The threads of povray take 8 ms each to start.
    assert [(cell.mix, cell.threads) for cell in first[:3]] == [(mix, MANY) for mix in ("dbase", "fserver", "raytrace")]
    makers = [at for at, cell in enumerate(first) if cell.selection == NONE]
    assert {first[at].selection for at in range(makers[2])} == {NONE}
    for at, cell in enumerate(first):
        maker = next(n for n in makers if (first[n].mix, first[n].threads) == (cell.mix, cell.threads))
        assert maker <= at, f"{cell.label} would wait for another one to make what it continues"


def test_work_is_of_the_window_and_of_no_lock() -> None:
    activities = [("user", 40, 30), ("kernel", 40, 20), ("pausing", 10, 5), ("acquiring", 5, 4), ("idle", 5, 3)]
    rows = [{"context": 0, "activity": name, "cycles": 9 * c, "instructions": 9 * i} for name, c, i in activities]
    counts = [each[1] for each in activities] + [each[2] for each in activities]

    class OneRun:
        manifest: ClassVar[Any] = {"clock_mhz": 1, "machine": {"parameters": {"energy.chip_static_uw": "1000000"}}}
        has_tables = True

        def rows(self, name: str) -> list[dict[str, Any]]:
            return {"activities": rows, "samples": [{"counts": each} for each in parts]}.get(name, [])

    cell = SCALE.cell("fserver", NONE, MANY)
    parts = [counts]
    mixed = Mixed({cell.label: OneRun()}, SCALE)  # type: ignore[dict-item]
    found = mixed.measured(cell)
    assert (found.work, found.watts) == (pytest.approx(50 / 100), pytest.approx(1.0))
    assert found.spinning == pytest.approx(10 / 95)
    assert mixed.parts(cell) == [found]
    # A part in which everything took twice as long.
    parts = [counts, [*(2 * cycles for cycles in counts[:5]), *counts[5:]]]
    mixed = Mixed({cell.label: OneRun()}, SCALE)  # type: ignore[dict-item]
    assert [each.work for each in mixed.parts(cell)] == [pytest.approx(50 / 100), pytest.approx(25 / 100)]
    assert mixed.measured(cell).work == pytest.approx(100 / 300)


def test_windows_over_time_stand_side_by_side() -> None:
    without, naps = (
        [Measured(work, 100, share) for work, share in each]
        for each in (((100, 0.5), (100, 0.3)), ((125, 0.4), (110, 0.2)))
    )
    shown = mix_over_time.table(without, naps, ALL)
    cells = [list(column.cells) for column in shown.columns]
    assert cells == [["100,000", "600,000"], ["50.0", "30.0"], ["40.0", "20.0"], ["0.800", "0.909"]]


def test_bars_are_of_the_parts_of_a_window() -> None:
    found = Told()
    whole = 1 - time("fserver", ALL, MANY)
    curve = next(each for each in mixes_findings.curves(found, [mixes.FIGURE_11]) if each.id.endswith("time_fserver"))
    low, high = curve.spans[ALL][-1]
    assert (low, high) == (pytest.approx(1 - whole), pytest.approx((1 - whole) / 0.9))
    (table,) = mixes_findings.grids(found, [mixes.FIGURE_11])
    assert sum("to" in cell for row in table.rows for cell in row) == 2 * 4 * 6
