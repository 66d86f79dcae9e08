"""Sweeps: grids, what is run and what is not, a row for every point, files and commands."""

from __future__ import annotations

import inspect
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import fake_command
import loiter
from fake_native import ran
from loiter import api, store
from loiter.engine import Engine
from loiter.sweeps import file, grid, table
from loiter.sweeps import sweep as sweeps
from loiter.sweeps.carry import label
from loiter.sweeps.words import Words

GRID = {"core.contexts": [1, 2, 4], "argument.iterations": [5, 7]}
WORDS: dict[str, Any] = {"machine": "t1", "program": "spinloops", "place": {"add": 0}}


@pytest.fixture(autouse=True)
def _own_store(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))


def sweep(axes: Any = GRID, **words: Any) -> pd.DataFrame:
    return loiter.sweep(axes, **(WORDS | {"quiet": True, "workers": 2} | words))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,2,4", (1, 2, 4)),
        ("t1, t2", ("t1", "t2")),
        ("3..6", (3, 4, 5, 6)),
        ("10..50+15", (10, 25, 40)),
        ("1024..8192*2", (1024, 2048, 4096, 8192)),
        ("1..100*10,7", (1, 10, 100, 7)),
        ("5..5", (5,)),
        ("true", ("true",)),
        ("-2..1", (-2, -1, 0, 1)),
    ],
)
def test_values_are_lists_and_ranges(text: str, values: tuple[Any, ...]) -> None:
    assert grid.word(f"some.key={text}") == grid.Axis("some.key", values)


def test_values_can_be_of_any_kind_of_sequence() -> None:
    for values in ([1, 2], (1, 2), range(1, 3), np.array([1, 2]), pd.Series([1, 2]), "1,2"):
        found = grid.of({"k": values})
        assert found.axes == (grid.Axis("k", (1, 2)),)
        assert all(type(value) is int for value in found.axes[0].values)
    assert grid.of({"k": 3}).axes[0].values == (3,)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({}, "the grid is empty"),
        ({"k": []}, "k has no values"),
        ({"k": ""}, "k has no values"),
        (["k"], "an axis is written key=values"),
        (["=1"], "an axis is written key=values"),
        (["k=1", "k=2"], "k is named twice"),
        (["k=4..1"], "the last value is less than the first"),
        (["k=1..9+0"], "steps of 0 lead nowhere"),
        (["k=1..9*1"], "factors are 2 or more"),
        (["k=0..9*2"], "factors are 2 or more"),
        (["k=1..99999999"], "more than 1,000,000 values"),
        ({"a": range(2000), "b": range(2000)}, "4,000,000 points"),
    ],
)
def test_a_grid_that_is_none_is_refused(axes: Any, message: str) -> None:
    with pytest.raises(loiter.UserFault, match=message):
        grid.of(axes)


def test_every_point_has_its_row_in_the_order_of_the_grid(log: Path) -> None:
    frame = sweep()
    assert [tuple(row) for row in frame[list(GRID)].to_numpy()] == [(a, b) for a in (1, 2, 4) for b in (5, 7)]
    assert ran(log) == 6
    assert frame.error.isna().all()
    assert frame.key.nunique() == 6
    assert (frame.cycles > 0).all()
    for _, row in frame.iterrows():
        alone = loiter.run(
            loiter.machine("t1", {"core.contexts": int(row["core.contexts"])}),
            "spinloops",
            place={"add": 0},
            arguments={"iterations": row["argument.iterations"]},
        )
        assert str(alone.path) == row.result
        assert alone.metrics.loc["ipc", "all"] == row.ipc
    assert ran(log) == 0, "what a sweep has run, a run finds"
    assert frame.attrs["units"]["ipc"] == "instructions/cycle"
    assert frame.attrs["units"]["cycles"] == "cycles"


def test_points_are_named_by_what_people_gave_and_no_two_alike() -> None:
    places: list[Any] = [
        {"mcs": on} for on in (0, [0, 4, 8], [0, 4, 8, 12], [0, 4, 8, 12, 16], [0, 4, 8, 13], range(9))
    ]
    named = [label({"place": place, "argument.seed": 2}) for place in (*places, "mcs=0-3")]
    assert named == [
        "mcs 0, seed=2",
        "mcs 0,4,8, seed=2",
        "mcs 0,4,..,12, seed=2",
        "mcs 0,4,..,16, seed=2",
        "mcs 0,4,8,13, seed=2",
        "mcs 0,1,..,8, seed=2",
        "seed=2, place=mcs=0-3",
    ]
    assert label({"place": {"mcs": 0, "spin": [1, 2]}, "core.contexts": 4}) == "mcs 0, spin 1,2, core.contexts=4"
    assert label({"place": {"add": ["0.0", "1.0", "2.0", "3.0"]}}) == "add 0.0,1.0,2.0,3.0"


