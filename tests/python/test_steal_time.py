"""Steal time in Linux: what a guest's `/proc/stat` says of virtual CPUs that share CPUs, beside what the host counts.

The kernel takes minutes to build, so this is for `make test-long`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from linux_guest import loiter_, message
from loiter import images
from loiter.images import tools

pytestmark = [
    pytest.mark.simulator,
    pytest.mark.long,
    pytest.mark.skipif(tools.find("apt-get") is None, reason="images are built with apt"),
]

IMAGE, RECIPE = "debian-steal", images.Recipe("debian", kernel="small-kernel", fragments=("steal-time",))
CPUS, RUN_MS, TICK_MS = 2, 900, 10
HOST = f"""
[host]
cpus = {CPUS}
clock_mhz = 1000
memory_mib = 1024
run_us = {4 * RUN_MS * 1000}

[[guests]]
name = "work"
image = "{IMAGE}"
harts = {CPUS}
memory_mib = 512
command = '''
for cpu in $(seq {CPUS}); do (n=0; while [ $n -lt 60000 ]; do n=$((n + 1)); done) & done
wait
grep ^cpu /proc/stat
'''
"""
RIVAL = f"""
[[guests]]
name = "rival"
program = "virtual"
arguments = "task.rival={",".join(map(str, range(CPUS)))}"
harts = {CPUS}
memory_mib = 64
background = true
"""


def steal_ms(tmp_path: Path, text: str) -> tuple[list[float], list[float]]:
    """Of each virtual CPU, what Linux says and what the host has counted, in milliseconds."""
    (tmp_path / "host.toml").write_text(text)
    done = loiter_("vm", "host.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, message(done)
    result = json.loads(done.stdout)
    lines = [line.split() for line in result["linux"]["work"]["stdout"].splitlines()]
    # user, nice, system, idle, iowait, irq, softirq, steal
    seen = [float(line[8]) * TICK_MS for line in lines if line[0] != "cpu"]
    rows = [row for row in result["vcpus"] if row["guest"] == "work"]
    return seen, [row["steal_cycles"] / 1e6 for row in rows]


@pytest.fixture(scope="module", autouse=True)
def _image() -> None:
    images.build(IMAGE, RECIPE)


def test_a_guest_sees_what_others_take_from_it(tmp_path: Path) -> None:
    seen, counted = steal_ms(tmp_path, HOST + RIVAL)
    assert len(seen) == CPUS
    assert min(counted) > 100
    for ours, hosts in zip(seen, counted, strict=True):
        # Linux counts whole ticks, and the host goes on until the guest has ended.
        assert abs(ours - hosts) < 0.05 * hosts + 4 * TICK_MS, (seen, counted)


def test_nobody_takes_anything_from_a_guest_alone(tmp_path: Path) -> None:
    seen, _ = steal_ms(tmp_path, HOST)
    assert seen == [0.0] * CPUS
