"""`loiter latency`: what it measures, against closed forms and against the sources of presets."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import loiter
from loiter import cli, latency
from loiter.latency import Latencies
from loiter.machines import Machine

pytestmark = pytest.mark.simulator


def mean(found: Latencies, operation: str, state: str, distance: str) -> float:
    """Cycles of one row of the table."""
    (row,) = [
        each for each in found.table if (each.operation, each.state, each.distance) == (operation, state, distance)
    ]
    return row.mean_cycles


def number(machine: Machine, key: str) -> int:
    return machine.count(key, 0)


def test_what_a_directory_costs_has_a_closed_form() -> None:
    machine = loiter.machine("p-core", "system.cores=3")
    shares: list[float] = []
    found = latency.measure(machine, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    way = number(machine, "cluster.request_cycles") + number(machine, "cluster.reply_cycles")
    looks_up = number(machine, "l2.lookup_cycles") + number(machine, "cluster.tag_cycles")
    load = number(machine, "latency.load_cycles")
    transfer = looks_up + 2 * way + number(machine, "coherence.snoop_cycles")
    for state in ("modified", "exclusive"):
        assert mean(found, "load", state, "own core") == pytest.approx(load, abs=0.2)
        assert mean(found, "load", state, "same core") == pytest.approx(load, abs=0.2)
        assert mean(found, "load", state, "same cluster") == pytest.approx(load - 1 + transfer, abs=0.5)
        for operation in latency.OPERATIONS[2:]:
            assert mean(found, operation, state, "same cluster") == pytest.approx(transfer + 2, abs=0.5)
    # Somebody else has a copy, who has to give it up; a load needs nothing.
    for operation in latency.OPERATIONS[1:]:
        assert mean(found, operation, "shared", "same cluster") > transfer
    assert mean(found, "load", "shared", "same cluster") < 2 * load + 1
    for asker in found.cores:
        for holder in found.cores:
            expected = load if asker == holder else load - 1 + transfer
            assert found.matrix[asker][holder] == pytest.approx(expected, abs=0.5)


def test_a_shared_second_level_has_what_its_preset_says() -> None:
    machine = loiter.machine("t1", "system.cores=2")
    found = latency.measure(machine)
    hit, miss = number(machine, "l2.hit_latency_cycles"), number(machine, "l2.miss_latency_cycles")
    assert mean(found, "load", "modified", "other core") == pytest.approx(hit, abs=0.5)
    assert mean(found, "load", "uncached", "memory") == pytest.approx(miss, abs=0.5)


def test_a_bus_has_a_closed_form() -> None:
    machine = loiter.machine("symmetry", "system.cores=3")
    found = latency.measure(machine)
    # A miss is at the bus two cycles later.
    request = 2 + number(machine, "bus.request_cycles")
    line = number(machine, "bus.line_cycles")
    other = request + number(machine, "coherence.snoop_cycles") + line
    memory = request + number(machine, "dram.row_hit_cycles") + line
    atomic = number(machine, "latency.atomic_cycles")
    for state in ("modified", "exclusive"):
        assert mean(found, "load", state, "own core") == number(machine, "latency.load_cycles")
        assert mean(found, "load", state, "other core") == other
        for operation in ("fetch and add", "swap"):
            assert mean(found, operation, state, "own core") == atomic
            assert mean(found, operation, state, "other core") == other + atomic
    assert mean(found, "load", "uncached", "memory") == memory
    # Those who have a copy only have to be told.
    assert mean(found, "swap", "shared", "own core") == request + atomic


@pytest.mark.parametrize(
    ("name", "changes", "sources"),
    [
        # Chips and Cheese and core-to-core-latency, as in the file of the machine: nanoseconds.
        (
            "knl",
            (),
            [
                ("load", "modified", "own core", 4 / 1.3),
                ("compare and swap", "modified", "same cluster", 41),
                ("compare and swap", "modified", "other core", 91),
                ("load", "uncached", "memory", 147),
            ],
        ),
        # Chips and Cheese on the C910 of a TH1520, whose memory has neither a mesh nor a third level before it.
        (
            "rv-many",
            ("system.cores=8",),
            [
                ("load", "modified", "own core", 3 / 2),
                ("load", "shared", "same cluster", 60 / 2),
                ("load", "uncached", "memory", 133.9),
            ],
        ),
        # core-to-core-latency on a 7950X: half of a round trip within a core complex; memory of a desktop.
        (
            "p-core",
            ("system.cores=8",),
            [
                ("load", "modified", "own core", 4 / 4.5),
                ("compare and swap", "modified", "same cluster", 15.7),
                ("load", "uncached", "memory", 73),
            ],
        ),
        # Chips and Cheese on an 8480; a part of it, as latencies do not depend on how many cores there are.
        (
            "server",
            ("system.cores=8", "network.socket_nodes=4"),
            [
                ("load", "modified", "own core", 5 / 3.8),
                ("compare and swap", "modified", "same socket", 59),
                ("compare and swap", "modified", "one hop", 138),
                ("load", "uncached", "memory", 107),
            ],
        ),
    ],
)
def test_presets_are_within_five_percent_of_their_sources(
    name: str, changes: tuple[str, ...], sources: list[tuple[str, str, str, float]]
) -> None:
    found = latency.measure(loiter.machine(name, *changes))
    for operation, state, distance, published_ns in sources:
        ours_ns = found.nanoseconds(mean(found, operation, state, distance))
        assert ours_ns == pytest.approx(published_ns, rel=0.05), (operation, state, distance)


# SOSP 2013, table 2, cycles: by operation and state, for each distance; lines of which nobody has a copy are in memory.
OPTERON = {
    "load": {
        "modified": (81, 161, 172, 252),
        "owned": (83, 163, 175, 254),
        "exclusive": (83, 163, 175, 253),
        "shared": (83, 164, 176, 254),
        "uncached": (136, 237, 247, 327),
    },
    "store": {
        "modified": (83, 172, 191, 273),
        "owned": (244, 255, 286, 291),
        "exclusive": (83, 171, 191, 271),
        "shared": (246, 255, 286, 296),
    },
    "atomic": {"modified": (110, 197, 216, 296), "shared": (272, 283, 312, 332)},
}
XEON = {
    "load": {
        "modified": (109, 289, 400),
        "exclusive": (92, 273, 383),
        "shared": (44, 223, 334),
        "uncached": (355, 492, 601),
    },
    "store": {"modified": (115, 320, 431), "exclusive": (115, 315, 425), "shared": (116, 318, 428)},
    "atomic": {"modified": (120, 324, 430), "shared": (113, 312, 423)},
}


@pytest.mark.parametrize(
    ("name", "published", "distances"),
    [
        ("opteron48", OPTERON, ("same cluster", "same package", "one hop", "two hops")),
        ("xeon80", XEON, ("same cluster", "one hop", "two hops")),
    ],
)
def test_machines_of_several_sockets_are_within_five_percent_by_state_and_distance(
    name: str, published: dict[str, dict[str, tuple[int, ...]]], distances: tuple[str, ...]
) -> None:
    found = latency.measure(loiter.machine(name))
    operations = {"load": ["load"], "store": ["store"], "atomic": latency.OPERATIONS[2:]}
    for kind, states in published.items():
        for operation in operations[kind]:
            for state, cycles in states.items():
                for distance, expected in zip(distances, cycles, strict=True):
                    near_memory = state == "uncached" and distance == distances[0]
                    ours = mean(found, operation, state, "memory" if near_memory else distance)
                    assert ours == pytest.approx(expected, rel=0.05), (operation, state, distance)


def test_distances_follow_the_links_of_sockets() -> None:
    place = latency.Place.of(loiter.machine("opteron48"))
    holders = [place.of_holder(context) for context in range(0, 48, 6)]
    far = ["one hop", "two hops", "one hop", "two hops", "one hop", "two hops"]
    assert holders == ["own core", "same package", *far]
    assert place.of_holder(5) == "same cluster"
    assert [place.of_memory(context) for context in (0, 5, 6, 47)] == ["memory", "memory", "same package", "two hops"]
    assert place.has_owned
    place = latency.Place.of(loiter.machine("server"))
    found = [place.of_holder(context) for context in (0, 1, 2, 111, 112, 223)]
    assert found == ["own core", "same core", "same socket", "same socket", "one hop", "one hop"]
    assert not place.has_owned
    place = latency.Place.of(loiter.machine("t1"))
    assert [place.of_holder(context) for context in (0, 3, 4)] == ["own core", "same core", "other core"]


def run(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(shlex.split(command))
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_the_command_prints_a_table_and_draws_the_cores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"latency -m p-core --set system.cores=2 --only latency --out {tmp_path}/drawn"
    status, out, _ = run(command, capsys)
    assert status == 0
    assert all(operation in out for operation in latency.OPERATIONS)
    assert "same cluster" in out
    assert (tmp_path / "drawn" / "cores.png").read_bytes().startswith(b"\x89PNG")
    assert "core that loads" in (tmp_path / "drawn" / "cores.svg").read_text()
    status, out, _ = run("latency -m p-core --set system.cores=2 --only latency --json", capsys)
    assert status == 0
    found = json.loads(out)
    assert len(found["load_modified_cycles"]) == 2
    assert {each["distance"] for each in found["latencies"]} >= {"own core", "same core", "same cluster", "memory"}


def test_mistakes_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, said = run("latency -m virt", capsys)
    assert status == 2
    assert "virt has no timing" in said
    (tmp_path / "file").touch()
    status, _, said = run(f"latency -m p-core --out {tmp_path}/file", capsys)
    assert status == 2
    assert "a file of that name exists" in said
