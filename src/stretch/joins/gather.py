"""From entries to tasks: which rows are probes, and which rows each of them meets."""

from __future__ import annotations

from typing import Final

from stretch.buffer.layout import LogView
from stretch.epochs.kernels import note_next_epoch
from stretch.epochs.layout import HANDLED, HAS_WATERMARK, NONE, PENDING, SWITCH_AT, WATERMARK, Epochs
from stretch.joins.layout import MASK, PROBE_FIRST, PROBE_LAST, RANGES, Task
from stretch.joins.station import (
    BLOCKS_MAX,
    BLOCKS_MIN,
    LEFT,
    LOW,
    PLACE_EPOCH,
    RIGHT,
    SEEN,
    SHIFT,
    SHIFT_MIN,
    Cells,
    JoinStation,
    Side,
    Timing,
)
from stretch.native.jit import kernel

DATA: Final = 0
CONTROL: Final = 2


@kernel(inline=True)
def since_of(timing: Timing, time: int, side: int) -> int:
    """Return the earliest time at which a row of the other input may have come to be met; as `Meeting.since`."""
    since = time - (timing.left_reach if side == LEFT else timing.right_reach)
    if timing.is_printed != 0:
        return since
    return max(since, ((time - timing.size) // timing.advance + 1) * timing.advance)


@kernel(inline=True)
def result_time(timing: Timing, time: int) -> int:
    """Return the time of the results of a later tuple; as `Meeting.result_time`."""
    return ((time - timing.size) // timing.advance + 1) * timing.advance + timing.size


@kernel(inline=True)
def is_switching(row: Cells, time: int) -> bool:
    """Tell whether the epoch switches at an entry of this time."""
    is_next = row[PENDING] != NONE and time > row[SWITCH_AT]
    return bool(is_next and (row[HAS_WATERMARK] == 0 or time > row[WATERMARK]))


@kernel(inline=True)
def first_since(times: Cells, mask: int, low: int, high: int, since: int) -> int:
    """Return the first of the rows [low, high) that is not before `since`, or `high`."""
    while low < high and times[low & mask] < since:
        low += 1
    return low


@kernel(inline=True)
def fitting_shift(shift: int, rows: int) -> int:
    """Return the size of blocks for a window of so many rows: the present one, while it does."""
    while rows > BLOCKS_MAX << shift:
        shift += 1
    while rows < BLOCKS_MIN << shift and shift > SHIFT_MIN:
        shift -= 1
    return shift


@kernel
def take_over(place: Cells, handed: Cells, epoch: int) -> None:
    """Start from where an epoch begins, unless that has been done."""
    if place[PLACE_EPOCH] != epoch:
        for cell in range(PLACE_EPOCH):
            place[cell] = handed[epoch % len(handed), cell]
        place[PLACE_EPOCH] = epoch


@kernel
def hand_on(place: Cells, handed: Cells, epoch: int) -> None:
    """Write down where the next epoch begins."""
    for cell in range(PLACE_EPOCH):
        handed[epoch % len(handed), cell] = place[cell]


@kernel
def has_probes(task: Task) -> bool:
    """Tell whether there is anything to compare."""
    return bool(task.cells[PROBE_LAST] != task.cells[PROBE_FIRST])


@kernel
def set_ranges(task: Task, place: Cells, mapping: Cells, worker: int, other: int) -> None:
    """Set the ranges of a task with probes: the worker's blocks of all rows that any of its probes meets."""
    cells, shift = task.cells, place[SHIFT + other]
    low, high = task.lows[0], task.highs[cells[PROBE_LAST] - cells[PROBE_FIRST] - 1]
    count, last = 0, low
    group = (low >> shift) % len(mapping)
    for block in range(low >> shift, ((high - 1) >> shift) + 1):
        if mapping[group] == worker:
            first = max(block << shift, low)
            if count == 0 or first != last:
                task.firsts[count] = first
                count += 1
            last = min((block + 1) << shift, high)
            task.lasts[count - 1] = last
        group = 0 if group + 1 == len(mapping) else group + 1
    cells[RANGES] = count


@kernel
def note_probe(
    own: Side, other_times: Cells, place: Cells, timing: Timing, side: int, time: int, position: int
) -> bool:
    """Note a row as a probe; False if the blocks that it meets have another size than those before it."""
    other, cells = 1 - side, own.task.cells
    high = place[SEEN + other]
    low = first_since(other_times, cells[MASK], place[LOW + other], high, since_of(timing, time, side))
    place[LOW + other] = low
    count = cells[PROBE_LAST] - cells[PROBE_FIRST]
    shift = fitting_shift(place[SHIFT + other], high - low)
    if shift != place[SHIFT + other]:
        if count > 0:
            return False
        place[SHIFT + other] = shift
    own.task.lows[count], own.task.highs[count], own.positions[count] = low, high, position
    cells[PROBE_LAST] += 1
    place[SEEN + side] += 1
    return True


@kernel
def gather(station: JoinStation, epochs: Epochs, log: LogView, worker: int, first: int, last: int) -> int:
    """Note the rows of the entries [first, last) as probes; return the position where it stopped.

    It stops before an entry at which the epoch switches, and where blocks change their size.
    """
    row, place, timing = epochs.workers[worker], station.place, station.timing
    left, right = station.left, station.right
    left.task.cells[PROBE_FIRST] = left.task.cells[PROBE_LAST] = place[SEEN + LEFT]
    right.task.cells[PROBE_FIRST] = right.task.cells[PROBE_LAST] = place[SEEN + RIGHT]
    mask = len(log.times) - 1
    for position in range(first, last):
        time, ref = log.times[position & mask], log.refs[position & mask]
        if ref & 3 == CONTROL:
            note_next_epoch(epochs, worker, ref >> 8, time)
            continue
        if row[HAS_WATERMARK] == 0 or time > row[WATERMARK]:
            if is_switching(row, time):
                return position
            row[WATERMARK], row[HAS_WATERMARK] = time, 1
        if ref & 3 == DATA:
            if (ref >> 2) & 63 == LEFT:
                is_noted = note_probe(left, right.times, place, timing, LEFT, time, position)
            else:
                is_noted = note_probe(right, left.times, place, timing, RIGHT, time, position)
            if not is_noted:
                return position
            row[HANDLED] += 1
    return last


@kernel
def leave_behind(station: JoinStation, epochs: Epochs, worker: int) -> None:
    """Look no further back than what follows can, before rows are given back."""
    row, place, timing = epochs.workers[worker], station.place, station.timing
    mask = station.left.task.cells[MASK]
    if row[HAS_WATERMARK] != 0:
        since = since_of(timing, row[WATERMARK], RIGHT)
        place[LOW + LEFT] = first_since(station.left.times, mask, place[LOW + LEFT], place[SEEN + LEFT], since)
        since = since_of(timing, row[WATERMARK], LEFT)
        place[LOW + RIGHT] = first_since(station.right.times, mask, place[LOW + RIGHT], place[SEEN + RIGHT], since)
