"""The memory of a scan: what is to be compared with what, and the pairs that were found.

What
    Rows of an input are known by their *number*, which only grows; the place of a row in the columns of its input is
    `number & MASK`, the same for all inputs of a log. A *task* names probes, rows [PROBE_FIRST, PROBE_LAST) of one
    input, and ranges of rows of the other, ascending and disjoint. Probe `PROBE_FIRST + i` meets those rows of the
    ranges that lie in [lows[i], highs[i]); neither ever decreases from probe to probe.

Invariants
    J1  Hits are in the order (probe, row), each pair once, also over several calls for one task.
    J2  A scan that returned FULL continues with the pair behind the last hit, once the hits were taken.

Who writes what
    Task and hits belong to one worker. Scans write `hits`, and of the task the cells from NEXT_PROBE on.

Memory order
    None here: that the rows of a task may be read was established by whoever filled it in.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stretch.native import Cells, kernel
from stretch.native.memory import address_of

OK: Final = 0
FULL: Final = -1  # no room for another hit: take them, and call again

TILE: Final = 16  # probes that go over a block together
BLOCK: Final = 2048  # rows: two columns of 4 bytes take a third of a first-level cache
WORD: Final = 16  # rows whose marks are looked at together
BANDS_MAX: Final = 8

# Cells of a task. IS_DENSE: a tile had more hits than there is room for, so probes go one by one.
MASK, PROBE_FIRST, PROBE_LAST, RANGES, NEXT_PROBE, NEXT_ROW, IS_DENSE, COMPARISONS, TASK_CELLS = range(9)

# Cells of hits. MARKS_AT: the address of `marks`.
COUNT, MARKS_AT, HITS_CELLS = range(3)

FROM_THE_START: Final = -(1 << 62)  # a NEXT_ROW before every row


class Task(NamedTuple):
    """What is to be compared; see the module header."""

    cells: Cells
    lows: Cells  # by probe
    highs: Cells
    firsts: Cells  # by range
    lasts: Cells


class Hits(NamedTuple):
    """Pairs that were found, and what a scan keeps in mind while it looks for those of one tile."""

    cells: Cells
    probes: Cells  # row numbers
    rows: Cells
    found_probes: Cells  # pairs of the tile, by block: numbers within the tile,
    found_rows: Cells  # and row numbers
    lows: Cells  # by probe of the tile
    highs: Cells
    starts: Cells
    ints: Any  # (TILE, 2 * BANDS_MAX): what bands are compared with, where columns are ints
    floats: Any  # the same, where they are floats
    marks: Any  # one byte per row of a block: not 0 where it may match


def make_task(probes: int, ranges: int, capacity: int) -> Task:
    """Reserve a task for up to so many probes and ranges, over rings of `capacity` rows, a power of two."""
    task = Task(*(np.zeros(size, np.int64) for size in (TASK_CELLS, probes, probes, ranges, ranges)))
    task.cells[MASK] = capacity - 1
    return task


def make_hits(capacity: int) -> Hits:
    """Reserve room for so many pairs."""
    cells, lows, highs = (np.zeros(size, np.int64) for size in (HITS_CELLS, TILE, TILE))
    probes, rows, found_probes, found_rows = (np.zeros(capacity, np.int64) for _ in range(4))
    ints, floats = np.zeros((TILE, 2 * BANDS_MAX), np.int64), np.zeros((TILE, 2 * BANDS_MAX), np.float64)
    starts, marks = np.zeros(TILE + 1, np.int64), np.zeros(BLOCK + WORD, np.uint8)
    cells[MARKS_AT] = address_of(marks)
    return Hits(cells, probes, rows, found_probes, found_rows, lows, highs, starts, ints, floats, marks)


@kernel
def begin(task: Task) -> None:
    """Make the next scan of a task start with its first probe."""
    task.cells[NEXT_PROBE] = task.cells[PROBE_FIRST]
    task.cells[NEXT_ROW] = FROM_THE_START
    task.cells[IS_DENSE] = 0
