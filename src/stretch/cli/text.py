"""What commands print: aligned tables, times of day, and a little emphasis where a terminal shows it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TextIO

WIDTH = 80
"""Columns of a plain terminal: no line is longer."""

Emphasis = Callable[[str], str]


def emphasis(stream: TextIO) -> Emphasis:
    """Return how to stress a text: in bold on a terminal, not at all in a file, a pipe, or where NO_COLOR is set."""
    if stream.isatty() and "NO_COLOR" not in os.environ:
        return lambda text: f"\033[1m{text}\033[0m"
    return str


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Format rows below a head: numbers to the right, text to the left, each column as wide as it needs."""
    cells = [[str(value) for value in row] for row in rows]
    is_number = [bool(rows) and all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(head))]
    widths = [max(len(line[i]) for line in [list(head), *cells]) for i in range(len(head))]

    def line(values: Sequence[str]) -> str:
        fitted = (
            value.rjust(width) if right else value.ljust(width)
            for value, width, right in zip(values, widths, is_number, strict=True)
        )
        return "   ".join(fitted).rstrip()

    return "\n".join([line(head), line(["-" * width for width in widths]), *map(line, cells)])


def clock(microseconds: int, form: str = "%H:%M:%S") -> str:
    """Show an event time, microseconds since 1970, as a time of day (UTC)."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)).strftime(form)
