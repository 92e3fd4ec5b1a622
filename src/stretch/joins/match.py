"""Predicates compiled: `matches(inputs, left, right)` for the places of two rows, as exact as the reference engine.

Ints are 64 bits wide and floats doubles, whatever the columns are; a text is its id; a band is false where a column is
null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stretch.native.jit import specialised
from stretch.operator.bands import All, Band, Match, Predicate
from stretch.operator.columns import Form, Layout, dtype_of
from stretch.operator.compile import compile_match, compile_view
from stretch.operator.fingerprint import names_used
from stretch.operator.plan import Stream

Matches = Callable[[Any, int, int], bool]


def compile_matches(
    match: Match | None, streams: Sequence[Stream], layouts: Sequence[Layout], operator: str
) -> Matches:
    """Compile a predicate bound to the columns of both inputs; None holds for every pair."""
    joined = _always
    for part in reversed(parts_of(match)):
        compile_part = _compile_band if isinstance(part, Band) else _compile_function
        joined = _both(compile_part(part, streams, layouts, operator), joined)
    return joined


def parts_of(match: Match | None) -> tuple[Match, ...]:
    """Return the predicates that all have to hold."""
    if match is None:
        return ()
    if isinstance(match, All):
        return tuple(each for part in match.parts for each in parts_of(part))
    return match.parts if isinstance(match, Predicate) else (match,)


@specialised
def _always(inputs, left, right):  # type: ignore[no-untyped-def]
    return True


def _both(first: Matches, second: Matches) -> Matches:
    @specialised
    def matches(inputs, left, right):  # type: ignore[no-untyped-def]
        return first(inputs, left, right) and second(inputs, left, right)

    return matches


def _compile_function(function: Any, streams: Sequence[Stream], layouts: Sequence[Layout], operator: str) -> Matches:
    used = names_used(function)
    views = [compile_view(stream, layout, used) for stream, layout in zip(streams, layouts, strict=True)]
    compiled = compile_match(function, views[0], views[1], operator)
    build_left, build_right = views[0].build, views[1].build
    left_time, right_time = (
        compile_time(stream, layout, used) for stream, layout in zip(streams, layouts, strict=True)
    )

    @specialised
    def matches(inputs, left, right):  # type: ignore[no-untyped-def]
        l = build_left(inputs, left, left_time(inputs, left))
        r = build_right(inputs, right, right_time(inputs, right))
        return bool(compiled(l, r))

    return matches


def compile_time(stream: Stream, layout: Layout, used: set[str]) -> Callable[[Any, int], int]:
    """Return how a function gets the time of a row: from its column, or not at all if it does not ask."""
    if not used & {"timestamp", stream.time}:
        return _no_time
    source, position = stream.index, layout.position(stream.time, Form.VALUE, np.int64)

    @specialised
    def time(inputs, place):  # type: ignore[no-untyped-def]
        return inputs[source][position][place]

    return time


@specialised
def _no_time(inputs, place):  # type: ignore[no-untyped-def]
    return 0


def _compile_band(band: Any, streams: Sequence[Stream], layouts: Sequence[Layout], operator: str) -> Matches:
    del operator
    below, above = band.below, band.above
    left_of, right_of = (
        _compile_value(stream, layout, name)
        for stream, layout, name in zip(streams, layouts, (band.left, band.right), strict=True)
    )
    left_valid, right_valid = (
        _compile_valid(stream, layout, name)
        for stream, layout, name in zip(streams, layouts, (band.left, band.right), strict=True)
    )

    @specialised
    def matches(inputs, left, right):  # type: ignore[no-untyped-def]
        distance = right_of(inputs, right) - left_of(inputs, left)
        is_near = -below <= distance and distance <= above
        return is_near and left_valid(inputs, left) and right_valid(inputs, right)

    return matches


def _compile_value(stream: Stream, layout: Layout, name: str) -> Callable[[Any, int], Any]:
    """Return how a number of a row is read, at full width."""
    source = stream.index
    wide = np.float64 if name in stream.schema and stream.schema[name].is_float else np.int64
    dtype = dtype_of(stream.schema[name]) if name in stream.schema else np.int64
    position = layout.position(name, Form.VALUE, dtype)

    @specialised
    def value(inputs, place):  # type: ignore[no-untyped-def]
        return wide(inputs[source][position][place])

    return value


def _compile_valid(stream: Stream, layout: Layout, name: str) -> Callable[[Any, int], bool]:
    """Return how a kernel sees that a number is not null; a time never is."""
    if name not in stream.schema:
        return _is_always_valid
    source, position = stream.index, layout.position(name, Form.VALID, np.uint8)

    @specialised
    def valid(inputs, place):  # type: ignore[no-untyped-def]
        return inputs[source][position][place] != 0

    return valid


@specialised
def _is_always_valid(inputs, place):  # type: ignore[no-untyped-def]
    return True
