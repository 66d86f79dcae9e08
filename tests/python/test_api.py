"""What there is for Python: machines, runs, and results as frames."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import loiter
from loiter import api
from loiter.engine import Engine, Json, Progress
from loiter.errors import RunFault

PLACE = {"add": 0, "spin_default": [1, 2]}


@pytest.fixture(autouse=True)
def _own_store(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """What was really carried out."""
    carried_out: list[Json] = []
    run = Engine.run

    def counting(self: Engine, request: Json, elf: bytes, progress: Progress | None = None) -> Json:
        carried_out.append(request)
        return run(self, request, elf, progress)

    monkeypatch.setattr(Engine, "run", counting)
    return carried_out


def test_a_machine_is_changed_by_words_and_by_mappings() -> None:
    plain = loiter.machine("t1")
    changed = [
        plain.set("core.contexts=2", "system.cores=1"),
        plain.set({"core.contexts": 2, "system.cores": 1}),
        plain.set("core.contexts=2").set({"system.cores": 1}),
        loiter.machine("t1", {"core.contexts": 2}, "system.cores=1"),
    ]
    for each in changed:
        assert (each.contexts_per_core, each.contexts) == (2, 2)
        assert each.hash == changed[0].hash != plain.hash
    assert plain.contexts_per_core == 4


@pytest.mark.parametrize("place", [PLACE, ["add=0", "spin_default=1,2"], {"add": "0.0", "spin_default": ["0.1", 2]}])
@pytest.mark.parametrize("arguments", [{"iterations": 5}, ["iterations=5"]])
def test_a_run_is_asked_for_in_either_form(place: object, arguments: object) -> None:
    asked = loiter.request("t1", "spinloops", place=place, arguments=arguments)  # type: ignore[arg-type]
    assert asked.bootargs == "task.add=0 task.spin_default=1,2 iterations=5"
    assert asked == loiter.request(loiter.machine("t1"), "spinloops", place=PLACE, arguments={"iterations": 5})


def test_a_run_is_carried_out_once(runs: list[Json]) -> None:
    first = loiter.run("t1", "spinloops", place=PLACE)
    again = loiter.run(loiter.machine("t1"), "spinloops", place=PLACE)
    assert again.path == first.path
    assert first.path.is_relative_to(loiter.store_path())
    assert len(runs) == 1
    assert loiter.run("t1", "spinloops", place={"add": 0}).path != first.path
    assert len(runs) == 2


def test_several_requests_are_carried_out_side_by_side(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {f"with {n}": loiter.request("t1", "spinloops", place={"add": 0, "spin_default": n}) for n in (1, 2)}
    found = api.results(asked, workers=2, quiet=True)
    assert list(found) == ["with 1", "with 2"]
    assert len({each.path for each in found.values()}) == 2
    assert len(log.read_text().splitlines()) == 2
    more = asked | {"alone": loiter.request("t1", "spinloops", place={"add": 0})}
    assert api.results(more, quiet=True)["with 1"].path == found["with 1"].path
    assert len(log.read_text().splitlines()) == 3, "what has been carried out is found"
    monkeypatch.setenv("FAKE_GUEST_ERROR", "idiv")
    with pytest.raises(RunFault, match="worse"):
        api.results({"worse": loiter.request("t1", "spinloops", place={"add": 0, "spin_idiv": 1})}, quiet=True)


def test_a_damaged_result_is_run_again(runs: list[Json]) -> None:
    result = loiter.run("t1", "spinloops", place=PLACE)
    (result.path / "counters.parquet").write_bytes(b"")
    assert not loiter.run("t1", "spinloops", place=PLACE).counters.empty
    assert len(runs) == 2


def test_frames_have_units_and_can_be_subtracted() -> None:
    result = loiter.run("t1", "spinloops", place=PLACE)
    for name in ("counters", "accounts", "activities", "histograms", "marks", "reports"):
        frame = getattr(result, name)
        assert isinstance(frame, pd.DataFrame)
        assert len(frame) == len(result.rows(name)) > 0
        counted = [column for column, unit in frame.attrs["units"].items() if unit != ""]
        for column in counted:
            assert frame[column].dtype == "int64", f"{name}.{column}"
            least, most = int(frame[column].min()), int(frame[column].max())
            differences = frame[column] - most
            assert int(differences.min()) == least - most
    assert result.accounts.attrs["units"] == {"cycles": "cycles"}


def test_metrics_are_a_frame_by_name() -> None:
    metrics = loiter.run("t1", "spinloops", place=PLACE).metrics
    assert list(metrics.columns) == ["all", "user", "kernel", "half_width", "unit", "definition"]
    assert metrics.loc["ipc", "all"] > 0
    assert metrics.loc["ipc", "unit"] == "instructions/cycle"
    assert (metrics.definition.str.len() > 10).all()


def test_regions_are_the_repetitions_that_the_program_marked() -> None:
    result = loiter.run("t1", "spinloops", place=PLACE)
    work = result.regions[result.regions.kind == "work"]
    marks = result.marks
    assert len(work) == (marks.kind == "work_end").sum() > 1
    for _, each in work.iterrows():
        begin, end = (
            marks[(marks.hart == each.hart) & (marks.kind == kind) & (marks.value == each.number)].iloc[0]
            for kind in ("work_begin", "work_end")
        )
        assert each.cycles == end.cycle - begin.cycle
        assert each.instructions == end.retired - begin.retired
        assert each.ipc == pytest.approx(each.instructions / each.cycles)
        # The machine of the tests has a clock of 1 GHz.
        assert each.time_us == pytest.approx(each.cycles / 1000)
    assert result.regions.attrs["units"]["time_us"] == "microseconds"


def test_mistakes_name_what_was_wrong_and_run_nothing(runs: list[Json]) -> None:
    for mistake, message in [
        (lambda: loiter.machine("t3"), 'unknown machine "t3"; did you mean "t1" or "t2"'),
        (lambda: loiter.machine("t1").set("core.contexts"), "an override is written key=value"),
        (lambda: loiter.machine("t1").set({"core.contxts": 2}), "core.contxts"),
        (lambda: loiter.run("t1", "spinlops", place={"add": 0}), 'did you mean "spinloops"'),
        (lambda: loiter.run("t1", "spinloops"), "several tasks and none is placed"),
        (lambda: loiter.run("t1", "spinloops", place={"ad": 0}), 'unknown task of spinloops "ad"; did you mean "add"'),
        (lambda: loiter.run("t1", "spinloops", place={"add": [0, 0]}), "context 0 already runs add"),
        (lambda: loiter.run("t1", "spinloops", place={"add": 99}), "there is no 99"),
        (lambda: loiter.run("t1", "spinloops", place=PLACE, arguments=["x"]), "written key=value"),
    ]:
        with pytest.raises(loiter.UserFault, match=".*" + message.replace("(", r"\(")):
            mistake()
    assert not runs


@pytest.mark.parametrize(
    ("trouble", "fault", "message"),
    [
        ("FAKE_EXIT", loiter.RunFault, "the program said so"),
        ("FAKE_GUEST_ERROR", loiter.RunFault, "illegal instruction"),
        ("FAKE_PANIC", loiter.InternalFault, "panicked"),
    ],
)
def test_a_run_that_fails_leaves_no_result(
    trouble: str, fault: type[loiter.Fault], message: str, runs: list[Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(trouble, "add")
    for _ in range(2):
        with pytest.raises(fault, match=message):
            loiter.run("t1", "spinloops", place=PLACE)
    assert len(runs) == 2
    assert not list(loiter.store_path().glob("*/*"))
    monkeypatch.delenv(trouble)
    assert not loiter.run("t1", "spinloops", place=PLACE).counters.empty


def test_what_is_public_is_there() -> None:
    assert set(loiter.__all__) <= set(dir(loiter))
    for name in loiter.__all__:
        assert getattr(loiter, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        loiter.nothing  # noqa: B018


def test_what_is_not_asked_for_is_not_loaded() -> None:
    code = "import sys, loiter; print([name for name in ('pandas', 'pyarrow', 'rich') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
