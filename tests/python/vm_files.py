"""Files of hosts whose guests share CPUs, for tests of `loiter vm`."""

from __future__ import annotations

from pathlib import Path

CLOCK_MHZ, SLICE_US, CPUS = 100, 3000, 2
SLICE_CYCLES = CLOCK_MHZ * SLICE_US
HOST = f"""
[host]
cpus = {CPUS}
clock_mhz = {CLOCK_MHZ}
memory_mib = 256
turn_cycles = 1000
switch_cycles = 300
call_cycles = 100
run_us = {{run_us}}
[scheduler]
slice_us = {SLICE_US}
[helping]
policy = "{{policy}}"
"""
GUEST = """
[[guests]]
name = "work"
program = "virtual"
arguments = "task.{lock}=0,1 acquisitions={acquisitions} hold=500 think={think} yield_after={yield_after}"
harts = 2
memory_mib = 64
"""
# One virtual CPU less than CPUs, so that not all of one guest and then all of the other run at the same time.
RIVAL = """
[[guests]]
name = "rival"
program = "virtual"
arguments = "task.rival=0"
harts = 1
memory_mib = 64
background = true
"""


def write(
    path: Path,
    lock: str = "ticket",
    policy: str = "nobody",
    *,
    yield_after: int = 0,
    acquisitions: int = 2000,
    think: int = 3000,
    run_us: int = 60 * SLICE_US,
    rival: str = RIVAL,
) -> Path:
    file = path / f"{lock}-{policy}-{yield_after}.toml"
    guest = GUEST.format(lock=lock, acquisitions=acquisitions, think=think, yield_after=yield_after)
    file.write_text(HOST.format(run_us=run_us, policy=policy) + guest + rival)
    return file


def on_a_machine(file: Path, machine: str, clock_mhz: int) -> Path:
    """The same host, whose CPUs are contexts of timing cores."""
    text = file.read_text().replace(f"clock_mhz = {CLOCK_MHZ}", f'machine = "{machine}"\nclock_mhz = {clock_mhz}')
    file.write_text(text.replace(f"slice_us = {SLICE_US}", "slice_us = 60"))
    return file
