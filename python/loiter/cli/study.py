"""`loiter study list` and `loiter study run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from loiter import api, studies
from loiter.cli import complete
from loiter.cli.options import out
from loiter.errors import UserFault
from loiter.report.table import headed
from loiter.store import save_text

app = typer.Typer(help="Repeat published experiments.", no_args_is_help=True)


@app.command("list")
def list_studies() -> None:
    """List the studies, their scales and their figures."""
    console = out()
    for name in studies.NAMES:
        study = studies.load(name)
        console.print(Text.assemble((study.name, "bold"), f": {study.title}"))
        console.print(Text(study.citation, style="dim"))
        table = headed()
        table.add_column("", style="dim")
        table.add_column("name")
        table.add_column("what it is", overflow="fold")
        for scale, description in study.scales.items():
            table.add_row("--scale", scale, description)
        for exhibit in study.exhibits:
            table.add_row("--figure", exhibit.id, exhibit.title)
        console.print(table)


@app.command("run")
def run(
    name: Annotated[
        str,
        typer.Argument(
            metavar="STUDY", help="A study by name (see [bold]loiter study list[/]).", autocompletion=complete.studies
        ),
    ],
    figure: Annotated[
        str | None, typer.Option("--figure", metavar="ID", help="Only the runs that one figure or table needs.")
    ] = None,
    scale: Annotated[str, typer.Option("--scale", metavar="quick|default|full", help="How much is run.")] = "default",
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time. Default: one for each processor.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the published and measured points here.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[MACHINE:]KEY=VALUE",
            help="Change the machines of the study, or one of them; by vm:SECTION.KEY=VALUE its hosts with guests. An "
            "experiment. May be repeated.",
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--argument",
            metavar="KEY=VALUE",
            help="Add a word to the command line of the study's bare-metal programs. May be repeated.",
        ),
    ] = None,
    appended: Annotated[
        list[str] | None,
        typer.Option(
            "--append",
            metavar="WORD",
            help="Add a word to the command line of the study's kernels, for what runs on Linux. May be repeated.",
        ),
    ] = None,
    out_directory: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where results go. Default: results/STUDY-SCALE, with what is changed."
        ),
    ] = None,
) -> None:
    """Run a study and show its results beside the published ones.

    Finished runs are kept: after Ctrl-C, or when something changed, only what is missing is run again. With
    [bold]--set[/], [bold]--argument[/] or [bold]--append[/] the results are those of an experiment, and are marked so.
    """
    from loiter.report import terminal

    if json_file is not None and not json_file.parent.is_dir():
        raise UserFault(f"--json {json_file}: there is no directory {json_file.parent}.")
    outcome = api.study(
        name,
        scale=scale,
        figure=figure,
        changes=sets or (),
        arguments=arguments or (),
        append=appended or (),
        out=out_directory,
        workers=jobs,
    )
    if json_file is not None and outcome.findings is not None:
        save_text(json_file, outcome.points_json)
    console = out()
    if outcome.findings is not None:
        terminal.show(console, outcome.findings)
    for path in outcome.files:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
    outcome.raise_failures()
