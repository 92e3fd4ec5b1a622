"""From rows to the texts in them, a block at a time.

What
    `find_runs` and `find_values` fill `column.bounds` with the next texts of the rows, `column.untils` with their
    rows' times, and `starts` with where the rows' ids begin. A block ends where it is full, also in the middle of a
    row: `column.place` says where the next one goes on.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stretch.native.atomics import Cells
from stretch.native.jit import kernel
from stretch.strings.layout import (
    AT,
    BASE,
    BLOCK_TEXTS,
    DONE,
    END,
    FIRST_ROW,
    HASHTAGS,
    LATEST,
    NULL_STOP,
    OPEN,
    OUTPUT_FULL,
    ROOM,
    ROW,
    RUN,
    STAMP,
    STATUS,
    TOO_LATE,
    VALUES,
    Ids,
    Longs,
    TextColumn,
    Words,
)
from stretch.strings.tokenise import SIGN, Bytes, Long, Word, lowest_bit, run_bits

# A piece is what is done without leaving the dictionary: less than a millisecond, but at least one row.
PIECE_ROWS: Final = 1024
PIECE_BYTES: Final = 1 << 18

_0: Final = np.uint64(0)
_1: Final = np.uint64(1)
_2: Final = np.uint64(2)
_63: Final = np.uint64(63)
_64: Final = np.uint64(64)
_EDGES: Final = np.uint64(2 * BLOCK_TEXTS)
_NULL_STOP: Final = np.uint64(NULL_STOP)
_SPREAD: Final = 0x9E3779B1  # 2**32 / golden ratio


@kernel(inline=True)
def _is_valid(bits: Bytes, bit: Long) -> bool:
    return len(bits) == 0 or (bits[bit >> 3] >> (bit & 7)) & 1 != 0


@kernel
def end_of_piece(column: TextColumn, row: Long, last: Long) -> Long:
    """Return the row before which a piece that begins at `row` ends."""
    rows, offsets = column.row_offsets, column.offsets
    by_element = column.kind == VALUES
    begin = offsets[rows[row]] if by_element else rows[row]
    stop = min(row + PIECE_ROWS, last)
    while stop > row + 1 and (offsets[rows[stop]] if by_element else rows[stop]) - begin > PIECE_BYTES:
        stop = (row + 1 + stop) // 2
    return stop


@kernel
def begin_row(column: TextColumn, until: Longs, starts: Longs, row: Long, last: Long, count: Long) -> bool:
    """Begin a row after `count` texts of the block; tell whether it is there (`last` is not) and can be done now."""
    place = column.place
    starts[row - place[FIRST_ROW]] = place[BASE] + count
    place[ROW] = row
    if row == last:
        return False
    at = column.row_offsets[row]
    end = column.row_offsets[row + 1] if _is_valid(column.row_valid, column.row_bit + row) else at
    place[AT] = at
    place[END] = end
    texts_max = end - at if column.kind == VALUES else (end - at + 1) // 2
    if until[row] <= place[LATEST]:
        place[STATUS] = TOO_LATE
    elif place[BASE] + count + texts_max > place[ROOM]:
        place[STATUS] = OUTPUT_FULL
    else:
        place[STATUS] = DONE
    return bool(place[STATUS] == DONE)


@kernel
def find_values(column: TextColumn, until: Longs, starts: Longs, last: Long) -> Long:
    """Fill a block with whole texts; return how many."""
    place, bounds, offsets = column.place, column.bounds, column.offsets
    count = np.int64(0)
    while count < BLOCK_TEXTS:
        row, at = place[ROW], place[AT]
        stop = min(place[END], at + BLOCK_TEXTS - count)
        for element in range(at, stop):
            bounds[2 * count] = np.uint64(offsets[element])
            is_valid = _is_valid(column.valid, column.bit + element)
            bounds[2 * count + 1] = np.uint64(offsets[element + 1]) if is_valid else _NULL_STOP
            column.untils[count] = until[row]
            count += 1
        place[AT] = stop
        if stop == place[END] and not begin_row(column, until, starts, row + 1, last, count):
            break
    return count


@kernel
def find_runs(column: TextColumn, until: Longs, starts: Longs, last: Long) -> Long:
    """Fill a block with words or hashtags; return how many."""
    place, bounds, single = column.place, column.bounds, column.single
    tags = column.kind == HASHTAGS
    edges = np.uint64(place[OPEN])
    bounds[0] = np.uint64(place[RUN])
    count = np.int64(0)
    while True:
        row = place[ROW]
        edges = _find_edges(bounds, single, place, tags, edges)
        if tags:
            edges = _keep_tags(bounds, single, np.uint64(column.row_offsets[row]), np.uint64(2 * count), edges)
        found = np.int64(edges >> _1)
        for k in range(count, found):
            column.untils[k] = until[row]
        count = found
        if place[AT] < place[END]:  # the block is full
            break
        if not begin_row(column, until, starts, row + 1, last, count) or edges >= _EDGES:
            break
    place[RUN] = np.int64(bounds[edges - _1]) if place[OPEN] else 0
    return count


@kernel
def _find_edges(bounds: Words, single: Bytes, place: Cells, tags: bool, edges: Word) -> Word:
    """Find where runs begin and end until the row ends or the block is full; return how many edges there are now."""
    at, end, opened = np.uint64(place[AT]), np.uint64(place[END]), np.uint64(place[OPEN])
    while at < end and edges < _EDGES:
        bits = run_bits(single, at, end, tags)
        changes = bits ^ ((bits << _1) | opened)
        while changes != _0:
            bounds[edges] = at + lowest_bit(changes)
            edges += _1
            changes &= changes - _1
        opened = bits >> _63
        at += _64
    if at >= end:
        at = end
        if opened != _0:
            bounds[edges] = end
            edges += _1
            opened = _0
    place[AT] = np.int64(at)
    place[OPEN] = np.int64(opened)
    return edges


@kernel
def _keep_tags(bounds: Words, single: Bytes, begin: Word, kept: Word, edges: Word) -> Word:
    """Of a row's runs, which have the edges from `kept` on, keep those after a sign; return how many edges are left."""
    for k in range(kept, edges, _2):
        start = bounds[k]
        is_open = k + _1 == edges  # its sign is looked at when its end is known
        if is_open or (start > begin and single[start - _1] == SIGN):
            bounds[kept] = start
            bounds[kept + _1] = bounds[k + _1]
            kept += _1 if is_open else _2
    return kept


@kernel
def keep_distinct(seen: Longs, place: Cells, ids: Ids, starts: Longs, first: Long, last: Long) -> None:
    """Leave out the ids that a row has had already; rows are counted as in `starts`.

    A row has at most half as many ids as `seen` has cells. Comparing each with all before it would be as fast for
    12 ids a row, but take a second for a row of 100,000.
    """
    mask = len(seen) - 1
    kept = read = starts[first]
    for row in range(first, last):
        place[STAMP] += 1
        stop = starts[row + 1]
        for k in range(read, stop):
            entry = place[STAMP] << 32 | np.int64(ids[k])
            cell = (np.int64(ids[k]) * _SPREAD >> 16) & mask
            while seen[cell] != entry and seen[cell] >> 32 == place[STAMP]:
                cell = (cell + 1) & mask
            if seen[cell] != entry:
                seen[cell] = entry
                ids[kept] = ids[k]
                kept += 1
        read = stop
        starts[row + 1] = kept
