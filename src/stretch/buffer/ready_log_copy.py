"""Copying runs of staged rows into the log.

What
    `write_run` writes times and refs at once, and notes the rows; after a block of runs `copy_noted_rows` copies them
    column by column. A long run is one copy per column, short ones are gathered by their places.

Invariants
    C1  A segment goes to rows that lie side by side; one that gathers is closed when another begins, and at the end.

Who writes what, memory order
    Called by who merges only, between its acquire and its release (see `ready_log_merge`).
"""

from __future__ import annotations

from stretch.buffer.layout import (
    DATA,
    INDEX_SHIFT,
    INPUT_SHIFT,
    LONG_RUN,
    OF_INPUT,
    OPEN,
    PICKED,
    PICKS,
    ROW_NEXT,
    ROWS_MAX,
    SEGMENT_COUNT,
    SEGMENT_FIELDS,
    SEGMENT_FROM,
    SEGMENT_LINES,
    SEGMENT_PICKS,
    SEGMENT_TO,
    SEGMENTS,
    LogView,
    input_at,
    source_at,
)
from stretch.buffer.rows import LENGTHS, copy_values, gather_values
from stretch.native import Cells, kernel


@kernel(inline=True)
def until_ring_ends(staged_times: Cells, merging: Cells, source: int, slot: int, length: int) -> int:
    """Cut a run at the ends of the rings that it is copied between (P3)."""
    cells = input_at(merging, merging[source_at(source) + OF_INPUT])
    row = merging[cells + ROW_NEXT] & (merging[cells + ROWS_MAX] - 1)
    return int(min(length, min(staged_times.shape[1] - slot, merging[cells + ROWS_MAX] - row)))


@kernel(inline=True)
def write_run(
    times: Cells,
    refs: Cells,
    staged_times: Cells,
    merging: Cells,
    source: int,
    slot: int,
    position: int,
    length: int,
) -> int:
    """Write times and refs of a run, and note its rows; return how much of it the rings let through."""
    length = until_ring_ends(staged_times, merging, source, slot, length)
    of_input = merging[source_at(source) + OF_INPUT]
    cells = input_at(merging, of_input)
    row = merging[cells + ROW_NEXT] & (merging[cells + ROWS_MAX] - 1)
    entry = position & (times.shape[0] - 1)
    place = source * staged_times.shape[1] + slot
    low = (of_input << INPUT_SHIFT) | DATA
    merging[cells + ROW_NEXT] += length
    if length >= LONG_RUN:
        for k in range(length):
            times[entry + k] = staged_times[source, slot + k]
        for k in range(length):
            refs[entry + k] = ((row + k) << INDEX_SHIFT) | low
        _close_segment(merging, cells)
        _add_segment(merging, cells, -1, place, row, length)
        return length
    if merging[cells + OPEN] < 0 or row == 0:
        _close_segment(merging, cells)
        merging[cells + OPEN] = merging[cells + SEGMENTS]
        _add_segment(merging, cells, merging[cells + PICKED], 0, row, 0)
    picked = merging[cells + PICKED]
    for k in range(length):
        times[entry + k] = staged_times[source, slot + k]
        refs[entry + k] = ((row + k) << INDEX_SHIFT) | low
        merging[cells + PICKS + picked + k] = place + k
    merging[cells + PICKED] = picked + length
    return length


@kernel(inline=True)
def _segment_at(cells: int, number: int) -> int:
    """Return where a segment of an input stands in `merging`."""
    return cells + SEGMENT_LINES + number * SEGMENT_FIELDS


@kernel(inline=True)
def _add_segment(merging: Cells, cells: int, picks: int, place: int, row: int, count: int) -> None:
    """Note rows that are copied in one go, or from now on gathered."""
    at = _segment_at(cells, merging[cells + SEGMENTS])
    merging[at + SEGMENT_PICKS], merging[at + SEGMENT_FROM] = picks, place
    merging[at + SEGMENT_TO], merging[at + SEGMENT_COUNT] = row, count
    merging[cells + SEGMENTS] += 1


@kernel(inline=True)
def _close_segment(merging: Cells, cells: int) -> None:
    """End the segment that gathers, if there is one."""
    if merging[cells + OPEN] >= 0:
        at = _segment_at(cells, merging[cells + OPEN])
        merging[at + SEGMENT_COUNT] = merging[cells + PICKED] - merging[at + SEGMENT_PICKS]
        merging[cells + OPEN] = -1


@kernel
def copy_noted_rows(view: LogView) -> None:
    """Copy the scalar columns of all rows noted for this block, column by column."""
    merging = view.merging
    for number in range(view.column_counts.shape[0]):
        cells = input_at(merging, number)
        _close_segment(merging, cells)
        columns = view.column_counts[number]
        to_table, from_table = view.tables[2 * number, :columns], view.tables[2 * number + 1, :columns]
        for column in range(columns):
            if to_table[column, LENGTHS] != 0:
                continue
            for k in range(merging[cells + SEGMENTS]):
                at = _segment_at(cells, k)
                row, count = merging[at + SEGMENT_TO], merging[at + SEGMENT_COUNT]
                if merging[at + SEGMENT_PICKS] < 0:
                    copy_values(to_table, from_table, column, row, merging[at + SEGMENT_FROM], count)
                else:
                    picks = cells + PICKS + merging[at + SEGMENT_PICKS]
                    gather_values(to_table, from_table, column, row, merging, picks, count)
