"""A worker's way from batch to batch: waiting for entries, and giving back what was processed.

Invariants
    B1  A worker promises what entries let it promise before it releases them: who sees that they are released by all
        finds their results in the output.
    B2  Batches get smaller as entries get slower, so that a stop is seen in time, and entries are given back.

Who writes what
    The rows of `epochs.workers`: their worker.
"""

from __future__ import annotations

from typing import Final

from stretch.buffer.ready_log_kernels import (
    LogView,
    advance,
    are_rows_full,
    ready_end,
    release_to,
    report_speed,
    wait_for_entries,
)
from stretch.epochs.kernels import join, switch_epoch
from stretch.epochs.layout import (
    BATCH_BEGUN_NS,
    BATCH_ENTRIES,
    BATCH_FIRST,
    BATCH_LAST,
    BATCH_RESULTS,
    BATCH_SIZE,
    BUSY_NS,
    ENTRIES,
    EPOCH,
    FIRST_READER,
    IN_POOL,
    NOW,
    OK,
    POSITION,
    RESULTS,
    STATE_FULL,
    STOPPED,
    WAIT_NS,
    Epochs,
)
from stretch.epochs.measures import Measures, record_results
from stretch.native.atomics import load_acquire
from stretch.native.jit import kernel
from stretch.native.system import now_ns
from stretch.native.waiting import WAIT_STOPPED, WAIT_TIMED_OUT, deadline_after

BATCH_NS: Final = 250_000  # entries are given back once per batch: a part of what flow control lets be pending
WAIT_ROUND_NS: Final = 200_000_000


@kernel
def begin_batch(epochs: Epochs, log: LogView, worker: int) -> int:
    """Wait until there is something to do, in the pool or for entries, and set the batch; or say why it stops."""
    row = epochs.workers[worker]
    while True:
        # load_acquire: pairs with the store_release of who stops the job.
        if load_acquire(epochs.stop, 0) != 0:
            return STOPPED
        if row[EPOCH] == IN_POOL:
            status = join(epochs, worker)
            if status != OK:
                return status
        begun = now_ns()
        first, end = row[POSITION], ready_end(log)
        if end == first:
            waited = wait_for_entries(log, first, deadline_after(WAIT_ROUND_NS))
            row[WAIT_NS] += now_ns() - begun
            if waited == WAIT_STOPPED:
                return STOPPED
            if waited == WAIT_TIMED_OUT and are_rows_full(log):
                return STATE_FULL
            continue
        row[BATCH_FIRST] = first
        row[BATCH_LAST] = min(end, first + max(row[BATCH_SIZE], 1))
        row[BATCH_BEGUN_NS], row[BATCH_RESULTS] = begun, row[RESULTS]
        return OK


@kernel
def end_batch(
    epochs: Epochs, log: LogView, out: LogView, measures: Measures, worker: int, bound: int, least: int
) -> None:
    """Promise `bound` and give back the entries before the worker's position, unless it has gone to the pool (B1).

    Batches get no smaller than `least` entries.
    """
    row = epochs.workers[worker]
    spent, done = now_ns() - row[BATCH_BEGUN_NS], row[POSITION] - row[BATCH_FIRST]
    size = max(row[BATCH_SIZE], 1)
    row[BATCH_SIZE] = max(size // 2, least) if spent > BATCH_NS else min(BATCH_ENTRIES, 2 * size)
    row[BUSY_NS] += spent
    row[ENTRIES] += done
    if row[EPOCH] != IN_POOL:
        advance(out, worker, bound)
        reader = epochs.cells[FIRST_READER] + worker
        release_to(log, reader, row[POSITION])
        if done > 0:
            report_speed(log, reader, spent / done)
    made = row[RESULTS] - row[BATCH_RESULTS]
    if made > 0:
        record_results(measures, worker, row[NOW], made)


@kernel
def switch(epochs: Epochs, log: LogView, out: LogView, worker: int, time: int, bound: int) -> int:
    """Go to the next epoch at the entry at the worker's position, whose time is given; promise `bound` before."""
    # Nobody may wait for this worker's results while it waits at the barrier.
    row = epochs.workers[worker]
    advance(out, worker, bound)
    release_to(log, epochs.cells[FIRST_READER] + worker, row[POSITION])
    return switch_epoch(epochs, log, out, worker, row[POSITION], time)
