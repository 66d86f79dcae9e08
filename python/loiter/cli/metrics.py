"""`loiter metrics`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from loiter.cli.options import JsonOption, out, print_json
from loiter.engine import Json
from loiter.errors import UserFault
from loiter.report.table import headed
from loiter.report.terminal import number, unit

if TYPE_CHECKING:
    from loiter.metrics import Measured


def show_metrics(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A result directory of run, exec or boot, from --out.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show a result as named metrics: IPC, miss rates, squashed work, queues, instruction mix, spinning.

    For all modes, and where it makes sense for user mode and for kernel and firmware. What the machine does not count
    is left out. Means of samples have their 95 % interval. docs/results.md says what each is, and so does --json. Where
    the machine says what events cost, a second table has the energy, with its range (docs/energy.md).

    Example: [bold]loiter metrics results/first[/]
    """
    # Tables load much that most commands have no use for.
    from loiter import energy, metrics, store

    if not (directory / store.MANIFEST).is_file():
        raise UserFault(f"{directory}: no result directory; `loiter run`, `exec` and `boot` write one with --out.")
    try:
        result = store.read(directory)
    except store.Corrupt as error:
        raise UserFault(f"{directory}: not a whole result: {error}. Run it again with --out.") from None
    found = metrics.of(result) if result.has_tables else []
    if not found:
        raise UserFault(
            f"{directory}: nothing was timed, so there is nothing to measure. Run it on a machine whose cores are "
            "timed, such as -m t1 or -m smt8."
        )
    taken = energy.of(result)
    rows = [] if taken is None else energy.rows(taken)
    if as_json:
        print_json(
            [
                {"name": each.metric.name, "unit": each.metric.unit, "definition": each.metric.definition}
                | dict(each.values)
                | ({"half_widths": dict(each.half_widths)} if each.half_widths else {})
                for each in found
            ]
            + rows
        )
        return
    _show(out(), found)
    if rows:
        _show_energy(out(), rows)


def _show(console: Console, found: list[Measured]) -> None:
    from loiter.counts import GROUPS

    table = headed()
    table.add_column("metric", no_wrap=True)
    groups = [group for group in GROUPS if any(group in each.values for each in found)]
    for group in groups:
        table.add_column(group, justify="right", no_wrap=True)
    table.add_column("unit", overflow="fold")
    for each in found:
        cells = (_cell(each, group) for group in groups)
        table.add_row(Text(each.metric.name), *cells, unit(each.metric.unit))
    console.print(table, highlight=False)


def _show_energy(console: Console, rows: list[Json]) -> None:
    """Values with the range over the ranges of all coefficients, and the one that moves each most."""
    table = headed()
    table.add_column("energy", no_wrap=True)
    for name in ("value", "least", "greatest"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("unit")
    table.add_column("moved most by", overflow="fold")
    for row in rows:
        numbers = (number(row[key]) for key in ("all", "low", "high"))
        table.add_row(Text(row["name"]), *numbers, unit(row["unit"]), Text(row["moved_by"]))
    console.print(table, highlight=False)


def _cell(measured: Measured, group: str) -> str:
    if group not in measured.values:
        return ""
    half_width = measured.half_widths.get(group)
    value = number(measured.values[group])
    return value if half_width is None else f"{value} ± {number(half_width)}"
