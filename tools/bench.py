#!/usr/bin/env python3
"""Speed of the simulator on one host core: prints a table and writes it as JSON.

    tools/bench.py OUTPUT.json [--repeats N]

Every case runs N times; the median counts. Simulated results are the same each time, and checked to be.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from loiter import engine as engines
from loiter import machines, programs
from loiter.engine import Engine
from loiter.runs.request import Request


@dataclass(frozen=True)
class Case:
    """A run to time. `target` is the speed asked for, in million instructions a host second."""

    name: str
    machine: str
    program: str
    places: tuple[str, ...]
    arguments: tuple[str, ...]
    target: float | None = None
    fast_forward: bool = False


CASES = (
    Case("reference engine, integer mix", "virt", "coremix", ("intmix=0",), ("iterations=4000",), target=150),
    Case("t1, integer mix on 4 contexts", "t1", "coremix", ("intmix=0,1,2,3",), ("iterations=30",), target=15),
    Case("t1, integer mix on 1 context", "t1", "coremix", ("intmix=0",), ("iterations=60",)),
    Case("t2, integer mix on 8 contexts", "t2", "coremix", ("intmix=0,1,2,3,4,5,6,7",), ("iterations=15",)),
    Case("t1, sort with 3 spinners", "t1", "spinloops", ("sort=0", "spin_default=1,2,3"), (), fast_forward=True),
    Case("t1, mbv_fp alone", "t1", "spinloops", ("mbv_fp=0",), ("iterations=4",), fast_forward=True),
)


def measure(engine: Engine, case: Case, repeats: int) -> dict[str, Any]:
    """Times a case."""
    machine = machines.load(engine, case.machine, ["system.ram_mib=256"])
    program = programs.load(engine, case.program)
    request = Request(
        machine,
        program,
        programs.place(case.places, program, machine),
        case.arguments,
        case.fast_forward,
    )
    results = [engine.run(request.native(), program.elf) for _ in range(repeats)]
    outcomes = {(each["cycles"], each["instructions"]) for each in results}
    if len(outcomes) != 1 or any(each["exit"]["code"] != 0 for each in results):
        raise SystemExit(f"{case.name}: runs differ or failed: {[each['exit'] for each in results]}, {outcomes}")
    seconds = [float(each["host_seconds"]) for each in results]
    cycles, instructions = outcomes.pop()
    return {
        "name": case.name,
        "machine": case.machine,
        "bootargs": request.bootargs,
        "cycles": cycles,
        "instructions": instructions,
        "seconds": seconds,
        "million_instructions_per_second": instructions / statistics.median(seconds) / 1e6,
        "million_cycles_per_second": cycles / statistics.median(seconds) / 1e6,
        "target": case.target,
    }


def show(rows: list[dict[str, Any]]) -> Table:
    """The rows for a person."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("case")
    for column in ("instructions", "IPC", "seconds", "M instructions/s", "target", "M cycles/s"):
        table.add_column(column, justify="right")
    for row in rows:
        speed, target = row["million_instructions_per_second"], row["target"]
        style = "" if target is None else "green" if speed >= target else "bold red"
        table.add_row(
            row["name"],
            f"{row['instructions']:,}",
            f"{row['instructions'] / row['cycles']:.2f}",
            f"{statistics.median(row['seconds']):.2f}",
            f"[{style}]{speed:.1f}[/]" if style else f"{speed:.1f}",
            "" if target is None else f"{target:g}",
            f"{row['million_cycles_per_second']:.1f}",
        )
    return table


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    engine = engines.load()
    console = Console(width=None if sys.stdout.isatty() else 120)
    rows = []
    with console.status("") as status:
        for case in CASES:
            status.update(case.name)
            rows.append(measure(engine, case, options.repeats))
    console.print(show(rows))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    values = {
        row["name"]: {"value": row["million_instructions_per_second"], "unit": "million instructions/s"} for row in rows
    }
    options.output.write_text(json.dumps(values, indent=2) + "\n")
    console.print(f"wrote {options.output}", highlight=False)


if __name__ == "__main__":
    main()
