"""Durations: text ("5 minutes") for timestamp columns, ints for long columns; the two never mix.

A timestamp column counts microseconds (Spark's unit); a long column counts units of its own, so a plain int is a
number of those units (milliseconds in the paper's streams). This module is a leaf: anyone may import it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stretch.errors import DefinitionError, a_kind

_MICROSECONDS = {
    "microsecond": 1,
    "us": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "s": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "day": 86_400_000_000,
    "d": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = re.compile(r"(\d+)\s*([a-z]+)")

MICROSECONDS = "microseconds"
COLUMN_UNITS = "units of the time column"


@dataclass(frozen=True)
class Duration:
    """A length of event time: `ticks` of `unit`, and the text or int it was `written` as."""

    ticks: int
    unit: str
    written: str

    def __str__(self) -> str:
        return self.written


def duration(value: str | int | Duration, name: str) -> Duration:
    """Read a duration such as "90 seconds", "1 hour 30 minutes" or 60_000; `name` is used in errors."""
    if isinstance(value, Duration):
        return value
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise DefinitionError(
            f"{name}={value!r} is not a duration",
            why=f"{a_kind(value)} is neither text nor an int",
            do='write text such as "5 minutes" for a timestamp column, or an int for a long column',
        )
    if isinstance(value, int):
        return Duration(value, COLUMN_UNITS, str(value))
    text = value.strip().lower()
    parts = _PART.findall(text)
    units = [unit.removesuffix("s") if unit not in _MICROSECONDS else unit for _, unit in parts]
    rest = _PART.sub("", text).strip()
    unknown = [unit for unit in units if unit not in _MICROSECONDS]
    if not parts or rest or unknown:
        raise DefinitionError(
            f"{name}={value!r} is not a duration",
            why=f"{(unknown[0] if unknown else rest or value)!r} is not a whole number with a unit of time",
            do='write for example "500 milliseconds", "10 seconds", "5 minutes", "1 hour 30 minutes" or "1 day"',
        )
    ticks = sum(int(number) * _MICROSECONDS[unit] for (number, _), unit in zip(parts, units, strict=True))
    return Duration(ticks, MICROSECONDS, value)


def ticks_for(length: Duration, time_is_timestamp: bool, name: str, column: str) -> int:
    """Resolve a duration against the time column; text goes with timestamps, ints with longs."""
    expected = MICROSECONDS if time_is_timestamp else COLUMN_UNITS
    if length.unit == expected:
        return length.ticks
    if time_is_timestamp:
        raise DefinitionError(
            f"{name}={length.written} does not fit the time column {column!r}",
            why="the column is a timestamp, and a plain int does not say its unit",
            do=f'write the duration as text, for example {name}="{length.written} milliseconds"',
        )
    raise DefinitionError(
        f"{name}={length.written!r} does not fit the time column {column!r}",
        why="the column is a long, which counts units of its own",
        do=f"write the duration as an int in the column's units, or make {column!r} a timestamp",
    )
