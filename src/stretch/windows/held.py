"""Rows that `update` makes, held in the heap until their window ends (docs/paper-notes.md, 5).

What
    Two words of an entry name the first and the last block of a list, plus one; 0 is none. A block has a header, then
    rows of the same number of words; each block of a list is twice as large as the one before it, up to a chunk.

Who writes what
    As with tables: the worker that owns the entry's key group.
"""

from __future__ import annotations

from typing import Final

from stretch.native.jit import kernel
from stretch.windows.kernels import HEAP_FULL, give_block, take_block
from stretch.windows.layout import CHUNK_CLASS, CLASS_MIN, Tables

HELD_WORDS: Final = 2  # of an entry

# The header of a block.
NEXT: Final = 0
COUNT: Final = 1
CLASS: Final = 2
HEADER: Final = 3


@kernel
def hold_row(tables: Tables, worker: int, place: int, row_words: int) -> int:
    """Return where the words of a new row go, at the end of the list at `place`; HEAP_FULL if memory is out."""
    heap = tables.heap
    last = heap[place + 1] - 1
    size_class = CLASS_MIN
    if last >= 0:
        size_class = heap[last + CLASS]
        count = heap[last + COUNT]
        if HEADER + (count + 1) * row_words <= 1 << size_class:
            heap[last + COUNT] = count + 1
            return int(last + HEADER + count * row_words)
        size_class = min(size_class + 1, CHUNK_CLASS)
    while HEADER + row_words > 1 << size_class:
        size_class += 1
    block = take_block(tables, worker, size_class)
    if block < 0:
        return HEAP_FULL
    heap[block + NEXT], heap[block + COUNT], heap[block + CLASS] = 0, 1, size_class
    if last >= 0:
        heap[last + NEXT] = block + 1
    else:
        heap[place] = block + 1
    heap[place + 1] = block + 1
    return int(block + HEADER)


@kernel
def forget_rows(tables: Tables, worker: int, place: int) -> None:
    """Free the list at `place`."""
    heap = tables.heap
    block = heap[place] - 1
    while block >= 0:
        following = heap[block + NEXT] - 1
        give_block(tables, worker, block, heap[block + CLASS])
        block = following
    heap[place] = heap[place + 1] = 0