def test_machine_program_and_place_can_vary() -> None:
    frame = sweep({"machine": ["t1", "t2"], "place": ["add=0", "mulx=0"]}, machine=None, place=None)
    assert list(frame.machine) == ["t1", "t1", "t2", "t2"]
    assert frame.cycles.nunique() > 1
    with pytest.raises(loiter.UserFault, match="a sweep has a program"):
        sweep(program=None)


def test_a_key_that_no_machine_has_is_named_before_anything_runs(log: Path) -> None:
    for key, near in (
        ("core.contxts", "core.contexts"),
        ("programm", "program"),
        ("argumentiterations", "argument.NAME"),
    ):
        with pytest.raises(loiter.UserFault, match=rf'unknown axis "{key}"; did you mean .*"{near}"'):
            sweep({key: [1], "argument.iterations": [5]})
    assert ran(log) == 0


def test_a_point_that_cannot_be_is_a_row_with_its_error(log: Path) -> None:
    frame = sweep({"place": ["add=0", "add=99", "nothing=0"]}, place=None)
    assert list(frame.error.isna()) == [True, False, False]
    assert frame.error_status.to_list() == [pd.NA, 2, 2]
    assert "there is no 99" in frame.error[1]
    assert 'unknown task of spinloops "nothing"' in frame.error[2]
    assert ran(log) == 1


