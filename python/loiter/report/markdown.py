"""A study's findings as Markdown tables, for documents."""

from __future__ import annotations

from loiter.report.terminal import ours, published, unit
from loiter.studies.base import Findings, Point


def render(findings: Findings) -> str:
    """Every point beside the published one, then every statement of the paper."""
    lines = ["| Value | Unit | Published | Ours | Difference | Verdict |", "|---|---|---|---|---|---|"]
    lines += [_point(point) for point in findings.points]
    held = [statement for statement in findings.statements if statement.holds is not None]
    if held:
        lines += ["", "| Statement | Holds | Measured |", "|---|---|---|"]
        lines += [f"| {line.text} | {'yes' if line.holds else 'NO'} | {line.detail} |" for line in held]
    return "\n".join(lines) + "\n"


def _point(point: Point) -> str:
    name = point.id.removeprefix("result.")
    cells = (f"`{name}`", unit(point.unit), published(point), ours(point), point.difference, point.verdict.value)
    return "| " + " | ".join(cells) + " |"
