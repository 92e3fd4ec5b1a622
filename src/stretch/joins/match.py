"""Predicates compiled, as exact as the reference engine: ints are 64 bits wide and floats doubles, whatever the columns
are; a text is its id; a band is false where a column is null.

What a predicate reads of a row is loaded first, by `load[input](inputs, place)`, so that a loop over rows loads that of
its probe once; `holds(left, right)` compares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stretch.joins.implied import implied_bands
from stretch.joins.layout import BANDS_MAX
from stretch.native.jit import specialised
from stretch.operator.bands import All, Band, Match, Predicate, Same
from stretch.operator.columns import Form, Layout, dtype_of
from stretch.operator.compile import compile_match, compile_view
from stretch.operator.fingerprint import names_used
from stretch.operator.plan import Stream

Load = Callable[[Any, int], Any]


class Matches(NamedTuple):
    """A compiled predicate; see the module header."""

    load: tuple[Load, Load]
    holds: Callable[[Any, Any], bool]


def compile_matches(
    match: Match | None, streams: Sequence[Stream], layouts: Sequence[Layout], operator: str
) -> Matches:
    """Compile a predicate bound to the columns of both inputs; None holds for every pair."""
    joined = Matches((nothing, nothing), _always)
    for part in reversed(parts_of(match)):
        compile_part = _HOW_TO_COMPILE.get(type(part), _compile_function)
        joined = _both(compile_part(part, streams, layouts, operator), joined)
    return joined


def bands_of(match: Match | None, streams: Sequence[Stream]) -> tuple[Band, ...]:
    """Return bands that hold for every pair that matches: those that are declared, and those that functions imply."""
    found: dict[Band, None] = {}
    for part in parts_of(match):
        if isinstance(part, Same):
            if streams[0].schema[part.left].name != "boolean":
                found[Band(part.left, part.right, 0, 0)] = None
        else:
            found |= dict.fromkeys([part] if isinstance(part, Band) else implied_bands(part, streams))
    return tuple(found)[:BANDS_MAX]


def stored_column(stream: Stream, layout: Layout, name: str) -> tuple[int, Any]:
    """Return where the values of a column that a band compares are, and their type; of a text its ids."""
    type_ = stream.schema[name]
    form, dtype = (Form.ID, np.int32) if type_.name == "string" else (Form.VALUE, dtype_of(type_))
    return layout.position(name, form, dtype), np.dtype(dtype)


def compile_value(stream: Stream, layout: Layout, name: str) -> Load:
    """Return how a number of a row is read, at full width."""
    source, (position, dtype) = stream.index, stored_column(stream, layout, name)
    wide = np.float64 if dtype.kind == "f" else np.int64

    @specialised(inline=True)
    def value(inputs, place):  # type: ignore[no-untyped-def]
        return wide(inputs[source][position][place])

    return value


def parts_of(match: Match | None) -> tuple[Match, ...]:
    """Return the predicates that all have to hold."""
    if match is None:
        return ()
    if isinstance(match, All):
        return tuple(each for part in match.parts for each in parts_of(part))
    return match.parts if isinstance(match, Predicate) else (match,)


@specialised(inline=True)
def nothing(inputs, place):  # type: ignore[no-untyped-def]
    """Load nothing."""
    return ()


@specialised(inline=True)
def _always(left, right):  # type: ignore[no-untyped-def]
    return True


def _both(first: Matches, others: Matches) -> Matches:
    one_holds, others_hold = first.holds, others.holds

    def loading(one: Load, rest: Load) -> Load:
        @specialised(inline=True)
        def load(inputs, place):  # type: ignore[no-untyped-def]
            return (one(inputs, place), rest(inputs, place))

        return load

    @specialised(inline=True)
    def holds(left, right):  # type: ignore[no-untyped-def]
        return one_holds(left[0], right[0]) and others_hold(left[1], right[1])

    loads = tuple(map(loading, first.load, others.load))
    return Matches((loads[0], loads[1]), holds)


def _compile_function(function: Any, streams: Sequence[Stream], layouts: Sequence[Layout], operator: str) -> Matches:
    used = names_used(function)
    views = [compile_view(stream, layout, used) for stream, layout in zip(streams, layouts, strict=True)]
    compiled = compile_match(function, views[0], views[1], operator)

    def loading(side: int) -> Load:
        build, time_of = views[side].build, compile_time(streams[side], layouts[side], used)

        @specialised(inline=True)
        def load(inputs, place):  # type: ignore[no-untyped-def]
            return build(inputs, place, time_of(inputs, place))

        return load

    @specialised(inline=True)
    def holds(left, right):  # type: ignore[no-untyped-def]
        return bool(compiled(left, right))

    return Matches((loading(0), loading(1)), holds)


def compile_time(stream: Stream, layout: Layout, used: set[str]) -> Load:
    """Return how a function gets the time of a row: from its column, or not at all if it does not ask."""
    if not used & {"timestamp", stream.time}:
        return _no_time
    source, position = stream.index, layout.position(stream.time, Form.VALUE, np.int64)

    @specialised(inline=True)
    def time(inputs, place):  # type: ignore[no-untyped-def]
        return inputs[source][position][place]

    return time


@specialised(inline=True)
def _no_time(inputs, place):  # type: ignore[no-untyped-def]
    return 0


def _compile_band(band: Any, streams: Sequence[Stream], layouts: Sequence[Layout], operator: str) -> Matches:
    del operator
    below, above = band.below, band.above

    def loading(side: int, name: str) -> Load:
        value = compile_value(streams[side], layouts[side], name)
        source, position = side, layouts[side].position(name, Form.VALID, np.uint8)

        @specialised(inline=True)
        def load(inputs, place):  # type: ignore[no-untyped-def]
            return (value(inputs, place), inputs[source][position][place] != 0)

        return load

    @specialised(inline=True)
    def holds(left, right):  # type: ignore[no-untyped-def]
        distance = right[0] - left[0]
        return (-below <= distance) & (distance <= above) & left[1] & right[1]

    return Matches((loading(0, band.left), loading(1, band.right)), holds)


def _compile_same(same: Any, streams: Sequence[Stream], layouts: Sequence[Layout], operator: str) -> Matches:
    del operator

    def loading(side: int, name: str) -> Load:
        value = compile_value(streams[side], layouts[side], name)
        if streams[side].schema[name].name == "string":  # the id of null is one of its own

            @specialised(inline=True)
            def load_id(inputs, place):  # type: ignore[no-untyped-def]
                return (value(inputs, place), True)

            return load_id
        source, position = side, layouts[side].position(name, Form.VALID, np.uint8)

        @specialised(inline=True)
        def load(inputs, place):  # type: ignore[no-untyped-def]
            return (value(inputs, place), inputs[source][position][place] != 0)

        return load

    @specialised(inline=True)
    def holds(left, right):  # type: ignore[no-untyped-def]
        return (left[0] == right[0]) & (left[1] == right[1])

    return Matches((loading(0, same.left), loading(1, same.right)), holds)


_HOW_TO_COMPILE: dict[type, Callable[..., Matches]] = {Band: _compile_band, Same: _compile_same}
