"""Charts as PNG, SVG and PDF. Colours are told apart by people who see red and green as one."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from loiter.studies.base import Chart, Curves, Mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = (
    *("#444444", "#0072b2", "#e69f00", "#cc79a7", "#009e73", "#56b4e9", "#d55e00", "#f0e442"),
    *("#999933", "#882255", "#117733", "#a6a6a6"),
)

_STROKES = ("-", "--", ":")
INK = "#1b1f24"
PUBLISHED = "#c1121f"
_LEGEND_COLUMNS = 8
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": "#8c959f",
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.hashsalt": "loiter",
    "svg.fonttype": "path",
}


def draw(chart: Chart) -> dict[str, bytes]:
    """The chart as `png` and `svg`; the same chart gives the same bytes."""
    with matplotlib.rc_context(_STYLE):
        figure = _figure(chart)
        found = {kind: _bytes(figure, kind) for kind in ("png", "svg")}
        plt.close(figure)
    return found


def draw_figure(curves: Curves) -> dict[str, bytes]:
    """Curves of a study as `png` and `svg`."""
    facts = (curves.title, curves.across, curves.unit, curves.points, False)
    spans = curves.spans or None
    return {kind: draw_curves(*facts, kind, spans, curves.models) for kind in ("png", "svg")}


def draw_shares(names: Sequence[str], shares: Sequence[tuple[str, Mapping[str, float]]], unit: str, kind: str) -> bytes:
    """Shares of a whole, a stacked bar for each name, as `png`, `svg` or `pdf`."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(10.4, 1.4 + 0.5 * len(names)), layout="constrained")
        begins = dict.fromkeys(names, 0.0)
        for index, (share, by_name) in enumerate(shares):
            widths = [by_name[name] for name in names]
            starts = [begins[name] for name in names]
            axes.barh(range(len(names)), widths, left=starts, color=COLOURS[index % len(COLOURS)], label=share)
            begins = {name: start + width for name, start, width in zip(names, starts, widths, strict=True)}
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.set_xlabel(unit)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=4, frameon=False)
        found = _bytes(figure, kind)
        plt.close(figure)
    return found


