"""The nested loop: probes of one input against rows of the other (Paper: Operator "ScaleJoin", f_J).

What
    `make_scan` compiles, for each input, the kernel whose probes come from it. Probes go over the rows in *tiles*: all
    probes of a tile compare with one block of rows, which stays in the first-level cache, then with the next block.
    A block is counted first, in a loop without branches that becomes vector code; only where something passes is it
    gone through again, to write down which rows. What passes the bands is compared by the predicate itself.

Invariants
    J1 and J2 of `layout`. A tile's pairs are found block by block; they become hits all at once, in order, or, if
    there is no room, not at all, and the tile is done again. A tile of one probe finds its pairs in order.

Why it is fast
    Rows are told by unsigned places, counted in 32 bits, and compared in lanes of their own type (`near`), so that a
    vector of 512 bits holds 16 of them; a test looks for these instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stretch.joins.layout import (
    BLOCK,
    COMPARISONS,
    COUNT,
    FROM_THE_START,
    FULL,
    IS_DENSE,
    MARKS_AT,
    MASK,
    NEXT_PROBE,
    NEXT_ROW,
    OK,
    PROBE_FIRST,
    PROBE_LAST,
    RANGES,
    TILE,
    WORD,
    Hits,
)
from stretch.joins.match import Matches, bands_of, compile_matches, nothing
from stretch.joins.near import Near, compile_near
from stretch.native.bits import first_bit, first_bits, nonzero_bytes
from stretch.native.jit import kernel, specialised
from stretch.operator.bands import Band, Match
from stretch.operator.columns import Layout
from stretch.operator.plan import Stream

Scan = Callable[..., int]


def make_scan(
    match: Match | None, streams: Sequence[Stream], layouts: Sequence[Layout], operator: str
) -> tuple[Scan, Scan]:
    """Compile `scan(inputs, task, hits)`, for probes of the left input and for probes of the right one.

    Asks the layouts for the columns that it reads. `inputs` are the columns of both inputs, by place.
    """
    matches = compile_matches(match, streams, layouts, operator)
    bands = bands_of(match, streams)
    left, right = (_make_scan(make_test(matches, bands, side, streams, layouts)) for side in (0, 1))
    return left, right


class Test(NamedTuple):
    """A predicate as probes of one input ask it: what is loaded of a probe and of a row, and the bands before it."""

    load_probe: Callable[..., Any]
    load_row: Callable[..., Any]
    holds: Callable[[Any, Any], bool]
    near: Near
    has_bands: bool


def make_test(
    matches: Matches, bands: Sequence[Band], side: int, streams: Sequence[Stream], layouts: Sequence[Layout]
) -> Test:
    """Turn a predicate to probes of the input `side`."""
    holds = matches.holds

    @specialised(inline=True)
    def holds_turned(probe, row):  # type: ignore[no-untyped-def]
        return holds(row, probe)

    near = compile_near(bands, side, streams, layouts)
    load = matches.load
    return Test(load[side], load[1 - side], holds_turned if side else holds, near, bool(bands))


def make_count(test: Test) -> tuple[Callable[..., int], Callable[..., None]]:
    """Compile the two loops over a block: how many rows may match a probe, and which."""
    _, load_row, holds, near, has_bands = test
    passes, load_bounds = near.passes, near.load
    load_probe = nothing if has_bands else test.load_probe

    @specialised(inline=True)
    def load(inputs, ints, floats, probe):  # type: ignore[no-untyped-def]
        return load_bounds(ints, floats) if has_bands else load_probe(inputs, probe)

    @specialised(inline=True)
    def may_match(inputs, values, row):  # type: ignore[no-untyped-def]
        return passes(inputs, values, row) if has_bands else holds(values, load_row(inputs, row))

    @specialised(inline=True)
    def count_rows(inputs, ints, floats, probe, first, rows):  # type: ignore[no-untyped-def]
        """Count which of the rows at places [first, first + rows) may match."""
        values, count, start = load(inputs, ints, floats, probe), np.int32(0), np.uint64(first)
        for j in range(np.uint32(0), np.uint32(rows)):
            count = np.int32(count + np.int32(may_match(inputs, values, start + np.uint64(j))))
        return np.int64(count)

    @specialised(inline=True)
    def mark_rows(inputs, ints, floats, probe, first, rows, marks):  # type: ignore[no-untyped-def]
        """Set a byte for each of these rows."""
        values, start = load(inputs, ints, floats, probe), np.uint64(first)
        for j in range(np.uint32(0), np.uint32(rows)):
            marks[j] = np.uint8(may_match(inputs, values, start + np.uint64(j)))

    return count_rows, mark_rows


def _make_collect(test: Test, mark_rows: Callable[..., None]) -> Callable[..., int]:
    """Compile the way from a block in which some rows pass to pairs."""
    load_probe, load_row, holds, _, has_bands = test

    @specialised
    def collect(inputs, hits, number, probe, row, place, rows, found, room):  # type: ignore[no-untyped-def]
        """Note the pairs of the tile's probe `number` with so many rows; return how many pairs there are then.

        If there is no room for all: the first row that is not noted, as `-1 - rows before it`.
        """
        mark_rows(inputs, hits.ints[number], hits.floats[number], probe, place, rows, hits.marks)
        values = load_probe(inputs, probe)
        for start in range(0, rows, WORD):
            bits = nonzero_bytes(hits.cells[MARKS_AT] + start) & first_bits(rows - start)
            while bits != 0:
                j = start + first_bit(bits)
                bits &= bits - 1
                if has_bands and not holds(values, load_row(inputs, np.uint64(place + j))):
                    continue
                if found == room:
                    return -1 - j
                hits.found_probes[found] = number
                hits.found_rows[found] = row + j
                found += 1
        return found

    return collect


def _make_scan_tile(test: Test) -> Callable[..., int]:
    """Compile the work on one tile."""
    prepare = test.near.prepare
    count_rows, mark_rows = make_count(test)
    collect = _make_collect(test, mark_rows)

    @specialised
    def scan_tile(inputs, task, hits, width, room):  # type: ignore[no-untyped-def]
        """Find the pairs of the next `width` probes; FULL if there are more than `room`.

        Except for a tile of one probe: then NEXT_ROW says where to go on.
        """
        cells = task.cells
        mask, first_probe, index = cells[MASK], cells[NEXT_PROBE], cells[NEXT_PROBE] - cells[PROBE_FIRST]
        found, compared = 0, 0
        for i in range(width):
            hits.lows[i], hits.highs[i] = max(task.lows[index + i], cells[NEXT_ROW]), task.highs[index + i]
            if not prepare(inputs, hits.ints[i], hits.floats[i], np.uint64((first_probe + i) & mask)):
                hits.highs[i] = hits.lows[i]
        low, high = hits.lows[0], max(task.highs[index + width - 1], hits.lows[0])
        for k in range(cells[RANGES]):
            first, end = max(low, task.firsts[k]), min(high, task.lasts[k])
            while first < end:
                last = min(end, (first | min(BLOCK - 1, mask)) + 1)
                for i in range(width):
                    row, until = max(first, hits.lows[i]), min(last, hits.highs[i])
                    if row >= until:
                        continue
                    probe, place = np.uint64((first_probe + i) & mask), row & mask
                    compared += until - row
                    if count_rows(inputs, hits.ints[i], hits.floats[i], probe, place, until - row) == 0:
                        continue
                    before = found
                    found = collect(inputs, hits, i, probe, row, place, until - row, before, room)
                    if found < 0:
                        if width > 1:
                            return FULL
                        cells[NEXT_ROW] = row - 1 - found
                        cells[COMPARISONS] += compared - (until - cells[NEXT_ROW])
                        return room
                first = last
        cells[COMPARISONS] += compared
        cells[NEXT_PROBE] = first_probe + width
        cells[NEXT_ROW] = FROM_THE_START
        return found

    return scan_tile


@kernel
def _take(hits: Hits, first_probe: int, width: int, found: int, count: int) -> None:
    """Make hits of a tile's pairs, by probe; pairs of one probe stay in order."""
    starts = hits.starts
    for i in range(width + 1):
        starts[i] = 0
    for k in range(found):
        starts[hits.found_probes[k] + 1] += 1
    for i in range(width):
        starts[i + 1] += starts[i]
    for k in range(found):
        number = hits.found_probes[k]
        hits.probes[count + starts[number]] = first_probe + number
        hits.rows[count + starts[number]] = hits.found_rows[k]
        starts[number] += 1


def _make_scan(test: Test) -> Scan:
    scan_tile = _make_scan_tile(test)

    @specialised
    def scan(inputs, task, hits):  # type: ignore[no-untyped-def]
        cells, count = task.cells, 0
        status = OK
        while status == OK and cells[NEXT_PROBE] < cells[PROBE_LAST]:
            is_single = cells[IS_DENSE] != 0 or cells[NEXT_ROW] != FROM_THE_START
            first_probe = cells[NEXT_PROBE]
            width = 1 if is_single else min(TILE, cells[PROBE_LAST] - first_probe)
            found = scan_tile(inputs, task, hits, width, len(hits.probes) - count)
            if found == FULL:
                cells[IS_DENSE] = np.int64(count == 0)
                status = OK if count == 0 else FULL
                continue
            _take(hits, first_probe, width, found, count)
            count += found
            if cells[NEXT_ROW] != FROM_THE_START:
                status = FULL
        hits.cells[COUNT] = count
        return status

    return scan
