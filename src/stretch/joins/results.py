"""From pairs to results: which rows of results come next, and their columns, in the worker's staging of the output.

Results are ordered by the position of the later tuple, then by the number of the earlier row, whoever found the pair:
the order of the output buffer makes one stream of what the workers write.
"""

from __future__ import annotations

from typing import Final

from stretch.buffer.layout import LogView
from stretch.buffer.ready_log_kernels import FULL, advance, publish_rows, reserve_rows, wait_for_rows
from stretch.epochs.layout import NOW, RESULTS, Epochs
from stretch.joins.gather import result_time
from stretch.joins.layout import COUNT, MASK, OK, PROBE_FIRST
from stretch.joins.station import (
    COPY_FROM,
    COPY_SIDE,
    COPY_TO,
    COPY_WIDTH,
    LEFT,
    NEXT,
    PAIRS,
    RIGHT,
    SCANNED,
    WANTS,
    Cells,
    JoinStation,
    Pairs,
    Side,
)
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

ROUND_NS: Final = 200_000_000
NOWHERE: Final = 1 << 62  # a position behind all others
STOPPED: Final = -1


@kernel(inline=True)
def _next_position(side: Side, tile: Cells, number: int) -> int:
    """Return the position of the probe of a side's next hit; NOWHERE if there is none."""
    at = tile[NEXT + number]
    if at == side.hits.cells[COUNT]:
        return NOWHERE
    return side.positions[side.hits.probes[at] - side.task.cells[PROBE_FIRST]]


@kernel
def choose_pairs(station: JoinStation, epochs: Epochs, out: LogView, worker: int) -> int:
    """Choose the pairs that come next, and reserve staging for them; return how many, or STOPPED.

    0 with WANTS set: a side has to be scanned further first. 0 without: the tile has no more.
    """
    tile, left, right = station.tile, station.left, station.right
    while True:
        left_position, right_position = _next_position(left, tile, LEFT), _next_position(right, tile, RIGHT)
        tile[WANTS + LEFT] = left_position == NOWHERE and tile[SCANNED + LEFT] != OK
        tile[WANTS + RIGHT] = right_position == NOWHERE and tile[SCANNED + RIGHT] != OK
        if tile[WANTS + LEFT] or tile[WANTS + RIGHT] or min(left_position, right_position) == NOWHERE:
            return 0
        number = reserve_rows(out, worker, PAIRS)
        if number == FULL:
            advance(out, worker, 2 * min(left_position, right_position))
            if wait_for_rows(out, worker, PAIRS, deadline_after(ROUND_NS)) == WAIT_STOPPED:
                return STOPPED
            continue
        count = 0
        while count < PAIRS and min(left_position, right_position) != NOWHERE:
            if left_position < right_position:
                count = _take_pairs(station, left, right, LEFT, number, count, right_position)
                left_position = _next_position(left, tile, LEFT)
                if left_position == NOWHERE and tile[SCANNED + LEFT] != OK:
                    break
            else:
                count = _take_pairs(station, right, left, RIGHT, number, count, left_position)
                right_position = _next_position(right, tile, RIGHT)
                if right_position == NOWHERE and tile[SCANNED + RIGHT] != OK:
                    break
        if count > 0:  # else all were rows that met themselves
            epochs.workers[worker, NOW] = station.result_times[station.pairs.indices[count - 1]]
            return count


@kernel
def _take_pairs(
    station: JoinStation, side: Side, against: Side, number: int, first: int, count: int, until: int
) -> int:
    """Append the pairs of a side's hits that are before the position `until`, as far as there is room."""
    hits, task, positions, tile = side.hits, side.task, side.positions, station.tile
    mask, begun, last = task.cells[MASK], task.cells[PROBE_FIRST], hits.cells[COUNT]
    ring_mask = len(station.keys) - 1
    is_self_join = station.timing.is_self_join != 0
    is_outer = station.timing.keeps_left + station.timing.keeps_right != 0
    times, numbers, other_times, other_numbers = side.times, side.numbers, against.times, against.numbers
    at = tile[NEXT + number]
    while at < last and count < PAIRS:
        probe, row = hits.probes[at], hits.rows[at]
        position = positions[probe - begun]
        if position >= until:
            break
        at += 1
        index = (first + count) & ring_mask
        own, other = probe & mask, row & mask
        if is_self_join and times[own] == other_times[other] and numbers[own] == other_numbers[other]:
            continue  # the same row, fed to both sides
        if is_outer:
            side.marks[own], against.marks[other] = 1, 1
        station.pairs.lefts[count] = own if number == LEFT else other
        station.pairs.rights[count] = other if number == LEFT else own
        station.pairs.indices[count] = index
        station.keys[index] = position
        station.ranks[index] = 1 + row - task.lows[probe - begun]
        station.result_times[index] = result_time(station.timing, side.times[own])
        count += 1
    tile[NEXT + number] = at
    return count


@kernel
def publish_pairs(epochs: Epochs, out: LogView, worker: int, count: int) -> None:
    """Publish the pairs that were chosen last, now that their columns are written."""
    publish_rows(out, worker, count)
    epochs.workers[worker, RESULTS] += count


@kernel
def copy_columns(copies: Cells, pairs: Pairs, count: int) -> None:
    """Write results that consist of columns of both rows."""
    for line in range(copies.shape[0]):
        origin, target, width = copies[line, COPY_FROM], copies[line, COPY_TO], copies[line, COPY_WIDTH]
        places = pairs.lefts if copies[line, COPY_SIDE] == LEFT else pairs.rights
        if width == 8:
            for k in range(count):
                write_int64(target + 8 * pairs.indices[k], read_int64(origin + 8 * places[k]))
        elif width == 4:
            for k in range(count):
                write_int32(target + 4 * pairs.indices[k], read_int32(origin + 4 * places[k]))
        elif width == 2:
            for k in range(count):
                write_int16(target + 2 * pairs.indices[k], read_int16(origin + 2 * places[k]))
        elif origin != 0:
            for k in range(count):
                write_int8(target + pairs.indices[k], read_int8(origin + places[k]))
        else:
            for k in range(count):
                write_int8(target + pairs.indices[k], 1)
