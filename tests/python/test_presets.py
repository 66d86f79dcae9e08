"""Every preset runs a program; those with many contexts in bounded memory; impossible machines are named."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

import loiter
from loiter import cli, machines

pytestmark = pytest.mark.simulator

MANY = 200
"""Contexts of a machine whose memory on the host is bounded."""


def test_there_are_presets_of_every_size() -> None:
    contexts = [loiter.machine(name).contexts for name in machines.names()]
    assert min(contexts) == 1
    assert sum(each >= MANY for each in contexts) >= 2


@pytest.mark.parametrize("name", machines.names())
def test_a_preset_runs_a_program(name: str) -> None:
    result = loiter.run(loiter.machine(name), "hello")
    ended = result.manifest["exit"]
    assert (ended["reason"], ended["code"]) == ("finisher", 0)


@pytest.mark.parametrize("name", [name for name in machines.names() if loiter.machine(name).contexts >= MANY])
def test_many_contexts_take_less_than_two_gib_of_the_host(name: str) -> None:
    contexts = loiter.machine(name).contexts
    # All contexts run, in a process whose address space tells.
    code = f"import loiter; loiter.run(loiter.machine({name!r}), 'hello', place={{'hello': list(range({contexts}))}})"
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    subprocess.run([sys.executable, "-c", code], check=True)
    most_kib = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    assert most_kib < 2 << 20


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("opteron48", "network.links=0-1:34 1-0:40", 'links: "1-0:40" is a second link between sockets 0 and 1'),
        ("opteron48", "network.links=0-0:34", "links socket 0 to itself"),
        ("opteron48", "network.links=0-1:34", "links: no link leads from socket 0 to socket 2"),
        ("opteron48", "network.links=0-8:34", "names socket 8, of 8"),
        ("xeon80", "network.sockets=4", "socket_nodes: 4 sockets of 1 have no room for 8 clusters or cores"),
        ("xeon80", "home.nodes=3", "nodes = 3 do not divide the homes, count = 8"),
        ("knl", "network.layout=BB BB", "layout: the mesh has 4 stops for clusters or cores, of which there are 32"),
        ("knl", "home.nodes=2", "nodes = 2 is not possible with memory controllers"),
        ("server", "system.cores=129", "socket_nodes: 2 sockets of 56 have no room for 129 clusters or cores"),
        ("symmetry", "l2.shared_by=cluster", "is not possible on a bus that all caches watch"),
        ("symmetry", "l1i.line_bytes=32", "section l1i: line_bytes must be that of l1d, 16"),
        ("knl", "system.cores=66", "layout: the mesh has 32 stops for clusters or cores, of which there are 33"),
    ],
)
def test_what_is_impossible_is_named(name: str, change: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "-m", name, "hello", "--set", change])
    assert ended.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_more_harts_than_a_machine_can_have_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["boot", "-m", "knl", "--harts", "257", "--max-instructions", "1"])
    assert ended.value.code == 2
    assert "--harts 257: a machine has 256 at most" in " ".join(capsys.readouterr().err.split())


def test_the_table_of_a_run_has_the_contexts_that_a_hart_has_moved_to(capsys: pytest.CaptureFixture[str]) -> None:
    plan = "timing for 50k cycles, move 0 to 5, timing"
    words = ["run", "-m", "t1", "coremix", "--place", "intmix=0", "iterations=2", "--set", "system.cores=2"]
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--phases", plan])
    assert ended.value.code == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    # Context, and the harts that sat there: what hart 0 left is that of hart 5 now.
    contexts = [row[:3] for row in rows if row[1:3] in (["0,", "5"], ["5,", "0"])]
    assert contexts == [["0", "0,", "5"], ["5", "5,", "0"]]
