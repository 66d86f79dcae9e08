"""`loiter snapshot`: saves a system half way, and says what a snapshot is of."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from loiter import engine as engines
from loiter.cli.options import COUNT_LIMIT, JsonOption, err, out, print_json, takes
from loiter.cli.systems import BootOptions, sits_in_cores
from loiter.engine import Json
from loiter.errors import RunFault, UserFault
from loiter.report.table import headed
from loiter.systems.drive import Driver
from loiter.systems.ending import How
from loiter.systems.facts import describe, facts
from loiter.systems.terminal import Terminal
from loiter.systems.watch import Watch

app = typer.Typer(help="Systems saved half way, to be continued.", no_args_is_help=True)

_MIB = 1 << 20


@app.command("save")
@takes(system=BootOptions)
def save(
    system: BootOptions,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where to save it.")],
    at: Annotated[str | None, typer.Option("--at", metavar="TEXT", help="When the console says this.")] = None,
    at_cycle: Annotated[
        int | None,
        typer.Option(
            "--at-cycle", metavar="N", min=0, max=COUNT_LIMIT, help="After so much simulated time, in cycles."
        ),
    ] = None,
    at_instructions: Annotated[
        int | None,
        typer.Option("--at-instructions", metavar="N", min=0, max=COUNT_LIMIT, help="After so many, of all harts."),
    ] = None,
    phases: Annotated[
        str | None,
        typer.Option(
            "--phases",
            metavar="PLAN",
            help="Where the last phase ends, such as "
            '"reference until console:ready, timing for 1M cycles": with what is in flight in timed cores.',
        ),
    ] = None,
    description: Annotated[str, typer.Option("--description", metavar="TEXT", help="Whatever you say of it.")] = "",
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", metavar="SECONDS", min=0.0, help="Fail when it is not there by then; host time."),
    ] = None,
) -> None:
    """Boot a system and save it at a point that is the same in every run: the turn of the harts that reaches it.

    The boot is untimed, whatever the machine, but for timed phases; [bold]loiter boot --snapshot FILE[/] continues on
    the machine's cores.

    Example: [bold]loiter snapshot save init.snapshot --at "Run /init"[/]
    """
    points = [each is not None for each in (at, at_cycle, at_instructions, phases)]
    if sum(points) != 1:
        raise UserFault("say when to save: one of --at TEXT, --at-cycle N, --at-instructions N and --phases PLAN.")
    directory = path.absolute().parent
    if not directory.is_dir():
        raise UserFault(f"{path}: there is no directory {directory}.")
    if path.is_dir() or not os.access(directory, os.W_OK):
        raise UserFault(f"{path}: cannot be written; name a file in a directory of yours.")
    engine = engines.load()
    request = replace(system.request(engine), untimed=True)
    began = time.monotonic()
    session = engine.boot(request.native())
    if phases is not None:
        session.begin_phases(phases)
    with Terminal() as terminal:
        driver = Driver(
            session=session,
            terminal=terminal,
            watch=Watch(at),
            pace=False,
            command=lambda key: terminal.say(f"\nCtrl-A {key!r}: only Ctrl-A x does anything here"),
            cycle=at_cycle,
            instructions=at_instructions,
            timeout_s=timeout_s,
        )
        end = driver.run()
        terminal.say("")
    if end.how not in (How.SAID, How.LIMIT, How.PHASES):
        raise RunFault(f"{end.message}; nothing was saved, for the system was not there yet")
    missed = session.missed_phase()
    if missed is not None:
        raise UserFault(f"--phases: {missed}; nothing was saved")
    length = session.save(path, description)
    err().print(describe(facts(session, time.monotonic() - began)), style="dim", highlight=False, soft_wrap=True)
    out().print(f"{path} is written, {length / _MIB:.1f} MiB", soft_wrap=True, highlight=False)


@app.command("show")
def show(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A snapshot.")],
    as_json: JsonOption = False,
) -> None:
    """Show what a snapshot is of."""
    found = engines.load().show_snapshot(path)
    if as_json:
        print_json(found)
        return
    console = out()
    console.print(_summary(found), highlight=False)
    for title, rows in (("booted", found["header"]["booted"]), ("disks", found["header"]["disks"])):
        if rows:
            console.print(_files(title, rows), highlight=False)
    console.print(_sections(found["sections"]), highlight=False)


def _summary(found: Json) -> Table:
    header, hardware = found["header"], found["header"]["hardware"]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    if header["description"]:
        table.add_row("description", header["description"])
    table.add_row("machine", f"{header['machine']}, hash {header['machine_hash'][:16]}")
    table.add_row("harts", str(hardware["harts"]))
    table.add_row("memory", f"{hardware['ram_bytes'] // _MIB:,} MiB")
    table.add_row("ISA", hardware["isa"])
    table.add_row("saved at", f"cycle {header['cycle']:,}, after {header['instructions']:,} instructions")
    if sits_in_cores(found):
        table.add_row(
            "in flight", f"accesses and instructions in timed cores: {header['machine']} alone continues them"
        )
    table.add_row("state", header["state_hash"])
    if found["request"] is not None:
        table.add_row("command line", found["request"]["bootargs"])
    table.add_row("written by", f"loiter {header['loiter']}")
    table.add_row("length", f"{found['bytes']:,} bytes")
    return table


def _files(title: str, rows: list[Json]) -> Table:
    table = _columns(title, "name", "bytes", "hash")
    for row in rows:
        table.add_row(row["role"], row["name"] or "empty", f"{row['bytes']:,}", row["hash"][:32])
    return table


def _sections(rows: list[Json]) -> Table:
    """RAM is many sections, which are one line here."""
    table = _columns("section", "bytes", "in the file")
    sums: dict[str, list[int]] = {}
    for row in rows:
        entry = sums.setdefault(row["name"].partition(".")[0], [0, 0])
        entry[0] += row["bytes"]
        entry[1] += row["stored_bytes"]
    for name, (length, stored) in sums.items():
        table.add_row(name, f"{length:,}", f"{stored:,}")
    return table


def _columns(*names: str) -> Table:
    table = headed()
    for name in names:
        table.add_column(name, justify="right" if name in ("bytes", "in the file") else "left", overflow="fold")
    return table
