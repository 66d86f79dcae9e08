"""The study from plan to page: coverage of the published numbers, resuming, failing, interrupting."""

from __future__ import annotations

import dataclasses
import html.parser
import io
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

import fake_command
from fake_native import CYCLES, PERIOD, SHARE, ran
from loiter import reference, studies
from loiter.engine import Engine
from loiter.errors import RunFault
from loiter.results import Result
from loiter.studies.base import Findings, Limit, Side, Verdict
from loiter.studies.cakarevic2008 import grid, points, statements
from loiter.studies.cakarevic2008.measurements import Measurements
from loiter.studies.runner import MissingRun, Order, Outcome, carry_out


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))


SECTIONS = ("result", "further", "active.cpi_alone", "spin_loop")
NAMES_OF_DELAYS = ("result.best_delay.t1", "result.best_delay.t2", "result.second_best_delay")


def published() -> dict[str, object]:
    """Every number of the sections, the names of the delays, and what is said in words of a quantity."""
    found: dict[str, object] = {}
    for section in SECTIONS:
        for path, value in reference.leaves(reference.lookup(grid.PAPER, section), section):
            if isinstance(value, list) and section == "further":
                found |= {f"{path}.{index}": each for index, each in enumerate(value)}
            elif isinstance(value, int | float) or path in NAMES_OF_DELAYS or section == "further":
                found[path] = value
    return {path: value for path, value in found.items() if path not in points.UNMEASURED}


def carry(engine: Engine, out: Path, scale: str = "quick", exhibit: str | None = None) -> Outcome:
    order = Order(studies.load(grid.PAPER), scale, exhibit, 2, out, "loiter study run cakarevic2008")
    return carry_out(order, engine, Console(file=io.StringIO(), width=200))


def test_every_published_number_has_its_point() -> None:
    ids = [spec.id for spec in points.specs()]
    assert len(ids) == len(set(ids))
    assert len(published()) > 55
    assert set(ids) == set(published())


def test_what_is_not_measured_is_published_and_has_a_reason() -> None:
    assert points.UNMEASURED
    for path, reason in points.UNMEASURED.items():
        assert reference.lookup(grid.PAPER, path)
        assert reason


def test_every_statement_of_the_paper_is_judged() -> None:
    texts = reference.lookup(grid.PAPER, "statements")
    assert len(texts) > 20
    assert list(statements.JUDGES) == list(texts), "each once, in the order of the file"


def test_exhibits_are_those_of_the_paper() -> None:
    assert [each.id for each in grid.EXHIBITS] == list(reference.lookup(grid.PAPER, "experiments"))
    assert all(grid.cells(each.id) for each in grid.EXHIBITS)


def test_the_whole_study(engine: Engine, tmp_path: Path) -> None:
    outcome = carry(engine, tmp_path / "out", "default")
    text = (tmp_path / "out" / "points.json").read_text()
    by_id = {point["id"]: point for point in json.loads(text)["points"]}
    assert set(by_id) == set(published())
    for name, value in published().items():
        point = by_id[name]
        assert set(point) == {"id", "unit", "ours", "published", "source", "note"}
        assert point["published"] == value
        assert point["ours"] is not None
        assert "Cakarevic" in point["source"]
    expect_by_hand({name: point["ours"] for name, point in by_id.items()})
    assert [each.id for each in outcome.findings.charts] == [
        *("figure_4-t1", "figure_4-t2"),
        *(f"figure_{number}-{part}" for number in (5, 6, 7, 8) for part in "ab"),
        *("t1_other_core", "t2_other_core"),
    ]
    judged = {each.id: each for each in outcome.findings.statements}
    assert list(judged) == list(reference.lookup(grid.PAPER, "statements"))
    assert all(each.holds is not None and each.detail for each in judged.values())
    expect_statements({name: bool(each.holds) for name, each in judged.items()})
    expect_page(tmp_path / "out" / "report.html", outcome)
    for chart in outcome.findings.charts:
        assert (tmp_path / "out" / f"{chart.id}.png").read_bytes().startswith(b"\x89PNG")
    table = pd.read_parquet(tmp_path / "out" / "runs.parquet")
    assert len(table) == len(list((tmp_path / "out" / "runs").iterdir())) > 280
    assert table["slowdown_percent"].notna().sum() == 6 * 45 + 9, "figures 5 to 8, the other cores, T2 with one spinner"


