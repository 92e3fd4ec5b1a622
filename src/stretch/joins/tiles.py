"""A worker's way through its entries, tile by tile: what is compared together, and what happens between tiles.

A tile is what is ready, up to a batch: it never waits for more. It ends before an entry at which the epoch switches.
"""

from __future__ import annotations

from typing import Final

from stretch.buffer.layout import LogView
from stretch.epochs.batches import begin_batch, end_batch, switch
from stretch.epochs.layout import BATCH_LAST, EPOCH, EPOCHS_MAX, IN_POOL, OK, PENDING, POSITION, Epochs
from stretch.epochs.measures import Measures
from stretch.joins.alone import report_alone
from stretch.joins.gather import gather, hand_on, has_probes, is_switching, leave_behind, set_ranges, take_over
from stretch.joins.layout import COUNT, FULL, begin
from stretch.joins.station import END, IS_OPEN, LEFT, NEXT, RIGHT, SCANNED, WANTS, Cells, JoinStation, Side
from stretch.native.jit import kernel

ENTRIES_MIN: Final = 64  # of a batch: scans are slower with fewer probes


@kernel
def next_tile(station: JoinStation, epochs: Epochs, log: LogView, out: LogView, measures: Measures, worker: int) -> int:
    """Finish the tile at hand, and wait for the next one with something to compare; or return why the worker stops."""
    row, tile = epochs.workers[worker], station.tile
    while True:
        if tile[IS_OPEN] != 0:
            status = _finish(station, epochs, log, out, measures, worker)
            if status != OK:
                return status
        if row[EPOCH] == IN_POOL or row[POSITION] == row[BATCH_LAST]:
            status = begin_batch(epochs, log, worker)
            if status != OK:
                return status
        take_over(station.place, station.handed, row[EPOCH])
        tile[END] = gather(station, epochs, log, worker, row[POSITION], row[BATCH_LAST])
        tile[IS_OPEN] = 1
        mapping = epochs.mapping[row[EPOCH] % EPOCHS_MAX]
        is_left = _prepare(station, station.left, mapping, worker, LEFT)
        if _prepare(station, station.right, mapping, worker, RIGHT) or is_left:
            return OK


@kernel
def _prepare(station: JoinStation, side: Side, mapping: Cells, worker: int, number: int) -> bool:
    """Prepare the comparison of a side's probes; tell whether there are any to compare."""
    tile = station.tile
    side.hits.cells[COUNT] = tile[NEXT + number] = 0
    is_wanted = has_probes(side.task) and station.mode[0] == 0
    if is_wanted:
        set_ranges(side.task, station.place, mapping, worker, 1 - number)
        begin(side.task)
    tile[WANTS + number] = is_wanted
    tile[SCANNED + number] = FULL if is_wanted else OK
    return is_wanted


@kernel
def _finish(station: JoinStation, epochs: Epochs, log: LogView, out: LogView, measures: Measures, worker: int) -> int:
    """Go on behind a tile whose results are written: to the next epoch if it begins here, to the end of the batch."""
    row, tile, place = epochs.workers[worker], station.tile, station.place
    tile[IS_OPEN] = 0
    row[POSITION] = tile[END]
    leave_behind(station, epochs, worker)
    if row[POSITION] < row[BATCH_LAST]:
        time = log.times[row[POSITION] & (len(log.times) - 1)]
        if not is_switching(row, time):
            return OK
        hand_on(place, station.handed, row[PENDING])
        status = switch(epochs, log, out, worker, time, 2 * row[POSITION])
        if status != OK or row[EPOCH] != IN_POOL:
            return status
    end_batch(epochs, log, out, measures, worker, 2 * row[POSITION], ENTRIES_MIN)
    if station.timing.keeps_left + station.timing.keeps_right != 0:
        return report_alone(station, epochs, log, out, worker)
    return OK
