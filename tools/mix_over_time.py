#!/usr/bin/env python3
"""How a mix of the study catnap2020 goes on timed cores, from where the reference engine has left it or a run-in has.

    tools/mix_over_time.py MIX THREADS OUTPUT [--windows N] [--selection all] [--run-in CYCLES] [--ended-by-interrupts]

Prints, for each of N windows in a row, how much of the time of CPUs goes by waiting for locks, and the time for the
same work with naps over that without. OUTPUT keeps both runs; what is there is not run again. Twenty windows with 255
threads take twenty minutes and more, for each of both. With --ended-by-interrupts naps with interrupts masked end while
one is pending, as a wrs does; those of the kernel go on, as the paper's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from loiter import engine as engines
from loiter import machines, sampling, store
from loiter.engine import Engine, Json
from loiter.errors import Fault
from loiter.runs.linux import LinuxRequest
from loiter.studies.catnap2020 import grid, linux, mixes
from loiter.studies.catnap2020.torture import ALL, NONE

APART_CYCLES, WINDOW_CYCLES = 100_000, 400_000


def windows(engine: Engine, request: LinuxRequest, label: str, number: int, path: Path) -> list[mixes.Measured]:
    """What each window of a run says."""
    request = replace(request, phases=request.phases.replace("for 1 times", f"for {number} times"))
    if not (path / "manifest.json").exists():
        with Console(stderr=True).status(label) as status:

            def told(facts: Json) -> bool:
                status.update(f"{label}: cycle {facts['cycle']:,}, {facts['host_seconds']:.0f} s")
                return True

            request.carry_out(engine, told, path)
    result = store.read(path)
    _, samples = sampling.counted(result)
    if samples is None or len(samples.samples) != number:
        raise SystemExit(f"{path} has not {number} windows")
    return [mixes.measured(label, result, tables) for tables in samples.each()]


def table(without: Sequence[mixes.Measured], naps: Sequence[mixes.Measured], selection: str) -> Table:
    """A row for each window."""
    shown = Table(box=box.HORIZONTALS)
    for column in ("from cycle", "waits without naps, %", f"waits, {selection}, %", f"time, {selection}"):
        shown.add_column(column, justify="right")
    for number, (one, other) in enumerate(zip(without, naps, strict=True)):
        begins = APART_CYCLES + number * (APART_CYCLES + WINDOW_CYCLES)
        waits = (f"{100 * each.spinning:.1f}" for each in (one, other))
        shown.add_row(f"{begins:,}", *waits, f"{one.work / other.work:.3f}")
    return shown


def main() -> None:
    """As the head of the file says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mix", choices=mixes.MIXES)
    parser.add_argument("threads", type=int)
    parser.add_argument("output", type=Path)
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--run-in", type=int, default=0, help="cycles of timed cores before, without naps")
    parser.add_argument("--selection", choices=[each for each in linux.SELECTIONS if each != NONE], default=ALL)
    parser.add_argument("--ended-by-interrupts", action="store_true", help="masked interrupts end naps, too")
    asked = parser.parse_args()
    most = mixes.SCALES["default"].most
    if not 1 <= asked.threads <= most or asked.windows < 1 or asked.run_in < 0:
        parser.error(f"{asked.mix} has 1 to {most} threads, there is one window or more, and no run-in below 0")
    engine = engines.load()
    machine = machines.load(engine, grid.MACHINE)

    def measured(selection: str) -> list[mixes.Measured]:
        seen = (WINDOW_CYCLES, APART_CYCLES, linux.MOST_HARTS, asked.run_in)
        cell = mixes.Cell(asked.mix, selection, asked.threads, *seen, parts=1)
        request, kind = cell.request(engine, machine), f"{asked.windows}.after-{asked.run_in}"
        if asked.ended_by_interrupts and selection != NONE:
            request, kind = linux.ended_by_interrupts(request), f"{kind}.ended-by-interrupts"
        return windows(engine, request, cell.label, asked.windows, asked.output / f"{cell.label}.{kind}")

    try:
        Console().print(table(measured(NONE), measured(asked.selection), asked.selection))
    except Fault as fault:
        print(f"error: {fault}", file=sys.stderr)
        sys.exit(fault.exit_status)


if __name__ == "__main__":
    main()
