"""What a dictionary of texts has in memory.

What
    A dictionary gives every text an int32 id; 0 is null. All of its arrays are reserved once, at their largest size,
    and never move: the operating system gives a page when it is first touched. An id names a *record* of four cells,
    half a cache line, that holds texts of up to 16 bytes whole; longer ones have their first eight bytes there and
    the whole in `texts`. The `table` finds the record of a text by its hash.

Layout
    hashes[id]                  `stretch.windows.groups.hash_key` of the text: what workers read
    records[4 * id + UNTIL]     latest event time up to which something may still name the id; FREE if it names no text
    records[4 * id + LENGTH]    bytes of the text; NO_LENGTH for id 0
    records[4 * id + FIRST]     its first eight bytes, the first one lowest, zeros where it is shorter
    records[4 * id + SECOND]    its next eight bytes; for a text over 16 bytes the index of its header in `texts`
    table[slot]                 0 if empty, or 37 bits of a hash above the 26 bits of an id; see `slot_tag`
    texts[index]                a header, length << 32 | id, then the bytes in groups of eight
    free[k]                     ids below FRESH to give out first, in ascending order
    control[...]                the cells named below

Who writes what is said in `kernels`.
"""

from __future__ import annotations

import mmap
import sys
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.errors import StretchError
from stretch.native.atomics import Cells
from stretch.strings.tokenise import Text

ID_BITS: Final = 26
ID_COUNT_MAX: Final = 1 << ID_BITS

# A record.
RECORD_CELLS: Final = 4
UNTIL: Final = 0
LENGTH: Final = 1
FIRST: Final = 2
SECOND: Final = 3

INLINE_BYTES: Final = 16
FREE: Final = -(2**63)  # at or below every mark
NO_LENGTH: Final = 2**63 - 1  # no text has this length, so no lookup takes the record of null for its own

# Cells of `control`. Groups that different threads write at different times lie on cache lines of their own.
INSIDE: Final = 0  # how many threads are inside, + CLOSED
OPENED: Final = 1  # wait cell: somebody has opened
EMPTIED: Final = 2  # wait cell: the last one inside has left
TAKEN: Final = 8  # ids given out since the last sweep; may run over ID_LIMIT
LOST: Final = 9  # of these, the ones whose text got another id in the same moment
TEXT_END: Final = 10  # where the next long text goes in `texts`
MARK: Final = 16  # everything with `until` at or below it has left the system
ID_LIMIT: Final = 24  # ids that may be given out until the next sweep
FREE_COUNT: Final = 25  # the first of them come from `free`
FRESH: Final = 26  # the others are this one and those after it
TEXT_LIMIT: Final = 27  # `texts` is used up to here until the next sweep
TABLE_MASK: Final = 28  # slots of the table - 1
HASH_MASK: Final = 29  # the bits of a hash that the table looks at: all but in tests
LIVE: Final = 30  # ids that the last sweep left alive
ROOM_MIN: Final = 31  # ids that a sweep makes room for at least
CONTROL_CELLS: Final = 32

CLOSED: Final = 1 << 32

# What rows are made into.
VALUES: Final = 0  # ids of whole texts: a text column, or the elements of a list column
WORDS: Final = 1
HASHTAGS: Final = 2

# Status of a kernel.
DONE: Final = 0
NO_ROOM: Final = 1  # the dictionary needs a sweep
OUTPUT_FULL: Final = 2  # the next row might not fit into the output
TOO_LATE: Final = 3  # the next row's time is at or below the mark
FULL: Final = 4  # even a sweep makes no room: the reserved address space is used up
STOPPED: Final = 5
TIMED_OUT: Final = 6

Words = npt.NDArray[np.uint64]


class DictionaryView(NamedTuple):
    """The arrays of a dictionary, as kernels take them."""

    control: Cells
    hashes: Words
    records: Cells
    words: Words  # the same memory as `records`
    table: Cells
    free: npt.NDArray[np.int32]
    texts: Words
    stop: Cells  # cell 0: not zero when everyone shall stop


class TextColumn(NamedTuple):
    """Rows of text to intern, and where the kernel keeps what it is working on. One thread uses it at a time."""

    kind: int
    distinct: bool
    row_offsets: npt.NDArray[np.int64]  # row -> its first byte, or for VALUES its first element
    row_valid: npt.NDArray[np.uint8]  # one bit per row, empty if all are valid
    row_bit: int  # the bit of row 0
    offsets: npt.NDArray[np.int64]  # VALUES: element -> its first byte
    valid: npt.NDArray[np.uint8]  # VALUES: one bit per element, empty if all are valid
    bit: int
    single: npt.NDArray[np.uint8]
    text: Text
    longest: int  # bytes, or elements, of the longest row
    bounds: Words
    untils: npt.NDArray[np.int64]
    seen: npt.NDArray[np.int64]  # `distinct`: which ids the row has had


class Block(NamedTuple):
    """Texts found in rows but not yet looked up; one array per property."""

    starts: Words
    lengths: Words
    hashes: Words
    firsts: Words
    seconds: Words
    untils: npt.NDArray[np.int64]


BLOCK_TEXTS: Final = 128  # 6 kB, in the first-level cache


def new_block() -> Block:
    words = np.empty((5, BLOCK_TEXTS), np.uint64)
    return Block(*words, np.empty(BLOCK_TEXTS, np.int64))


# Linux and macOS; Python names it from 3.12 on.
_NORESERVE: Final = 0x4000 if sys.platform == "linux" else 0x40


class Reservation:
    """Address space for one array: zeros, of which only what is touched takes memory."""

    def __init__(self, count: int, dtype: npt.DTypeLike) -> None:
        size = max(count * np.dtype(dtype).itemsize, mmap.PAGESIZE)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        try:
            self._memory = mmap.mmap(-1, size, flags=flags)
        except OSError as error:
            raise StretchError(
                f"There is no address space for a dictionary of {count:,} texts.",
                why=f"the system refused to reserve {size / 2**20:,.0f} MB ({error.strerror}); it limits what is "
                "reserved, not only what is used",
                do="lift the limit (ulimit -v, vm.overcommit_memory), or make id_capacity and text_capacity smaller",
            ) from error
        self.array: npt.NDArray[Any] = np.frombuffer(self._memory, dtype, count)

    def give_back(self, start: int, stop: int) -> None:
        """Return the memory of whole pages between two elements; they read as zeros when touched again."""
        item, page = self.array.itemsize, mmap.PAGESIZE
        first = -(-start * item // page) * page
        size = stop * item // page * page - first
        if size > 0:
            self._memory.madvise(mmap.MADV_DONTNEED, first, size)
