"""Runs on Linux that share a lead-in: it is run once and kept, and each run continues it in its own way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loiter import engine as engines
from loiter import images, machines, store
from loiter.cli.options import err
from loiter.errors import RunFault
from loiter.runs.linux import CONTINUE, LeadIn, LinuxRequest
from loiter.systems import prepared
from loiter.systems.request import seat

pytestmark = pytest.mark.simulator

HARTS = 2
READY, BEGUN = "lead-in: ready", "lead-in: begun"
SCRIPT = f"""\
set -e
word=kept
while :; do :; done &
echo {READY} > /dev/console
{CONTINUE}
"""
PHASES = 'reference until console:"{}", reference for {} cycles'


@pytest.fixture(scope="module")
def request_() -> LinuxRequest:
    engine = engines.load()
    image = images.ensure("debian", err())
    machine, harts = seat(engine, machines.load(engine, "t1"), HARTS, None)
    assert image.system_map is not None
    boot = replace(prepared.request(machine, harts, image), untimed=True, symbols=(image.system_map,))
    return continued(LeadIn(SCRIPT, PHASES.format(READY, 100_000)), "first", boot=boot)


def continued(lead_in: LeadIn, word: str, **more: object) -> LinuxRequest:
    script = f"echo $word {word} > /dev/console; echo {BEGUN} > /dev/console; wait"
    timed = "repeat (timing warm for 20000 cycles, timing for 30000 cycles) for 1 times"
    phases = f'reference until console:"{BEGUN}", {timed}'
    return LinuxRequest(script=script, phases=phases, lead_in=lead_in, **more)  # type: ignore[arg-type]


def carried_out(request: LinuxRequest, path: Path) -> store.Result:
    request.carry_out(engines.load(), lambda facts: True, path)
    return store.read(path)


def test_runs_continue_a_lead_in_that_is_kept(
    request_: LinuxRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert request_.lead_in is not None
    first = carried_out(request_, tmp_path / "first")
    # Neither boots nor runs the lead-in.
    monkeypatch.setattr(prepared, "restore", None)
    other = continued(request_.lead_in, "second", boot=request_.boot)
    second, again = carried_out(other, tmp_path / "second"), carried_out(other, tmp_path / "again")
    assert "kept first" in first.console
    assert "kept second" in second.console
    # What was restored goes on bit for bit.
    assert second.manifest["tables"] == again.manifest["tables"]
    assert first.manifest["phases"][0]["begin_cycle"] == second.manifest["phases"][0]["begin_cycle"]
    [sample] = first.rows("samples")
    assert sample["cycles"] == 30000
    # The loop in the background has gone on through all of it.
    assert sum(row["instructions"] for row in first.rows("activities") if row["activity"] == "user") > 1000


def test_a_lead_in_is_part_of_what_a_request_is(request_: LinuxRequest) -> None:
    engine = engines.load()
    assert request_.lead_in is not None
    longer = replace(request_, lead_in=replace(request_.lead_in, phases=PHASES.format(READY, 200_000)))
    without = replace(request_, lead_in=None)
    assert len({each.key(engine) for each in (request_, longer, without)}) == 3


def test_a_lead_in_that_ends_early_says_so(request_: LinuxRequest, tmp_path: Path) -> None:
    lead_in = LeadIn("echo out of luck >&2; exit 3\n", PHASES.format(READY, 1))
    with pytest.raises(RunFault, match="out of luck"):
        carried_out(replace(request_, lead_in=lead_in), tmp_path / "early")
