"""Every lock on machines of each kind with 2 to 64 harts, each instruction checked against the reference engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands import run
from loiter import contention

pytestmark = pytest.mark.simulator

# Machine, harts, cycles after which a hart acquires no more.
QUICK = [("virt", 16, 20_000), ("t1", 2, 5_000), ("smt8", 8, 5_000), ("opteron48", 12, 5_000)]
LONG = [
    ("virt", 64, 100_000),
    ("t2", 64, 50_000),
    ("opteron48", 48, 50_000),
    ("server", 64, 50_000),
    ("knl", 64, 50_000),
]


@pytest.mark.parametrize(
    ("machine", "harts", "cycles"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.long) for each in LONG)]
)
def test_every_lock_runs_as_the_reference_does(
    machine: str, harts: int, cycles: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOITER_CACHE", str(tmp_path / "cache"))
    names = contention.names()
    assert len(names) > 20
    everywhere = ",".join(map(str, range(harts)))
    options = ("--set", f"system.cores={harts}") if machine == "virt" else ("--check",)
    for name in names:
        place = ("--place", f"{name}={everywhere}", "method=0", "hold=20", "think=100", f"cycles={cycles}")
        done = run("run", "-m", machine, "locks", *place, *options, "--json")
        assert done.status == 0, f"{name}: {done.err}"
        result = json.loads(done.out)
        acquisitions = [row["value"] for row in result["reports"] if row["name"] == "acquisitions"]
        assert len(acquisitions) == harts, name
        assert min(acquisitions) > 0, name
        assert machine == "virt" or result["checked_instructions"] == result["timing_instructions"] > 1000, name