def expect_by_hand(ours: dict[str, object]) -> None:
    """The fake's rules: n spinners of a loop add n times its share; a loop looks at the lock once a period."""

    def slowdown(loop: str, spinners: int, benchmark: str) -> float:
        alone = CYCLES.get(benchmark, 5000)
        return (round(alone * (1 + spinners * SHARE[loop])) + 0.5) / (alone + 0.5) * 100 - 100

    def mean(loop: str, spinners: int, benchmarks: tuple[str, ...]) -> float:
        return sum(slowdown(loop, spinners, each) for each in benchmarks) / len(benchmarks)

    expected = {
        "result.t1_default_1_spinner_add": slowdown("default", 1, "add"),
        "result.t1_default_3_spinners_all_average": mean("default", 3, grid.BENCHMARKS),
        "result.t1_default_3_spinners_single_average": mean("default", 3, grid.SINGLE),
        "result.t2_best_3_spinners_multiple_average": mean("l2miss", 3, grid.MULTIPLE),
        "result.t2_best_3_spinners_multiple_max": max(slowdown("l2miss", 3, each) for each in grid.MULTIPLE),
        "result.t1_other_1_spinner_single_each_average_below": mean("fdiv", 1, grid.SINGLE),
        "result.t1_other_but_fdiv_1_spinner_multiple_each_average_below": mean("idiv", 1, grid.MULTIPLE),
        "result.t2_other_pipe_4_spinners_each_average_below": mean("default", 4, grid.MULTIPLE),
        "further.reduction_points.t2": mean("default", 3, grid.MULTIPLE) - mean("l2miss", 3, grid.MULTIPLE),
        "further.t1_fdiv_1_spinner_multiple_average_at_least": mean("fdiv", 1, grid.MULTIPLE),
        "further.t1_idiv_1_spinner_hash_at_most": slowdown("idiv", 1, "hash"),
        "further.t1_other_core_fdiv_with_fp_program_overhead": slowdown("fdiv", 4, "mbv_fp"),
        "further.t2_other_core_overhead": mean("default", 8, grid.BENCHMARKS),
        "further.t2_other_pipe_casx_l2miss_l1_thrashing_average_percent.1": (
            mean("casx", 4, grid.BENCHMARKS) + mean("l2miss", 4, grid.BENCHMARKS)
        )
        / 2,
        "further.memory_contention_against_core_contention": (
            mean("casx", 4, grid.BENCHMARKS) + mean("l2miss", 4, grid.BENCHMARKS)
        )
        / 2
        / mean("default", 3, grid.BENCHMARKS),
        "result.t1_other_3_spinners_single_average": sum(mean(loop, 3, grid.SINGLE) for loop in grid.OTHER_LOOPS) / 4,
        # A jump and the nop of its delay slot are one instruction.
        "active.cpi_alone.t2.baa": 8.001,
        "spin_loop.average_cpi.t1": 2.25,
        "result.responsiveness_ns.t1_l2miss": PERIOD["l2miss"],
        "result.responsiveness_ns.casx_low": PERIOD["casx"] / 1.4,
        "result.responsiveness_ns.casx_high": PERIOD["casx"],
    }
    for name, value in expected.items():
        assert ours[name] == pytest.approx(value, rel=1e-3), name
    assert ours["result.best_delay.t1"] == "l2miss"
    assert ours["result.second_best_delay"] == "casx"


def expect_statements(holds: dict[str, bool]) -> None:
    """By the fake's rules the place of the spinners does not matter, nor the machine, nor the unit of their delay."""
    for name in ("default_worst_single", "default_worst_multiple", "l2miss_best", "casx_second"):
        assert holds[name], name
    for name in ("more_shared_more_slowdown", "t2_l2miss_better", "other_core_negligible", "t2_fpgu_other_pipe"):
        assert not holds[name], name


