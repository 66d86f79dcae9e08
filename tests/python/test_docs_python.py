"""The examples of the pages on Python and on sweeps, as they stand there, on the real simulator."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

from loiter import cli
from loiter.studies.runner import Outcome

DOCS = Path(__file__).resolve().parents[2] / "docs"

pytestmark = pytest.mark.simulator


@pytest.fixture(autouse=True)
def _own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_on_python_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    found = [*blocks("python.md", "python"), *blocks("python.md", "python study")]
    assert len(found) >= 5
    names: dict[str, object] = {}
    for block in found:
        exec(compile(block, "python.md", "exec"), names)
    frame = names["frame"]
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["l2.size_kib"]) == [768, 1536, 3072, 6144, 12288]
    assert frame.error.isna().all()
    assert frame.ipc.iloc[-1] > frame.ipc.iloc[0], "a task that walks the second level gains from a larger one"
    assert "instructions/cycle" in capsys.readouterr().out
    outcome = names["outcome"]
    assert isinstance(outcome, Outcome)
    assert outcome.points.verdict.isin(["within", "MISS", "not measured"]).all()
    assert len(outcome.runs) == 9


def test_the_page_on_python_runs_a_program_on_linux(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # In the cache of other tests: a Debian is not made for it.
    monkeypatch.delenv("LOITER_CACHE")
    (block,) = blocks("python.md", "python linux")
    exec(compile(f"import loiter\n{block}", "python.md", "exec"), {})
    assert capsys.readouterr().out.startswith("3 typed")


@pytest.mark.slow
def test_the_page_on_sweeps_says_what_works(tmp_path: Path) -> None:
    page = (DOCS / "sweeps.md").read_text()
    commands = re.findall(r"^    loiter (sweep .*)$", page, re.MULTILINE)
    assert len(commands) == 2
    with pytest.raises(SystemExit) as ended:
        cli.main(shlex.split(commands[0]))
    assert ended.value.code == 0
    table = pd.read_parquet(tmp_path / "results" / "latency" / "points.parquet")
    assert list(table["l2.hit_latency_cycles"]) == [18, 24, 30, 36]
    assert table.error.isna().all()
    with pytest.raises(SystemExit) as ended:
        cli.main(shlex.split(commands[1]))
    assert ended.value.code == 0
    table = pd.read_parquet(tmp_path / "results" / "sort" / "points.parquet")
    assert list(table["argument.threads"]) == [1, 2, 4]
    assert list(table.exit_status) == [0, 0, 0]
    (tmp_path / "latency.toml").write_text(blocks("sweeps.md", "toml")[0])
    with pytest.raises(SystemExit) as ended:
        cli.main(["sweep", "latency.toml"])
    assert ended.value.code == 0
    table = pd.read_parquet(tmp_path / "results" / "latency" / "points.parquet")
    assert len(table) == 8
    assert table.error.isna().all()


def test_the_page_on_a_machine_of_ones_own_has_the_figures_of_today(capsys: pytest.CaptureFixture[str]) -> None:
    page = (DOCS / "howto" / "add-a-machine.md").read_text()
    text = re.search(r"^`wide.toml`.*?\n\n(.*?)\n\n`base`", page, re.DOTALL | re.MULTILINE)
    assert text is not None
    Path("wide.toml").write_text("\n".join(line[4:] for line in text[1].splitlines()))
    commands = re.findall(r"^    \.venv/bin/loiter (machine show \S+|run .*?)(?: --out \S+)?$", page, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["machine", "run"]
    beside = commands[1].replace("spin_default=1,2,3,4,5,6,7", "spin_default=1.0")
    said = []
    for command in (*commands, beside):
        with contextlib.suppress(SystemExit):
            cli.main(shlex.split(command))
        said.append(capsys.readouterr().out)
    (hash_,) = re.findall(r"^    hash (\w{64})$", page, re.MULTILINE)
    assert hash_ in said[0]
    shares = re.findall(r"^           (\d  \w+: .*), \.\.\.$", page, re.MULTILINE)
    assert len(shares) == 2
    assert all(share in said[1] for share in shares)
    found = [re.findall(r"repetitions, (\d+) cycles", each) for each in (said[2], said[1])]
    alone, crowded = (f"{int(count):,}" for (count,) in found)
    assert re.search(rf"{alone} cycles for its five repetitions\s+instead of {crowded}", page)
