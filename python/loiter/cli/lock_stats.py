"""`loiter lock-stats`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from loiter.cli.options import COUNT_LIMIT, JsonOption, out, print_json
from loiter.errors import unknown
from loiter.report.table import headed
from loiter.report.terminal import cell

if TYPE_CHECKING:
    import pandas as pd

# What a row of the table is, and what names it.
_KEYS = {"class": ("class",), "lock": ("lock", "lock_symbol"), "site": ("site", "site_symbol"), "hart": ("hart",)}
# Those that fit beside each other; --json has all.
_COLUMNS = (
    "acquisitions",
    "contentions",
    "acq-bounces",
    "waittime-avg",
    "waittime-max",
    "waittime-total",
    "contendedtime-avg",
    "holdtime-avg",
    "holdtime-max",
    "holdtime-total",
    "handovers",
    "handovertime-avg",
    "jain",
)
# Where anybody waits at the end.
_WAITING = ("waiting", "waitingtime-avg")
# Left out first where the terminal is too narrow for all.
_LEFT_OUT = (
    "acq-bounces",
    "jain",
    "holdtime-max",
    "waittime-max",
    "holdtime-total",
    "handovertime-avg",
    "handovers",
    "contendedtime-avg",
    "waitingtime-avg",
    "contentions",
    "waiting",
)
_NAME_WIDTH = 32
"""Characters that a name has room for, if it needs them, before it is folded."""


def lock_stats(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A result directory of run, exec or boot, from --out.")
    ],
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="A,B,...",
            help="What a row is: class (of static locks the symbol, of others the function that acquires them), lock, "
            "site (where it is acquired), hart, or some of these.",
        ),
    ] = "class",
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=1, max=COUNT_LIMIT, help="At most so many rows; --json has all.")
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Show what the locks of a result cost: acquisitions, contentions, waits, sections and hand-overs, in cycles.

    Those first on which most time was waited; "waiting" are acquires that had not ended. --json has all columns of
    /proc/lock_stat, and percentiles. Locks are known from a program's probes, and with --lock-stats from the lock
    functions of the kernel (docs/locks.md).

    Example: [bold]loiter exec -m t1 --lock-stats --out results/first -- ./prog; loiter lock-stats results/first[/]
    """
    from loiter import locks

    keys = [word.strip() for word in by.split(",")]
    for key in keys:
        if key not in _KEYS:
            raise unknown("--by", key, _KEYS)
    _, rows = locks.of_directory(directory)
    found = locks.table(rows, [column for key in dict.fromkeys(keys) for column in _KEYS[key]])
    if as_json:
        print_json(found.to_dict("records"))
        return
    _show(found, list(dict.fromkeys(keys)), top)


def _show(found: pd.DataFrame, keys: list[str], top: int) -> None:
    rows = found.head(top).to_dict("records")
    # Results of an earlier loiter do not say who waits.
    columns = [*_COLUMNS, *_WAITING] if "waiting" in found and found["waiting"].any() else [*_COLUMNS]
    console, table = out(), _table(rows, keys, columns)
    left_out: list[str] = []
    unlimited = console.options.update(width=10 * console.width)
    for column in (each for each in _LEFT_OUT if each in columns):
        if Measurement.get(console, unlimited, table).minimum <= console.width:
            break
        columns.remove(column)
        left_out.append(column)
        table = _table(rows, keys, columns)
    console.print(table, highlight=False)
    if left_out:
        told = f"no room for {', '.join(left_out)}; --json has all"
        console.print(told, style="dim", highlight=False)
    if len(found) > top:
        console.print(f"and {len(found) - top:,} more rows; --top shows them", style="dim", highlight=False)


def _table(rows: list[dict[Any, Any]], keys: list[str], columns: list[str]) -> Table:
    table = headed()
    for key in keys:
        longest = max(len(_name(row, key)) for row in rows)
        table.add_column(key, overflow="fold", min_width=min(longest, _NAME_WIDTH))
    for column in columns:
        table.add_column(column.replace("time-", "\n").replace("-", "\n"), justify="right", no_wrap=True)
    for row in rows:
        names = [Text(_name(row, key)) for key in keys]
        table.add_row(*names, *(_cell(column, row.get(column)) for column in columns))
    return table


def _cell(column: str, value: Any) -> str:
    """Means of cycles as whole numbers."""
    return cell(round(value) if column.endswith("-avg") and value is not None else value)


def _name(row: dict[Any, Any], key: str) -> str:
    """A symbol where there is one, else the address."""
    if key in ("lock", "site"):
        return str(row[f"{key}_symbol"]) or hex(row[key])
    return str(row[key])
