"""Ways to wait, in compiled guests: the C header of the hardware lock, what is counted, what a timeline shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from loiter import store

pytestmark = pytest.mark.simulator

HARTS = 8
REPS = 20
# Eight contexts, or as many harts on as many cores.
MACHINES = {"t1": 2, "t2": 1, "smt8": 1, "p-core": 4, "superscalar": 8, "virt": 8}


def loiter_(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from loiter.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=120)


def count(tmp_path: Path, machine: str, *options: str) -> subprocess.CompletedProcess[str]:
    place = "count=" + ",".join(str(hart) for hart in range(HARTS))
    arguments = ["run", "-m", machine, "hwlock", "--place", place, "--set", f"system.cores={MACHINES[machine]}"]
    sets = [] if "no lock" in options else ["--set", "hart.isa=+xloiterlock"]
    words = [option for option in options if "=" in option]
    return loiter_(*arguments, *sets, "--out", "result", "--", f"reps={REPS}", *words, cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("way", [0, 1, 2, 3])
def test_harts_that_take_turns_by_the_header_lose_no_count(machine: str, way: int, tmp_path: Path) -> None:
    done = count(tmp_path, machine, f"way={way}", "limit=20")
    assert done.returncode == 0, done.stderr
    result = store.read(tmp_path / "result")
    reports = result.table("reports").to_pandas()
    counts = reports[reports["name"] == "count"]["value"]
    assert list(counts) == [HARTS * REPS] * HARTS
    if machine == "virt":
        return  # it neither counts nor waits
    counters = result.table("counters").to_pandas()
    waits = counters[counters["component"].str.endswith(".wait")].groupby("name")["value"].sum()
    assert waits["flag_naps"] > 0
    assert waits["wrs_naps" if way == 2 else "lock_naps"] > HARTS, "all but one wait at once"
    given_up = reports[reports["name"] == "given_up"]["value"].sum()
    assert (given_up > 0) == (way == 1)
    assert (waits["woken_by_limit"] > 0) or not given_up, "a store may come first, and the look behind it be late"
    accounts = pd.read_parquet(tmp_path / "result" / "accounts.parquet")
    assert accounts[accounts["activity"] == "blocked"]["cycles"].sum() > 0


def test_a_machine_without_the_extension_says_so(tmp_path: Path) -> None:
    done = count(tmp_path, "t1", "no lock", "way=0")
    assert done.returncode == 1
    assert "illegal instruction" in done.stderr
    assert "lock.acquire" in done.stderr
