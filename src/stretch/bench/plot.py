"""Charts of a report, drawn with matplotlib: a dot for each repetition, a bar at the median."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from stretch.bench.report import Chart, Report, optional

_INCH_PER_ROW = 0.35
_WIDTH_INCHES = 8.0


def draw(report: Report, path: Path) -> None:
    """Write the charts of a report into one file; its suffix decides the format."""
    optional("matplotlib").use("Agg")
    figures = import_module("matplotlib.figure")
    heights = [1.0 + _INCH_PER_ROW * len(chart.rows) for chart in report.charts]
    figure: Any = figures.Figure(figsize=(_WIDTH_INCHES, sum(heights)), layout="constrained")
    axes = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)
    for place, chart in zip(axes[:, 0], report.charts, strict=True):
        _draw_chart(place, chart)
    figure.savefig(path)


def _draw_chart(axes: Any, chart: Chart) -> None:
    for row, values in enumerate(chart.rows.values()):
        axes.plot(values, [row] * len(values), "o", color="C0", alpha=0.3, markeredgewidth=0)
        axes.plot([median(values)], [row], "|", color="C3", markersize=16, markeredgewidth=2)
    axes.set_yticks(range(len(chart.rows)), list(chart.rows))
    axes.invert_yaxis()
    axes.margins(y=0.5 / len(chart.rows))
    axes.set_title(chart.title, loc="left")
    axes.set_xlabel(chart.unit)
    axes.grid(axis="x", alpha=0.3)
    if chart.is_logarithmic:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
