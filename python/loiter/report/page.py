"""HTML pages that stand alone and that people explore: charts, tables, scripts and styles are inside them.

Charts are drawn by Vega-Lite, tables are sorted and searched by DataTables; both come with packages that we depend on,
and nothing is fetched from anywhere. All pages have one design: `templates/base.html.j2` and `templates/page.js`.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2

import loiter
from loiter.machines import Machine
from loiter.report import charts, terminal
from loiter.report.charts import Spec
from loiter.results import HOST_FILE, Result
from loiter.studies.base import Findings, Study, Verdict

if TYPE_CHECKING:
    import pandas as pd

    from loiter.comparison import Comparison

_MOST_POINTS = 2000
"""Points of a sweep on its page, which stays small enough for a telephone; the file beside it has all."""

_DIGITS = 6
_WHOLE = 1000
"""From here on numbers have no decimals."""


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from, and how to get them again."""

    command: str
    scale: str
    native_sha256: str
    guests: Sequence[tuple[str, str]]
    """Name and hash of every program and image."""
    machines: Sequence[Machine]


@dataclass(frozen=True)
class Cell:
    """What stands in a table, and what it is sorted by."""

    text: str
    order: float | str


def of_study(study: Study, findings: Findings, provenance: Provenance, results: Mapping[str, Result]) -> str:
    """The page of a study."""
    statements = [each for each in findings.statements if each.holds is not None]
    commands = {name: _command(result) for name, result in results.items()}
    return _render(
        "study.html.j2",
        study.title,
        {chart.id: charts.of_chart(chart, commands.get) for chart in findings.charts}
        | {each.id: charts.of_curves(each, commands.get) for each in findings.curves},
        study=study,
        findings=findings,
        counts={verdict.name: sum(point.verdict is verdict for point in findings.points) for verdict in Verdict},
        statements=statements,
        held=sum(bool(each.holds) for each in statements),
        provenance=provenance,
        results=results,
        commands=commands,
        host_seconds=sum(float(result.host()["host_seconds"]) for result in results.values()),
        instructions=sum(int(result.manifest["instructions"]) for result in results.values()),
    )


def of_sweep(
    frame: pd.DataFrame,
    axes: Sequence[str],
    title: str,
    command: str,
    *,
    how: str = "Simulated",
    file: str = "points.parquet",
) -> str:
    """The page of a sweep: a measure of one's choice over the axes, and all points.

    Columns `NAME_least` and `NAME_most` beside one `NAME` are the ends of its bar.
    """
    from loiter.sweeps import table

    units = frame.attrs["units"]
    names = [name for name in frame.columns if name not in table.LAST]
    # Those of modes, and intervals, are in the file.
    bars = [f"{name}{end}" for name in names for end in ("_least", "_most") if f"{name}{end}" in names]
    hidden = (".user", ".kernel", ".half_width")
    whole = [name for name in names if name not in axes and name not in bars and not name.endswith(hidden)]
    measures = [name for name in whole if frame[name].notna().any()]
    rows, plotted = [], []
    for record in frame.head(_MOST_POINTS).to_dict("records"):
        path, error = record[table.RESULT], record[table.ERROR]
        point = ", ".join(f"{key} = {record[key]}" for key in axes)
        if not isinstance(error, str):
            shown = {name: _plain(record[name]) for name in [*axes, *measures, *bars]}
            plotted.append(shown | {"run": point, "command": command})
        rows.append(
            {
                "cells": [_cell(record[name]) for name in [*axes, *measures]],
                "run": point,
                "link": f"file://{path}/manifest.json" if isinstance(path, str) else None,
                "error": error if isinstance(error, str) else None,
            }
        )
    specs = {"sweep": charts.of_sweep(plotted, axes, measures, units)} if plotted and measures else {}
    return _render(
        "sweep.html.j2",
        title,
        specs,
        rows=rows,
        columns=[_column(frame[name], units.get(name)) for name in [*axes, *measures]],
        failed=len(rows) - len(plotted),
        charted=bool(specs),
        left_out=max(0, len(frame) - _MOST_POINTS),
        command=command,
        how=how,
        file=file,
        barred=bool(bars),
    )


