"""Sweeps over a command on Linux, on the real simulator."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest

import loiter
from linux_guest import loiter_, message
from loiter.sweeps import table

pytestmark = pytest.mark.simulator

COUNT = """
int main(int count, char **words) {
    volatile long n = 0;
    while (n < 1000L * (words[1][0] - '0')) n++;
    return count - 2;
}
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "count.c").write_text(COUNT)
    compiler = os.environ.get("CROSS", "riscv64-linux-gnu-") + "gcc"
    subprocess.run([compiler, "-O1", "-static", "-o", "count", "count.c"], check=True)
    return tmp_path


def test_a_command_runs_at_every_point_and_exec_finds_its_runs(program: Path) -> None:
    axes = {"core.fetch_width": [2, 8], "argument.thousands": [1, 4, "5 more"]}
    frame = loiter.sweep(axes, "smt8", command="./count {thousands}", out="out", quiet=True, workers=2)
    assert frame.error.isna().all()
    assert list(frame.exit_status) == [0] * 6, "what stands for an argument is one word, whatever is in it"
    for _, rows in frame.groupby("core.fetch_width"):
        first, more = rows.cycles[:2]
        assert more > first + 3000
    narrow, wide = (rows.ipc.iloc[1] for _, rows in frame.groupby("core.fetch_width"))
    assert narrow < wide
    written = pd.read_csv(Path("out") / table.CSV)
    assert list(written.cycles) == list(frame.cycles)
    rate = frame.instructions / frame.cycles
    assert rate.tolist() == pytest.approx(frame.ipc.tolist()), "both are of what was timed"
    alone = loiter.exec(loiter.machine("smt8", "core.fetch_width=2"), ["./count", "4"])
    assert str(alone.path) == frame.result[1]

    began = time.monotonic()
    again = loiter.sweep(axes, "smt8", command="./count {thousands}", quiet=True)
    pd.testing.assert_frame_equal(frame, again)
    assert time.monotonic() - began < 3


def test_a_file_and_the_command_line_say_which_command(program: Path) -> None:
    Path("mine.toml").write_text(
        'machine = "virt"\ncommand = ["sh", "-c", "exit {status}"]\n[grid]\n"argument.status" = "3..4"\n'
    )
    done = loiter_("sweep", "mine.toml", cwd=program)
    assert done.returncode == 0, done.stderr
    assert list(pd.read_parquet("results/mine/points.parquet").exit_status) == [3, 4]
    assert "loiter sweep -m virt --command" in Path("results/mine/report.html").read_text()
    words = ("sweep", "-m", "virt", "--command", "sh -c 'exit {status}'", "--grid", "argument.status=4", "--out", "o")
    done = loiter_(*words, cwd=program)
    assert done.returncode == 0, done.stderr
    assert b"runs:" not in done.stderr, "it is there already"
    done = loiter_(*words, "--env", "NAME", cwd=program)
    assert done.returncode == 2
    assert "a variable is written NAME=VALUE" in message(done)
    done = loiter_("sweep", "-m", "virt", "--command", "true", "--grid", "argument.status=4", cwd=program)
    assert done.returncode == 2
    assert "the command true has no {status}" in message(done)


def test_a_command_that_does_not_end_is_a_row_with_its_error(program: Path) -> None:
    frame = loiter.sweep({"argument.seconds": [0, 1000000]}, "virt", command="sleep {seconds}", timeout_s=5, quiet=True)
    assert frame.error.isna().tolist() == [True, False]
    assert "not ended after 5 s" in frame.error[1]
    missing = loiter.sweep({"harts": [1]}, "virt", command="./missing", quiet=True)
    assert "./missing" in missing.error[0]
