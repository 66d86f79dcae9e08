"""Samples: intervals by the jackknife, metrics of samples together, and what they say of whole runs."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import loiter
from loiter import energy, sampling

pytestmark = pytest.mark.simulator

PROGRAMS = [
    ("t1", "spinloops", "sort", 20_000),
    ("smt8", "spinloops", "hash", 20_000),
    ("p-core", "coremix", "intmix", None),
]


@pytest.fixture(autouse=True)
def _own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    # Shared by the tests of this file: whole runs take seconds.
    base = tmp_path_factory.getbasetemp() / "samples"
    monkeypatch.setenv("LOITER_CACHE", str(base))


def sampled(period: str = "45k", warming: str = "3k", size: str = "4k", end: str = "") -> str:
    inner = (
        f"reference warm for {period} instructions, timing warm for {warming} instructions, "
        f"timing for {size} instructions"
    )
    return f"reference until probe:roi_begin, repeat ({inner}){end}"


def run(machine: str, program: str, task: str, iterations: int | None, phases: str) -> loiter.Result:
    arguments = {} if iterations is None else {"iterations": iterations}
    return loiter.run(machine, program, place={task: 0}, arguments=arguments, phases=phases)


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "program", "task", "iterations"), PROGRAMS)
def test_the_interval_holds_the_metrics_of_the_whole_run(
    machine: str, program: str, task: str, iterations: int | None
) -> None:
    whole = run(machine, program, task, iterations, "reference until probe:roi_begin, timing").metrics
    result = run(machine, program, task, iterations, sampled())
    metrics = result.metrics
    assert len(result.samples) > 100
    compared = 0
    for name in ("ipc", "useful_per_thread_ipc", "l1d_miss_percent", "loads_percent", "branches_percent"):
        if name in metrics.index:
            ours, half_width = metrics.loc[name, "all"], metrics.loc[name, "half_width"]
            assert abs(ours - whole.loc[name, "all"]) <= half_width, (name, ours, half_width, whole.loc[name, "all"])
            compared += 1
    assert compared >= 3
    assert 0 < metrics.loc["ipc", "half_width"] < 0.1 * metrics.loc["ipc", "all"]
    assert whole.half_width.isna().all()


def test_intervals_are_as_sure_as_they_say() -> None:
    machine, program, task, iterations = PROGRAMS[0]
    whole = run(machine, program, task, iterations, "reference until probe:roi_begin, timing").metrics
    held = 0
    periods = [40_000 + 977 * step for step in range(20)]
    for period in periods:
        row = run(machine, program, task, iterations, sampled(str(period), size="3k")).metrics.loc["ipc"]
        held += abs(row["all"] - whole.loc["ipc", "all"]) <= row["half_width"]
    # Of twenty, with 95 %, fewer than 17 hold in less than two of a hundred cases.
    assert held >= 17, f"{held} of {len(periods)}"


def test_samples_are_a_frame_and_all_metrics_are_theirs() -> None:
    result = run("t1", "spinloops", "sort", 400, sampled("5k", "500", "1k", " for 40 times"))
    samples = result.samples
    assert list(samples.columns) == ["sample", "begin_cycle", "begin_instruction", "cycles", "instructions", "ipc"]
    assert list(samples["sample"]) == list(range(40))
    assert ((samples.instructions >= 1000) & (samples.instructions < 1010)).all()
    assert samples.begin_instruction.diff().dropna().between(6500, 6600).all()
    assert samples.attrs["units"]["ipc"] == "instructions/cycle"
    rate, half_width = sampling.ipc(result.rows("samples"))
    assert rate == pytest.approx(samples.instructions.sum() / samples.cycles.sum())
    per_thread = result.metrics.loc["useful_per_thread_ipc"]
    assert per_thread["all"] == pytest.approx(rate)
    assert per_thread["half_width"] == pytest.approx(half_width)
    taken = energy.of(result)
    assert taken is not None
    assert taken.seconds == pytest.approx(samples.cycles.sum() / (result.manifest["clock_mhz"] * 1e6))
    without = run("t1", "spinloops", "sort", 400, "reference until probe:roi_begin, timing")
    assert without.samples.empty
    few = run("t1", "spinloops", "sort", 400, sampled("5k", "500", "1k", " for 29 times"))
    assert few.metrics.half_width.isna().all()


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    source = random.Random(1)
    cycles = [source.randint(900, 1100) for _ in range(60)]
    samples = [{"cycles": 1000, "instructions": value, "counts": [value]} for value in cycles]
    mean = sum(cycles) / len(cycles)
    error = math.sqrt(sum((value - mean) ** 2 for value in cycles) / (len(cycles) - 1) / len(cycles))
    rate, half_width = sampling.ipc(samples)
    assert rate == pytest.approx(mean / 1000)
    assert half_width == pytest.approx(1.959964 * error / 1000)
    tables = {"counters": [{"value": 0}], "activities": [], "histograms": []}
    found = sampling.Samples(samples, tables).half_widths(
        lambda tables: {"mean": tables["counters"][0]["value"] / sum(1 for _ in cycles[1:])}
    )
    assert found["mean"] == pytest.approx(1.959964 * error)


def test_sweeps_and_comparisons_have_the_intervals(tmp_path: Path) -> None:
    words: dict[str, Any] = {"place": {"sort": 0}, "arguments": {"iterations": 400}, "quiet": True}
    frame = loiter.sweep({"l2.hit_latency_cycles": [18, 36]}, "t1", "spinloops", phases=sampled("5k"), **words)
    assert (frame["ipc.half_width"] > 0).all()
    assert frame.attrs["units"]["ipc.half_width"] == frame.attrs["units"]["ipc"]
    found = loiter.compare(*frame.result)
    assert found.metrics is not None
    names = found.names
    assert list(found.metrics.columns) == [*names, *(f"± {name}" for name in names), "change", "± change", "unit"]
    pd.testing.assert_series_equal(
        found.metrics.loc["ipc", [f"± {name}" for name in names]].astype(float).reset_index(drop=True),
        frame["ipc.half_width"],
        check_names=False,
    )


def test_commands_say_how_sure_they_are(tmp_path: Path) -> None:
    def command(*words: str) -> str:
        line = [sys.executable, "-c", "from loiter.cli import main; main()", *words]
        done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    words = ["run", "-m", "t1", "spinloops", "--place", "sort=0", "iterations=400", "--phases"]
    said = command(*words, sampled("5k", "500", "1k"), "--out", "many")
    line = next(line for line in said.splitlines() if line.startswith("samples"))
    assert "± 0." in line
    assert "(95%)" in line
    said = command(*words, sampled("5k", "500", "1k", " for 3 times"))
    assert "3 of 1,00" in said
    assert "no interval of fewer than 30" in said
    ipc = next(
        line for line in command("metrics", "many").splitlines() if line.split()[:1] == ["useful_per_thread_ipc"]
    )
    assert "±" in ipc
    metrics = {row["name"]: row for row in json.loads(command("metrics", "many", "--json"))}
    assert 0 < metrics["ipc"]["half_widths"]["all"] < metrics["ipc"]["all"]
