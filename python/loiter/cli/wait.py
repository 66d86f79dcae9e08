"""`loiter wait`: what every waiting method costs on a machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from loiter import engine as engines
from loiter.cli.options import JsonOption, MachineOption, SetOption, err, load_machine, out, print_json
from loiter.errors import UserFault


def wait(
    machine: MachineOption,
    sets: SetOption = None,
    methods: Annotated[
        str | None,
        typer.Option("--methods", "--ways", metavar="A,B,...", help="Only these waiting methods. Default: all."),
    ] = None,
    beside: Annotated[
        str | None, typer.Option("--beside", metavar="A,B,...", help="Only beside these programs. Default: all.")
    ] = None,
    waiters: Annotated[
        str | None,
        typer.Option(
            "--waiters", metavar="N,M,...", help="How many wait. Default: 1 to the contexts of a core less 1."
        ),
    ] = None,
    scale: Annotated[str, typer.Option("--scale", metavar="quick|default|full", help="How much is run.")] = "default",
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Runs at a time. Default: one for each processor.")
    ] = None,
    out_directory: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where results go. Default: results/wait-MACHINE-SCALE.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what each waiting method costs the program beside it, and how soon a waiter wakes.

    A program holds a lock, the other contexts of its core wait for it. Tables appear here, plots and a page in the
    directory of the results. Finished runs are kept: the same command continues where an earlier one was stopped.

    Example: [bold]loiter wait -m smt8 --scale quick[/]

    Example: [bold]loiter wait -m t1 --methods default,pause,wrs_nto --beside hash,sort --waiters 3[/]
    """
    from loiter.report import terminal
    from loiter.runs import pool
    from loiter.studies.runner import Order, carry_out
    from loiter.studies.wait.findings import Waiting
    from loiter.studies.wait.methods import choose

    engine = engines.load()
    found = load_machine(engine, machine, sets)
    choice = choose(found, scale, _words(methods), _words(beside), _numbers(waiters))
    directory = out_directory or Path("results") / f"wait-{found.name}-{scale}"
    if directory.exists() and not directory.is_dir():
        raise UserFault(f"--out {directory}: a file of that name exists; name a directory.")
    command = ["loiter", "wait", "-m", machine, "--scale", scale]
    for name, value in (("--methods", methods), ("--beside", beside), ("--waiters", waiters)):
        command += [name, value] if value else []
    for each in sets or []:
        command += ["--set", each]
    order = Order(Waiting(choice), scale, None, jobs or pool.cpus(), directory, shlex.join(command))
    outcome = carry_out(order, engine, err())
    outcome.raise_failures()
    assert outcome.findings is not None, "whatever has all its runs can be evaluated"
    if as_json:
        print_json(list(outcome.findings.rows))
        return
    console = out()
    terminal.show(console, outcome.findings)
    for path in outcome.files:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _numbers(text: str | None) -> list[int]:
    words = _words(text)
    for word in words:
        if not (word.isascii() and word.isdigit()):
            raise UserFault(f"--waiters {text}: numbers, separated by commas; {word} is none.")
    return [int(word) for word in words]
