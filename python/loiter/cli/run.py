"""`loiter programs` and `loiter run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from loiter import api, machines, programs
from loiter import engine as engines
from loiter.cli import complete, summary
from loiter.cli.live import LiveLine
from loiter.cli.observe import Observation
from loiter.cli.options import (
    COUNT_LIMIT,
    JsonOption,
    MachineOption,
    PhasesOption,
    SetOption,
    WaitingOption,
    err,
    load_machine,
    out,
    print_json,
    takes,
)
from loiter.engine import Engine, Json
from loiter.errors import Interrupted, StoreFault, UserFault
from loiter.programs import Placement
from loiter.report.table import headed
from loiter.runs.progress import describe_progress
from loiter.runs.request import Request, ended_well, fault_of


def list_programs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|FILE]",
            help="Only this one, with the arguments of its tasks.",
            autocompletion=complete.programs,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the programs that come with loiter and the tasks each has."""
    engine = engines.load()
    if name is not None and not as_json:
        typer.echo(_own_words(engine, name))
        return
    found = [programs.load(engine, each) for each in ([name] if name else programs.names())]
    if as_json:
        print_json(
            [{"name": each.name, "path": str(each.path), "hash": each.hash, "tasks": each.tasks} for each in found]
        )
        return
    if not found:
        raise UserFault("no program is built. In a checkout, `make setup` builds them.")
    table = headed()
    table.add_column("program")
    table.add_column("tasks", overflow="fold")
    for each in found:
        table.add_row(Text(each.name, style="bold"), ", ".join(each.tasks))
    out().print(table)


def _own_words(engine: Engine, name: str) -> str:
    """What a program says of itself: one of ours, run without a task, lists its tasks and their arguments."""
    program = programs.load(engine, name)
    if not program.tasks:
        return f"{program.name} has no tasks; it takes its command line as it likes."
    request = Request(machines.load(engine, "virt"), program, Placement(()), max_cycles=10_000_000)
    lines = str(engine.run(request.native(), program.elf)["console"]).splitlines()
    # It ends with an error about the missing task, which is meant here.
    return "\n".join(line for line in lines if not line.startswith("error:"))


@takes(observation=Observation)
def run(
    *,
    program: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM", help="An ELF by its path, or a program by name.", autocompletion=complete.programs
        ),
    ],
    machine: MachineOption,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Arguments of the program, after [bold]--[/].")
    ] = None,
    sets: SetOption = None,
    places: Annotated[
        list[str] | None,
        typer.Option(
            "--place",
            autocompletion=complete.tasks,
            metavar="TASK=CONTEXT[,CONTEXT...]",
            help="Put a task on contexts, each a number over the machine or core.context. May be repeated.",
        ),
    ] = None,
    fast_forward: Annotated[
        bool,
        typer.Option(
            "--fast-forward",
            help="Skip to the program's region of interest without timing: "
            '[bold]--phases "reference until probe:roi_begin, timing"[/].',
        ),
    ] = False,
    phases: PhasesOption = None,
    waiting: WaitingOption = None,
    max_cycles: Annotated[
        int | None, typer.Option("--max-cycles", min=1, max=COUNT_LIMIT, help="Stop after so many cycles.")
    ] = None,
    out_directory: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write a result directory: manifest and Parquet tables.")
    ] = None,
    observation: Observation,
    as_json: JsonOption = False,
) -> None:
    """Run a program on a machine.

    The program's console comes first, a summary after it. A context without a task sleeps.

    Example: [bold]loiter run -m t1 spinloops --place add=0 --place spin_default=1,2,3 -- iterations=100[/]
    """
    engine = engines.load()
    request = api.request(
        load_machine(engine, machine, sets),
        program,
        place=places,
        arguments=arguments,
        fast_forward=fast_forward,
        phases=phases,
        max_cycles=max_cycles,
        waiting=waiting,
        lock_stats=observation.lock_stats,
    )
    observation.check_kept(as_json or out_directory is not None)
    if out_directory is not None:
        from loiter import store

        store.claim(out_directory)
    result = _simulate(engine, request, observation, live=not as_json)
    fault = None if _ended_as_asked(result) else fault_of(result, lines=1)
    if isinstance(fault, UserFault) and not as_json:
        # Nothing has run: its reason, which the fault tells, is all that there is.
        raise fault
    # Before anything that can fail: what the program said is heard in any case.
    if as_json:
        print_json({"request": request.native()} | result)
    else:
        summary.show_console(result)
    if out_directory is not None:
        store.write(out_directory, request, engine, result, replace=True)
    if not as_json:
        summary.show(request, result, out_directory)
    if result["missed_phase"] is not None and ended_well(result):
        raise UserFault(f"{'--phases' if phases else '--fast-forward'}: {result['missed_phase']}")
    if fault is not None:
        # The program's reason is its last word; the rest of its console stands above the summary.
        raise fault
    if result["log_faults"]:
        raise StoreFault("\n".join(result["log_faults"]))


def _ended_as_asked(result: Json) -> bool:
    """A limit or an end that the user set is no failure."""
    return result["exit"]["reason"] in ("max_cycles", "phases") or ended_well(result)


def _simulate(engine: Engine, request: Request, observation: Observation, *, live: bool) -> Json:
    if observation.gdb is not None:
        err().print(f"waiting for GDB: target remote {observation.gdb}", highlight=False)
    native = request.native() | {"observe": observation.native()}
    with LiveLine(f"{request.program.name} on {request.machine.name}", wanted=live) as line:

        def progress(facts: Json) -> bool:
            line.update(lambda: describe_progress(facts))
            return True

        try:
            return engine.run(native, request.program.elf, progress)
        except Interrupted:
            raise Interrupted("interrupted; nothing was written") from None
