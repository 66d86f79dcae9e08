#!/usr/bin/env python3
"""Makes a table of docs/virtual.md: what a waiter whose holder is preempted takes from the siblings of its context.

    tools/siblings.py MACHINE...

A guest of four virtual CPUs with a ticket lock runs beside a rival of four that always computes, on the first four
contexts of each machine, and alone. `reference` is the reference engine. Each case is run with five lengths of the work
outside of the lock; a row has medians, with the least and the greatest.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

CYCLES = 30_000_000
SLICE_CYCLES = 900_000
CLOCK_MHZ = 1_000
"""Of every machine: cycles are compared, and most clocks have no slice of that many."""
THINKS = (18_000, 19_000, 20_000, 21_000, 22_000)
YIELD_AFTER_LOG2 = 14
SET = {
    # Cores of two contexts, and of one.
    "p-core": " system.cores=2 core.contexts=2",
    "smt2": " system.cores=2",
    "superscalar": " system.cores=4",
}
"""What some machines are, so that they have four contexts."""

WAYS = {
    "pause": ("", 'policy = "nobody"'),
    "nap": (" nap=1", 'policy = "nobody"'),
    "yield": (f" yield_after={YIELD_AFTER_LOG2}", 'policy = "published"'),
    "trap": (" nap=1", f'policy = "published"\ndetection = "wrs_trap"\nwindow_cycles = {1 << YIELD_AFTER_LOG2}'),
}
"""How waiters wait, and what the host does about it."""

RIVAL = """
[[guests]]
name = "rival"
program = "virtual"
arguments = "task.rival=0,1,2,3"
harts = 4
background = true
"""


def host(machine: str, way: str, think: int, rival: str) -> str:
    """The file of a run."""
    arguments, helping = WAYS[way]
    clock = f"system.clock_mhz={CLOCK_MHZ}{SET.get(machine, '')}"
    timed = "" if machine == "reference" else f'machine = "{machine}"\nmachine_set = "{clock}"'
    return f"""
[host]
cpus = 4
memory_mib = 1024
turn_cycles = 1000
run_us = {CYCLES // CLOCK_MHZ}
{timed}

[scheduler]
slice_us = {SLICE_CYCLES // CLOCK_MHZ}

[helping]
{helping}

[[guests]]
name = "work"
program = "virtual"
arguments = "task.ticket=0,1,2,3 acquisitions=1000000000 hold=2000 think={think}{arguments}"
harts = 4
{rival}"""


def run(text: str) -> dict[str, Any]:
    """What `loiter vm --json` prints."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "host.toml")
        file.write_text(text)
        command = [str(Path(sys.executable).with_name("loiter")), "vm", str(file), "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def cases(machine: str, way: str, rival: str = RIVAL) -> Iterator[tuple[float, float]]:
    """Acquisitions in a million cycles and instructions of the rival a cycle, for each length of the work outside."""
    for think in THINKS:
        result = run(host(machine, way, think, rival))
        work, *others = result["guests"]
        acquired = sum(each["acquisitions"] for each in work["locks"])
        yield acquired * 1e6 / result["cycles"], sum(each["instructions"] for each in others) / result["cycles"]


def spread(values: list[float]) -> str:
    """The median, and the least and the greatest."""
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def rows(machine: str) -> tuple[str, str]:
    """Of the tables: what the guest has, and what its rival."""
    name = "reference engine" if machine == "reference" else f"`{machine}`"
    alone = statistics.median(rate for rate, _ in cases(machine, "pause", rival=""))
    found = {way: list(zip(*cases(machine, way), strict=True)) for way in WAYS}
    rates = [name, f"{alone:.1f}", *(spread(list(found[way][0])) for way in WAYS)]
    rivals = [name, *(f"{statistics.median(found[way][1]):.2f}" for way in WAYS)]
    return line(rates), line(rivals)


def line(cells: Iterable[str]) -> str:
    """Of a table."""
    return f"| {' | '.join(cells)} |"


def main(machines: list[str]) -> int:
    """Exit status."""
    if not machines:
        print(__doc__, file=sys.stderr)
        return 2
    print("Acquisitions in a million cycles\n")
    print(line(["Machine", "alone", *WAYS]))
    print(f"|---|{'--:|' * (1 + len(WAYS))}")
    rivals = []
    try:
        for machine in machines:
            ours, rival = rows(machine)
            rivals.append(rival)
            print(ours, flush=True)
    except subprocess.CalledProcessError as error:
        # What ran has said why.
        return error.returncode
    print("\nInstructions of the rival a cycle\n")
    print(line(["Machine", *WAYS]))
    print(f"|---|{'--:|' * len(WAYS)}")
    print(*rivals, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
