"""Charts of pages, as specifications of Vega-Lite: with a logarithmic scale, values and runs under the pointer, and
series that a click on the legend picks out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loiter import plots
from loiter.plots import COLOURS, PUBLISHED
from loiter.studies.base import Chart, Curves

Spec = dict[str, Any]

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
_PICKED = {"name": "picked", "select": {"type": "point", "fields": ["series"]}, "bind": "legend"}
# A measure without ends has bars of no height: Vega warns of a field without a value.
_ENDS = [
    {"calculate": f"isValid(datum[measure + '_{end}']) ? datum[measure + '_{end}'] : datum.y", "as": name}
    for end, name in (("least", "low"), ("most", "high"))
]
_ENDS_SHOWN = {
    "mark": {"type": "rule"},
    "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
}
_SPANS = {"transform": [{"filter": "isValid(datum.low)"}], **_ENDS_SHOWN}
_HEIGHT_PX = 300
_STEP_PX = 46
_MOST_TICKS = 24


def of_chart(chart: Chart, command: Callable[[str], str | None]) -> Spec:
    """Grouped bars with their deviations and the published values. On a linear scale, bars that tower over what is
    published are cut, as in `plots`: they are `shown` up to there. A bar has the labels of the runs that it is made of,
    and the command of the first of them."""
    top = plots.top(chart)
    bars = [_bar(chart, group, series, top, command) for group in chart.groups for series in chart.series]
    strokes = [
        {
            "group": mark.group,
            "series": series,
            "published": mark.value,
            "kind": "upper bound" if mark.bound else "published",
        }
        for mark in chart.marks
        for series in mark.series
    ]
    layers = [_bars(chart)]
    layers += [_whiskers()] if any(deviation for _, deviation in chart.values.values()) else []
    layers += [_published(strokes)] if strokes else []
    layers += [_cut(top)] if any(value > top for value, _ in chart.values.values()) else []
    layers += [_line(line.value, line.label) for line in chart.lines]
    return {
        "$schema": _SCHEMA,
        "description": f"{chart.title}: bars of {chart.unit}",
        "data": {"values": bars},
        "encoding": {
            "x": {
                "field": "group",
                "type": "nominal",
                "sort": list(chart.groups),
                "title": None,
                "axis": {"labelAngle": 0 if len(chart.groups) <= 6 else -40, "labelLimit": 160},
            },
            "xOffset": {"field": "series", "type": "nominal", "sort": list(chart.series)},
        },
        "layer": layers,
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": _HEIGHT_PX,
    }


def of_curves(curves: Curves, command: Callable[[str], str | None]) -> Spec:
    """A curve for each series; its points have the run that they are from. Models are dashed, without points."""
    values: list[Spec] = []
    models = curves.models
    for series, points in curves.points.items():
        kind = f"model {plots.number_of_model(series, models)}" if series in models else "measured"
        for number, (x, y) in enumerate(points):
            run = curves.runs.get((series, x))
            found: Spec = {"x": x, "value": y, "series": series, "kind": kind}
            if series in curves.spans:
                low, high = curves.spans[series][number]
                found |= {"low": low, "high": high, "range": f"{low:.4g} to {high:.4g}"}
            values.append(found | ({"run": run, "command": command(run)} if run else {}))
    at = sorted({value["x"] for value in values})
    shown: list[Spec] = [
        {"field": "x", "title": curves.across},
        {"field": "series", "title": "series"},
        {"field": "value", "title": curves.unit, "format": ",.4~g"},
    ]
    shown += [{"field": "range"}] if curves.spans else []
    shown += [{"field": "run"}, {"field": "command"}] if curves.runs else []
    measured = "datum.kind == 'measured'"
    return {
        "$schema": _SCHEMA,
        "description": f"{curves.title}: {curves.unit} over {curves.across}",
        "data": {"values": values},
        "encoding": {
            "x": {
                "field": "x",
                "type": "quantitative",
                "title": curves.across,
                "axis": {"values": at} if len(at) <= _MOST_TICKS else {},
            },
            "y": {"field": "value", "type": "quantitative", "title": curves.unit},
            "color": _colour(list(curves.points), None, curves.models),
            "opacity": {"condition": {"param": "picked", "value": 1}, "value": 0.15},
        },
        "layer": [
            {"transform": [{"filter": measured}], "mark": {"type": "line"}},
            *map(_model, sorted({plots.number_of_model(name, models) for name in models})),
            *([_SPANS] if curves.spans else []),
            {
                "transform": [{"filter": measured}],
                "mark": {"type": "point", "filled": True, "size": 50, "cursor": "pointer"},
                "params": [_PICKED],
                "encoding": {"tooltip": shown},
            },
        ],
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": _HEIGHT_PX,
    }


def _model(number: int) -> Spec:
    """The models with a stroke."""
    mark = {"type": "line", "strokeDash": list(plots.MODEL_STROKES[number])}
    return {"transform": [{"filter": f"datum.kind == 'model {number}'"}], "mark": mark}


def of_sweep(rows: Sequence[Mapping[str, Any]], axes: Sequence[str], measures: Sequence[str], units: Any) -> Spec:
    """Points of a sweep: a measure, which a person chooses, over the first axis; further axes are series."""
    first, others = axes[0], list(axes[1:])
    kinds = {type(row[first]) for row in rows}
    numbers = kinds <= {int, float}
    values: list[dict[str, Any]] = []
    for row in rows:
        name = ", ".join(f"{key} = {row[key]}" for key in others)
        ends = {f"{each}{end}": row.get(f"{each}{end}") for each in measures for end in ("_least", "_most")}
        kept = {each: value for each, value in ends.items() if value is not None}
        values.append(
            {each: row.get(each) for each in measures} | kept | {"x": row[first], "series": name} | _run_of(row)
        )
    names = list(dict.fromkeys(value["series"] for value in values))
    barred = any(name.endswith("_least") for value in values for name in value)
    chosen = "ipc" if "ipc" in measures else measures[0]
    labels = [name if units.get(name, name) == name else f"{name}, {units[name]}" for name in measures]
    x: Spec = {"field": "x", "type": "quantitative" if numbers else "nominal", "title": first, "sort": None}
    if numbers:
        # Ticks stand where points are, while they can be read.
        at = sorted({row[first] for row in rows})
        axis = ({"values": at} if len(at) <= _MOST_TICKS else {}) | ({"format": ",d"} if kinds == {int} else {})
        x |= {"scale": {"zero": False}, "axis": axis}
    series: Spec = {"color": {"value": COLOURS[1]}}
    if others:
        opacity = {"condition": {"param": "picked", "value": 1}, "value": 0.15}
        series = {"color": _colour(names, ", ".join(others)), "opacity": opacity}
    return {
        "$schema": _SCHEMA,
        "description": f"measures over {first}",
        "data": {"values": values},
        "params": [
            {
                "name": "measure",
                "value": chosen,
                "bind": {
                    "input": "select",
                    "name": "measure ",
                    "options": list(measures),
                    "labels": labels,
                },
            }
        ],
        "transform": [
            {"calculate": "datum[measure]", "as": "y"},
            {"filter": "isValid(datum.y)"},
            *(_ENDS if barred else []),
        ],
        "encoding": {
            "x": x,
            "y": {"field": "y", "type": "quantitative", "title": labels[measures.index(chosen)]},
            **series,
        },
        "layer": [
            {"mark": {"type": "line"}},
            *([_ENDS_SHOWN] if barred else []),
            {
                "mark": {"type": "point", "filled": True, "size": 70, "cursor": "pointer"},
                "params": [_PICKED] if others else [],
                "encoding": {
                    "tooltip": [
                        {"field": "x", "title": first},
                        *([{"field": "series"}] if others else []),
                        {"field": "y", "title": "value"},
                        {"field": "run"},
                        {"field": "command"},
                    ]
                },
            },
        ],
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "height": _HEIGHT_PX,
    }


def of_shares(names: Sequence[str], shares: Sequence[tuple[str, Mapping[str, float]]], unit: str) -> Spec:
    """Shares of a whole, a bar for each thing compared: `shares` has a name and the share in each of them."""
    values = [
        {"series": series, "group": name, "value": by_name[name], "order": order}
        for order, (series, by_name) in enumerate(shares)
        for name in names
    ]
    return {
        "$schema": _SCHEMA,
        "description": f"shares, {unit}",
        "data": {"values": values},
        "params": [_PICKED],
        "mark": {"type": "bar"},
        "encoding": {
            "y": {"field": "group", "type": "nominal", "sort": list(names), "title": None, "axis": {"labelLimit": 140}},
            "x": {"field": "value", "type": "quantitative", "title": unit, "stack": "zero"},
            "order": {"field": "order"},
            "color": _colour([series for series, _ in shares], None),
            "opacity": {"condition": {"param": "picked", "value": 1}, "value": 0.15},
            "tooltip": [{"field": "group"}, {"field": "series"}, {"field": "value", "format": ".2f"}],
        },
        "width": "container",
        "height": _STEP_PX * len(names),
    }


def _bar(chart: Chart, group: str, series: str, top: float, command: Callable[[str], str | None]) -> Spec:
    value, deviation = chart.values[group, series]
    labels = chart.runs.get((group, series), ())
    found: Spec = {"group": group, "series": series, "value": value, "shown": min(value, top)}
    if deviation:
        found |= {"deviation": deviation, "low": value - deviation, "high": value + deviation}
    for mark in chart.marks:
        if mark.group == group and series in mark.series:
            found["published"] = mark.value
    if labels:
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        found |= {"run": labels[0], "runs": f"{labels[0]}{more}", "command": command(labels[0])}
    return found


def _bars(chart: Chart) -> Spec:
    has_runs = bool(chart.runs)
    shown = [
        {"field": "group", "title": "group"},
        {"field": "series", "title": "series"},
        {"field": "value", "title": chart.unit, "format": ",.4~g"},
        {"field": "deviation", "title": "±", "format": ",.3~g"},
        {"field": "published", "title": "published"},
    ]
    shown += [{"field": "runs", "title": "run"}, {"field": "command", "title": "command"}] if has_runs else []
    return {
        "params": [_PICKED],
        "mark": {"type": "bar", "cursor": "pointer" if has_runs else "default"},
        "encoding": {
            "y": {"field": "shown", "type": "quantitative", "title": chart.unit},
            "color": _colour(chart.series, None),
            "opacity": {"condition": {"param": "picked", "value": 1}, "value": 0.15},
            "tooltip": shown,
        },
    }


def _whiskers() -> Spec:
    return {
        "transform": [{"filter": "isValid(datum.deviation) && datum.value <= datum.shown"}],
        "mark": {"type": "rule", "color": "#57606a"},
        "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
    }


def _cut(top: float) -> Spec:
    """The values of bars that leave the picture."""
    return {
        "transform": [{"filter": f"datum.value > {top}"}],
        "mark": {"type": "text", "angle": 270, "align": "right", "baseline": "middle", "dx": -4, "color": "white"},
        "encoding": {"y": {"field": "shown", "type": "quantitative"}, "text": {"field": "value", "format": ".0f"}},
        "usermeta": {"linear": True},
    }


def _published(strokes: Sequence[Spec]) -> Spec:
    return {
        "data": {"values": list(strokes)},
        "mark": {"type": "tick", "color": PUBLISHED, "thickness": 2.5},
        "encoding": {
            "y": {"field": "published", "type": "quantitative"},
            "tooltip": [{"field": "kind"}, {"field": "published"}, {"field": "group"}, {"field": "series"}],
        },
    }


def _line(value: float, label: str) -> Spec:
    return {
        "data": {"values": [{"published": value, "label": label}]},
        "mark": {"type": "rule", "color": PUBLISHED, "strokeDash": [5, 3]},
        "encoding": {
            "x": None,
            "xOffset": None,
            "y": {"field": "published", "type": "quantitative"},
            "tooltip": [{"field": "label"}, {"field": "published"}],
        },
    }


def _colour(series: Sequence[str], title: str | None, same: Mapping[str, str] | None = None) -> Spec:
    """Each series has a colour of its own; those in `same` have that of another one."""
    names = [(same or {}).get(name, name) for name in series]
    colours = [COLOURS[series.index(name) % len(COLOURS)] for name in names]
    return {
        "field": "series",
        "type": "nominal",
        "title": title,
        "sort": list(series),
        "scale": {"domain": list(series), "range": colours},
        "legend": {"orient": "bottom", "columns": 6, "symbolLimit": 60, "labelLimit": 260},
    }


def _run_of(row: Mapping[str, Any]) -> Spec:
    return {name: row[name] for name in ("run", "command") if row.get(name)}
