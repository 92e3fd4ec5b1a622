"""Charts and plots of a report, drawn with matplotlib.

A chart has a dot for each repetition and a bar at the median; a plot has a curve through the medians.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from stretch.bench.report import Chart, Plot, Report, optional

_INCH_PER_ROW = 0.35
_INCH_PER_PLOT = 2.2
_WIDTH_INCHES = 8.0
_MARKERS_MAX = 30  # of a curve; with more, they hide it


def draw(report: Report, path: Path) -> None:
    """Write the charts and plots of a report into one file; its suffix decides the format."""
    optional("matplotlib").use("Agg")
    figures = import_module("matplotlib.figure")
    heights = [1.0 + _INCH_PER_ROW * len(chart.rows) for chart in report.charts]
    heights += [_INCH_PER_PLOT] * len(report.plots)
    figure: Any = figures.Figure(figsize=(_WIDTH_INCHES, sum(heights)), layout="constrained")
    places = iter(figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights)[:, 0])
    for chart in report.charts:
        _draw_chart(next(places), chart)
    for plot in report.plots:
        _draw_plot(next(places), plot)
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


def _draw_plot(axes: Any, plot: Plot) -> None:
    for name, curve in plot.curves.items():
        places, values = list(curve), list(curve.values())
        marker = "o" if len(places) <= _MARKERS_MAX else ""
        (line,) = axes.plot(places, [median(several) for several in values], marker=marker, label=name, linewidth=1.0)
        if any(len(several) > 1 for several in values):
            axes.fill_between(places, list(map(min, values)), list(map(max, values)), alpha=0.2, color=line.get_color())
    axes.set_title(plot.title, loc="left")
    axes.set_xlabel(plot.across)
    axes.set_ylabel(plot.unit)
    axes.grid(alpha=0.3)
    axes.set_xscale("log" if plot.is_logarithmic_across else "linear")
    if plot.is_logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if len(plot.curves) > 1:
        axes.legend(fontsize="small")
