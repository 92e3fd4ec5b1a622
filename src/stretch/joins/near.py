"""Bands as tests that vectorise: cheap, in the lanes of the columns themselves, and never too strict.

What
    For one probe, a band says in which interval the other row's column lies. The interval is computed exactly, rounded
    outwards to the type of that column and compared there: 32 bits stay 32 bits, although Python compares ints of any
    size and floats of 64 bits. A pair that passes is then compared by the predicate itself.

Invariants
    N1  Every pair for which the band holds passes. (Pairs for which it does not may pass.)

Why N1 holds
    Ints: the interval is cut to what the column can hold; `row - low`, modulo 2**32, is at most the interval's width
    exactly if the row lies in it. Floats: rounding never changes an order, so if a row is at most `reach` from the
    middle, it is so after rounding all of it; the interval is first made wider than what sums of doubles can be off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from stretch.joins.match import compile_value, stored_column
from stretch.native.jit import specialised
from stretch.operator.bands import Band
from stretch.operator.columns import Layout
from stretch.operator.plan import Stream

SLACK: Final = 2.0**-50  # four roundings of a double
_INT_LIMIT: Final = 1 << 62


class Near(NamedTuple):
    """The bands of a join for rows of one input as the other's probes see them.

    `prepare(inputs, ints, floats, probe)` notes in one line of each array what a probe is compared with, and is
    false if no row can match. `load(ints, floats)` gets it back, in the types of the columns, for `passes(inputs,
    bounds, row)`, which compares a row. Probe and row are places.
    """

    prepare: Callable[..., bool]
    load: Callable[..., Any]
    passes: Callable[..., bool]


def compile_near(
    bands: Sequence[Band], side: int, streams: Sequence[Stream], layouts: Sequence[Layout], *, is_copied: bool = False
) -> Near:
    """Compile bands for probes of the input `side`.

    With `is_copied`, `passes` finds column k of the rows in `inputs[k]`, for band k.
    """
    near = Near(_is_possible, _load_nothing, _passes_always)
    for slot in reversed(range(len(bands))):
        band = bands[slot]
        names = (band.left, band.right)
        value = compile_value(streams[side], layouts[side], names[side])
        stored = streams[1 - side]
        position, dtype = stored_column(stored, layouts[1 - side], names[1 - side])
        below, above = (-band.below, band.above) if side == 0 else (-band.above, band.below)
        is_exact = dtype.kind == "i" and not streams[side].schema[names[side]].is_float
        make = _int_band if dtype.kind == "i" else _float_band
        value_of = _copied(slot) if is_copied else _stored(stored.index, position)
        near = make(value_of, dtype, value, below, above, is_exact, slot, near)
    return near


def _stored(source: int, position: int) -> Callable[[Any, int], Any]:
    @specialised(inline=True)
    def value(inputs, row):  # type: ignore[no-untyped-def]
        return inputs[source][position][row]

    return value


def _copied(slot: int) -> Callable[[Any, int], Any]:
    @specialised(inline=True)
    def value(columns, row):  # type: ignore[no-untyped-def]
        return columns[slot][row]

    return value


@specialised(inline=True)
def _is_possible(inputs, ints, floats, probe):  # type: ignore[no-untyped-def]
    return True


@specialised(inline=True)
def _load_nothing(ints, floats):  # type: ignore[no-untyped-def]
    return ()


@specialised(inline=True)
def _passes_always(inputs, bounds, row):  # type: ignore[no-untyped-def]
    return True


def _int_band(
    row_value: Any, dtype: Any, value: Any, below: Any, above: Any, is_exact: bool, slot: int, others: Near
) -> Near:
    """Make prepare and passes for a column of ints; `slot` is where the interval's low end and width stand."""
    lane = np.int64 if dtype.itemsize == 8 else np.int32
    unsigned = np.uint64 if dtype.itemsize == 8 else np.uint32
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    at, beside = 2 * slot, 2 * slot + 1
    following, load_others, also = others
    floor = int(max(-_INT_LIMIT, np.floor(below)))
    ceiling = int(min(_INT_LIMIT, np.ceil(above)))

    @specialised(inline=True)
    def prepare_exact(inputs, ints, floats, probe):  # type: ignore[no-untyped-def]
        middle = value(inputs, probe)
        # The sum runs over only for longs, and then the interval ends with what a long can hold.
        low = middle + floor if floor >= 0 or middle >= least - floor else least
        high = middle + ceiling if ceiling <= 0 or middle <= most - ceiling else most
        if (floor > 0 and low < middle) or (ceiling < 0 and high > middle):
            return False
        low, high = max(low, least), min(high, most)
        ints[at], ints[beside] = low, high - low
        return low <= high and following(inputs, ints, floats, probe)

    @specialised(inline=True)
    def prepare_rounded(inputs, ints, floats, probe):  # type: ignore[no-untyped-def]
        middle = value(inputs, probe)
        slack = (abs(middle) + max(abs(below), abs(above))) * SLACK
        low, high = np.floor(middle + below - slack), np.ceil(middle + above + slack)
        if not (low <= most and high >= least):
            return False
        # Beyond these a double is no int of 64 bits any more.
        first = least if low <= least else np.int64(low)
        last = most if high >= most else np.int64(high)
        ints[at], ints[beside] = first, last - first
        return first <= last and following(inputs, ints, floats, probe)

    @specialised(inline=True)
    def load(ints, floats):  # type: ignore[no-untyped-def]
        return (lane(ints[at]), unsigned(ints[beside]), load_others(ints, floats))

    @specialised(inline=True)
    def passes(inputs, bounds, row):  # type: ignore[no-untyped-def]
        distance = unsigned(lane(row_value(inputs, row)) - bounds[0])
        return (distance <= bounds[1]) & also(inputs, bounds[2], row)

    return Near(prepare_exact if is_exact else prepare_rounded, load, passes)


def _float_band(
    row_value: Any, dtype: Any, value: Any, below: Any, above: Any, is_exact: bool, slot: int, others: Near
) -> Near:
    """Make prepare and passes for a column of floats; `slot` is where the interval's middle and reach stand."""
    lane, (at, beside) = dtype.type, (2 * slot, 2 * slot + 1)
    following, load_others, also = others
    del is_exact

    @specialised(inline=True)
    def prepare(inputs, ints, floats, probe):  # type: ignore[no-untyped-def]
        center = np.float64(value(inputs, probe))
        slack = (abs(center) + max(abs(below), abs(above))) * SLACK
        low, high = center + below - slack, center + above + slack
        middle = np.float64(lane(0.5 * low + 0.5 * high))
        floats[at], floats[beside] = middle, max(high - middle, middle - low) * (1 + SLACK)
        return following(inputs, ints, floats, probe)

    @specialised(inline=True)
    def load(ints, floats):  # type: ignore[no-untyped-def]
        return (lane(floats[at]), lane(floats[beside]), load_others(ints, floats))

    @specialised(inline=True)
    def passes(inputs, bounds, row):  # type: ignore[no-untyped-def]
        return (abs(row_value(inputs, row) - bounds[0]) <= bounds[1]) & also(inputs, bounds[2], row)

    return Near(prepare, load, passes)
