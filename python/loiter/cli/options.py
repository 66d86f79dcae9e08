"""Options that several commands share."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

MachineOption = Annotated[
    str,
    typer.Option(
        "--machine", "-m", metavar="NAME|FILE", help="A machine by name (see [bold]loiter machines[/]) or by its file."
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a parameter of the machine. May be repeated."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]


def out() -> Console:
    """Where answers go. Tables are as wide as they need when no terminal limits them.

    Without markup: sources such as "[cak] Table I" are text.
    """
    return Console(markup=False, width=None if sys.stdout.isatty() else 160)


def err() -> Console:
    """Where progress and remarks go."""
    return Console(stderr=True)


def print_json(value: Any) -> None:
    """JSON on standard output, alone."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
