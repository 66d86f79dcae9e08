"""`loiter compare`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from loiter.cli.options import JsonOption, err, out
from loiter.errors import UserFault
from loiter.report.table import headed

if TYPE_CHECKING:
    from loiter.comparison import Comparison

_PLOTS = (".svg", ".pdf", ".png")
_MOST_ACCOUNTS = 12
_LEAST_POINTS = 0.1
"""Accounts that change by less are not shown."""


def compare(
    things: Annotated[
        list[str],
        typer.Argument(metavar="A B ...", help="Result directories, snapshots, or machines by name or by file."),
    ],
    everything: Annotated[bool, typer.Option("--all", help="Also metrics and accounts that are the same.")] = False,
    out_file: Annotated[
        Path | None, typer.Option("--page", metavar="FILE.html", help="Also write a page that shows it all.")
    ] = None,
    plot_file: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE.svg", help="Also plot where the cycles of results went: SVG, PDF or PNG."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare results, machines or snapshots: what differs in parameters, in metrics, and in where the cycles went.

    Changes are from the first to the last. Those of sampled runs have their 95 % interval.

    Example: [bold]loiter compare t1 t2[/]

    Example: [bold]loiter compare results/before results/after --plot cycles.svg[/]

    Example: [bold]loiter compare before.snapshot after.snapshot[/]
    """
    from loiter import comparison

    if plot_file is not None and plot_file.suffix not in _PLOTS:
        raise UserFault(f"--plot {plot_file}: a plot is {' or '.join(_PLOTS)}, by the end of its name.")
    found = comparison.compare(*things)
    if plot_file is not None:
        _write_plot(plot_file, found)
    if out_file is not None:
        _write_page(out_file, found, things)
    if as_json:
        typer.echo(json.dumps(_json(found), indent=2, ensure_ascii=False))
        return
    _show(out(), found, everything)


def _write_page(path: Path, found: Comparison, things: list[str]) -> None:
    from loiter.report import page
    from loiter.store import save_text

    if path.is_dir():
        raise UserFault(f"--page {path}: a directory; name a file.")
    save_text(path, page.of_comparison(found, shlex.join(["loiter", "compare", *things, "--page", str(path)])))
    err().print(f"wrote {path}", highlight=False, soft_wrap=True)


def _write_plot(path: Path, found: Comparison) -> None:
    from loiter import plots
    from loiter.comparison import SHARES_UNIT
    from loiter.store import save_bytes

    if found.accounts is None:
        raise UserFault(f"--plot {path}: only results have cycles to plot, and not all of these are results.")
    if path.is_dir():
        raise UserFault(f"--plot {path}: a directory; name a file.")
    save_bytes(path, plots.draw_shares(found.names, found.shares(), SHARES_UNIT, path.suffix[1:]))
    err().print(f"wrote {path}", highlight=False)


def _json(found: Comparison) -> dict[str, Any]:
    frames = {
        "parameters": found.parameters,
        "metrics": found.metrics,
        "accounts": found.accounts,
        "state": found.state,
    }
    return {
        name: None if frame is None else json.loads(frame.reset_index().to_json(orient="records"))
        for name, frame in frames.items()
    }


def _show(console: Console, found: Comparison, everything: bool) -> None:
    from loiter.comparison import CHANGE
    from loiter.report.terminal import cell, unit

    table = _table("Parameters that differ", ["parameter"], found.names)
    for key, row in found.parameters.iterrows():
        table.add_row(str(key), *("" if value is None else str(value) for value in row))
    _print(console, table, "the machines have the same parameters")
    if found.state is not None:
        table = _table("What the snapshots hold otherwise", ["state"], found.names)
        for key, row in found.state.iterrows():
            table.add_row(str(key), *("" if value is None else str(value) for value in row))
        _print(console, table, "the snapshots hold the same")
    if found.metrics is not None:
        table = _table("Metrics", ["metric"], [*found.names, CHANGE], last="unit")
        for name, row in found.metrics.iterrows():
            same = all(row[each] == row[found.names[0]] for each in found.names)
            if everything or not same:
                kind = "points" if row["unit"] == "percent" else "%"
                change = "" if row[CHANGE] != row[CHANGE] else f"{row[CHANGE]:+.1f}{_interval(row)} {kind}"
                table.add_row(str(name), *(_around(row, each) for each in found.names), change, unit(row["unit"]))
        _print(console, table, "all metrics are the same")
    if found.accounts is not None:
        shown = found.accounts
        if not everything:
            shown = shown[shown[CHANGE].abs() >= _LEAST_POINTS].head(_MOST_ACCOUNTS)
        table = _table("Where the cycles went, % of context-cycles", ["activity", "slot"], [*found.names, CHANGE])
        for _, row in shown.reset_index().iterrows():
            table.add_row(
                row["activity"], row["slot"], *(cell(row[each]) for each in found.names), f"{row[CHANGE]:+.1f} points"
            )
        _print(console, table, "the cycles went where they went")


def _interval(row: Any) -> str:
    """Half of the interval of a metric's change, if it has one."""
    from loiter.comparison import CHANGE_HALF_WIDTH

    half_width = row.get(CHANGE_HALF_WIDTH)
    return "" if half_width is None or half_width != half_width else f" ± {half_width:.1f}"


def _around(row: Any, name: str) -> str:
    """The value of a metric, with its interval if it is a mean of samples."""
    from loiter.report.terminal import cell

    half_width = cell(row.get(f"± {name}"))
    return f"{cell(row[name])} ± {half_width}" if half_width else cell(row[name])


def _table(title: str, left: list[str], right: Any, last: str | None = None) -> Table:
    table = headed(title)
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", overflow="fold")
    if last is not None:
        table.add_column(last, overflow="fold")
    return table


def _print(console: Console, table: Table, otherwise: str) -> None:
    if table.row_count:
        console.print(table, highlight=False)
    else:
        console.print(otherwise, style="dim", highlight=False)
