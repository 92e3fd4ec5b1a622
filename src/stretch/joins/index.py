"""The index of bands: a probe is compared with the rows of two stripes instead of all rows.

What
    `make_index` compiles, for a predicate that implies bands, what keeps rows in `stripes` by the columns of the first
    one and the second, and the scan that looks up probes in them. There rows are compared by the bands, in vector code,
    and what passes by the predicate itself, so that the pairs found are those of the nested
    loop, in the same order.

Invariants
    X1  A worker writes and reads only slots of key groups that are its own.
    X2  Before a worker scans for a probe, it has inserted those of its own rows that the probe may meet.
    X3  J1 and J2 of `layout`. A probe that has more hits than there is room for is looked up again, for fewer rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from stretch.joins.layout import (
    COMPARISONS,
    COUNT,
    FROM_THE_START,
    FULL,
    MARKS_AT,
    MASK,
    NEXT_PROBE,
    NEXT_ROW,
    OK,
    PROBE_FIRST,
    PROBE_LAST,
    WORD,
)
from stretch.joins.match import compile_matches, compile_value, stored_column
from stretch.joins.near import SLACK, compile_near
from stretch.joins.scan import Test, make_count, make_test
from stretch.joins.stripes import (
    ACROSS,
    CHUNK,
    FILLED,
    HEAD,
    NEIGHBOURS,
    NO_CHUNK,
    SLOT_FIELDS,
    SLOTS,
    TAIL,
    Stripes,
    group_of,
    make_stripes,
    place_for,
    slot_of,
    sort_rows,
    sweep,
)
from stretch.native.bits import first_bit, first_bits, nonzero_bytes
from stretch.native.jit import specialised
from stretch.operator.bands import Band, Match
from stretch.operator.columns import Layout
from stretch.operator.plan import Stream

assert CHUNK == 64  # the marks of a chunk are the bits of one word

_STRIPES_LIMIT: Final = 1 << 62


@dataclass(frozen=True)
class Index:
    """The compiled index of a band; kernels by input."""

    bands: tuple[Band, ...]
    """Those that rows are found by: one, or two."""
    insert: tuple[Callable[..., int], Callable[..., int]]
    """`insert(inputs, stripes, first, last, expired, mask, mapping, worker)`: keep one's own of the input's rows."""
    scan: tuple[Callable[..., int], Callable[..., int]]
    """`scan(inputs, stripes, task, hits, mapping, worker)`: look up probes of the input in the other one's stripes."""
    dtypes: tuple[tuple[Any, ...], tuple[Any, ...]]

    def allocate(self, capacity: int) -> tuple[Stripes, Stripes]:
        """Reserve the stripes of both inputs, for rings of so many rows."""
        return make_stripes(self.dtypes[0], capacity), make_stripes(self.dtypes[1], capacity)


def make_index(
    match: Match, streams: Sequence[Stream], layouts: Sequence[Layout], operator: str, bands: Sequence[Band]
) -> Index:
    """Compile the index for bands of a predicate, the most selective first, as `choice.choose` puts them.

    Asks the layouts for the columns that it reads.
    """
    matches = compile_matches(match, streams, layouts, operator)
    columns = [
        [stored_column(streams[side], layouts[side], (each.left, each.right)[side]) for each in bands]
        for side in (0, 1)
    ]
    finders = [_make_finder(bands, side, streams, layouts) for side in (0, 1)]
    tests = [
        make_test(matches, bands, side, streams, layouts)._replace(
            near=compile_near(bands, side, streams, layouts, is_copied=True)
        )
        for side in (0, 1)
    ]
    inserts = [_make_insert(finders[side], side, [position for position, _ in columns[side]]) for side in (0, 1)]
    scans = [_make_scan(finders[side], tests[side]) for side in (0, 1)]
    dtypes = [tuple(dtype for _, dtype in columns[side]) for side in (0, 1)]
    return Index(tuple(bands[:2]), (inserts[0], inserts[1]), (scans[0], scans[1]), (dtypes[0], dtypes[1]))


class _Line(NamedTuple):
    """How the values of a band's column are cut: `part(inputs, place)` is that of a row; `span(inputs, place)` are the
    first part that a probe looks at and how many, 0 if no row can match."""

    part: Callable[..., int]
    span: Callable[..., tuple[int, int]]


class _Finder(NamedTuple):
    """Where rows of an input are kept, and where its probes look, in stripes and across them."""

    slot: Callable[..., int]
    spans: Callable[..., tuple[int, int, int, int]]


