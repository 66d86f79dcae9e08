"""What differs between results, and between machines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import loiter
from loiter import cli, comparison
from loiter.engine import Engine
from loiter.runs.request import digest


@pytest.fixture(autouse=True)
def _own_store(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))


def run(machine: object = "t1", **place: object) -> loiter.Result:
    return loiter.run(machine, "spinloops", place=place or {"add": 0})  # type: ignore[arg-type]


def test_machines_differ_in_parameters() -> None:
    found = loiter.compare("t1", loiter.machine("t1").set("core.contexts=2"), "t2")
    assert found.names == ("t1", "t1 core.contexts=2", "t2")
    assert found.parameters.loc["core.contexts"].tolist() == [4, 2, 8]
    assert found.parameters.loc["system.clock_mhz"].tolist() == [1000, 1000, 1400]
    assert "system.cores" not in found.parameters.index
    assert found.metrics is None
    assert found.accounts is None


def test_a_parameter_that_one_has_not_is_empty(tmp_path: Path) -> None:
    text = (tmp_path / "data" / "machines" / "t1.toml").read_text()
    (tmp_path / "mine.toml").write_text(text + "width = 3\n")
    found = loiter.compare("t1", "./mine.toml")
    assert found.parameters.loc["core.width"].tolist() == [None, 3]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["t1", "t2", "--plot", "cycles.svg"], "only results have cycles"),
        (["t1", "t2", "--plot", "cycles.gif"], ".svg or .pdf or .png"),
    ],
)
def test_a_plot_of_nothing_is_refused(words: list[str], expected: str) -> None:
    done = CliRunner().invoke(cli.app, ["compare", *words])
    assert isinstance(done.exception, loiter.UserFault)
    assert expected in str(done.exception)


def test_a_change_of_means_has_the_interval_of_both() -> None:
    half_width = comparison._change_half_width
    assert half_width(2.0, 3.0, [None, None], "instructions") is None
    # Ten percent of each of two equal means: a seventh of their quotient, about.
    assert half_width(2.0, 2.0, [0.2, 0.2], "instructions") == pytest.approx(100 * 0.1 * 2**0.5)
    # A run that was timed whole has no spread: ten percent of the last alone.
    assert half_width(2.0, 3.0, [None, 0.3], "instructions") == pytest.approx(100 * 0.3 / 2)
    assert half_width(2.0, 3.0, [0.2, None], "instructions") == pytest.approx(100 * 3 * 0.2 / 4)
    assert half_width(40.0, 50.0, [3.0, 4.0], "percent") == 5.0
    assert half_width(0.0, 3.0, [0.1, 0.1], "instructions") is None


def test_results_differ_in_metrics_and_accounts() -> None:
    alone, beside = run(), run(add=0, spin_default=[1, 2])
    found = loiter.compare(alone, str(beside.path))
    first, last = found.names
    assert found.parameters.empty
    assert found.metrics is not None
    assert found.accounts is not None
    for name, row in found.metrics.iterrows():
        metric, _, group = str(name).partition(".") if str(name).endswith((".user", ".kernel")) else (str(name), "", "")
        for result, column in ((alone, first), (beside, last)):
            if metric in result.metrics.index:
                expected = result.metrics.loc[metric, group or "all"]
                assert row[column] == expected or (row[column] != row[column] and expected != expected)
        if row["unit"] == "percent":
            assert row["change"] == pytest.approx(row[last] - row[first], nan_ok=True)
        elif row[first]:
            assert row["change"] == pytest.approx(100 * (row[last] / row[first] - 1), nan_ok=True)
    assert len(found.metrics) > 5
    for name in found.names:
        assert found.accounts[name].sum() == pytest.approx(100)


def test_accounts_are_shares_with_the_greatest_change_first(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = run(), run(add=0, spin_default=[1])
    cycles = {
        before.path: {("user", "retired"): 30, ("user", "branch"): 60, ("idle", "waiting"): 10},
        after.path: {("user", "retired"): 160, ("user", "branch"): 20, ("user", "l2_miss"): 20},
    }
    rows = loiter.Result.rows

    def given(self: loiter.Result, name: str) -> list[dict[str, object]]:
        if name != "accounts":
            return rows(self, name)
        return [{"activity": a, "slot": s, "cycles": n} for (a, s), n in cycles[self.path].items()]

    monkeypatch.setattr(loiter.Result, "rows", given)
    accounts = loiter.compare(before, after).accounts
    assert accounts is not None
    first, last = accounts.columns[:2]
    assert [tuple(row) for row in accounts.reset_index()[["activity", "slot", first, last, "change"]].to_numpy()] == [
        ("user", "retired", 30, 80, 50),
        ("user", "branch", 60, 10, -50),
        ("idle", "waiting", 10, 0, -10),
        ("user", "l2_miss", 0, 10, 10),
    ]


def test_a_result_does_not_differ_from_itself() -> None:
    result = run()
    found = loiter.compare(result, result)
    assert found.names == (result.path.as_posix(), f"{result.path.as_posix()} (2)")
    assert found.metrics is not None
    assert found.accounts is not None
    assert (found.metrics["change"].fillna(0) == 0).all()
    assert (found.accounts["change"] == 0).all()


def test_the_command_shows_changes_and_says_them_to_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(run().path), str(run("t2").path)]
    for more in ([], ["--all"], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(["compare", *paths, *more])
        assert ended.value.code == 0
        said = capsys.readouterr().out
        if more == ["--json"]:
            found = json.loads(said)
            assert {row["parameter"] for row in found["parameters"]} == {
                "core.contexts",
                "core.pipes",
                "system.clock_mhz",
            }
            assert {"metric", "change", "unit"} <= found["metrics"][0].keys()
            assert {"activity", "slot", "change"} <= found["accounts"][0].keys()
        else:
            assert "Parameters that differ" in said
            assert "core.contexts" in said
    with pytest.raises(SystemExit):
        cli.main(["compare", paths[0], paths[0]])
    said = capsys.readouterr().out
    assert "the machines have the same parameters" in said
    assert "all metrics are the same" in said


@pytest.mark.parametrize(
    ("things", "message"),
    [
        (["t1"], "there is nothing to compare it with"),
        (["t1", "t3"], 'unknown machine "t3"'),
        (["t1", "data"], "a directory, but no result"),
    ],
)
def test_what_cannot_be_compared_is_named(things: list[str], message: str) -> None:
    with pytest.raises(loiter.UserFault, match=message):
        loiter.compare(*things)


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    path = run().path
    (path / "counters.parquet").write_bytes(b"")
    with pytest.raises(loiter.UserFault, match="not a whole result"):
        loiter.compare(path, "t1")


@pytest.mark.parametrize(
    ("schema", "message"), [(99, "it is of a newer loiter, 9.9.9"), (1, "it is of an earlier loiter")]
)
def test_a_result_of_another_loiter_is_told_from_a_damaged_one(schema: int, message: str) -> None:
    path = run().path
    manifest = json.loads((path / "manifest.json").read_text())
    del manifest["checksum"]
    manifest |= {"schema": schema, "loiter": {"version": "9.9.9"}}
    (path / "manifest.json").write_text(json.dumps(manifest | {"checksum": digest(manifest)}))
    with pytest.raises(loiter.UserFault, match=message):
        loiter.compare(path, "t1")
    assert (path / "manifest.json").is_file(), "nothing is lost"
