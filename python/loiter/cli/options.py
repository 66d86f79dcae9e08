"""Options that several commands share, and what they do with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.console import Console
from rich.text import Text

from loiter import machines
from loiter.cli import complete
from loiter.engine import Engine
from loiter.errors import UserFault, nearest
from loiter.machines import Machine
from loiter.systems.roi import Roi

MachineOption = Annotated[
    str,
    typer.Option(
        "--machine",
        "-m",
        metavar="NAME|FILE",
        help="A machine by name (see [bold]loiter machines[/]) or by its file.",
        autocompletion=complete.machines,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a parameter of the machine. May be repeated.",
        autocompletion=complete.keys,
    ),
]
PhasesOption = Annotated[
    str | None,
    typer.Option(
        "--phases",
        metavar="PLAN",
        help="Which engine runs it until when, such as "
        '"reference until symbol:main, timing for 2M instructions, reference warm until console:ready, timing".',
    ),
]
RoiOption = Annotated[
    Roi | None,
    typer.Option(
        "--roi",
        help="What timed cores run: the program from its first instruction in user mode to its end (process, the "
        "default), from its function main (main), or everything (all). The rest runs on the untimed reference engine.",
        show_default=False,
    ),
]
WaitingOption = Annotated[
    str | None,
    typer.Option(
        "--waiting",
        metavar="TABLE|FILE|off",
        help="Which functions wait for locks or for work, for accounts and [bold]loiter metrics[/]. Default: the table "
        "of the image's kernel.",
    ),
]
COUNT_LIMIT = 2**64 - 1
"""The simulator counts in 64 bits."""
PackagesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--packages", metavar="A,B,...", help="Debian packages beside those every image has. May be repeated."
    ),
]
PutOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--put", metavar="FILE", help="A file or directory that the program finds beside it. May be repeated."
    ),
]
EnvironmentOption = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="A variable of the program's environment. May be repeated."),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0.0, help="Fail when it has not ended by then; host time."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for other programs.")]


def out() -> Console:
    """Where results go. Tables are as wide as they need when no terminal limits them.

    Without markup: sources such as "[cak] Table I" are text.
    """
    return Console(markup=False, width=None if sys.stdout.isatty() else 160)


def err() -> Console:
    """Where progress and remarks go."""
    return Console(stderr=True)


def warn(text: str) -> None:
    """A remark on something that does not stop the command."""
    err().print(Text.assemble(("warning: ", "bold yellow"), text), soft_wrap=True)


def load_machine(engine: Engine, name: str, sets: list[str] | None) -> Machine:
    """The machine that a person named. Warns of sources in a file of theirs that say nothing."""
    machine = machines.load(engine, name, sets)
    if machines.is_file(name):
        tags = [tag for tag, _ in machine.sources]
        for tag, keys in machine.undefined_tags().items():
            close = nearest(tag, tags, 1)
            advice = f'did you mean "{close[0]}"?' if close else f"defined: {', '.join(tags) or 'none'}."
            warn(f"{name}: [sources] does not define [{tag}], in the source of {', '.join(keys)}; {advice}")
    return machine


def check_directory(out_directory: Path | None) -> None:
    """Refuses an --out that is a file."""
    if out_directory is not None and out_directory.exists() and not out_directory.is_dir():
        raise UserFault(f"--out {out_directory}: a file of that name exists; name a directory.")


def print_json(value: Any) -> None:
    """JSON on standard output, alone."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def takes(**classes: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the fields of data classes as its options; it gets each as the argument of that name."""

    def give(command: Callable[..., None]) -> Callable[..., None]:
        own = get_type_hints(command, include_extras=True)
        parameters = []
        for name, each in signature(command).parameters.items():
            if name not in classes:
                parameters.append(_parameter(name, own[name], each.default))
                continue
            hints = get_type_hints(classes[name], include_extras=True)
            parameters += [_parameter(field.name, hints[field.name], field.default) for field in fields(classes[name])]

        def run(**given: Any) -> None:
            made = {
                name: options(**{field.name: given.pop(field.name) for field in fields(options)})
                for name, options in classes.items()
            }
            command(**made, **given)

        run.__doc__, run.__name__ = command.__doc__, command.__name__
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return give


def _parameter(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