class _Page(html.parser.HTMLParser):
    """Notes what a browser would fetch, and whether every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.charts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href") and tag != "a"]
        self.charts += [value or "" for name, value in attrs if name == "data-chart"]
        if tag not in ("meta", "img", "link", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] not in (["script"], ["style"]):
            self.text += data


class Tables:
    """Stands in for a stored result: tables by name."""

    def __init__(self, **rows: list[dict[str, object]]) -> None:
        self.rows = rows.__getitem__


def test_the_mean_interval_is_over_intervals_not_over_reads() -> None:
    """Two waits of three reads each, and a hart that looked only once, so its least interval is no interval."""
    marks = [
        {"hart": 1, "kind": "acquire", "cycle": 0, "retired": 0},
        {"hart": 1, "kind": "acquired", "cycle": 60, "retired": 12},
    ]
    columns = ("hart", "reads", "intervals", "interval_sum_cycles", "interval_min_cycles", "interval_max_cycles")
    rows = [dict(zip(columns, row, strict=True)) for row in ((1, 6, 4, 40, 8, 12), (2, 1, 0, 0, 0, 0))]
    cell = grid.Cell("t1", "hold", "default", grid.OTHER_CORE, 2)
    spinning = Measurements({cell.label: Tables(lock_reads=rows, marks=marks)}).spinning(cell)
    assert spinning.mean_cycles == 10
    assert (spinning.min_cycles, spinning.max_cycles) == (8, 12)
    assert spinning.reads == 7
    with pytest.raises(RunFault, match="read the lock twice"):
        Measurements({cell.label: Tables(lock_reads=rows[1:], marks=marks)}).spinning(cell)


def expect_page(path: Path, outcome: Outcome) -> None:
    text = path.read_text()
    page = _Page()
    page.feed(text)
    assert page.open == []
    assert page.charts == [chart.id for chart in outcome.findings.charts]
    assert page.fetched == [], "the page stands alone"
    for point in outcome.findings.points:
        assert point.id.removeprefix("result.") in page.text
    missed = sum(point.verdict is Verdict.MISS for point in outcome.findings.points)
    assert missed > 0, "the fake misses, so that misses are seen"
    assert page.text.count("MISS") == missed
    assert "assumed: a test" in page.text
    assert "loiter study run cakarevic2008" in page.text


def test_what_a_scale_leaves_out_is_null_with_a_reason(engine: Engine, tmp_path: Path) -> None:
    carry(engine, tmp_path / "out", "quick")
    found = json.loads((tmp_path / "out" / "points.json").read_text())["points"]
    absent = [point for point in found if point["ours"] is None]
    measured = [point for point in found if point["ours"] is not None]
    assert len(absent) > 5
    assert len(measured) > 15
    for point in absent:
        assert "not in --scale quick" in point["note"]
    t1 = re.compile(r"\.t1[._]")
    unmeasured_on_t1 = [point["id"] for point in absent if t1.search(point["id"])]
    assert unmeasured_on_t1
    assert all("t1_other_core" in name for name in unmeasured_on_t1)


@pytest.mark.slow
@pytest.mark.parametrize("exhibit", [each.id for each in grid.EXHIBITS])
def test_every_figure_by_itself(engine: Engine, tmp_path: Path, exhibit: str) -> None:
    outcome = carry(engine, tmp_path / "out", "default", exhibit)
    shown = [each.id.split("-")[0] for each in (*outcome.findings.charts, *outcome.findings.grids)]
    assert exhibit in shown
    assert any(point.ours is not None for point in outcome.findings.points)


def test_a_second_run_repeats_nothing(engine: Engine, tmp_path: Path, log: Path) -> None:
    carry(engine, tmp_path / "out")
    first = ran(log)
    assert first == len(list((tmp_path / "out" / "runs").iterdir())) > 90
    before = (tmp_path / "out" / "points.json").read_bytes()
    carry(engine, tmp_path / "out")
    assert ran(log) == 0
    assert (tmp_path / "out" / "points.json").read_bytes() == before


def test_a_damaged_result_is_run_again(engine: Engine, tmp_path: Path, log: Path) -> None:
    carry(engine, tmp_path / "out", exhibit="table_2")
    ran(log)
    victim = next((tmp_path / "out" / "runs").glob("t1.sort.alone-*"))
    (victim / "marks.parquet").write_bytes(b"PAR1")
    carry(engine, tmp_path / "out", exhibit="table_2")
    assert ran(log) == 1


def test_results_of_an_earlier_program_give_way(engine: Engine, tmp_path: Path) -> None:
    carry(engine, tmp_path / "out", exhibit="table_2")
    before = {path.name for path in (tmp_path / "out" / "runs").iterdir()}
    carry(engine, tmp_path / "out", exhibit="figure_5")
    guest = tmp_path / "data" / "guests" / "spinloops.elf"
    guest.write_bytes(guest.read_bytes() + b" ")
    carry(engine, tmp_path / "out", exhibit="table_2")
    after = {path.name for path in (tmp_path / "out" / "runs").iterdir()}
    assert len(before) == 9
    assert not before & after, "no stale result is left"
    assert sum(".alone-" in name for name in after) == 9
    assert sum(".1-" in name for name in after) == 45, "what the last command did not ask for is kept"


@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        ("FAKE_EXIT", "the program said so"),
        ("FAKE_KILL", "killed by signal 9"),
        ("FAKE_GUEST_ERROR", "illegal instruction"),
        ("FAKE_PANIC", "panicked"),
    ],
)
def test_a_failing_run_fails_the_study_and_costs_no_other(
    engine: Engine, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, variable: str, reason: str
) -> None:
    monkeypatch.setenv(variable, "t1:sort")
    said = io.StringIO()
    order = Order(studies.load(grid.PAPER), "quick", "table_2", 2, tmp_path / "out", "")
    outcome = carry_out(order, engine, Console(file=said, width=1000))
    with pytest.raises(Exception, match=rf"(?s)t1\.sort\.alone: .*{reason}.*8 of 9 runs are finished and kept"):
        outcome.raise_failures()
    assert reason in said.getvalue()
    # What the others give is there: their values are measured, and that of the one that failed is not.
    measured = outcome.points.dropna(subset="ours").index
    assert "active.cpi_alone.t1.sort" not in measured
    assert "active.cpi_alone.t1.add" in measured
    assert any("t1.sort.alone failed" in warning for warning in outcome.findings.warnings)
    assert len(outcome.runs) == 8
    assert (tmp_path / "out" / "report.html").exists()
    monkeypatch.delenv(variable)
    ran(log)
    assert not carry(engine, tmp_path / "out", exhibit="table_2").failures
    assert ran(log) == 1


def test_a_study_that_cannot_do_without_a_run_still_leaves_the_table_of_the_others(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strict:
        """Its evaluation needs every run of its plan."""

        def __getattr__(self, name: str) -> object:
            return getattr(studies.load(grid.PAPER), name)

        def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
            raise AssertionError(results["t1.sort.alone"])

    monkeypatch.setenv("FAKE_EXIT", "t1:sort")
    order = Order(Strict(), "quick", "table_2", 2, tmp_path / "out", "")  # type: ignore[arg-type]
    outcome = carry_out(order, engine, Console(file=io.StringIO(), width=1000))
    assert outcome.findings is None
    assert outcome.failures
    frame = outcome.runs.set_index("run")
    failed = [each.label for each in outcome.failures]
    assert frame.error[failed].str.contains("the program said so").all()
    assert frame.error.drop(failed).isna().all()
    assert (frame.cycles.drop(failed) > 0).all()
    assert (len(frame), failed) == (9, ["t1.sort.alone"])


def test_two_studies_share_their_runs(engine: Engine, tmp_path: Path, log: Path) -> None:
    carry(engine, tmp_path / "one", exhibit="table_2")
    assert ran(log) == 9
    carry(engine, tmp_path / "other", exhibit="table_2")
    assert ran(log) == 0
    one, other = ({path.name for path in (tmp_path / name / "runs").iterdir()} for name in ("one", "other"))
    assert one == other
    # Neither loses what is removed in the other.
    shutil.rmtree(tmp_path / "one")
    shutil.rmtree(tmp_path / "cache")
    carry(engine, tmp_path / "other", exhibit="table_2")
    assert ran(log) == 0


def test_a_full_disk_stops_the_study_and_keeps_what_is_finished(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system of its own that is too small: the real thing, where root may make one."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(small)], capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        with pytest.raises(RunFault, match=r"(?s)No space left on device.*runs are finished and kept"):
            carry(engine, small / "out")
        kept = [path for path in (small / "out" / "runs").iterdir() if path.is_dir()]
        assert kept
        assert not [path for path in kept if path.name.startswith(".")], "no half result"
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
        carry(engine, small / "out")
        total = len(list((small / "out" / "runs").iterdir()))
        assert ran(tmp_path / "log") == total - len(kept)
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_spinners_that_do_not_cover_the_measurement_are_refused(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_SHORT_SPINNERS", "1")
    with pytest.raises(RunFault, match="0 of 3 spinners spun from before the first"):
        carry(engine, tmp_path / "out", exhibit="figure_6")


def start(tmp_path: Path, seconds: str) -> subprocess.Popen[str]:
    environment = dict(os.environ, FAKE_SECONDS=seconds, FAKE_LOG=str(tmp_path / "log"))
    return subprocess.Popen(
        [
            *fake_command.words(tmp_path),
            *("study", "run", "cakarevic2008", "--scale", "quick", "--out", str(tmp_path / "out"), "--jobs", "2"),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True,
    )  # fmt: skip


def wait_for_results(tmp_path: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(list((tmp_path / "out" / "runs").glob("t1*"))) < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ctrl_c_keeps_finished_runs_and_says_how_to_go_on(engine: Engine, tmp_path: Path) -> None:
    with start(tmp_path, "0.1") as study:
        wait_for_results(tmp_path, 4)
        os.killpg(study.pid, signal.SIGINT)  # as a terminal does it: to every process of the group
        out, err = study.communicate(timeout=20)
        assert study.returncode == 130
    assert re.search(r"interrupted\. \d+ of \d+ runs are finished and kept in .*the same command continues", err)
    assert "Traceback" not in err
    assert out == ""
    kept = list((tmp_path / "out" / "runs").iterdir())
    assert len(kept) >= 4
    assert not [path for path in kept if path.name.startswith(".")]
    (tmp_path / "log").write_text("")
    with start(tmp_path, "0") as study:
        out, err = study.communicate(timeout=60)
        assert study.returncode == 0, err
    total = len(list((tmp_path / "out" / "runs").iterdir()))
    assert ran(tmp_path / "log") == total - len(kept)
    assert f"{len(kept)} of {total} runs are there already" in err
    assert "Published and ours" in out


def test_workers_end_when_their_parent_is_killed(engine: Engine, tmp_path: Path) -> None:
    with start(tmp_path, "30") as study:
        deadline = time.monotonic() + 20
        while not (tmp_path / "log").exists() or len((tmp_path / "log").read_text().splitlines()) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        study.kill()
        study.communicate(timeout=10)
    deadline = time.monotonic() + 10
    while members(study.pid):
        assert time.monotonic() < deadline, "a worker outlives its parent"
        time.sleep(0.1)


def members(group: int) -> list[int]:
    """The processes that are left of a process group."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def test_a_point_knows_how_it_stands() -> None:
    def stands(**changes: object) -> str:
        base = points.Point("result.x", "percent", 10.0, 12.0, "", "", points.Tolerance(5))
        return dataclasses.replace(base, **changes).verdict.name  # type: ignore[arg-type]

    assert stands() == "WITHIN"
    assert stands(ours=17.0) == "WITHIN"
    assert stands(ours=17.1) == "MISS"
    assert stands(ours=6.9) == "MISS"
    assert stands(ours=None) == "NOT_MEASURED"
    below, at_most, at_least = (Limit(side, 12.0) for side in (Side.BELOW, Side.AT_MOST, Side.AT_LEAST))
    assert stands(ours=11.99, limit=below) == "WITHIN"
    assert stands(ours=12.0, limit=below) == "MISS"
    assert stands(ours=12.0, limit=at_most) == "WITHIN"
    assert stands(ours=12.01, limit=at_most) == "MISS"
    assert stands(ours=12.0, limit=at_least) == "WITHIN"
    assert stands(ours=11.99, limit=at_least) == "MISS"
    assert stands(ours=0.9, published="none measured", limit=Limit(Side.BELOW, 1.0)) == "WITHIN"
    assert stands(ours=1.0, published="none measured", limit=Limit(Side.BELOW, 1.0)) == "MISS"
    assert stands(ours="casx", published="l2miss") == "MISS"
    assert stands(ours="casx", published="casx") == "WITHIN"
    relative = points.Tolerance(2, relative=True)
    assert stands(ours=12.23, tolerance=relative) == "WITHIN"
    assert stands(ours=12.25, tolerance=relative) == "MISS"


def test_a_study_that_asks_for_a_run_it_never_planned_is_a_fault_of_ours(engine: Engine, tmp_path: Path) -> None:
    class Careless:
        def __getattr__(self, name: str) -> object:
            return getattr(studies.load(grid.PAPER), name)

        def evaluate(self, results: Mapping[str, Result], scale: str, exhibit: str | None) -> Findings:
            raise AssertionError(results["never.planned"])

    order = Order(Careless(), "quick", "table_2", 2, tmp_path / "out", "")  # type: ignore[arg-type]
    with pytest.raises(MissingRun, match=r"never\.planned"):
        carry_out(order, engine, Console(file=io.StringIO()))
