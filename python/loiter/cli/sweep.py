"""`loiter sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from loiter import api
from loiter.cli import complete
from loiter.cli.options import (
    COUNT_LIMIT,
    EnvironmentOption,
    JsonOption,
    PackagesOption,
    PhasesOption,
    PutOption,
    RoiOption,
    SetOption,
    TimeoutOption,
    WaitingOption,
    err,
    out,
)
from loiter.cli.systems import (
    AppendOption,
    HartsOption,
    ImageOption,
    MemoryOption,
    NetworkOption,
    SeedOption,
    memory_mib,
)
from loiter.errors import RunFault, UserFault
from loiter.report.table import headed

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = ("cycles", "instructions", "ipc", "exit_status")
"""Columns of the table in the terminal beside the axes; the file has all."""

_MOST_ROWS = 40


def sweep(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE.toml]", help="A sweep's file.")] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            autocompletion=complete.axes,
            metavar="KEY=VALUES",
            help="What is to vary: [bold]core.contexts=1,2,4[/], [bold]l2.size_kib=1024..8192*2[/], "
            "[bold]argument.iterations=10..50+10[/], [bold]machine=t1,t2[/]. May be repeated.",
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            "-m",
            metavar="NAME|FILE",
            help="The machine, if it does not vary.",
            autocompletion=complete.machines,
        ),
    ] = None,
    sets: SetOption = None,
    program: Annotated[
        str | None,
        typer.Option(
            "--program",
            "-p",
            metavar="PROGRAM",
            help="The program, if it does not vary.",
            autocompletion=complete.programs,
        ),
    ] = None,
    places: Annotated[
        list[str] | None,
        typer.Option(
            "--place",
            metavar="TASK=CONTEXT[,CONTEXT...]",
            help="As of [bold]loiter run[/].",
            autocompletion=complete.tasks,
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--argument", metavar="KEY=VALUE", help="An argument of the program; in a command, what stands for {KEY}."
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--command",
            metavar="TEXT",
            help="Instead of a bare-metal program, a program on a booted Debian, as [bold]loiter exec[/] runs it: "
            "[bold]'./prog {threads}'[/].",
        ),
    ] = None,
    harts: HartsOption = None,
    memory: MemoryOption = None,
    image: ImageOption = None,
    packages: PackagesOption = None,
    put: PutOption = None,
    environment: EnvironmentOption = None,
    append: AppendOption = None,
    network: NetworkOption = False,
    seed: SeedOption = 0,
    roi: RoiOption = None,
    timeout_s: TimeoutOption = None,
    phases: PhasesOption = None,
    waiting: WaitingOption = None,
    max_cycles: Annotated[
        int | None, typer.Option("--max-cycles", min=1, max=COUNT_LIMIT, help="Stop a run after so many.")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs", "-j", min=1, help="Runs at a time, or jobs of a batch system. Default: one for each processor."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="local|slurm|pbs|htcondor|ADDRESS",
            help="A cluster of Dask's: processes of this host, jobs of a batch system, or a scheduler's address.",
        ),
    ] = None,
    out_directory: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where the table goes. Default: results/sweep, or results/FILE."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a program over a grid of parameters: a row for each point, in one Parquet file.

    Runs that were made before, by whatever command, are not made again: after Ctrl-C, a kill or a full disk the same
    command runs only what is left. A point whose run fails is a row with its error.

    Example: [bold]loiter sweep -m smt8 -p spinloops --place add=0 --grid core.fetch_width=1..8*2[/]

    Example: [bold]loiter sweep -m smt8 --command './prog {threads}' --harts 8 --grid argument.threads=1..8*2[/]
    """
    from loiter.sweeps import file as files
    from loiter.sweeps import grid as grids
    from loiter.sweeps import table

    words: dict[str, Any] = {} if file is None else files.read(file)
    given = {
        "machine": machine,
        "program": program,
        "place": places,
        "arguments": arguments,
        "phases": phases,
        "waiting": waiting,
        "max_cycles": max_cycles,
        "command": command,
        "harts": harts,
        "memory_mib": memory_mib(memory),
        "image": image,
        "packages": packages,
        "put": put,
        "environment": environment,
        "append": append,
        "network": network or None,
        "seed": seed or None,
        "roi": roi,
        "timeout_s": timeout_s,
    }
    words |= {key: value for key, value in given.items() if value is not None}
    axes = dict(words.pop("grid", {}))
    for text in grid or []:
        axis = grids.word(text)
        axes[axis.key] = axis.values
    if sets:
        if "machine" not in words:
            raise UserFault("--set changes one machine; here the machine varies. Name the key in --grid instead.")
        words["machine"] = api.machine(words["machine"], *sets)
    directory = out_directory or Path("results") / ("sweep" if file is None else file.stem)
    frame = api.sweep(axes, **words, out=directory, workers=jobs, cluster=cluster)
    if as_json:
        typer.echo(frame.to_json(orient="records", indent=2))
    else:
        _show(out(), frame, list(axes))
        for name in (table.POINTS, table.CSV, table.PAGE):
            out().print(f"wrote {directory / name}", highlight=False, soft_wrap=True)
    failed = int(frame[table.ERROR].notna().sum())
    if failed == len(frame):
        mistakes = (frame[table.ERROR_STATUS] == UserFault.exit_status).all()
        raise (UserFault if mistakes else RunFault)(
            f"all {failed} points failed; the first: {frame[table.ERROR].iloc[0]}"
        )
    if failed:
        err().print(f"{failed} of {len(frame)} points failed; column {table.ERROR} says why.", style="red")


def _show(console: Console, frame: pd.DataFrame, axes: list[str]) -> None:
    from loiter.report.terminal import cell
    from loiter.sweeps import table

    columns = [*axes, *(column for column in _SHOWN if column in frame.columns)]
    failed = frame[table.ERROR].notna().any()
    shown = headed()
    for column in columns:
        shown.add_column(column, justify="right", overflow="fold")
    if failed:
        shown.add_column(table.ERROR, overflow="fold")
    for _, row in frame.head(_MOST_ROWS).iterrows():
        shown.add_row(*(cell(row[column]) for column in [*columns, *([table.ERROR] if failed else [])]))
    console.print(shown, highlight=False)
    if len(frame) > _MOST_ROWS:
        console.print(f"and {len(frame) - _MOST_ROWS:,} more", style="dim", highlight=False)
