"""Tuples that met nobody, in outer joins: reported once nobody can come any more that they meet.

What
    Workers mark the rows of the pairs that they find. A source of its own in the output gives the rows without mark,
    at the place in the order where their time comes: before the results of the first entry that is too late for them.
    It is backed by a reader of its own in the log, which follows the slowest worker: what it reads, all workers have
    processed, so all marks are set. Whichever worker has released entries takes it as far as it can go.

Invariants
    A1  One thread at a time acts for this source and reader: who holds bit 0 of LOCK. As in merging (G2), who finds it
        taken adds 2 and leaves; the holder lets go only if nothing was added since it looked.
    A2  Rows before NEXT of an input are decided; rows are kept until then, since the log's slowest reader is this one.
    A3  Marks are plain stores of the same value, published by the release of the entries that caused them.

Who writes what
    cells: who holds LOCK; LOCK: anybody.
"""

from __future__ import annotations

from typing import Final

from stretch.buffer.layout import NEVER, LogView
from stretch.buffer.ready_log_kernels import (
    FULL,
    advance,
    position,
    publish_rows,
    release_to,
    reserve_rows,
    slowest_of,
    wait_for_rows,
)
from stretch.epochs.layout import OK, RESULTS, STOPPED, Epochs
from stretch.joins.gather import DATA, result_time
from stretch.joins.layout import MASK
from stretch.joins.results import ROUND_NS
from stretch.joins.station import (
    COPY_FROM,
    COPY_SIDE,
    COPY_TO,
    COPY_WIDTH,
    LEFT,
    RIGHT,
    Alone,
    Cells,
    JoinStation,
    Side,
    Timing,
)
from stretch.native.atomics import compare_exchange, load_acquire, load_relaxed
from stretch.native.jit import kernel
from stretch.native.memory import (
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    write_int8,
    write_int16,
    write_int32,
    write_int64,
)
from stretch.native.waiting import WAIT_STOPPED, deadline_after

LOCK: Final = 0
NEXT: Final = 16  # of each input: the first row that is not decided
SEEN: Final = 18  # of each input: rows before the reader's position
READER: Final = 20  # constant: its slot in the log, behind those of the workers
SOURCE: Final = 21  # constant: its slot in the output
ALONE_CELLS: Final = 32


@kernel
def report_alone(station: JoinStation, epochs: Epochs, log: LogView, out: LogView, worker: int) -> int:
    """Report what can be reported now, or leave it to the one who does; OK or STOPPED."""
    cells = station.alone.cells
    while True:
        value = load_relaxed(cells, LOCK)
        if value & 1:
            # Release: publishes the caller's release of entries to the holder's load_acquire (A1).
            if compare_exchange(cells, LOCK, value, value + 2):
                return OK
        # Acquire: pairs with the compare_exchange by which the previous holder let go.
        elif compare_exchange(cells, LOCK, value, value + 3):
            while True:
                value = load_acquire(cells, LOCK)  # acquire: pairs with the compare_exchange of who left it to us
                status = _report_round(station, log, out, epochs.workers[worker])
                # Release: hands the cells to the next holder. Fails if a request came in.
                if status != OK or compare_exchange(cells, LOCK, value, value - 1):
                    return status


@kernel
def _report_round(station: JoinStation, log: LogView, out: LogView, row: Cells) -> int:
    """Go to where all workers are, and report what no later entry can meet."""
    timing, cells = station.timing, station.alone.cells
    reader, mask = cells[READER], len(log.times) - 1
    first, end = position(log, reader), slowest_of(log, 0, reader)
    if end == NEVER or end <= first:
        return OK
    for at in range(first, end):
        time, ref = log.times[at & mask], log.refs[at & mask]
        status = _report_before(station, out, row, result_time(timing, time), at)
        if status != OK:
            return status
        if ref & 3 == DATA:
            cells[SEEN + ((ref >> 2) & 63)] += 1
    advance(out, cells[SOURCE], 2 * end)
    release_to(log, reader, end)
    return OK


@kernel
def _report_before(station: JoinStation, out: LogView, row: Cells, until: int, key: int) -> int:
    """Report the rows whose time to be reported comes before `until`, right before the results of the entry `key`."""
    alone, timing, mask = station.alone, station.timing, station.left.task.cells[MASK]
    cells = alone.cells
    while True:
        left, right = cells[NEXT + LEFT], cells[NEXT + RIGHT]
        left_due = _due(station.left, timing, LEFT, left, cells[SEEN + LEFT], mask)
        right_due = _due(station.right, timing, RIGHT, right, cells[SEEN + RIGHT], mask)
        due = min(left_due, right_due)
        if due >= until:
            return OK
        is_left = left_due < right_due
        if left_due == right_due:
            is_left = station.left.times[left & mask] <= station.right.times[right & mask]
        if is_left:
            is_reported = timing.keeps_left != 0 and station.left.marks[left & mask] == 0
        else:
            is_reported = timing.keeps_right != 0 and station.right.marks[right & mask] == 0
        if is_reported:
            status = _report(alone, out, LEFT if is_left else RIGHT, (left if is_left else right) & mask, due, key)
            if status != OK:
                return status
            row[RESULTS] += 1
        cells[NEXT + (LEFT if is_left else RIGHT)] += 1


@kernel(inline=True)
def _due(side: Side, timing: Timing, number: int, row: int, seen: int, mask: int) -> int:
    """Return the time at which a row is reported; as `Meeting.alone_time`."""
    if row >= seen:
        return NEVER
    time = side.times[row & mask]
    reach = timing.right_reach if number == LEFT else timing.left_reach
    return min(time // timing.advance * timing.advance + timing.size, time + reach + 1)


@kernel
def _report(alone: Alone, out: LogView, number: int, place: int, time: int, key: int) -> int:
    """Write one row."""
    slot = alone.cells[SOURCE]
    at = reserve_rows(out, slot, 1)
    while at == FULL:
        advance(out, slot, 2 * key)
        if wait_for_rows(out, slot, 1, deadline_after(ROUND_NS)) == WAIT_STOPPED:
            return STOPPED
        at = reserve_rows(out, slot, 1)
    index = at & (len(alone.keys) - 1)
    alone.keys[index], alone.ranks[index], alone.result_times[index] = key, 0, time
    _copy_row(alone.copies, number, place, index)
    publish_rows(out, slot, 1)
    return OK


@kernel
def _copy_row(copies: Cells, number: int, place: int, index: int) -> None:
    """Write the columns of a row of one input, and null for those of the other."""
    for line in range(copies.shape[0]):
        origin, target, width = copies[line, COPY_FROM], copies[line, COPY_TO], copies[line, COPY_WIDTH]
        is_there = copies[line, COPY_SIDE] == number
        if width == 8:
            write_int64(target + 8 * index, read_int64(origin + 8 * place) if is_there else 0)
        elif width == 4:
            write_int32(target + 4 * index, read_int32(origin + 4 * place) if is_there else 0)
        elif width == 2:
            write_int16(target + 2 * index, read_int16(origin + 2 * place) if is_there else 0)
        elif origin == 0:
            write_int8(target + index, is_there)
        else:
            write_int8(target + index, read_int8(origin + place) if is_there else 0)
