"""Figures of a report as SVG, for a page that needs nothing from outside: small, sharp at any size, in light and dark.

Colours and lines are those of the page's style sheet: text and axes have the colour of the text around them, curves
`--curve-0` and on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from stretch.bench.report import Chart, Plot

COLOURS = 8

_WIDTH, _HEIGHT = 480, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 14, 12, 40
_ROW = 24  # of a chart
_FEW_POINTS = 8  # so many get a mark and a tick each
_TICKS = 5


@dataclass(frozen=True)
class Scale:
    """From values to pixels, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    is_logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = map(self._straight, (self.low, self.high, value))
        return round(self.start + (value - low) / (high - low) * (self.end - self.start), 1)

    def _straight(self, value: float) -> float:
        return math.log10(max(value, self.low)) if self.is_logarithmic else value

    def ticks(self) -> list[float]:
        """Return round values between the ends."""
        if self.is_logarithmic:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            factors = (1, 2, 5) if self.high / self.low <= 500 else (1,)
            every = [factor * 10.0**decade for decade in decades for factor in factors]
            return [tick for tick in every if self.low <= tick * 1.000001 and tick <= self.high * 1.000001]
        step = _round_up((self.high - self.low) / _TICKS)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [number * step for number in range(first, last + 1)]


def scale_of(values: Sequence[float], start: float, end: float, is_logarithmic: bool) -> Scale:
    """Return a scale for values: from zero on, or from a round value below the lowest if it is logarithmic."""
    if is_logarithmic:
        positive = [value for value in values if value > 0] or [1.0]
        low, high = _round_down(min(positive)), _round_up(max(positive))
        return Scale(low, high if high > low else 10 * low, start, end, True)
    low, high = min(0.0, *values), max(values, default=1.0)
    return Scale(low, 1.05 * high if high > low else low + 1, start, end)


def curves(plot: Plot) -> str:
    """Draw curves over an axis."""
    across = sorted({place for curve in plot.curves.values() for place in curve})
    values = [value for curve in plot.curves.values() for several in curve.values() for value in several]
    horizontal = _across(across, plot.is_logarithmic_across)
    vertical = scale_of(values, _HEIGHT - _BOTTOM, _TOP, plot.is_logarithmic)
    parts = [_ground(vertical.ticks(), vertical, plot.unit)]
    marks = across if len(across) <= _FEW_POINTS else horizontal.ticks()
    parts += [_text(horizontal(tick), _HEIGHT - _BOTTOM + 16, short(tick), "middle") for tick in marks]
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, plot.across, "middle"))
    for number, curve in enumerate(plot.curves.values()):
        parts.append(_curve(number % COLOURS, curve, horizontal, vertical, len(across) <= _FEW_POINTS))
    return _image(_WIDTH, _HEIGHT, plot.title, parts)


def _across(places: Sequence[float], is_logarithmic: bool) -> Scale:
    low, high = (places[0], places[-1]) if places else (0.0, 1.0)
    margin = 0.0 if is_logarithmic else 0.03 * (high - low) or 0.5
    if is_logarithmic and low == high:
        high = 2 * low
    return Scale(low - margin, high + margin, _LEFT, _WIDTH - _RIGHT, is_logarithmic)


def _curve(
    number: int, curve: Mapping[float, Sequence[float]], horizontal: Scale, vertical: Scale, is_marked: bool
) -> str:
    places = sorted(place for place, several in curve.items() if several)
    middle = [(horizontal(place), vertical(median(curve[place]))) for place in places]
    upper = [(horizontal(place), vertical(max(curve[place]))) for place in places]
    lower = [(horizontal(place), vertical(min(curve[place]))) for place in places]
    parts = []
    if upper != lower:
        if len(places) > 1:
            outline = " ".join(f"{x},{y}" for x, y in upper + lower[::-1])
            parts.append(f'<polygon points="{outline}" class="band fill-{number}"/>')
        else:
            (x, top), (_, bottom) = upper[0], lower[0]
            parts.append(_line(x, top, x, bottom, f"line-{number}"))
    parts.append(f'<polyline points="{" ".join(f"{x},{y}" for x, y in middle)}" class="curve line-{number}"/>')
    if is_marked:
        parts += [f'<circle cx="{x}" cy="{y}" r="3" class="fill-{number}"/>' for x, y in middle]
    return "".join(parts)


def dots(chart: Chart) -> str:
    """Draw a dot for each repetition and a bar at the median, a row for each that was measured."""
    height = _TOP + _ROW * len(chart.rows) + _BOTTOM
    left = min(260, 12 + 6 * max((len(name) for name in chart.rows), default=0))
    values = [value for several in chart.rows.values() for value in several]
    scale = scale_of(values, left, _WIDTH - _RIGHT, chart.is_logarithmic)
    foot = height - _BOTTOM
    parts = [_line(scale(tick), _TOP, scale(tick), foot, "grid") for tick in scale.ticks()]
    parts += [_text(scale(tick), foot + 16, short(tick), "middle") for tick in scale.ticks()]
    parts.append(_text((left + _WIDTH - _RIGHT) / 2, height - 6, chart.unit, "middle"))
    for row, (name, several) in enumerate(chart.rows.items()):
        y = _TOP + _ROW * (row + 0.5)
        parts.append(_text(left - 8, y + 4, name, "end"))
        parts += [f'<circle cx="{scale(value)}" cy="{y}" r="3.5" class="dot"/>' for value in several]
        if several:
            x = scale(median(several))
            parts.append(_line(x, y - 8, x, y + 8, "median"))
    return _image(_WIDTH, height, chart.title, parts)


def short(value: float) -> str:
    """Write a number in few letters: 1.2 M."""
    for limit, sign in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{sign}"
    return f"{value:.3g}"


def _ground(ticks: Sequence[float], scale: Callable[[float], float], unit: str) -> str:
    lines = [_line(_LEFT, scale(tick), _WIDTH - _RIGHT, scale(tick), "grid") for tick in ticks]
    names = [_text(_LEFT - 6, scale(tick) + 4, short(tick), "end") for tick in ticks]
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    axis = f'<text x="12" y="{middle}" text-anchor="middle" transform="rotate(-90 12 {middle})">{escape(unit)}</text>'
    return "".join([*lines, *names, axis])


def _line(x: float, y: float, other_x: float, other_y: float, style: str) -> str:
    return f'<line x1="{x}" y1="{y}" x2="{other_x}" y2="{other_y}" class="{style}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _image(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    opening = f'<svg viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg">'
    return f"{opening}<title>{escape(title)}</title>{''.join(parts)}</svg>"


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, ... that is not below a value."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= value * 0.999999)


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return max(factor * power for factor in (1, 2, 5) if factor * power <= value * 1.000001)