def _column(column: pd.Series[Any], unit: str | None) -> dict[str, Any]:
    import pandas as pd

    number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return {"name": column.name, "unit": "" if unit is None else terminal.unit(unit), "number": bool(number)}


def of_comparison(found: Comparison, command: str) -> str:
    """The page of a comparison."""
    from loiter.comparison import SHARES_UNIT

    specs: dict[str, Spec] = {}
    parts = [_part("Parameters that differ", found.parameters, "The machines have the same parameters.")]
    if found.state is not None:
        parts.append(_part("What the snapshots hold otherwise", found.state, "The snapshots hold the same."))
    if found.metrics is not None:
        parts.append(_part("Metrics", found.metrics, "There are none.") | {"unit_last": True})
    if found.accounts is not None:
        specs["accounts"] = charts.of_shares(found.names, found.shares(), SHARES_UNIT)
        part = _part("Where the cycles went, % of context-cycles", found.accounts, "Nothing was timed.", words=2)
        parts.append(
            part
            | {
                "chart": "accounts",
                "caption": "The greatest shares, without contexts that have nothing to do. Change is in points.",
            }
        )
    return _render("compare.html.j2", " and ".join(found.names), specs, parts=parts, command=command)


def _part(title: str, frame: pd.DataFrame, none: str, words: int = 1) -> dict[str, Any]:
    flat = frame.reset_index()
    rows = [[_cell(value) for value in row] for row in flat.itertuples(index=False)]
    return {
        "title": title,
        "columns": list(flat.columns),
        "rows": rows,
        "words": words,
        "none": none,
        "unit_last": False,
        "chart": None,
        "caption": "",
    }


def _render(template: str, title: str, specs: Mapping[str, Spec], **words: Any) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("loiter.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": terminal.number, "published": terminal.published, "unit": terminal.unit}
    environment.filters["ours"] = terminal.ours
    scripts = _scripts()
    return environment.get_template(template).render(
        title=title,
        version=loiter.__version__,
        # An end tag in a text would end the script.
        specs=json.dumps(specs, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        script=resources.files("loiter.report").joinpath("templates/page.js").read_text(encoding="utf-8"),
        vega=scripts.vega,
        tables_module=json.dumps(scripts.tables),
        styles=scripts.styles,
        **words,
    )


@dataclass(frozen=True)
class _Scripts:
    vega: str
    tables: str
    styles: str


@functools.cache
def _scripts() -> _Scripts:
    """What charts and tables are made with, as their packages carry it."""
    import vl_convert
    from itables.utils import read_package_file

    tables = base64.b64encode(read_package_file("html/dt_bundle.js").encode()).decode()
    vega = vl_convert.javascript_bundle(_WITHOUT_MORE).replace("</script", "<\\/script")
    return _Scripts(vega, tables, read_package_file("html/dt_bundle.css"))


_WITHOUT_MORE: Any = None
"""No script of ours in the bundle; its types do not say that there need be none."""


def _command(result: Result) -> str:
    """What ran, as a person reads it: the machine, and the program with its command line."""
    manifest = result.manifest
    if (result.path / HOST_FILE).is_file():
        return f"loiter vm {result.path.name}/{HOST_FILE}"
    request = manifest["request"]
    machine = " ".join([manifest["machine"]["name"], *(f"--set {each}" for each in manifest["machine"]["set"])])
    if "program" in manifest:
        return f"loiter run -m {machine} {manifest['program']['name']} -- {request['bootargs']}"
    what = request.get("script") or shlex.join(request.get("command", []))
    return f"image {manifest['image']['name']} on -m {machine}: {'; '.join(what.strip().splitlines())}"


def _cell(value: Any) -> Cell:
    plain = _plain(value)
    if plain is None:
        return Cell("", "")
    if isinstance(plain, float):
        return Cell(f"{plain:,.0f}" if abs(plain) >= _WHOLE else f"{plain:.4g}", plain)
    return Cell(terminal.cell(plain), plain if isinstance(plain, int) else str(plain))


def _plain(value: Any) -> Any:
    """As JSON has it: nothing for what is no number."""
    if hasattr(value, "item"):
        value = value.item()
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    return value if isinstance(value, bool | int | str) else str(value)
