"""Rows that are kept longer than their entries, because readers look back at them: the log as the state of a join.

What
    A log that keeps rows has row stores of their own size, large enough for what has to be kept: address space, of
    which only the pages exist that hold live rows. Rows leave in order, by time: those that lie more than KEEP before
    the last entry that all readers have released. Memory is given back piece by piece behind them.

Invariants
    W1  Rows [ROWS_FREED, ROW_NEXT) of an input are live (L3). A reader that looks back from an entry that it has not
        released, by KEEP at most, sees live rows only.
    W2  What readers have released never comes back, so RELEASED_TIME and ROWS_FREED only grow.

Who writes what, memory order
    Called by who merges only, between its acquire and its release (see `ready_log_merge`). Readers have read what they
    released (release_to, acquired by slowest_position).
"""

from __future__ import annotations

from stretch.buffer.layout import (
    HEAD,
    KEEP,
    KEPT_ROWS_PER_PIECE,
    KEPT_TIMES,
    RELEASED_TIME,
    ROW_NEXT,
    ROWS_FREED,
    ROWS_FULL,
    ROWS_MAX,
    TAIL,
    TIME_MIN,
    LogView,
    input_at,
)
from stretch.buffer.rows import LENGTHS, VALUES, WIDTH
from stretch.native import kernel, store_release
from stretch.native.memory import give_back, read_int64


@kernel
def free_passed_rows(view: LogView, slowest: int) -> None:
    """Free the rows that lie too far behind `slowest`, the position that all readers have released."""
    merging = view.merging
    if slowest > merging[TAIL]:
        # Not overwritten yet: room is counted from TAIL, which is behind.
        merging[RELEASED_TIME] = view.times[(slowest - 1) & (view.times.shape[0] - 1)]
        merging[TAIL] = slowest
    if merging[RELEASED_TIME] == TIME_MIN:
        return
    for number in range(view.column_counts.shape[0]):
        at = input_at(merging, number)
        first, next_row, mask = merging[at + ROWS_FREED], merging[at + ROW_NEXT], merging[at + ROWS_MAX] - 1
        since, times = merging[RELEASED_TIME] - merging[at + KEEP], merging[at + KEPT_TIMES]
        freed = first
        while freed < next_row and read_int64(times + 8 * (freed & mask)) < since:
            freed += 1
        if freed != first:
            merging[at + ROWS_FREED] = freed
            if first // KEPT_ROWS_PER_PIECE != freed // KEPT_ROWS_PER_PIECE:
                _give_back_pieces(view, number, first // KEPT_ROWS_PER_PIECE, freed // KEPT_ROWS_PER_PIECE)


@kernel
def _give_back_pieces(view: LogView, number: int, first: int, last: int) -> None:
    """Give the memory of whole pieces of rows [first, last) back to the system."""
    at = input_at(view.merging, number)
    rows = view.merging[at + ROWS_MAX]
    if rows < 2 * KEPT_ROWS_PER_PIECE:
        return
    for piece in range(max(first, last - rows // KEPT_ROWS_PER_PIECE), last):
        row = piece * KEPT_ROWS_PER_PIECE & (rows - 1)
        for column in range(view.column_counts[number]):
            line = view.tables[2 * number, column]
            width = 4 if line[LENGTHS] != 0 else line[WIDTH]
            give_back(line[VALUES] + row * width, KEPT_ROWS_PER_PIECE * width)
            if line[LENGTHS] != 0:
                give_back(line[LENGTHS] + row * width, KEPT_ROWS_PER_PIECE * width)


@kernel
def room_for_kept(view: LogView) -> int:
    """Return how many rows of any input fit."""
    merging = view.merging
    room = merging[input_at(merging, 0) + ROWS_MAX]
    for number in range(view.column_counts.shape[0]):
        at = input_at(merging, number)
        room = min(room, merging[at + ROWS_MAX] - (merging[at + ROW_NEXT] - merging[at + ROWS_FREED]))
    return room


@kernel
def note_if_rows_full(view: LogView) -> None:
    """Say so if what is ready finds no room for its rows, and no reader can make any: time stands still for good."""
    if view.merging[TAIL] == view.merging[HEAD] and room_for_kept(view) == 0:
        store_release(view.cells, ROWS_FULL, 1)  # pairs with the load_acquire of are_rows_full


@kernel
def rows_before(view: LogView, number: int) -> int:
    """Return how many rows an input has had; nobody merges now."""
    return int(view.merging[input_at(view.merging, number) + ROW_NEXT])
