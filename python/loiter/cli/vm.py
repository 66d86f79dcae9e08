"""`loiter vm`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from loiter import engine as engines
from loiter.cli.live import LiveLine
from loiter.cli.options import JsonOption, err, out, print_json
from loiter.engine import Json
from loiter.errors import UserFault
from loiter.report.table import headed
from loiter.runs.progress import describe_progress

if TYPE_CHECKING:
    from loiter import vms


def vm(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A host and its guests (docs/virtual.md).")],
    out_directory: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write a result directory: manifest and Parquet tables.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Stop at --at and save the whole host to this file.")
    ] = None,
    at_us: Annotated[
        int | None, typer.Option("--at", metavar="US", min=0, help="Simulated time of --save, in microseconds.")
    ] = None,
    begin: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Go on from a host that was saved.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run guests whose harts are virtual CPUs on the physical CPUs of one host.

    What each guest said comes first, then what became of its virtual CPUs' time and of the physical CPUs'.

    Example: [bold]loiter vm two-guests.toml --out results/two[/]

    Example: [bold]loiter vm two-guests.toml --save half.snap --at 500000[/]

    Example: [bold]loiter vm two-guests.toml --from half.snap[/]
    """
    # Images take long to load, and most commands need none.
    from loiter import vms

    if (save is None) != (at_us is None):
        raise UserFault("--save FILE and --at US belong together: a host is saved where it then stands")
    engine = engines.load()
    file = vms.load(engine, path)
    if out_directory is not None:
        from loiter import store

        store.claim(out_directory)
    began = time.monotonic()
    clock_hz = 1e6 * file.values["host"]["clock_mhz"]
    with LiveLine(path.name, wanted=not as_json) as line:

        def progress(status: Json) -> None:
            facts = {
                "host_seconds": time.monotonic() - began,
                "instructions": status["instructions"],
                "simulated_seconds": status["cycle"] / clock_hz,
                "phase": "reference",
            }
            line.update(lambda: describe_progress(facts))

        made = vms.run(engine, file, progress, err(), snapshots=vms.Snapshots(begin, save, at_us or 0))
    # Before anything is said: nobody may listen to the end.
    if out_directory is not None:
        vms.write(out_directory, engine, made)
    if as_json:
        print_json(made.native())
    else:
        _show(made, out_directory)
    for fault in vms.faults(made):
        raise fault


def _show(made: vms.Run, written: Path | None) -> None:
    result, console = made.result, out()
    for row in result["guests"]:
        linux = made.linux.get(row["name"])
        said = row["console"] if linux is None else linux.out.decode(errors="replace")
        for text in said.rstrip("\n").splitlines():
            console.print(f"{row['name']}: {text}", highlight=False, soft_wrap=True)
    seconds = result["cycles"] / result["clock_mhz"] / 1e6
    instructions = sum(row["instructions"] for row in result["guests"])
    console.print(
        f"{seconds:.6f} s at {result['clock_mhz']:,} MHz, {instructions:,} instructions, "
        f"{made.host_seconds:.2f} s of host time" + ("" if written is None else f", result {written}"),
        highlight=False,
    )
    for table in (_guests(result), _vcpus(result), _cpus(result)):
        console.print(table, highlight=False)


def _table(title: str, *columns: str) -> Table:
    table = headed(title)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


def _guests(result: Json) -> Table:
    table = _table("Guests", "guest", "state", "code", "over after, ms", "instructions")
    for row in result["guests"]:
        over = "" if row["over_cycle"] is None else f"{_ms(result, row['over_cycle']):,.3f}"
        code = "" if row["code"] is None else str(row["code"])
        table.add_row(row["name"], row["state"], code, over, f"{row['instructions']:,}")
    return table


def _vcpus(result: Json) -> Table:
    table = _table(
        "Virtual CPUs",
        *("guest", "hart", "run", "of it spinning", "steal", "blocked", "longest steal, ms"),
        *("switches", "migrations", "yields", "helped"),
    )
    for row in result["vcpus"]:
        lived = result["cycles"] if row["over_cycle"] is None else row["over_cycle"]
        shares = (_share(row[f"{key}_cycles"], lived) for key in ("run", "spinning", "steal", "blocked"))
        counts = (f"{row[key]:,}" for key in ("switches", "migrations", "yields", "helped"))
        longest = f"{_ms(result, row['longest_steal_cycles']):,.3f}"
        table.add_row(row["guest"], str(row["hart"]), *shares, longest, *counts)
    return table


def _cpus(result: Json) -> Table:
    table = _table("Physical CPUs", "CPU", "run", "switching", "idle", "switches")
    for row in result["cpus"]:
        shares = (_share(row[f"{key}_cycles"], result["cycles"]) for key in ("run", "switching", "idle"))
        table.add_row(str(row["cpu"]), *shares, f"{row['switches']:,}")
    return table


def _share(cycles: int, whole: int) -> str:
    return f"{cycles / whole:.1%}" if whole else ""


def _ms(result: Json, cycles: int) -> float:
    return float(cycles / result["clock_mhz"] / 1e3)
