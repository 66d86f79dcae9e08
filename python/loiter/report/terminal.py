"""A study's findings in the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loiter.report.numbers import fixed
from loiter.report.table import headed
from loiter.studies.base import Findings, Grid, Point, Value, Verdict

_STYLES = {Verdict.WITHIN: "green", Verdict.MISS: "bold red", Verdict.NOT_MEASURED: "dim"}


def show(console: Console, findings: Findings) -> None:
    """Tables, every measured point beside the published one, statements and the sum of it all."""
    for grid in findings.grids:
        console.print(_grid(grid))
        console.print(Text(f"{grid.caption}\n", style="dim"))
    measured = [point for point in findings.points if point.ours is not None]
    if measured:
        console.print(_points(measured))
    if any(statement.holds is not None for statement in findings.statements):
        console.print(_statements(findings))
    for warning in findings.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    if findings.points:
        console.print(summary(findings), highlight=False)


def summary(findings: Findings) -> str:
    """One line on how many values agree."""
    counts = {verdict: sum(point.verdict is verdict for point in findings.points) for verdict in Verdict}
    held = [statement.holds for statement in findings.statements if statement.holds is not None]
    text = f"{counts[Verdict.WITHIN]} values within tolerance, {counts[Verdict.MISS]} missed"
    if counts[Verdict.NOT_MEASURED]:
        text += f", {counts[Verdict.NOT_MEASURED]} not measured"
    return f"{text}; {sum(held)} of {len(held)} statements hold" if held else text


def number(value: Value | None) -> str:
    """A value as tables have it."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return fixed(value, 2 if abs(value) < 10 else 1)


def cell(value: Any) -> str:
    """What a frame has at a place: nothing where it has none, whole numbers with their thousands apart."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer() and abs(value) >= 1000):
        return f"{int(value):,}"
    return number(value) if isinstance(value, float) else str(value)


def unit(name: str) -> str:
    """A unit as tables have room for it."""
    return {"cycles per instruction": "CPI", "percent": "%"}.get(name, name)


def published(point: Point) -> str:
    """The published value, with the sign of a bound; words with the bound that they come to."""
    if point.limit is None:
        return f"{point.published}"
    return f"{point.published} ({point.limit})" if isinstance(point.published, str) else str(point.limit)


def ours(point: Point) -> str:
    """Our value, with the least and the greatest of several runs."""
    if point.interval is None:
        return number(point.ours)
    least, greatest = point.interval
    return f"{number(point.ours)} ({number(least)} to {number(greatest)})"


def _table(title: str, columns: tuple[str, ...], left: int = 1) -> Table:
    table = headed(title)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", overflow="fold")
    return table


def _grid(grid: Grid) -> Table:
    table = _table(grid.title, grid.columns, grid.words)
    for row in grid.rows:
        table.add_row(*row)
    return table


def _points(points: list[Point]) -> Table:
    table = _table("Published and ours", ("value", "published", "ours", "unit", "difference", "tolerance", "verdict"))
    for point in points:
        style = _STYLES[point.verdict]
        table.add_row(
            point.id.removeprefix("result."),
            published(point),
            ours(point),
            unit(point.unit),
            point.difference,
            "bound" if point.limit else str(point.tolerance or "same"),
            Text(point.verdict.value, style=style),
        )
    return table


def _statements(findings: Findings) -> Table:
    table = _table("Statements of the paper", ("statement", "holds", "measured"), left=3)
    for statement in findings.statements:
        if statement.holds is None:
            continue
        word, style = ("yes", "green") if statement.holds else ("NO", "bold red")
        table.add_row(statement.text, Text(word, style=style), statement.detail)
    return table
