"""Energy of runs: coefficients, closed forms, ranges, and what `metrics` and `wait` show of it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import loiter
from linux_guest import LOITER, loiter_, message
from loiter import energy, store
from loiter.energy import Coefficients, Energy

SECOND = 1.0


def coefficients(**given: object) -> Coefficients:
    return Coefficients({f"energy.{key}": value for key, value in given.items()} | {"core.kind": "smt"})


def of_uses(uses: dict[tuple[str, str], float], **given: object) -> Energy:
    return Energy(SECOND, 1, uses, coefficients(**given), None)


def test_a_machine_that_says_nothing_has_no_energy() -> None:
    assert not coefficients()
    assert coefficients(alu_fj="1")


def test_energies_go_with_the_square_of_the_voltage_and_powers_with_the_voltage() -> None:
    uses = {("user", "alu_fj"): 1e15, ("user", "core_static_uw"): 1e6, ("user", "dram_fj"): 1e15}
    given = {"alu_fj": "4", "core_static_uw": "8", "dram_fj": "16", "reference_mv": 1000, "static_mv": 1000}
    assert of_uses(uses, **given, volt_mv=1000).total.value == pytest.approx(4 + 8 + 16)
    half = of_uses(uses, **given, volt_mv=500)
    assert half.total.value == pytest.approx(1 + 4 + 16)
    scaled = of_uses(uses, **given, volt_mv=1000, capacitance_percent="50")
    assert scaled.total.value == pytest.approx(2 + 8 + 16)


def test_a_result_has_its_range_and_what_moves_it_most() -> None:
    uses = {("user", "alu_fj"): 1e15, ("idle", "core_static_uw"): 1e6}
    found = of_uses(uses, alu_fj="10 in 5..20", core_static_uw="3 in 1..30").total
    assert (found.value, found.low, found.high) == pytest.approx((13, 6, 50))
    assert found.moved_by == "core_static_uw"
    # The coefficient by itself: twice as much of it, and the other one moves the result most.
    more = of_uses({**uses, ("user", "alu_fj"): 3e15}, alu_fj="10 in 5..20", core_static_uw="3 in 1..30").total
    assert more.moved_by == "alu_fj"
    alone = of_uses(uses, alu_fj="10", core_static_uw="3").total
    assert (alone.low, alone.high, alone.moved_by) == (alone.value, alone.value, "")


def test_capacitance_is_a_coefficient_too() -> None:
    uses = {("user", "alu_fj"): 1e15}
    found = of_uses(uses, alu_fj="10 in 9..11", capacitance_percent="100 in 50..300").total
    assert (found.low, found.high) == pytest.approx((4.5, 33))
    assert found.moved_by == "capacitance_percent"


def test_a_difference_of_powers_has_its_range_over_one_set_of_coefficients() -> None:
    given = {"alu_fj": "10 in 5..20", "core_static_uw": "3 in 1..30"}
    one = of_uses({("user", "alu_fj"): 2e15, ("user", "core_static_uw"): 1e6}, **given)
    other = of_uses({("user", "alu_fj"): 1e15, ("user", "core_static_uw"): 1e6}, **given)
    found = energy.difference(one, other)
    # What both have is not in it, however little is known of it.
    assert (found.value, found.low, found.high) == pytest.approx((10, 5, 20))
    back = energy.difference(other, one)
    assert (back.value, back.low, back.high) == pytest.approx((-10, -20, -5))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one program beside one that waits with pause."""
    out = tmp_path_factory.mktemp("energy") / "out"
    words = ["run", "-m", "t1", "spinloops", "--place", "add=0", "--place", "spin_default=1", "--out", str(out)]
    done = subprocess.run([*LOITER, *words], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.simulator
def test_activities_and_units_both_add_up_to_the_whole(directory: Path) -> None:
    found = energy.of(store.read(directory))
    assert found is not None
    total = found.total.value
    assert total > 0
    assert sum(each.value for each in found.by_activity().values()) == pytest.approx(total)
    assert sum(each.value for each in found.by_unit().values()) == pytest.approx(total)
    assert found.by_activity()["spinning"].value > 0


@pytest.mark.simulator
def test_static_energy_is_power_times_time(directory: Path) -> None:
    result = store.read(directory)
    found = energy.of(result)
    assert found is not None
    seconds = result.manifest["timing_cycles"] / (result.manifest["clock_mhz"] * 1e6)
    cores = result.manifest["machine"]["parameters"]["system.cores"]
    units = found.by_unit()
    assert units["core_static_uw"].value == pytest.approx(0.67 * cores * seconds)
    assert units["chip_static_uw"].value == pytest.approx(11.64 * seconds)


@pytest.mark.simulator
def test_acquisitions_have_the_energy_of_waiting_by_their_cycles() -> None:
    words = ["reps_min=4", "reps_max=4", "handovers=1"]
    place = {"add": [0], "spin_pause": [1]}
    found = energy.of(loiter.run("t1", "spinloops", place=place, arguments=words, fast_forward=True))
    assert found is not None
    waits = found.acquisitions
    assert waits is not None
    assert waits.count >= 4
    waiting = sum(value.value for name, value in found.by_activity().items() if name in energy.WAITING)
    assert waits.joules.value == pytest.approx(waiting)
    rows = {row["name"]: row for row in energy.rows(found)}
    assert rows["acquisition_nj"]["all"] * waits.count == pytest.approx(waiting * 1e9)
    share = waits.longest_cycles / waits.wait_cycles
    assert rows["longest_acquisition_nj"]["all"] == pytest.approx(waiting * 1e9 * share)


@pytest.mark.parametrize("name", ["t1", "t2", "knl", "p-core", "server", "rv-many"])
def test_every_coefficient_is_explained_and_has_a_range_that_it_lies_in(name: str) -> None:
    text = (Path(__file__).parents[2] / "docs/energy.md").read_text()
    found = [each for each in loiter.machine(name).parameters if each.key.startswith(energy.SECTION)]
    assert len(found) > 20
    for each in found:
        key = each.key.removeprefix(energy.SECTION)
        assert f"`{re.sub('state[23]', 'state1', key)}`" in text, each.key
        if each.type == "estimate":
            assert " in " in str(each.value), each.key


@pytest.mark.simulator
def test_metrics_shows_energy_with_its_range(directory: Path) -> None:
    rows = {row["name"]: row for row in json.loads(loiter_("metrics", directory, "--json").stdout)}
    power = rows["power_mw"]
    assert power["unit"] == "mW"
    assert power["low"] < power["all"] < power["high"]
    assert power["moved_by"] in {"chip_static_uw", "core_fj", "core_static_uw"}
    assert rows["energy_uj.spinning"]["all"] < rows["energy_uj"]["all"]
    assert "moved most by" in loiter_("metrics", directory).stdout.decode()


@pytest.mark.parametrize(("value", "what"), [("x", "is no estimate"), ("9 in 10..20", "is no estimate")])
def test_an_estimate_that_is_none_is_refused(value: str, what: str) -> None:
    done = loiter_("machine", "show", "t1", "--set", f"energy.alu_fj={value}")
    assert done.returncode == 2
    assert "energy.alu_fj" in message(done)
    assert what in message(done)


def test_an_idle_state_that_is_left_later_than_it_pays_is_refused() -> None:
    done = loiter_("machine", "show", "knl", "--set", "idle.state2_residency_cycles=155999")
    assert done.returncode == 2
    assert "state2_exit_cycles = 156000 is longer than state2_residency_cycles = 155999" in message(done)
    assert loiter_("machine", "show", "knl", "--set", "idle.state2_residency_cycles=156000").returncode == 0
