"""`loiter vm`: hosts in snapshots."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from linux_guest import loiter_, message
from vm_files import CLOCK_MHZ, CPUS, on_a_machine, write

pytestmark = pytest.mark.simulator


def test_a_host_goes_on_from_a_snapshot_as_if_nothing_had_been(tmp_path: Path) -> None:
    file = write(tmp_path, policy="directed", yield_after=13, acquisitions=300)
    whole = loiter_("vm", str(file), "--json", cwd=tmp_path)
    cycles = json.loads(whole.stdout)["cycles"]
    at_us = cycles // CLOCK_MHZ // 2
    saved = loiter_("vm", str(file), "--save", "half.snap", "--at", str(at_us), "--json", cwd=tmp_path)
    assert saved.returncode == 0, message(saved)
    half = json.loads(saved.stdout)["cycles"]
    assert at_us * CLOCK_MHZ <= half < cycles
    rest = loiter_("vm", str(file), "--from", "half.snap", "--json", cwd=tmp_path)
    found, expected = (json.loads(done.stdout) | {"host_seconds": 0} for done in (rest, whole))
    assert found == expected
    file.write_text(file.read_text().replace('policy = "directed"', 'policy = "published"'))
    other = loiter_("vm", str(file), "--from", "half.snap", cwd=tmp_path)
    assert other.returncode == 2
    assert "helping.policy" in message(other)


@pytest.mark.parametrize("machine", ["t1", "knl"])
def test_a_host_goes_on_with_timing_cores(tmp_path: Path, machine: str) -> None:
    clock_mhz = 1000 if machine == "t1" else 1300
    file = on_a_machine(
        write(tmp_path, policy="published", yield_after=11, acquisitions=60, run_us=20_000), machine, clock_mhz
    )
    with_cores = file.read_text()
    file.write_text(with_cores.replace(f'machine = "{machine}"\n', ""))
    saved = loiter_("vm", str(file), "--save", "half.snap", "--at", "100", "--json", cwd=tmp_path)
    assert saved.returncode == 0, message(saved)
    half = json.loads(saved.stdout)
    assert half["guests"][0]["state"] == "running"
    file.write_text(with_cores)
    found, again = (loiter_("vm", str(file), "--from", "half.snap", "--json", cwd=tmp_path) for _ in range(2))
    assert found.returncode == 0, message(found)
    result, same = (json.loads(done.stdout) | {"host_seconds": 0} for done in (found, again))
    assert result == same
    # The program has checked its counter; none of its sections is lost on the way.
    assert result["guests"][0]["code"] == 0
    assert sum(row["value"] for row in result["guests"][0]["reports"] if row["name"] == "acquisitions") == 60
    by_context: dict[int, int] = {}
    for row in result["timed"]["accounts"]:
        by_context[row["context"]] = by_context.get(row["context"], 0) + row["cycles"]
    assert len(by_context) >= CPUS
    assert set(by_context.values()) == {result["cycles"] - half["cycles"]}


def test_a_host_that_cannot_be_saved_says_so(tmp_path: Path) -> None:
    file = write(tmp_path, acquisitions=20, run_us=1000)
    alone = loiter_("vm", str(file), "--save", "half.snap", cwd=tmp_path)
    assert alone.returncode == 2
    assert "--save FILE and --at US belong together" in message(alone)
    late = loiter_("vm", str(file), "--save", "half.snap", "--at", "2000", cwd=tmp_path)
    assert late.returncode == 2
    assert "the run was over before 2,000 us" in message(late)
    assert not (tmp_path / "half.snap").exists()


@pytest.mark.parametrize(("machine", "clock_mhz"), [("t1", 1000), ("knl", 1300), ("p-core", 4500)])
def test_a_host_on_timing_cores_goes_on_with_what_is_in_flight(tmp_path: Path, machine: str, clock_mhz: int) -> None:
    file = write(tmp_path, policy="published", yield_after=11, acquisitions=20, run_us=20_000)
    if machine == "p-core":
        file.write_text(file.read_text().replace(f"cpus = {CPUS}", f'cpus = {CPUS}\nmachine_set = "core.contexts=2"'))
    on_a_machine(file, machine, clock_mhz)
    whole = json.loads(loiter_("vm", str(file), "--json", cwd=tmp_path).stdout)
    assert whole["guests"][0]["code"] == 0
    for part in (0.3, 0.55):
        at_us = int(whole["cycles"] / clock_mhz * part)
        saved = loiter_("vm", str(file), "--save", "half.snap", "--at", str(at_us), "--json", cwd=tmp_path)
        assert saved.returncode == 0, message(saved)
        assert at_us * clock_mhz <= json.loads(saved.stdout)["cycles"] < whole["cycles"]
        rest = loiter_("vm", str(file), "--from", "half.snap", "--json", cwd=tmp_path)
        assert json.loads(rest.stdout) | {"host_seconds": 0} == whole | {"host_seconds": 0}, message(rest)


def test_other_cores_are_refused_what_is_in_flight(tmp_path: Path) -> None:
    file = on_a_machine(write(tmp_path, acquisitions=20, run_us=1000), "t1", 1000)
    saved = loiter_("vm", str(file), "--save", "half.snap", "--at", "10", cwd=tmp_path)
    assert saved.returncode == 0, message(saved)
    shown = loiter_("snapshot", "show", "half.snap", cwd=tmp_path)
    assert b"t1" in shown.stdout
    text = file.read_text()
    for line, ours in (
        ('machine = "t1"\nmachine_set = "l2.hit_latency_cycles=23"', "other parameters of it"),
        ('machine = "t2"\nmachine_set = "system.clock_mhz=1000"', "t2"),
        ("", "none"),
    ):
        file.write_text(text.replace('machine = "t1"', line))
        other = loiter_("vm", str(file), "--from", "half.snap", cwd=tmp_path)
        assert other.returncode == 2
        expected = f"it has work in flight in timing cores of t1, and host.machine is {ours}"
        assert expected in " ".join(message(other).split())
