"""What takes too long for every change, run by `make test-long`: boots of many harts, boots of timing cores from
power-on, and Debian's programs on an out-of-order core."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from debian_programs import PROGRAMS, Program
from linux_guest import LOITER
from loiter import store

pytestmark = [pytest.mark.simulator, pytest.mark.long]

LIMIT_SECONDS = 3600


def console(*arguments: str, stdin: bytes = b"") -> bytes:
    """What the console of a boot that ends well says."""
    done = subprocess.run([*LOITER, "boot", *arguments], input=stdin, capture_output=True, timeout=LIMIT_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("harts", [1, 2, 8, 32, 128])
def test_a_shell_on_so_many_harts(harts: int) -> None:
    said = console("--harts", str(harts), stdin=b"echo harts=$(nproc); poweroff -f\n")
    assert f"harts={harts}\r\n".encode() in said


@pytest.mark.parametrize(("machine", "harts"), [("t2", 64), ("knl", 256)])
def test_linux_runs_on_every_context_of_a_machine(machine: str, harts: int, tmp_path: Path) -> None:
    command = [*LOITER, "exec", "-m", machine, "--harts", str(harts), "--out", str(tmp_path / "out"), "--", "nproc"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_SECONDS)
    assert (done.returncode, done.stdout) == (0, f"{harts}\n".encode()), done.stderr
    accounts = {row["context"] for row in store.read(tmp_path / "out").rows("accounts")}
    assert accounts == set(range(harts))


@pytest.mark.parametrize(("machine", "contexts"), [("t1", 4), ("t2", 8)])
def test_a_timing_core_boots_from_power_on(machine: str, contexts: int) -> None:
    said = json.loads(console("-m", machine, "--roi", "all", "--until", "loiter: init", "--json"))
    assert f"smp: Brought up 1 node, {contexts} CPUs" in said["console"]
    assert said["instructions"] > 100_000_000
    assert said["cycles"] > said["instructions"] / 2


@pytest.mark.parametrize(("machine", "contexts"), [("smt2", 2), ("smt8", 8)])
def test_an_out_of_order_core_boots_from_power_on_in_lockstep(machine: str, contexts: int) -> None:
    said = json.loads(console("-m", machine, "--roi", "all", "--check", "--until", "loiter: init", "--json"))
    assert f"smp: Brought up 1 node, {contexts} CPUs" in said["console"]
    assert said["instructions"] > 100_000_000
    assert said["checked_instructions"] == said["instructions"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_programs_of_debian_on_an_out_of_order_core(program: Program, tmp_path: Path) -> None:
    done = program.check(tmp_path, "-m", "smt8", "--roi", "all", "--check", "--stats", limit_seconds=LIMIT_SECONDS)
    counts = re.search(r"([\d,]+) instructions \(([\d,]+) checked\)", done.stderr.decode())
    assert counts is not None, done.stderr
    assert counts[1] == counts[2]
