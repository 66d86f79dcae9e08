"""`loiter latency`: how long accesses take, by the state of a line and by who has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from loiter import bandwidth
from loiter import engine as engines
from loiter import latency as latencies
from loiter.cli import bandwidth as shown_bandwidth
from loiter.cli.options import JsonOption, MachineOption, SetOption, err, load_machine, out, print_json
from loiter.errors import UserFault, unknown
from loiter.machines import Machine
from loiter.report.table import headed

_PARTS = ("latency", "bandwidth", "loaded")
_MOST_CORES = 16
"""Cores whose matrix the terminal shows; the plot has all."""


def latency(
    machine: MachineOption,
    sets: SetOption = None,
    out_directory: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where plots go. Default: nowhere.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="PART",
            help="Measure this part only: latency, bandwidth, or loaded (latency under load). May be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure how long loads, stores and atomics take, by the state of a line and by who has it; and bandwidth.

    A guest program runs on all cores: one brings lines into a state, another accesses them. A second program reads as
    fast as it can, from half of a data cache to some times the last cache; and measures a load while other cores do.
    Finished runs are kept.

    Example: [bold]loiter latency -m knl[/]

    Example: [bold]loiter latency -m p-core --set system.cores=8 --out results/p-core[/]

    Example: [bold]loiter latency -m knl --only bandwidth --only loaded[/]
    """
    found = load_machine(engines.load(), machine, sets)
    if out_directory is not None and out_directory.exists() and not out_directory.is_dir():
        raise UserFault(f"--out {out_directory}: a file of that name exists; name a directory.")
    for part in only or ():
        if part not in _PARTS:
            raise unknown("part", part, _PARTS)
    measured, streamed, loaded = _measure(found, set(only or _PARTS))
    written = [] if out_directory is None else _draw(found, measured, streamed, loaded, out_directory)
    if as_json:
        print_json(
            {
                "machine": found.name,
                "hash": found.hash,
                "latencies": [dataclasses.asdict(each) for each in measured.table],
                "cores": measured.cores,
                "load_modified_cycles": measured.matrix,
                "bandwidth": shown_bandwidth.rows(found, streamed),
                "loaded": shown_bandwidth.rows(found, loaded),
            }
        )
        return
    console = out()
    clock = found.value("system.clock_mhz")
    console.print(Text.assemble((found.name, "bold"), f": cycles of {clock} MHz"))
    if measured.table:
        console.print(_table(measured))
    if measured.matrix:
        console.print(_matrix(measured))
    if streamed:
        console.print(shown_bandwidth.bandwidth_table(found, streamed))
    if loaded:
        console.print(shown_bandwidth.loaded_table(found, loaded))
    if written:
        console.print(f"wrote {', '.join(sorted(written))} to {out_directory}", highlight=False, soft_wrap=True)


def _measure(
    machine: Machine, wanted: set[str]
) -> tuple[latencies.Latencies, tuple[bandwidth.Bandwidth, ...], tuple[bandwidth.Loaded, ...]]:
    from rich.progress import Progress

    measured = latencies.Latencies(machine, (), (), ())
    streamed: tuple[bandwidth.Bandwidth, ...] = ()
    loaded: tuple[bandwidth.Loaded, ...] = ()
    latencies.check_timed(machine)
    with Progress(console=err(), transient=True) as progress:

        def shows(part: str) -> Callable[[float], None]:
            task = progress.add_task(f"{part} of {machine.name}", total=1.0)
            return lambda share: progress.update(task, completed=share)

        if "latency" in wanted:
            measured = latencies.measure(machine, shows("latency"))
        if "bandwidth" in wanted:
            streamed = bandwidth.measure(machine, shows("bandwidth"))
        if "loaded" in wanted:
            loaded = bandwidth.measure_loaded(machine, shows("latency under load"))
    return measured, streamed, loaded


def _draw(
    machine: Machine,
    measured: latencies.Latencies,
    streamed: tuple[bandwidth.Bandwidth, ...],
    loaded: tuple[bandwidth.Loaded, ...],
    directory: Path,
) -> list[str]:
    from loiter import plots

    written = shown_bandwidth.draw(machine, streamed, loaded, directory)
    for kind in ("png", "svg") if measured.matrix else ():
        title = f"{machine.name}: load of a line that another core has modified"
        drawn = plots.draw_matrix(title, "core that has the line", "core that loads", measured.matrix, "cycles", kind)
        (directory / f"cores.{kind}").write_bytes(drawn)
        written.append(f"cores.{kind}")
    return written


def _table(measured: latencies.Latencies) -> Table:
    table = headed("latency; of several holders also the least and the most")
    table.add_column("operation", no_wrap=True)
    table.add_column("line")
    shown = [distance for distance in latencies.DISTANCES if any(each.distance == distance for each in measured.table)]
    for distance in shown:
        table.add_column(distance, justify="right")
    measured_states = {each.state for each in measured.table}
    for operation in latencies.OPERATIONS:
        for state in (state for state in latencies.STATES if state in measured_states):
            here = {
                each.distance: each for each in measured.table if (each.operation, each.state) == (operation, state)
            }
            cells = [_cell(here.get(distance)) for distance in shown]
            table.add_row(operation if state == latencies.STATES[0] else "", state, *cells)
    return table


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
    table = headed(f"load of a line that another core has modified{more}")
    table.add_column("core", justify="right")
    for core in cores:
        table.add_column(str(core), justify="right")
    for core in cores:
        table.add_row(str(core), *(f"{cycles:.0f}" for cycles in measured.matrix[core][: len(cores)]))
    return table
