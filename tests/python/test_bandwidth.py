"""Bandwidth by footprint and latency under load of `loiter latency`, against closed forms of what limits them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import loiter
from loiter import bandwidth, cli, latency
from loiter.machines import Machine

pytestmark = pytest.mark.simulator

# Small caches, so that what lies beyond them is soon reached. Rows cost nothing: the order of accesses does not matter.
SMALL = ("l3.size_kib=1024", "l2.size_kib=128", "system.ram_mib=256", "dram.row_miss_cycles=153")


def number(machine: Machine, key: str) -> int:
    return machine.count(key, 0)


def test_footprints_go_from_half_the_data_cache_to_four_times_the_last() -> None:
    machine = loiter.machine("p-core", "system.cores=2", *SMALL)
    assert bandwidth.footprints_kib(machine, 1) == [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
    assert bandwidth.footprints_kib(machine, 2)[-1] == 2048
    # A core of a tile has one tile's cache, all cores have all.
    knl = loiter.machine("knl")
    assert bandwidth.footprints_kib(knl, 1)[-1] == 4 * number(knl, "l2.size_kib")
    assert bandwidth.footprints_kib(knl, 64)[-1] == 2 * number(knl, "l2.size_kib")


def test_bandwidth_of_one_core_has_closed_forms() -> None:
    machine = loiter.machine("p-core", *SMALL)
    line, mshrs = number(machine, "l1d.line_bytes"), number(machine, "l1d.mshrs")
    ports = number(machine, "units.data_ports")
    cached = bandwidth.stream(machine, 1, 16)
    assert cached.word_bytes_per_cycle == pytest.approx(8 * ports, rel=0.02)
    assert cached.line_bytes_per_cycle == pytest.approx(line * ports, rel=0.02)
    # As many lines are in flight as there are miss registers, each for what a miss takes (Little's law): of the second
    # level its look-up, of memory the latency of a load but for what it takes to its miss and from there.
    second = bandwidth.stream(machine, 1, 64)
    assert second.line_bytes_per_cycle == pytest.approx(line * mshrs / number(machine, "l2.lookup_cycles"), rel=0.05)
    unloaded = bandwidth.chase(machine, 0, 0).latency_cycles
    memory = bandwidth.stream(machine, 1, 4096)
    expected = line * mshrs / (unloaded - number(machine, "latency.load_cycles"))
    assert memory.line_bytes_per_cycle == pytest.approx(expected, rel=0.03)
    # All words of a line take no more time than one, but for what the load queue has no room for.
    assert memory.word_bytes_per_cycle < memory.line_bytes_per_cycle


@pytest.mark.parametrize(
    ("changes", "takes"),
    [
        # The link from memory's home: for each line that comes it also carries the receipt of one that was given up.
        ((), ("network.line_cycles", "network.control_cycles")),
        (("network.control_cycles=0",), ("network.line_cycles",)),
        # The channel of memory.
        (("network.line_cycles=1", "dram.channels=1"), ("dram.line_transfer_cycles",)),
    ],
)
def test_the_peak_of_all_cores_is_that_of_what_is_narrowest(changes: tuple[str, ...], takes: tuple[str, ...]) -> None:
    machine = loiter.machine("p-core", "system.cores=4", *SMALL, *changes)
    peak = number(machine, "l1d.line_bytes") / sum(number(machine, key) for key in takes)
    found = bandwidth.stream(machine, 4, bandwidth.footprints_kib(machine, 4)[-1])
    assert found.line_bytes_per_cycle == pytest.approx(peak, rel=0.03)
    assert bandwidth.gigabytes_per_second(machine, peak) == pytest.approx(peak * 4.5)


def test_a_load_waits_longer_the_more_others_read() -> None:
    changes = (*SMALL, "network.control_cycles=0")
    machine = loiter.machine("p-core", "system.cores=4", *changes)
    found = bandwidth.measure_loaded(machine)
    assert [(each.cores, each.gap) for each in found[:4]] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert [each.gap for each in found[4:]] == list(bandwidth.GAPS)
    plain = latency.measure(loiter.machine("p-core", *changes))
    (unloaded,) = [each for each in plain.table if (each.operation, each.state) == ("load", "uncached")]
    assert (found[0].cores, found[0].bytes_per_cycle) == (0, 0.0)
    assert found[0].latency_cycles == pytest.approx(unloaded.mean_cycles, abs=1.0)
    peak = number(machine, "l1d.line_bytes") / number(machine, "network.line_cycles")
    fastest = found[3]
    # The measured loads take a part of the link themselves.
    assert fastest.bytes_per_cycle == pytest.approx(peak, rel=0.03)
    assert fastest.latency_cycles > found[0].latency_cycles + 10
    by_gap = found[4:]
    assert [each.bytes_per_cycle for each in by_gap] == sorted(each.bytes_per_cycle for each in by_gap)
    assert by_gap[0].bytes_per_cycle < 0.1 * peak
    assert by_gap[0].latency_cycles == pytest.approx(found[0].latency_cycles, abs=2.0)


def run(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(shlex.split(command))
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_the_command_shows_and_draws_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = " ".join(f"--set {change}" for change in ("system.cores=2", *SMALL))
    command = f"latency -m p-core {changes} --only bandwidth --only loaded"
    status, out, _ = run(f"{command} --out {tmp_path}/drawn", capsys)
    assert status == 0
    assert "footprint" in out
    assert "cores that read" in out
    for name in ("bandwidth", "loaded"):
        assert (tmp_path / "drawn" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "GB/s" in (tmp_path / "drawn" / f"{name}.svg").read_text()
    assert not (tmp_path / "drawn" / "cores.png").exists()
    status, out, _ = run(f"{command} --json", capsys)
    assert status == 0
    found = json.loads(out)
    assert found["latencies"] == []
    row = found["bandwidth"][0]
    assert row["line_gb_per_second"] == pytest.approx(4.5 * row["line_bytes_per_cycle"])
    assert {row["cores"] for row in found["bandwidth"]} == {1, 2}
    assert found["loaded"][0]["gb_per_second"] == 0.0
    status, _, said = run("latency -m p-core --only bandwith", capsys)
    assert status == 2
    assert 'did you mean "bandwidth"' in said
