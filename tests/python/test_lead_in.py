"""Runs on Linux that share a lead-in: it is run once and kept, and each run continues it in its own way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loiter import engine as engines
from loiter import images, machines, store
from loiter.cli.options import err
from loiter.errors import RunFault, UserFault
from loiter.runs.linux import LeadIn, LinuxRequest
from loiter.systems import prepared
from loiter.systems.request import seat

pytestmark = pytest.mark.simulator

HARTS = 2
TIMED_CYCLES = 40_000
READY = "lead-in: ready"
SWAPPINESS = "/proc/sys/vm/swappiness"
SCRIPT = f"""\
set -e
while :; do :; done &
while :; do now=$(cat {SWAPPINESS}); [ $now = 60 ] || echo swappiness: $now > /dev/console; done &
echo {READY} > /dev/console
wait
"""
PHASES = 'reference until console:"{}", reference for {} cycles'
TIMED = "repeat (timing warm for 20000 cycles, timing for 30000 cycles) for 1 times"


@pytest.fixture(scope="module")
def request_() -> LinuxRequest:
    engine = engines.load()
    image = images.ensure("debian", err())
    machine, harts = seat(engine, machines.load(engine, "t1"), HARTS, None)
    assert image.system_map is not None
    boot = replace(prepared.request(machine, harts, image), untimed=True, symbols=(image.system_map,))
    return LinuxRequest(boot, "", TIMED, lead_in=LeadIn(SCRIPT, PHASES.format(READY, 100_000)))


def with_swappiness(request: LinuxRequest, value: int) -> LinuxRequest:
    """The kernel's variable is set from outside, which a program sees."""
    phases = f'reference until console:"swappiness: {value}", {TIMED}'
    return replace(request, phases=phases, variables=(("vm_swappiness", value.to_bytes(4, "little")),))


def carried_out(request: LinuxRequest, path: Path) -> store.Result:
    request.carry_out(engines.load(), lambda facts: True, path)
    return store.read(path)


def test_runs_continue_a_lead_in_that_is_kept(
    request_: LinuxRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = carried_out(request_, tmp_path / "first")
    # Neither boots nor runs the lead-in.
    monkeypatch.setattr(prepared, "restore", None)
    other = with_swappiness(request_, 7)
    second, again = carried_out(other, tmp_path / "second"), carried_out(other, tmp_path / "again")
    assert "swappiness" not in first.console
    assert "swappiness: 7" in second.console
    assert second.manifest["request"]["variables"] == {"vm_swappiness": "07000000"}
    # What was restored goes on bit for bit.
    assert second.manifest["tables"] == again.manifest["tables"]
    assert first.manifest["phases"][0]["begin_cycle"] == second.manifest["phases"][0]["begin_cycle"]
    [sample] = first.rows("samples")
    assert sample["cycles"] == 30000
    # The loop in the background has gone on through all of it.
    assert sum(row["instructions"] for row in first.rows("activities") if row["activity"] == "user") > 1000


def test_a_lead_in_and_variables_are_part_of_what_a_request_is(request_: LinuxRequest) -> None:
    engine = engines.load()
    assert request_.lead_in is not None
    longer = replace(request_, lead_in=replace(request_.lead_in, phases=PHASES.format(READY, 200_000)))
    without = replace(request_, lead_in=None)
    set_to = [replace(request_, variables=(("vm_swappiness", bytes([value])),)) for value in (1, 2)]
    assert len({each.key(engine) for each in (request_, longer, without, *set_to)}) == 5


def test_a_run_goes_on_as_it_does_where_nobody_follows_locks(request_: LinuxRequest, tmp_path: Path) -> None:
    timed = in_part_timed(request_)
    followed = replace(timed, lock_stats=True)
    without, counted = (carried_out(each, tmp_path / str(n)) for n, each in enumerate((timed, followed)))
    assert {**counted.manifest["tables"], "locks": 0} == {**without.manifest["tables"], "locks": 0}
    assert counted.rows("activities") == without.rows("activities")
    engine = engines.load()
    assert len({each.shares(engine)[1] for each in (timed, followed)}) == 2


def test_what_is_not_in_memory_cannot_be_set(request_: LinuxRequest, tmp_path: Path) -> None:
    other = tmp_path / "System.map"
    other.write_text("0000000000000008 D nowhere\n")
    wrong = replace(request_, boot=replace(request_.boot, symbols=(*request_.boot.symbols, other)))
    for symbol, told in (
        ("vm_swapiness", "vm_swapiness: not a symbol"),
        ("nowhere", "nowhere: no hart has its 4 bytes"),
    ):
        with pytest.raises(UserFault, match=told):
            carried_out(replace(wrong, variables=((symbol, bytes(4)),)), tmp_path / "wrong")


def in_part_timed(request: LinuxRequest) -> LinuxRequest:
    assert request.lead_in is not None
    phases = f"{request.lead_in.phases}, timing for {TIMED_CYCLES} cycles"
    return replace(request, lead_in=replace(request.lead_in, phases=phases))


def test_cores_are_timed_in_a_part_of_a_lead_in(request_: LinuxRequest, tmp_path: Path) -> None:
    timed = in_part_timed(request_)
    untimed, first, again = (carried_out(each, tmp_path / str(n)) for n, each in enumerate((request_, timed, timed)))
    assert first.manifest["tables"] == again.manifest["tables"]
    begun, later = (each.manifest["phases"][0]["begin_cycle"] for each in (untimed, first))
    assert later - begun == TIMED_CYCLES


def test_what_has_been_timed_is_of_one_machine(request_: LinuxRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [*request_.machine.sets, "l2.miss_latency_cycles=900"]
    slower = machines.changed(engines.load(), request_.machine, changed)

    class Found(Exception):
        """By this name."""

    def find(_engine: object, _boot: object, name: str, *_: object) -> None:
        raise Found(name)

    monkeypatch.setattr(prepared, "restore_kept", find)

    def name(request: LinuxRequest) -> str:
        with pytest.raises(Found) as found:
            carried_out(request, Path("nowhere"))
        # Those that need the same are told apart from others before they begin.
        assert request.shares(engines.load()) == (prepared.key(engines.load(), request.boot), str(found.value))
        return str(found.value)

    assert name(request_) == name(request_.on(slower))
    timed = in_part_timed(request_)
    assert len({name(each) for each in (request_, timed, timed.on(slower))}) == 3


def test_a_lead_in_that_ends_early_says_so(request_: LinuxRequest, tmp_path: Path) -> None:
    lead_in = LeadIn("echo out of luck >&2; exit 3\n", PHASES.format(READY, 1))
    with pytest.raises(RunFault, match="out of luck"):
        carried_out(replace(request_, lead_in=lead_in), tmp_path / "early")
