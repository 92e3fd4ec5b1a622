"""The state of a join as named sections of bytes, and back: the rows that a window can still name, column by column.

Rows keep their numbers, so that blocks stay with whom the mapping gives them, in every process that shares the stream.
Invariants I1 and I2 of `image` hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from stretch.buffer.layout import RELEASED_TIME, ROW_NEXT, ROWS_FREED, input_at
from stretch.errors import JobError
from stretch.joins.alone import NEXT
from stretch.joins.alone import SEEN as SEEN_BY_ALONE
from stretch.joins.station import LOW, SEEN, SHIFT
from stretch.runtime.compiled.join_memory import JoinMemory

PLACE_WORDS = 10  # first, next, block size and first undecided row of each input, and the time that all have reached

Array = npt.NDArray[Any]


def place_of(memory: JoinMemory) -> Array:
    """Return where a drained join stands."""
    merging, place = memory.log.view.merging, memory.place
    words = np.zeros(PLACE_WORDS, np.int64)
    for number in range(2):
        at = input_at(merging, number)
        words[4 * number + 0] = merging[at + ROWS_FREED]
        words[4 * number + 1] = merging[at + ROW_NEXT]
        words[4 * number + 2] = place[SHIFT + number]
        words[4 * number + 3] = merging[at + ROWS_FREED] if memory.alone is None else memory.alone.cells[NEXT + number]
    words[8] = merging[RELEASED_TIME]
    return words


def restore_place(memory: JoinMemory, words: Array) -> None:
    """Let all workers begin where a drained join stood."""
    merging, begin = memory.log.view.merging, memory.handed[0]
    for number in range(2):
        at = input_at(merging, number)
        first, following, shift, undecided = (int(word) for word in words[4 * number : 4 * number + 4])
        if following - first > memory.log.row_capacity:
            raise JobError(
                "the state does not fit into memory",
                why=f"it has {following - first:,} rows, and there is room for {memory.log.row_capacity:,}",
                do="use smaller windows, or more shards",
            )
        merging[at + ROWS_FREED], merging[at + ROW_NEXT] = first, following
        begin[SEEN + number], begin[LOW + number], begin[SHIFT + number] = following, first, shift
        if memory.alone is not None:
            memory.alone.cells[NEXT + number], memory.alone.cells[SEEN_BY_ALONE + number] = undecided, following
    merging[RELEASED_TIME] = words[8]


def columns_of(memory: JoinMemory) -> Iterator[tuple[str, int, Callable[[], Iterator[Array]]]]:
    """Give the kept rows column by column: name, bytes, and the runs of memory that they lie in."""
    for number, columns in enumerate(memory.log.inputs):
        at = input_at(memory.log.view.merging, number)
        first, following = (int(memory.log.view.merging[at + cell]) for cell in (ROWS_FREED, ROW_NEXT))
        for column, array in zip(columns, memory.log.columns(number), strict=True):
            size = (following - first) * array.itemsize
            yield f"{number} {column.name}", size, _runs(array, first, following)


def _runs(array: Array, first: int, following: int) -> Callable[[], Iterator[Array]]:
    """Return how to go through the rows [first, following) of a ring, which wraps once at most."""

    def runs() -> Iterator[Array]:
        start, count = first & (len(array) - 1), following - first
        until_end = min(count, len(array) - start)
        if until_end > 0:
            yield array[start : start + until_end]
        if count > until_end:
            yield array[: count - until_end]

    return runs
