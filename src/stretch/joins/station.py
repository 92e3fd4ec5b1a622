"""What one worker of a join works with, and what the workers hand on at an epoch switch.

What
    The rows of both inputs are the state of a join: they stay in the log as long as a window can name them, and nothing
    is copied. A worker compares each tuple with those blocks of rows of the other input that the mapping gives it. What
    a worker keeps is where it is: its *place*, the same for all workers at the same entry, and the tile at hand.

Invariants
    P1  A place depends on the entries before it alone, not on batches, workers or epochs.
    P2  Of input i, SEEN is the number of rows before the entry: rows of the log are numbered in the order of their
        entries. LOW is a row that no later tuple looks back beyond. Blocks have `1 << SHIFT` rows.

Who writes what
    place, tile, probes, positions, tasks, hits, pairs: their worker. handed[epoch]: every worker of the epoch before,
    the same values, before its barrier.

Memory order
    `handed` is published by the barrier of the switch (`epochs.kernels`).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.epochs.layout import BATCH_ENTRIES, EPOCHS_MAX
from stretch.joins.layout import Hits, Task, make_hits, make_task

Cells = npt.NDArray[np.int64]

LEFT: Final = 0
RIGHT: Final = 1

# Cells of a place; those of an input are at `+ LEFT` and `+ RIGHT`.
SEEN: Final = 0
LOW: Final = 2
SHIFT: Final = 4
PLACE_EPOCH: Final = 6  # the epoch in which the place was taken over
PLACE_CELLS: Final = 8

# Cells of a tile: entries whose rows are compared together, both inputs at once.
IS_OPEN: Final = 0
END: Final = 1  # position behind its last entry
WANTS: Final = 2  # not 0: `scan` is to be called
SCANNED: Final = 4  # what it returned
NEXT: Final = 6  # of the hits
TILE_CELLS: Final = 8  # the last three are by the input of the probes

SHIFT_MIN: Final = 5
BLOCKS_MIN: Final = 64  # of a window, unless it is tiny: so many that workers have equal shares of each window
BLOCKS_MAX: Final = 256

RANGES: Final = 2 * BLOCKS_MAX
HITS: Final = 1 << 14
PAIRS: Final = 1024  # rows of results that are written at once


class Timing(NamedTuple):
    """When tuples meet, as data, so that windows of any size share code; see `stretch.operator.meeting`."""

    left_reach: int
    right_reach: int
    size: int
    advance: int
    is_printed: int
    is_self_join: int
    keeps_left: int  # tuples of this input that met nobody are reported
    keeps_right: int


class Side(NamedTuple):
    """What belongs to one input, as the one that probes."""

    task: Task
    hits: Hits
    positions: Cells  # of the entries of probes
    times: Cells  # of rows, by place
    numbers: Cells  # of rows within their source, by place; of self-joins only
    marks: Any  # not 0 where a row has met somebody, by place; of outer joins only


class Alone(NamedTuple):
    """What reports tuples that met nobody; the same for all workers. See `alone`."""

    cells: Cells
    copies: Cells
    keys: Cells
    ranks: Cells
    result_times: Cells


class Pairs(NamedTuple):
    """Rows of results that are about to be written: the places of both rows, and where the result goes in staging."""

    lefts: Cells
    rights: Cells
    indices: Cells


class JoinStation(NamedTuple):
    """Everything that a worker works with; ints are addresses of view boxes."""

    epochs: int
    log: int
    out: int
    measures: int
    columns: int  # of a `Columns`, whose types differ between joins
    left: Side
    right: Side
    place: Cells
    tile: Cells
    pairs: Pairs
    handed: Cells
    mode: Cells  # not 0: nobody wants the results, so nothing is compared
    copies: Cells  # how results are made of columns: lines of COPY_CELLS
    keys: Cells  # staging of the output: positions of the later tuples, which order results
    ranks: Cells
    result_times: Cells
    timing: Timing
    alone: Alone


class Columns(NamedTuple):
    """The columns of both inputs, by place, and those of the results, by index in staging."""

    inputs: Any
    outs: Any


# A line of `copies`: from which input, the address of the column there (0: none, a byte says that the row is there),
# the address of the column of the results, the width.
COPY_SIDE, COPY_FROM, COPY_TO, COPY_WIDTH, COPY_CELLS = range(5)


def make_handed() -> Cells:
    """Return the places with which epochs begin."""
    handed: Cells = np.zeros((EPOCHS_MAX, PLACE_CELLS), np.int64)
    handed[:, SHIFT : SHIFT + 2] = SHIFT_MIN
    return handed


def make_side(capacity: int, times: Cells, numbers: Cells, marks: Any) -> Side:
    """Reserve what a worker needs for the probes of one input; the rest are columns of its rows."""
    task, positions = make_task(BATCH_ENTRIES, RANGES, capacity), np.zeros(BATCH_ENTRIES, np.int64)
    return Side(task, make_hits(HITS), positions, times, numbers, marks)


def make_nobody_alone() -> Alone:
    """Return what inner joins have instead."""
    return Alone(np.zeros(1, np.int64), np.zeros((1, COPY_CELLS), np.int64), *(np.zeros(1, np.int64) for _ in range(3)))


def make_pairs() -> Pairs:
    """Reserve room for pairs."""
    return Pairs(*(np.zeros(PAIRS, np.int64) for _ in range(3)))