@pytest.mark.parametrize(
    ("trouble", "message"),
    [("FAKE_EXIT", "the program said so"), ("FAKE_GUEST_ERROR", "illegal instruction"), ("FAKE_KILL", "signal 9")],
)
def test_a_run_that_fails_is_a_row_with_its_error(
    trouble: str, message: str, log: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(trouble, "mulx")
    axes = {"place": ["add=0", "mulx=0", "sort=0"]}
    frame = sweep(axes, place=None, out=tmp_path / "out")
    assert list(frame.error.isna()) == [True, False, True]
    assert message in frame.error[1]
    assert frame.error_status[1] == 1
    assert pd.isna(frame.cycles[1])
    monkeypatch.delenv(trouble)
    ran(log)
    again = sweep(axes, place=None, out=tmp_path / "out")
    assert again.error.isna().all()
    assert ran(log) == 1, "only what failed is run again"


def test_a_run_whose_worker_is_killed_is_begun_again(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_KILL_ONCE", str(tmp_path / "killed"))
    frame = sweep()
    assert (tmp_path / "killed").exists()
    assert frame.error.isna().all()
    assert ran(log) == 6, "none is run twice"


def test_a_sweep_that_is_complete_opens_no_result(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    first = sweep(out=out)
    ran(log)

    def refuse(*words: Any) -> None:
        raise AssertionError("a result was opened")

    with monkeypatch.context() as patch:
        patch.setattr(store, "read", refuse)
        again = sweep(out=out)
    pd.testing.assert_frame_equal(first, again)
    assert ran(log) == 0
    assert list(pd.read_csv(out / table.CSV).cycles) == list(first.cycles)
    (out / table.POINTS).write_bytes(b"no Parquet")
    pd.testing.assert_frame_equal(first, sweep(out=out))
    assert ran(log) == 0, "the store has them all"


def test_the_file_has_units_and_any_values(tmp_path: Path) -> None:
    frame = sweep({"place": [{"add": 0}, {"add": 1}], "core.contexts": [2]}, place=None, out=tmp_path / "out")
    written = pq.read_table(tmp_path / "out" / table.POINTS)
    assert written.schema.field("ipc").metadata[b"unit"] == b"instructions/cycle"
    assert written.column("core.contexts").to_pylist() == [2, 2]
    assert written.column("place").to_pylist() == ["{'add': 0}", "{'add': 1}"]
    assert written.column("cycles").to_pylist() == list(frame.cycles)


def test_two_sweeps_do_not_fill_one_directory(tmp_path: Path) -> None:
    with (
        store.claimed(tmp_path / "out"),
        pytest.raises(loiter.UserFault, match="another command is filling this directory"),
    ):
        sweep(out=tmp_path / "out")
    (tmp_path / "file").touch()
    with pytest.raises(loiter.UserFault, match="a file of that name exists"):
        sweep(out=tmp_path / "file")


def command(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*fake_command.words(tmp_path), "sweep", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


FILE = """
machine = "t1"
program = "spinloops"
place = { add = 0 }
[grid]
"core.contexts" = [1, 2]
"argument.iterations" = "5..7"
"""


def test_a_file_says_what_to_sweep(tmp_path: Path, log: Path) -> None:
    (tmp_path / "mine.toml").write_text(FILE)
    done = command(tmp_path, "mine.toml")
    assert done.returncode == 0, done.stderr
    assert "wrote results/mine/points.parquet" in done.stdout
    assert "runs: 6/6 runs" in done.stderr
    assert len(pd.read_parquet(tmp_path / "results" / "mine" / "points.parquet")) == 6
    done = command(tmp_path, "mine.toml", "--grid", "core.contexts=1", "--json")
    rows = json.loads(done.stdout)
    assert [(row["core.contexts"], row["argument.iterations"]) for row in rows] == [(1, 5), (1, 6), (1, 7)]
    assert ran(log) == 6


def test_words_say_what_to_sweep(tmp_path: Path, log: Path) -> None:
    words = ["-m", "t1", "-p", "spinloops", "--place", "add=0", "--set", "system.cores=1"]
    done = command(tmp_path, *words, "--grid", "core.contexts=1..4*2", "--argument", "iterations=5", "--out", "o")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines() if line.split()[:1] in (["1"], ["2"], ["4"])]
    assert ran(log) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("machine = ", "mine.toml"),
        ('machin = "t1"\n', 'did you mean "machine"'),
        ("machine = 3\n", "machine = 3: not what is expected there"),
        ('machine = "t1"\nprogram = "spinloops"\n', "the grid is empty"),
        ('machine = "t1"\nprogram = "spinloops"\n[grid]\n"core.contxts" = 1\n', 'did you mean "core.contexts"'),
    ],
)
def test_a_file_with_a_mistake_is_named(tmp_path: Path, log: Path, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    done = command(tmp_path, "mine.toml")
    assert (done.returncode, ran(log)) == (2, 0)
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_sweep_of_which_all_fails_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_EXIT", "add")
    done = command(tmp_path, "-m", "t1", "-p", "spinloops", "--grid", "place=add=0")
    assert done.returncode == 1
    assert "all 1 points failed; the first: " in done.stderr


def test_a_sweep_of_which_all_is_the_users_mistake_is_the_users_mistake(tmp_path: Path) -> None:
    done = command(tmp_path, "-m", "t1", "-p", "spinloops", "--grid", "place=add=98,add=99")
    assert done.returncode == 2
    assert "all 2 points failed; the first: " in done.stderr


def parameters(call: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(call).parameters)


def test_words_of_a_sweep_are_those_of_a_run_and_of_exec() -> None:
    assert parameters(api.exec) == parameters(api.exec_request)
    assert parameters(api.run).items() >= parameters(api.request).items()
    of_both = parameters(api.request) | parameters(api.exec_request)
    own = {"machine", "program", "command", "arguments"}
    assert set(Words.__annotations__) | own == set(of_both)
    for name, kind in Words.__annotations__.items():
        assert kind.__forward_arg__ == of_both[name].annotation, name
    assert set(file.KEYS) - {"grid"} == set(of_both)


def test_exec_hands_all_its_words_on(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {name: object() for name in parameters(api.exec)}
    given: dict[str, object] = {}

    class Seen(Exception):
        pass

    def see(machine: object, command: object, **named: object) -> None:
        given.update(named, machine=machine, command=command)
        raise Seen

    monkeypatch.setattr(api, "exec_request", see)
    with pytest.raises(Seen):
        api.exec(**words)  # type: ignore[arg-type]
    assert given == words


def test_a_sweep_says_the_command_that_asks_for_the_same() -> None:
    words = {"machine": "smt8", "command": ["./prog", "a b"], "arguments": {}, "network": True, "harts": 2}
    plan = sweeps.plan(grid.of({"seed": [1, 2]}), words | {"put": ["x", "y"], "environment": {"A": "1"}, "stdin": "in"})
    assert plan.command() == (
        "loiter sweep -m smt8 --command './prog '\"'\"'a b'\"'\"'' --harts 2 --put x --put y --env A=1 --network "
        "--grid seed=1,2  # stdin='in'"
    )


@pytest.mark.parametrize(
    ("axes", "words", "message"),
    [
        (GRID, {"command": "true"}, "a bare-metal program or a command on Linux, not both"),
        ({"command": ["true"]}, {}, "a bare-metal program or a command on Linux, not both"),
        (GRID, {"harts": 2}, "harts: a word for a command on Linux; this sweep has no `command`"),
        (GRID, {"placee": "add=0"}, 'unknown word "placee"; did you mean "place"'),
        ({"harts": [1, 2]}, {}, "harts: a word for a command on Linux"),
        (GRID, {"command": "true", "program": None}, "place: a word for a bare-metal program; this sweep has none"),
        ({"argument.n": [1]}, {"machine": None, "command": "true", "program": None, "place": None}, "has a machine"),
    ],
)
def test_words_that_contradict_each_other_are_refused(
    axes: Any, words: dict[str, Any], message: str, log: Path
) -> None:
    with pytest.raises(loiter.UserFault, match=message):
        sweep(axes, **words)
    assert ran(log) == 0
