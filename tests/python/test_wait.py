"""`loiter wait`: the grid, what it measures on real cores, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from loiter import engine as engines
from loiter import machines, reference
from loiter.cli import app
from loiter.errors import UserFault
from loiter.studies.wait import methods
from loiter.studies.wait.measured import Latency, together
from loiter.studies.wait.methods import choose


def rows(tmp_path: Path, *words: str) -> dict[tuple[str, int], dict[str, float]]:
    """The cells with waiters of a run of the command, by method and number."""
    found = CliRunner().invoke(app, ["wait", *words, "--scale", "quick", "--out", str(tmp_path), "--json"])
    assert found.exit_code == 0, found.output
    table = json.loads(found.stdout[found.stdout.index("[\n") :])
    cells = {(row["method"], row["waiters"]): row for row in table if row["waiters"]}
    assert cells
    return cells


@pytest.mark.parametrize(
    ("machine", "most"), [("t1", 3), ("t2", 7), ("smt2", 1), ("smt4", 3), ("smt8", 7), ("smt24", 23), ("p-core", 1)]
)
def test_every_number_of_waiters_that_a_core_has_room_for(machine: str, most: int) -> None:
    choice = choose(machines.load(engines.load(), machine), "full")
    assert choice.waiters == tuple(range(1, most + 1))
    assert choice.methods == tuple(methods.METHODS)
    assert list(choice.benchmarks) == [
        *reference.lookup("cakarevic2008", "active.single_behaviour"),
        *reference.lookup("cakarevic2008", "active.multiple_behaviour"),
    ]
    cells = choice.cells()
    assert len(cells) == len(set(cells)) == 9 * (1 + len(methods.METHODS) * most)
    assert choose(choice.machine, "default").waiters[-1] == most


def test_an_asleep_waiter_costs_nothing_and_a_spinner_does(tmp_path: Path) -> None:
    words = ("-m", "t1", "--methods", "default,wrs_nto,wfi", "--beside", "add")
    cells = rows(tmp_path, *words)
    # `add` issues whenever it is selected: each of n spinners takes what its CPI, 4, leaves of the others' slots.
    assert cells["default", 3]["slowdown_percent"] > cells["default", 1]["slowdown_percent"] > 10
    for method in ("wrs_nto", "wfi"):
        for waiters in (1, 3):
            assert abs(cells[method, waiters]["slowdown_percent"]) < 1
    # A message to another hart is a device's access; a line's loss is not.
    assert cells["wfi", 1]["latency_median_cycles"] > cells["wrs_nto", 1]["latency_median_cycles"] > 0
    # A context that sleeps has its clock gated; one that spins keeps it going, of 7 pJ at 0.9 V in half the process,
    # and takes more of the program's time.
    clock_mw = 7e-12 * 2 * (1.2 / 0.9) ** 2 * 1.2e9 * 1e3
    for waiters in (1, 3):
        spins, sleeps = cells["default", waiters], cells["wrs_nto", waiters]
        assert spins["power_per_waiter_mw"] > clock_mw > sleeps["power_per_waiter_mw"]
        assert spins["energy_per_repetition_uj"] > 1.1 * sleeps["energy_per_repetition_uj"]
    for cell in cells.values():
        for name, unit in (("energy_per_repetition", "uj"), ("power_per_waiter", "mw")):
            assert cell[f"{name}_low_{unit}"] <= cell[f"{name}_{unit}"] <= cell[f"{name}_high_{unit}"]
        order = [cell[f"latency_{name}_cycles"] for name in ("median", "worst")]
        assert order == sorted(order)
        assert (cell["latency_p99_cycles"] is None) == (cell["latency_samples"] < 100)
    assert (tmp_path / "report.html").read_text().count('<div class="chart') == 3
    assert not (tmp_path / "points.json").exists()


def test_a_pause_as_long_as_the_machine_says(tmp_path: Path) -> None:
    """The longer a pause, the less it costs and the later its waiter wakes."""
    words = ("-m", "t1", "--methods", "pause", "--beside", "add", "--waiters", "3")
    short = rows(tmp_path / "1", *words)["pause", 3]
    long = rows(tmp_path / "2", *words, "--set", f"{PAUSE}=400")["pause", 3]
    assert long["slowdown_percent"] < 5 < short["slowdown_percent"]
    assert long["latency_worst_cycles"] > 200 > short["latency_median_cycles"]


PAUSE = "wait.pause_cycles"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-m", "superscalar"), "one context a core"),
        (("-m", "virt"), "no timed cores"),
        (("-m", "t1", "--methods", "pauze"), "pause"),
        (("-m", "t1", "--beside", "sorted"), "sort"),
        (("-m", "t1", "--waiters", "4"), "room for 1 to 3"),
        (("-m", "t1", "--waiters", "two"), "two is none"),
        (("-m", "t1", "--scale", "huge"), "scale"),
    ],
)
def test_refuses_with_what_to_do(words: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["wait", *words, "--out", str(tmp_path / "out")])
    assert isinstance(found.exception, UserFault)
    assert expected in str(found.exception)


def test_quantiles_are_samples() -> None:
    latency = Latency(tuple(range(1, 101)))
    assert (latency.median, latency.p99, latency.worst) == (50, 99, 100)
    assert Latency(tuple(range(99))).p99 is None
    assert together([Latency((3,)), Latency((1, 2))]).median == 2
