"""A study's findings as Markdown tables, for documents."""

from __future__ import annotations

from loiter.report.terminal import ours, published, unit
from loiter.studies.base import Findings, Point, Statement


def render(findings: Findings) -> str:
    """Warnings, every point beside the published one, then every statement of the paper."""
    lines = [line for warning in findings.warnings for line in (f"Warning: {warning}.", "")]
    if findings.points:
        lines += ["| Value | Unit | Published | Ours | Difference | Verdict |", "|---|---|---|---|---|---|"]
        lines += [*(_point(point) for point in findings.points), ""]
    held = [statement for statement in findings.statements if statement.holds is not None]
    if held:
        lines += ["| Statement | Holds | Measured |", "|---|---|---|"]
        lines += [_statement(line) for line in held]
    return "\n".join(lines).rstrip() + "\n"


def _point(point: Point) -> str:
    name = point.id.removeprefix("result.")
    cells = (f"`{name}`", unit(point.unit), published(point), ours(point), point.difference, point.verdict.value)
    return "| " + " | ".join(cells) + " |"


def _statement(statement: Statement) -> str:
    text = f"`{statement.id}`: {statement.text}" if statement.id else statement.text
    return f"| {text} | {'yes' if statement.holds else 'NO'} | {statement.detail} |"
