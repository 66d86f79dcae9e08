"""One HTML page that stands alone: pictures and styles are inside it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jinja2

import loiter
from loiter.machines import Machine
from loiter.report import terminal
from loiter.results import Result
from loiter.studies.base import Findings, Study, Verdict


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from, and how to get them again."""

    command: str
    scale: str
    native_sha256: str
    guests: Sequence[tuple[str, str]]
    """Name and hash of every program and image."""
    machines: Sequence[Machine]


def render(
    study: Study,
    findings: Findings,
    pictures: Mapping[str, Mapping[str, bytes]],
    provenance: Provenance,
    results: Mapping[str, Result],
) -> str:
    """The page as text."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("loiter.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    statements = [each for each in findings.statements if each.holds is not None]
    environment.filters |= {"number": terminal.number, "published": terminal.published, "unit": terminal.unit}
    environment.filters["ours"] = terminal.ours
    return environment.get_template("study.html.j2").render(
        study=study,
        findings=findings,
        counts={verdict.name: sum(point.verdict is verdict for point in findings.points) for verdict in Verdict},
        statements=statements,
        held=sum(bool(each.holds) for each in statements),
        pictures={name: _inline(kinds["svg"]) for name, kinds in pictures.items()},
        provenance=provenance,
        version=loiter.__version__,
        results=results,
        host_seconds=sum(float(result.host()["host_seconds"]) for result in results.values()),
        instructions=sum(int(result.manifest["instructions"]) for result in results.values()),
    )


def _inline(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
