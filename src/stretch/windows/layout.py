"""The memory of window state: a heap of blocks, and a directory of tables (DESIGN D5).

What
    A *table* holds the window instances (or panes) of one key group and one left boundary. It is one block of the
    heap: dense entries in the order in which keys came up, then an index of int32 slots (entry number + 1, 0 is
    empty). An entry is `key words, state words`, padded to a power of two, all int64 (floats by their bits).
    The *directory* has `panes` records for each group, used round robin by left boundary.

Invariants
    I1  A directory record with `tag == left boundary number` is that table; any other tag means there is none.
    I2  A block has 2**class words, at least 2**CLASS_MIN, and starts at a multiple of 2**CLASS_MIN, so that entries
        (up to 2**CLASS_MIN words) are aligned to their size and can be viewed as records.
    I3  The index is at most three quarters full, so that a search ends.
    I4  A free block's first word names the next free block of its class, plus one.

Who writes what
    Tables and directory records of a group: the worker that owns the group in the current epoch. Free lists and bump
    pointers: the worker whose row it is. The heap's end (`cells[HEAP_END]`): everyone, by fetch_add.

Memory order
    None here. Ownership changes only in the epoch switch, whose barrier orders everything before and after it.

Paper: sigma, w = (state, left, key).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

CLASS_MIN: Final = 5  # 32 words, 256 bytes: a group with a dozen keys of two words
CLASS_COUNT: Final = 40
CHUNK_CLASS: Final = 14  # a worker takes 2**14 words, 128 KiB, at a time from the heap

# Fields of a directory record.
TAG: Final = 0
BLOCK: Final = 1
CLASS: Final = 2
COUNT: Final = 3
DIRECTORY_WORDS: Final = 4

NO_TABLE: Final = -(1 << 63)

# Words of a worker's row in `free`: the heads of its free lists, then its chunk.
CHUNK_NEXT: Final = CLASS_COUNT
CHUNK_END: Final = CLASS_COUNT + 1
LIVE_WORDS: Final = CLASS_COUNT + 2  # words in tables now, for metrics
FREE_WORDS: Final = 64

HEAP_END: Final = 0


# What a key is, which decides how it is hashed.
KEY_INT: Final = 0  # one int64
KEY_ID: Final = 1  # the id of a text, below the upper half of its hash
KEY_ID_PAIR: Final = 2  # two ids in one word
KEY_INT_PAIR: Final = 3  # two int64
KEY_GROUP: Final = 4  # an int64 that is its own group


class Shape(NamedTuple):
    """How entries and tables of an operator are laid out; constants of the compiled code."""

    entry_words: int
    key_kind: int
    key_words: int
    index_shift: int  # a block's index takes words >> index_shift
    panes: int  # directory records per group, a power of two
    groups: int


class Tables(NamedTuple):
    """The views of the state memory that kernels get."""

    heap: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int32]  # the same memory
    floats: npt.NDArray[np.float64]  # the same memory
    directory: npt.NDArray[np.int64]
    free: npt.NDArray[np.int64]  # one row of FREE_WORDS per worker
    cells: npt.NDArray[np.int64]
    template: npt.NDArray[np.int64]  # the words of a new entry
    hashes: npt.NDArray[np.int64]  # of texts, by id
    records: Any  # the same memory as `heap`, as the records that functions of the user see


def make_shape(key_kind: int, state_words: int, panes: int, groups: int) -> Shape:
    """Choose the layout for entries of so many words and so many live panes."""
    key_words = 2 if key_kind == KEY_INT_PAIR else 1
    entry = 1
    while entry < key_words + state_words:
        entry *= 2
    shift = 4
    # The smallest index that stays at most three quarters full (I3).
    while shift > 1 and entries_in(CLASS_MIN + 6, entry, shift) > 0.75 * slots_in(CLASS_MIN + 6, shift):
        shift -= 1
    ring = 1
    while ring < panes:
        ring *= 2
    return Shape(entry, key_kind, key_words, shift, ring, groups)


def slots_in(size_class: int, index_shift: int) -> int:
    """Return how many slots the index of a block has."""
    return 2 * ((1 << size_class) >> index_shift)


def entries_in(size_class: int, entry_words: int, index_shift: int) -> int:
    """Return how many entries a block has room for."""
    words = 1 << size_class
    return (words - (words >> index_shift)) // entry_words


def make_tables(
    memory: npt.NDArray[np.uint8],
    shape: Shape,
    workers: int,
    template: Any,
    hashes: npt.NDArray[np.int64],
    record: Any = np.int64,
) -> Tables:
    """Lay the views over the heap's memory."""
    words = memory.view(np.int64)
    # One record per worker at the end, for the merge of panes into a window.
    directory = np.zeros((shape.groups * shape.panes + workers) * DIRECTORY_WORDS, np.int64)
    directory[TAG::DIRECTORY_WORDS] = NO_TABLE
    return Tables(
        heap=words,
        slots=memory.view(np.int32),
        floats=memory.view(np.float64),
        directory=directory,
        free=np.zeros((workers, FREE_WORDS), np.int64),
        cells=np.zeros(8, np.int64),
        template=np.asarray(template, np.int64),
        hashes=hashes,
        records=memory.view(record),
    )