def _make_finder(bands: Sequence[Band], side: int, streams: Sequence[Stream], layouts: Sequence[Layout]) -> _Finder:
    stripes = _make_line(bands[0], 1, side, streams, layouts)
    pieces = _make_line(bands[1], ACROSS, side, streams, layouts) if len(bands) > 1 else _Line(_no_part, _no_span)
    stripe, piece, stripe_span, piece_span = stripes.part, pieces.part, stripes.span, pieces.span

    @specialised(inline=True)
    def slot(inputs, place):  # type: ignore[no-untyped-def]
        return slot_of(stripe(inputs, place), piece(inputs, place))

    @specialised(inline=True)
    def spans(inputs, place):  # type: ignore[no-untyped-def]
        first, count = stripe_span(inputs, place)
        first_piece, pieces = piece_span(inputs, place)
        if count > NEIGHBOURS or pieces > NEIGHBOURS:
            return 0, SLOTS, 0, 1  # doubles so large that a band is less than their rounding: every slot once
        return first, count, first_piece, pieces

    return _Finder(slot, spans)


@specialised(inline=True)
def _no_part(inputs, place):  # type: ignore[no-untyped-def]
    return 0


@specialised(inline=True)
def _no_span(inputs, place):  # type: ignore[no-untyped-def]
    return 0, 1


def _make_line(band: Band, bands_wide: int, side: int, streams: Sequence[Stream], layouts: Sequence[Layout]) -> _Line:
    names = (band.left, band.right)
    value = compile_value(streams[side], layouts[side], names[side])
    below, above = (-band.below, band.above) if side == 0 else (-band.above, band.below)
    is_float = any(stream.schema[name].is_float for stream, name in zip(streams, names, strict=True))
    return (_cut_floats if is_float else _cut_ints)(value, below, above, bands_wide)