def draw_matrix(title: str, across: str, down: str, values: Sequence[Sequence[float]], unit: str, kind: str) -> bytes:
    """A heat map of a square of values, as `png`, `svg` or `pdf`."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 6.2), layout="constrained")
        image = axes.imshow(values, cmap="viridis", interpolation="nearest")
        axes.set_title(title)
        axes.set_xlabel(across)
        axes.set_ylabel(down)
        figure.colorbar(image, ax=axes, label=unit)
        found = _bytes(figure, kind)
        plt.close(figure)
    return found


MODEL_STROKES = ((5, 3), (1.5, 2))
"""Lengths of the dashes of models and of the gaps between, for the first model of a curve and for further ones."""


def number_of_model(name: str, models: Mapping[str, str]) -> int:
    """Which stroke one of `models` has, each of which stands with the curve that it is a model of."""
    of_same = [each for each, of in models.items() if of == models[name]]
    return min(of_same.index(name), len(MODEL_STROKES) - 1)


def draw_curves(
    title: str,
    across: str,
    up: str,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    by_powers: bool,
    kind: str,
    spans: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    models: Mapping[str, str] | None = None,
) -> bytes:
    """Curves through points, as `png`, `svg` or `pdf`; with `by_powers`, by powers of two across and of ten up. `spans`
    has the least and the most of each point of a curve. `models` are curves that are worked out, without points,
    each in the colour of the curve that it is a model of."""
    with matplotlib.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
        for index, (name, points) in enumerate(curves.items()):
            # More curves than colours differ in their strokes.
            stroke = _STROKES[index // len(COLOURS) % len(_STROKES)]
            colour = COLOURS[index % len(COLOURS)]
            xs, ys = [x for x, _ in points], [y for _, y in points]
            if spans is not None and name in spans:
                axes.vlines(xs, *zip(*spans[name], strict=True), color=colour, linewidth=1.2)
            if models and name in models:
                colour = COLOURS[list(curves).index(models[name]) % len(COLOURS)]
                dashes = MODEL_STROKES[number_of_model(name, models)]
                axes.plot(xs, ys, linestyle=(0, dashes), linewidth=1.2, color=colour, label=name)
                continue
            axes.plot(xs, ys, marker="o", markersize=3.5, linestyle=stroke, color=colour, label=name)
        if by_powers:
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
        else:
            axes.set_xlim(left=0)
            axes.set_ylim(bottom=0)
            if all(float(x).is_integer() for points in curves.values() for x, _ in points):
                axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_title(title)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.grid(color="#d8dee4", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        found = _bytes(figure, kind)
        plt.close(figure)
    return found


_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": "loiter"},
    "svg": {"Date": None, "Creator": "loiter"},
    "pdf": {"CreationDate": None, "Creator": "loiter"},
}


def _bytes(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=160, metadata=_METADATA[kind])
    return buffer.getvalue()


def _figure(chart: Chart) -> Figure:
    # One width for all: the page shows them at one width, so letters are of one size.
    figure, axes = plt.subplots(figsize=(10.4, 4.1), layout="constrained")
    for index, series in enumerate(chart.series):
        _bars(axes, chart, index, series)
    axes.set_ylim(min(0.0, _bottom(chart)), top(chart))
    _write_cut(axes, chart)
    for mark in chart.marks:
        _mark(axes, chart, mark)
    for line in chart.lines:
        axes.axhline(
            line.value,
            color=COLOURS[chart.series.index(line.series)],
            linestyle=(0, (5, 3)),
            linewidth=1.2,
            zorder=1,
            label=f"{line.label}: {line.value:g}",
        )
    _dress(axes, chart)
    return figure


def _bar_width(chart: Chart) -> float:
    return 0.8 / len(chart.series)


def _centre(chart: Chart, series: str) -> float:
    return (chart.series.index(series) - (len(chart.series) - 1) / 2) * _bar_width(chart)


def _bars(axes: Axes, chart: Chart, index: int, series: str) -> None:
    places = [group + _centre(chart, series) for group in range(len(chart.groups))]
    values = [chart.values[group, series] for group in chart.groups]
    axes.bar(
        places,
        [value for value, _ in values],
        width=_bar_width(chart) * 0.9,
        color=COLOURS[index],
        yerr=[deviation for _, deviation in values] if any(deviation for _, deviation in values) else None,
        error_kw={"elinewidth": 0.8, "capsize": 1.6, "ecolor": "#57606a"},
        label=series,
        zorder=2,
    )


def _mark(axes: Axes, chart: Chart, mark: Mark) -> None:
    """A published value over its bars: a stroke of its own colour, with an arrow down where it is an upper bound."""
    middle, overhang, value = chart.groups.index(mark.group), _bar_width(chart) * 0.55, mark.value
    left = middle + _centre(chart, mark.series[0]) - overhang
    right = middle + _centre(chart, mark.series[-1]) + overhang
    axes.plot([left, right], [value, value], color=PUBLISHED, linewidth=2.0, solid_capstyle="butt", zorder=4)
    if mark.bound:
        axes.plot([(left + right) / 2], [value], marker="v", markersize=5, color=PUBLISHED, zorder=4)
    axes.annotate(
        f"{'< ' if mark.bound else ''}{value:g}",
        ((left + right) / 2, value),
        xytext=(0, 4),
        textcoords="offset points",
        ha="center",
        fontsize=7.5,
        color=PUBLISHED,
        zorder=5,
        bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
    )


def top(chart: Chart) -> float:
    """Upper end of the axis. Bars that tower over all published values are cut, and their values written on them."""
    published = [mark.value for mark in chart.marks] + [line.value for line in chart.lines]
    values = [value + deviation for value, deviation in chart.values.values()]
    if published:
        values = [value for value in values if value <= 4 * max(published)]
    return max([*values, *published, 1.0]) * 1.15


def _write_cut(axes: Axes, chart: Chart) -> None:
    most = top(chart)
    for (group, series), (value, _) in chart.values.items():
        if value > most:
            axes.annotate(
                f"{value:.0f} ↑",
                (chart.groups.index(group) + _centre(chart, series), most),
                xytext=(0, -3),
                textcoords="offset points",
                ha="center",
                va="top",
                rotation=90,
                fontsize=7.5,
                color="white",
                zorder=6,
            )


def _bottom(chart: Chart) -> float:
    return min(value - deviation for value, deviation in chart.values.values()) * 1.12


def _dress(axes: Axes, chart: Chart) -> None:
    axes.set_title(chart.title, loc="left", fontsize=10.5, fontweight="bold")
    axes.set_ylabel(chart.unit)
    axes.set_xticks(range(len(chart.groups)))
    axes.set_xticklabels([group.replace(" ", "\n", 1) for group in chart.groups])
    for label, group in zip(axes.get_xticklabels(), chart.groups, strict=True):
        label.set_fontweight("bold" if group in chart.averages else "normal")
    for index, group in enumerate(chart.groups):
        if group in chart.averages:
            axes.axvspan(index - 0.5, index + 0.5, color="#f0f2f5", zorder=0, linewidth=0)
    axes.set_xlim(-0.55, len(chart.groups) - 0.45)
    axes.grid(axis="y", color="#d8dee4", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    _legend(axes, chart)


def _legend(axes: Axes, chart: Chart) -> None:
    by_label = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    if chart.marks:
        by_label["published"] = Line2D([], [], color=PUBLISHED, linewidth=2.0)
    order = [*chart.series, *(label for label in by_label if label not in chart.series)]
    axes.legend(
        [by_label[label] for label in order],
        order,
        ncols=min(len(order), _LEGEND_COLUMNS),
        fontsize=8,
        columnspacing=1.3,
        handlelength=1.6,
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
    )
