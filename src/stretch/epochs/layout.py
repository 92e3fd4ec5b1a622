"""What the workers of an operator share besides buffers and state (Paper: e, O, f_mu and their next values).

What
    An *epoch* is a number; `epoch % EPOCHS_MAX` is its row in the tables below. `mapping` says which worker owns each
    key group, `members` which workers run. `progress` counts who has arrived at its barrier and who has gone through,
    and has the times of the switch that begins it. Each worker has a row of `workers`.

Invariants
    E1  An epoch's rows are written before any control entry names it, and not written again while it can be named:
        at most EPOCHS_MAX - 2 epochs are under way.
    E2  All workers of an epoch switch at the same entry, the first whose time passes `SWITCH_AT`.
    E3  A worker in the pool (`EPOCH` is IN_POOL) touches nothing but its own row, its handover, and waits.
    E4  Nobody comes to a barrier before the switch to the current epoch is over: all who took part in it have gone on,
        or are in the pool. A worker that left, and is late to notice that another has disconnected it, would do so
        again, after a later switch has connected it anew.

Who writes what
    mapping, members, progress row: the coordinator, before it announces the epoch (E1).
    progress: arrivals and passages by fetch_add of workers; the times by the one who does the thing.
    workers[w]: worker w. handovers[w]: the worker that connects w, while w is in the pool; then w.

Memory order
    Mapping and members reach workers through the control entry (release by the source, acquire by the reader).
    A handover is published by store_release of its TICKET, which pairs with the load_acquire of the pool's wait.
    State of key groups is handed over by the barrier: fetch_add of arrivals, load_acquire of who waits.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

EPOCHS_MAX: Final = 64
IN_POOL: Final = -1
NONE: Final = -1

# A worker's row.
EPOCH: Final = 0
PENDING: Final = 1  # the epoch that comes next, or NONE
SWITCH_AT: Final = 2  # it begins with the first entry beyond this time
WATERMARK: Final = 3
HAS_WATERMARK: Final = 4
POSITION: Final = 5  # of the next entry to read
ENTRIES: Final = 6  # read so far
RESULTS: Final = 7
HANDLED: Final = 8  # tuples of which this worker had a key
BUSY_NS: Final = 10
WAIT_NS: Final = 11
NOW: Final = 13  # time of the results at work, or of the tuple that failed
BATCH_FIRST: Final = 14  # the batch at hand: positions of its entries
BATCH_LAST: Final = 15
BATCH_BEGUN_NS: Final = 16
BATCH_RESULTS: Final = 17  # results made before it
BATCH_SIZE: Final = 18  # of the next batch, at most BATCH_ENTRIES
WORKER_WORDS: Final = 32

BATCH_ENTRIES: Final = 512
BATCH_ENTRIES_FIRST: Final = 16  # until it is known how long entries take

# A handover.
TICKET: Final = 0  # epoch + 1, 0 if there is none
HANDED_WATERMARK: Final = 1
HANDED_HAS_WATERMARK: Final = 2
HANDED_POSITION: Final = 3
HANDOVER_WORDS: Final = 16

# An epoch's progress.
ARRIVED: Final = 0
PASSED: Final = 1
REQUESTED_NS: Final = 2
FIRST_CONTROL_NS: Final = 3
BARRIER_NS: Final = 4
SWITCHED_NS: Final = 5
SWITCHED_AT: Final = 6  # time of the triggering entry
CHANGED_BY: Final = 7  # worker that connected and disconnected, plus one
PROGRESS_WORDS: Final = 16

# Wait cells and flags.
BARRIER_CELL: Final = 0
POOL_CELL: Final = 16
LATEST_EPOCH: Final = 32  # the epoch that began last
FIRST_READER: Final = 33  # constant: slot of worker 0 as a reader of its input; names the operator in control entries
CELLS: Final = 48

# Why a worker stopped.
OK: Final = 0
STOPPED: Final = 1
STATE_FULL: Final = 2
TOO_MANY_KEYS: Final = 3


# The index of a control entry: the epoch, and the operator that it is for.
OPERATOR_BITS: Final = 10
READERS_MAX: Final = 1 << OPERATOR_BITS  # of a log: the reader of results, and the workers behind it


def control_index(operator: int, epoch: int) -> int:
    """Return what a control entry says: the number of an epoch, and the operator's first reader."""
    return epoch << OPERATOR_BITS | operator


class Epochs(NamedTuple):
    """The views that workers and the coordinator share."""

    mapping: npt.NDArray[np.int32]
    members: npt.NDArray[np.int64]
    progress: npt.NDArray[np.int64]
    workers: npt.NDArray[np.int64]
    handovers: npt.NDArray[np.int64]
    changes: npt.NDArray[np.int64]  # per worker: a list of members that join or leave
    cells: npt.NDArray[np.int64]
    stop: npt.NDArray[np.int64]  # cell 0 is set when everyone shall stop


def make_epochs(groups: int, workers: int, first_reader: int = 0) -> Epochs:
    """Allocate the tables for a pool of workers, all in the pool."""
    rows: Any = np.zeros((workers, WORKER_WORDS), np.int64)
    rows[:, EPOCH] = IN_POOL
    rows[:, PENDING] = NONE
    rows[:, BATCH_SIZE] = BATCH_ENTRIES_FIRST
    cells = np.zeros(CELLS, np.int64)
    cells[FIRST_READER] = first_reader
    return Epochs(
        mapping=np.zeros((EPOCHS_MAX, groups), np.int32),
        members=np.zeros((EPOCHS_MAX, workers), np.int64),
        progress=np.zeros((EPOCHS_MAX, PROGRESS_WORDS), np.int64),
        workers=rows,
        handovers=np.zeros((workers, HANDOVER_WORDS), np.int64),
        changes=np.zeros((workers, workers), np.int64),
        cells=cells,
        stop=np.zeros(1, np.int64),
    )