def _cut_ints(value: Any, below: Any, above: Any, bands_wide: int) -> _Line:
    low_offset = int(max(np.floor(below), -_STRIPES_LIMIT))
    high_offset = int(min(np.ceil(above), _STRIPES_LIMIT))
    width = min(max(1, high_offset - low_offset + 1) * bands_wide, _STRIPES_LIMIT)
    least, most = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)

    @specialised(inline=True)
    def part(inputs, place):  # type: ignore[no-untyped-def]
        return value(inputs, place) // width

    @specialised(inline=True)
    def span(inputs, place):  # type: ignore[no-untyped-def]
        middle = value(inputs, place)
        low, high = middle + low_offset, middle + high_offset
        if low_offset < 0 and low > middle:
            low = least  # the sum ran over
        if high_offset > 0 and high < middle:
            high = most
        first = low // width
        return first, max(0, high // width - first + 1)

    return _Line(part, span)


def _cut_floats(value: Any, below: Any, above: Any, bands_wide: int) -> _Line:
    below, above = float(below), float(above)
    width = bands_wide * (above - below if above > below else 1.0)
    limit, reach = float(_STRIPES_LIMIT), max(abs(below), abs(above))

    @specialised(inline=True)
    def part_of(number):  # type: ignore[no-untyped-def]
        return np.int64(np.floor(max(-limit, min(limit, number / width))))

    @specialised(inline=True)
    def part(inputs, place):  # type: ignore[no-untyped-def]
        number = np.float64(value(inputs, place))
        return part_of(number) if number == number else 0

    @specialised(inline=True)
    def span(inputs, place):  # type: ignore[no-untyped-def]
        middle = np.float64(value(inputs, place))
        if not abs(middle) < np.inf:
            return 0, 0
        slack = (abs(middle) + reach) * SLACK
        first = part_of(middle + below - slack)
        return first, part_of(middle + above + slack) - first + 1

    return _Line(part, span)


def _make_insert(finder: _Finder, side: int, positions: Sequence[int]) -> Callable[..., int]:
    slot_of_row, copy = finder.slot, _copy_nothing
    for slot in reversed(range(len(positions))):
        copy = _copying(side, positions[slot], slot, copy)

    @specialised
    def insert(inputs, stripes, first, last, expired, mask, mapping, worker):  # type: ignore[no-untyped-def]
        """Keep those of the rows [first, last) that are this worker's; rows before `expired` are not needed."""
        groups = len(mapping)
        for number in range(first, last):
            row = np.uint64(number & mask)
            slot = slot_of_row(inputs, row)
            if mapping[group_of(slot, groups)] != worker:
                continue
            place = place_for(stripes, slot, number, expired)
            if place == NO_CHUNK:
                sweep(stripes, expired, mapping, worker)
                place = place_for(stripes, slot, number, expired)
                if place == NO_CHUNK:
                    return NO_CHUNK
            copy(stripes.columns, np.uint64(place), inputs, row)
        return OK

    return insert


@specialised(inline=True)
def _copy_nothing(columns, place, inputs, row):  # type: ignore[no-untyped-def]
    pass


def _copying(source: int, position: int, slot: int, following: Callable[..., None]) -> Callable[..., None]:
    @specialised(inline=True)
    def copy(columns, place, inputs, row):  # type: ignore[no-untyped-def]
        columns[slot][place] = inputs[source][position][row]
        following(columns, place, inputs, row)

    return copy


def _make_collect(test: Test, mark_rows: Callable[..., None]) -> Callable[..., int]:
    """Compile the way from a chunk in which some rows pass to hits."""
    load_row, holds = test.load_row, test.holds

    @specialised(inline=True)
    def collect(inputs, stripes, hits, values, place, rows, low, high, mask, count):  # type: ignore[no-untyped-def]
        """Append the rows that match to the hits; return how many there are then, FULL if there is no room."""
        # All places of a chunk are compared, with rows or not, since a loop of fixed length is a few instructions.
        mark_rows(stripes.columns, hits.ints[0], hits.floats[0], 0, place, CHUNK, hits.marks)
        bits = 0
        for start in range(0, CHUNK, WORD):
            bits |= nonzero_bytes(hits.cells[MARKS_AT] + start) << start
        bits &= first_bits(rows)
        while bits != 0:
            number = stripes.numbers[place + first_bit(bits)]
            bits &= bits - 1
            if number < low or number >= high or not holds(values, load_row(inputs, np.uint64(number & mask))):
                continue
            if count == len(hits.rows):
                return FULL
            hits.rows[count] = number
            count += 1
        return count

    return collect


def _make_scan(finder: _Finder, test: Test) -> Callable[..., int]:
    spans, prepare, load_probe = finder.spans, test.near.prepare, test.load_probe
    _, mark_rows = make_count(test)
    collect = _make_collect(test, mark_rows)

    @specialised(inline=True)
    def look_up(inputs, stripes, task, hits, mapping, worker, probe, low, high, count):  # type: ignore[no-untyped-def]
        """Append the rows in [low, high) that match a probe to the hits, in no order; return the number of hits."""
        mask = task.cells[MASK]
        groups, ints, floats = len(mapping), hits.ints[0], hits.floats[0]
        first, stripes_wide, first_piece, pieces = spans(inputs, probe)
        if not prepare(inputs, ints, floats, probe):
            return count
        values = load_probe(inputs, probe)
        for stripe in range(first, first + stripes_wide):
            for piece in range(first_piece, first_piece + pieces):
                slot = slot_of(stripe, piece)
                if mapping[group_of(slot, groups)] != worker:
                    continue
                at = slot * SLOT_FIELDS
                chunk, tail = stripes.slots[at + HEAD], stripes.slots[at + TAIL]
                while chunk != NO_CHUNK and count != FULL:
                    is_last = chunk == tail
                    rows = stripes.slots[at + FILLED] if is_last else CHUNK
                    task.cells[COMPARISONS] += rows
                    count = collect(inputs, stripes, hits, values, chunk * CHUNK, rows, low, high, mask, count)
                    chunk = NO_CHUNK if is_last else stripes.following[chunk]
        return count

    @specialised
    def scan(inputs, stripes, task, hits, mapping, worker):  # type: ignore[no-untyped-def]
        cells, count = task.cells, 0
        while cells[NEXT_PROBE] < cells[PROBE_LAST]:
            number = cells[NEXT_PROBE]
            index, probe = number - cells[PROBE_FIRST], np.uint64(number & cells[MASK])
            low, end = max(task.lows[index], cells[NEXT_ROW]), task.highs[index]
            high = end
            found = look_up(inputs, stripes, task, hits, mapping, worker, probe, low, high, count)
            while found == FULL and count == 0:
                high = low + ((high - low + 1) >> 1)  # of one row there is one hit at most
                found = look_up(inputs, stripes, task, hits, mapping, worker, probe, low, high, count)
            if found == FULL:
                hits.cells[COUNT] = count
                return FULL
            sort_rows(hits.rows, count, found)
            for k in range(np.uint64(count), np.uint64(found)):
                hits.probes[k] = number
            count = found
            cells[NEXT_PROBE] += high == end
            cells[NEXT_ROW] = FROM_THE_START if high == end else high
        hits.cells[COUNT] = count
        return OK

    return scan
