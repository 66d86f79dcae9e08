"""`loiter explore`: all executions of a small program under a memory model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from loiter import engine as engines
from loiter import resources
from loiter.cli.live import LiveLine
from loiter.cli.observe import check_port
from loiter.cli.options import JsonOption, err, out, print_json
from loiter.engine import Debugger, Json
from loiter.errors import RunFault, UserFault, unknown
from loiter.report.table import headed

MODELS = ("sc", "tso", "rvwmo")

_NOTES = {"assertion": "hart {hart} fails an assertion", "check": "check() fails", "deadlock": "deadlock"}


def explore(
    program: Annotated[Path, typer.Argument(metavar="PROGRAM", help="An ELF file for bare RV64 harts.")],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="The memory model: sc (sequential consistency), tso (RVTSO, as x86) or rvwmo (that of RISC-V).",
        ),
    ] = "rvwmo",
    harts: Annotated[int, typer.Option("--harts", metavar="N", min=1, max=8, help="How many harts run.")] = 2,
    states: Annotated[
        int, typer.Option("--states", metavar="N", min=1, help="Give up after so many states of the program.")
    ] = 20_000_000,
    gdb: Annotated[
        str | None,
        typer.Option(
            "--gdb",
            metavar="[HOST:]PORT",
            help="Replay a failing execution under GDB, forwards and backwards: wait for it there after the table.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Look at every execution that a memory model allows to a small program, and show the shortest that fails.

    Each hart calls the program's function [bold]thread(n)[/]; [bold]setup(harts)[/] runs before, [bold]check(harts)[/]
    afterwards. An execution fails where a hart executes [bold]ebreak[/], as a failing assertion does, or where harts
    wait for what none of them will do. There are no devices, and the program has to end.

    Example: [bold]loiter explore mcs.elf --model rvwmo --harts 3[/]
    """
    if model not in MODELS:
        raise unknown("model", model, MODELS)
    if not program.is_file():
        raise UserFault(f"{program}: no such file. Give an ELF file; docs/explore.md says what it has to hold.")
    elf = resources.read_bytes(program, "the program")
    engine = engines.load()
    if gdb is not None:
        check_port(gdb)
    # An address that cannot be had is told before a long exploration, not after it.
    debugger = None if gdb is None else engine.debugger(gdb)
    with LiveLine(f"{program.name}, {model}") as line:

        def progress(facts: Json) -> bool:
            line.update(lambda: f"{facts['states']:,} states looked at, {facts['known'] - facts['states']:,} to go")
            return True

        found, failing = engine.explore(str(program), elf, model, harts, states, progress)
    failure = found["failure"]
    if as_json:
        print_json(found)
    else:
        _show(program, found)
    if debugger is not None and failing is None:
        err().print("--gdb: nothing fails, so there is nothing to replay", highlight=False, soft_wrap=True)
    if failure is not None:
        if debugger is not None:
            _replay(debugger, failing, program)
        what = _NOTES[failure["kind"]].format(**failure)
        raise RunFault(f"{program}: {what}, after {len(failure['steps'])} accesses under {model}.")


def _show(program: Path, found: Json) -> None:
    """What came of it, as text."""
    console = out()
    failure = found["failure"]
    sized = f"{found['harts']} harts, {found['model']}: {found['states']:,} states"
    if failure is None:
        console.print(f"{program.name}, {sized}: nothing fails", highlight=False, soft_wrap=True)
        return
    console.print(f"{program.name}, {sized}", highlight=False, soft_wrap=True)
    console.print(_table(failure))
    for stand in failure["stands"]:
        where = f"hart {stand['hart']} is at {stand['pc']:#x} {stand['instruction']}"
        console.print(f"{where}  {_short(stand['line'])}", highlight=False, soft_wrap=True)


def _replay(debugger: Debugger, failing: object, program: Path) -> None:
    """Waits for GDB, and shows it the failing execution until it goes."""

    def tell(message: str) -> None:
        err().print(message, highlight=False, soft_wrap=True)

    tell(f"waiting for GDB: gdb-multiarch {program} -ex 'target remote {debugger.address}'")
    debugger.serve(failing, tell)


def _table(failure: Json) -> Table:
    """A row for each access that other harts can see, in the order in which they become visible."""
    table = headed()
    table.add_column("step", justify="right")
    for name in ("hart", "address", "source", "instruction", "reads", "writes"):
        table.add_column(name, overflow="fold")
    for number, step in enumerate(failure["steps"], 1):
        read = ""
        if step["read"] is not None:
            origin = "at first" if step["from"] is None else f"of step {step['from']}"
            read = f"{step['read']:#x} {origin}"
        wrote = "" if step["wrote"] is None else f"{step['wrote']:#x}"
        if step["early"]:
            wrote += " early"
        table.add_row(
            str(number),
            str(step["hart"]),
            step["symbol"] or f"{step['address']:#x}",
            _short(step["line"]),
            step["instruction"] or "",
            read,
            wrote,
        )
    return table


def _short(line: str | None) -> str:
    """A source line without its folders."""
    return "" if line is None else line.rsplit("/", 1)[-1]
