"""`loiter latency`: how long accesses take, by the state of a line and by who has it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from loiter import engine as engines
from loiter.cli.options import JsonOption, MachineOption, SetOption, err, load_machine, out, print_json
from loiter.errors import UserFault

_DISTANCES = ("own core", "same core", "same cluster", "other core", "memory")
_MOST_CORES = 16
"""Cores whose matrix the terminal shows; the plot has all."""


def latency(
    machine: MachineOption,
    sets: SetOption = None,
    out_directory: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where the plot of the cores goes. Default: nowhere.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how long loads, stores and atomics take, by the state of a line and by who has it.

    A guest program runs on all cores: one brings lines into a state, another accesses them. Finished runs are kept.

    Example: [bold]loiter latency -m knl[/]

    Example: [bold]loiter latency -m p-core --set system.cores=8 --out results/p-core[/]
    """
    from rich.progress import Progress

    from loiter import latency as latencies

    found = load_machine(engines.load(), machine, sets)
    if out_directory is not None and out_directory.exists() and not out_directory.is_dir():
        raise UserFault(f"--out {out_directory}: a file of that name exists; name a directory.")
    with Progress(console=err(), transient=True) as progress:
        task = progress.add_task(f"latency of {found.name}", total=1.0)
        measured = latencies.measure(found, lambda share: progress.update(task, completed=share))
    if out_directory is not None and measured.matrix:
        from loiter import plots

        out_directory.mkdir(parents=True, exist_ok=True)
        for kind in ("png", "svg"):
            title = f"{found.name}: load of a line that another core has modified"
            drawn = plots.draw_matrix(
                title, "core that has the line", "core that loads", measured.matrix, "cycles", kind
            )
            (out_directory / f"cores.{kind}").write_bytes(drawn)
    if as_json:
        print_json(
            {
                "machine": found.name,
                "hash": found.hash,
                "latencies": [dataclasses.asdict(each) for each in measured.table],
                "cores": measured.cores,
                "load_modified_cycles": measured.matrix,
            }
        )
        return
    console = out()
    clock = found.value("system.clock_mhz")
    console.print(Text.assemble((found.name, "bold"), f": cycles of {clock} MHz; least to most of several holders"))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("operation", no_wrap=True)
    table.add_column("line")
    shown = [distance for distance in _DISTANCES if any(each.distance == distance for each in measured.table)]
    for distance in shown:
        table.add_column(distance, justify="right")
    for operation in latencies.OPERATIONS:
        for state in latencies.STATES:
            here = {
                each.distance: each for each in measured.table if (each.operation, each.state) == (operation, state)
            }
            cells = [_cell(here.get(distance)) for distance in shown]
            table.add_row(operation if state == latencies.STATES[0] else "", state, *cells)
    console.print(table)
    if measured.matrix:
        console.print(_matrix(measured))
    if out_directory is not None and measured.matrix:
        console.print(f"wrote {out_directory / 'cores.png'} and cores.svg", highlight=False, soft_wrap=True)


def _cell(found: object) -> str:
    from loiter.latency import Latency

    if not isinstance(found, Latency):
        return ""
    if found.most_cycles - found.least_cycles < 0.5:
        return f"{found.mean_cycles:.0f}"
    return f"{found.mean_cycles:.0f} ({found.least_cycles:.0f} to {found.most_cycles:.0f})"


def _matrix(measured: object) -> Table:
    from loiter.latency import Latencies

    assert isinstance(measured, Latencies)
    cores = measured.cores[:_MOST_CORES]
    rest = len(measured.cores) - len(cores)
    more = f", the first {len(cores)} of {len(measured.cores)} cores" if rest else ""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=f"load of a line that another core has modified{more}")
    table.add_column("core", justify="right")
    for core in cores:
        table.add_column(str(core), justify="right")
    for core in cores:
        table.add_row(str(core), *(f"{cycles:.0f}" for cycles in measured.matrix[core][: len(cores)]))
    return table
