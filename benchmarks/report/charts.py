"""Sections as pictures."""

from pathlib import Path
from typing import Any

from benchmarks.report.section import Chart

_OURS, _OTHERS, _LINE = "#0b6e4f", "#9aa5b1", "#c0392b"
_DOTS_PER_INCH = 130


def draw(chart: Chart, path: Path) -> None:
    """Write a chart as PNG."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import, and used last

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 - after the backend is chosen

    height = 1.2 + 0.32 * len(chart.series) if chart.kind == "bars" else 4.5
    figure, axes = pyplot.subplots(figsize=(9, height), layout="constrained")
    (_draw_bars if chart.kind == "bars" else _draw_lines)(axes, chart)
    axes.set_title(chart.title, loc="left", fontsize=10)
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=_DOTS_PER_INCH)
    pyplot.close(figure)


def _draw_bars(axes: Any, chart: Chart) -> None:
    bars = sorted((points[0][1], name) for name, points in chart.series.items())
    names, values = [name for _, name in bars], [value for value, _ in bars]
    colours = [_OURS if name.startswith("headrace") else _OTHERS for name in names]
    drawn = axes.barh(names, values, color=colours)
    axes.bar_label(
        drawn, [f"{value:,.0f}  {chart.suffixes.get(name, '')}" for value, name in bars], padding=3, fontsize=8
    )
    axes.margins(x=0.18)
    if chart.reference is not None:
        axes.axvline(chart.reference, color=_LINE, linestyle="--", linewidth=1)


def _draw_lines(axes: Any, chart: Chart) -> None:
    for name, points in chart.series.items():
        is_ours = name.startswith("headrace")
        style = {"color": _OURS, "linewidth": 2.2} if is_ours and len(chart.series) > 1 else {"linewidth": 1.4}
        axes.plot([x for x, _ in points], [y for _, y in points], marker="o", markersize=3, label=name, **style)
    if chart.is_logarithmic:
        axes.set_yscale("log")
    if chart.reference is not None:
        axes.axhline(chart.reference, color=_LINE, linestyle="--", linewidth=1)
    axes.legend(fontsize=8, frameon=False)
    axes.grid(axis="y", alpha=0.3)
