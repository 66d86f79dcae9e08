"""The examples of the pages on Python and on sweeps, as they stand there, on the real simulator."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from loiter import cli

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = pytest.mark.simulator


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_on_python_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    found = blocks("python.md", "python")
    assert len(found) >= 4
    names: dict[str, object] = {}
    for block in found:
        exec(compile(block, "python.md", "exec"), names)
    frame = names["frame"]
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["l2.size_kib"]) == [768, 1536, 3072, 6144, 12288]
    assert frame.error.isna().all()
    assert frame.ipc.iloc[-1] > frame.ipc.iloc[0], "a task that walks the second level gains from a larger one"
    assert "instructions/cycle" in capsys.readouterr().out


def test_the_page_on_sweeps_says_what_works(tmp_path: Path) -> None:
    page = (DOCS / "sweeps.md").read_text()
    commands = re.findall(r"^    loiter (sweep .*)$", page, re.MULTILINE)
    assert len(commands) == 1
    with pytest.raises(SystemExit) as ended:
        cli.main(shlex.split(commands[0]))
    assert ended.value.code == 0
    table = pd.read_parquet(tmp_path / "results" / "latency" / "points.parquet")
    assert list(table["l2.hit_latency_cycles"]) == [18, 24, 30, 36]
    assert table.error.isna().all()
    (tmp_path / "latency.toml").write_text(blocks("sweeps.md", "toml")[0])
    with pytest.raises(SystemExit) as ended:
        cli.main(["sweep", "latency.toml"])
    assert ended.value.code == 0
    table = pd.read_parquet(tmp_path / "results" / "latency" / "points.parquet")
    assert len(table) == 8
    assert table.error.isna().all()
