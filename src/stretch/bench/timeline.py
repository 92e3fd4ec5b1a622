"""Curves over time, one panel below the other: rates, instances, latencies around changes of parallelism."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from stretch.bench.report import optional

_INCH_PER_PANEL = 1.8
_WIDTH_INCHES = 8.0


@dataclass
class Panel:
    """Curves with the same unit: name -> (seconds, values)."""

    title: str
    unit: str
    curves: dict[str, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)
    is_stepped: bool = False
    is_logarithmic: bool = False
    band: tuple[Sequence[float], Sequence[float], Sequence[float]] | None = None
    """Seconds, and the lower and upper end of what is shaded."""


def draw_panels(panels: Sequence[Panel], path: Path, marks: Sequence[float] = ()) -> None:
    """Write panels into one file, with the same time below all, and a line at each of `marks`."""
    optional("matplotlib").use("Agg")
    figures = import_module("matplotlib.figure")
    size = (_WIDTH_INCHES, 0.5 + _INCH_PER_PANEL * len(panels))
    figure: Any = figures.Figure(figsize=size, layout="constrained")
    places = figure.subplots(len(panels), 1, squeeze=False, sharex=True)[:, 0]
    for axes, panel in zip(places, panels, strict=True):
        _draw(axes, panel, marks)
    places[-1].set_xlabel("seconds")
    figure.savefig(path)


def _draw(axes: Any, panel: Panel, marks: Sequence[float]) -> None:
    for mark in marks:
        axes.axvline(mark, color="0.6", linewidth=0.8, linestyle=":")
    if panel.band is not None:
        axes.fill_between(*panel.band, color="C2", alpha=0.2, linewidth=0, step="post")
    for name, (seconds, values) in panel.curves.items():
        style = "steps-post" if panel.is_stepped else "default"
        axes.plot(seconds, values, label=name, linewidth=1.0, drawstyle=style)
    axes.set_title(panel.title, loc="left", fontsize="medium")
    axes.set_ylabel(panel.unit)
    axes.grid(alpha=0.3)
    if panel.is_logarithmic:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if len(panel.curves) > 1:
        axes.legend(fontsize="small", loc="best")
