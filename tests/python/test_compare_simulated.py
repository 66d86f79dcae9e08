"""What differs between results of the simulator, and between snapshots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import loiter
from loiter import cli, images
from loiter.cli.options import err
from loiter.images import Image

pytestmark = pytest.mark.simulator


@pytest.fixture(scope="module")
def image() -> Image:
    return images.ensure("kernel", err())


def run(**place: object) -> loiter.Result:
    return loiter.run("t1", "spinloops", place=place, arguments={"iterations": 5})  # type: ignore[arg-type]


def test_snapshots_differ_in_what_they_hold(image: Image, tmp_path: Path) -> None:
    def saved(name: str, harts: int, instructions: int) -> Path:
        path = tmp_path / name
        words = ["snapshot", "save", str(path), "--image", image.name, "--memory", "256M", "--harts", str(harts)]
        words += ["--at-instructions", str(instructions)]
        done = CliRunner().invoke(cli.app, words)
        assert done.exit_code == 0, (done.output, done.exception)
        return path

    early, late, wide = saved("early", 1, 100_000), saved("late", 1, 200_000), saved("wide", 2, 100_000)
    same = loiter.compare(str(early), str(early))
    assert same.state is not None
    assert same.state.empty
    assert same.parameters.empty
    found = loiter.compare(early, late)
    assert found.metrics is None
    assert found.accounts is None
    assert found.parameters.empty
    assert found.state is not None
    assert found.state.loc["instructions"].tolist() == [100_000, 200_000]
    assert {"cycle", "state"} <= set(found.state.index)
    assert {"harts", "isa", "command line"}.isdisjoint(found.state.index)
    found = loiter.compare(early, wide)
    assert found.parameters.loc["system.cores"].tolist() == [1, 2]
    assert found.state is not None
    assert found.state.loc["harts"].tolist() == [1, 2]
    shown = CliRunner().invoke(cli.app, ["compare", str(early), str(late), "--json"])
    assert {"state": "instructions", "early": 100_000, "late": 200_000} in json.loads(shown.stdout)["state"]
    # Beside a machine there is no state of both.
    assert loiter.compare(early, "t1").state is None


def test_a_file_that_is_no_snapshot_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("something")
    with pytest.raises(loiter.UserFault, match="notes: not a snapshot"):
        loiter.compare(tmp_path / "notes", "t1")


@pytest.mark.parametrize(("kind", "begin"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")])
def test_a_plot_shows_where_the_cycles_went(tmp_path: Path, kind: str, begin: bytes) -> None:
    alone, beside = run(add=0), run(add=0, spin_default=[1, 2])
    path = tmp_path / "plots" / f"cycles.{kind}"
    words = ["compare", str(alone.path), str(beside.path), "--plot", str(path)]
    for _ in range(2):
        assert CliRunner().invoke(cli.app, words).exit_code == 0
        assert path.read_bytes().startswith(begin)
    shares = loiter.compare(alone, beside).shares()
    assert len(shares) > 3
    for name in loiter.compare(alone, beside).names:
        assert sum(by_name[name] for _, by_name in shares) <= 100 + 1e-6
