"""`loiter machines` and `loiter machine show`."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer
from rich.text import Text

from loiter import engine as engines
from loiter import machines
from loiter.cli import complete
from loiter.cli.options import JsonOption, SetOption, load_machine, out, print_json
from loiter.machines import Machine
from loiter.report.table import headed

app = typer.Typer(help="Look into a machine.", no_args_is_help=True)


def list_machines(as_json: JsonOption = False) -> None:
    """List the machines that come with loiter."""
    engine = engines.load()
    found = [machines.load(engine, name) for name in machines.names()]
    if as_json:
        print_json([_facts(each) for each in found])
        return
    table = headed()
    for column in ("name", "description"):
        table.add_column(column, overflow="fold")
    for column in ("cores", "contexts a core", "clock, MHz"):
        table.add_column(column, justify="right")
    for each in found:
        clock = each.value("system.clock_mhz")
        table.add_row(
            Text(each.name, style="bold"),
            each.description,
            str(each.contexts // each.contexts_per_core),
            str(each.contexts_per_core),
            "" if clock is None else str(clock),
        )
    out().print(table)


@app.command("show")
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME|FILE", help="A machine by name or by its file.", autocompletion=complete.machines),
    ],
    sets: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show every parameter of a machine: value, unit, what it is and where the value comes from."""
    machine = load_machine(engines.load(), name, sets)
    if as_json:
        parameters = [dataclasses.asdict(each) for each in machine.parameters]
        print_json(_facts(machine) | {"parameters": parameters, "sources": dict(machine.sources)})
        return
    console = out()
    console.print(Text.assemble((machine.name, "bold"), f": {machine.description}"))
    console.print(Text(f"hash {machine.hash}", style="dim"))
    table = headed()
    table.add_column("key", no_wrap=True)
    # A narrow terminal goes without the unit, which the key ends with, and folds what is long.
    wide = console.width >= 120
    table.add_column("value", justify="right", overflow="fold", max_width=None if wide else 10)
    for column in ("unit", "description", "source") if wide else ("description", "source"):
        table.add_column(column, overflow="fold")
    for each in machine.parameters:
        # A mark beside the colour: colour is off in a pipe and for some eyes.
        value = Text(
            f"* {each.value}" if each.changed else str(each.value), style="bold yellow" if each.changed else ""
        )
        unit = (each.unit,) if wide else ()
        table.add_row(each.key, value, *unit, each.description, each.source)
    console.print(table)
    for tag, citation in machine.sources:
        console.print(Text.assemble((f"[{tag}] ", "bold"), citation), soft_wrap=True)
    if any(each.changed for each in machine.parameters):
        console.print("* changed by --set", style="yellow", highlight=False)


def _facts(machine: Machine) -> dict[str, Any]:
    return {
        "name": machine.name,
        "description": machine.description,
        "hash": machine.hash,
        "cores": machine.contexts // machine.contexts_per_core,
        "contexts_per_core": machine.contexts_per_core,
    }
