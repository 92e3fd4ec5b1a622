"""What a dictionary of texts has in memory.

What
    A dictionary gives every text an int32 id; 0 is null. All of its arrays are reserved once, at their largest size,
    and never move: the operating system gives a page when it is first touched. An id names a *record* of four cells,
    half a cache line, that holds texts of up to 16 bytes whole; longer ones have their first eight bytes there and
    all of them in `texts`. The `table` finds the record of a text by its hash.

Layout
    hashes[id]                  `stretch.windows.groups.hash_key` of the text: what workers read
    records[4 * id + UNTIL]     latest event time up to which something may still name the id; FREE if it names no text
    records[4 * id + LENGTH]    bytes of the text
    records[4 * id + FIRST]     its first eight bytes, the first one lowest, zeros where it is shorter
    records[4 * id + SECOND]    its next eight bytes; for a text over 16 bytes the index of its header in `texts`
    table[slot]                 0 if empty, or 37 bits of a hash above the 26 bits of an id; see `slot_tag`
    texts[index]                a header, length << 32 | id, then the bytes in groups of eight
    free[k]                     ids below FRESH to give out first, in ascending order
    control[...]                the cells named below

`kernels` says who writes what.
"""

from __future__ import annotations

import mmap
import resource
import sys
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.native.atomics import Cells
from stretch.native.memory import ask_for_huge_pages
from stretch.strings.tokenise import Bytes, Text

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
# The record of null, which is also where a lookup looks that found an empty slot: no text has this length.
FOREVER: Final = 2**63 - 1
NO_LENGTH: Final = 2**63 - 1

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
HASH_MASK: Final = 29  # the bits of a hash that the table looks at: all that fit but in tests
LIVE: Final = 30  # ids that the last sweep left alive
ROOM_MIN: Final = 31  # ids that a sweep makes room for at least
SWEEPS: Final = 32  # how many there were
IDS_TOUCHED: Final = 33  # what has taken memory: ids below this one,
SLOTS_TOUCHED: Final = 34  # slots of the table below this one,
TEXTS_TOUCHED: Final = 35  # and this many cells of `texts`
CONTROL_CELLS: Final = 40

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
Ids = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]


class DictionaryView(NamedTuple):
    """The arrays of a dictionary, as kernels take them."""

    control: Cells
    hashes: Words
    records: Cells
    words: Words  # the same memory as `records`, for texts
    table: Cells
    free: Ids
    texts: Words
    stop: Cells  # cell 0: not zero when everyone shall stop


class TextColumn(NamedTuple):
    """Rows of text to intern, and the scratch memory for it: one thread uses a column at a time."""

    kind: int
    distinct: bool
    row_offsets: Longs  # row -> its first byte, or for VALUES its first element
    row_valid: Bytes  # a bit per row, empty if all are valid
    row_bit: int  # the bit of row 0
    offsets: Longs  # VALUES: element -> its first byte
    valid: Bytes  # VALUES: a bit per element, empty if all are valid
    bit: int
    single: Bytes  # all bytes, one by one
    text: Text  # all bytes, eight by eight
    longest: int  # bytes of the longest text
    # One block of texts, found but not yet looked up.
    bounds: Words  # text k starts at byte bounds[2 * k] and stops before bounds[2 * k + 1], which is NULL_STOP for null
    untils: Longs  # the `until` of its row
    found: npt.NDArray[np.uint64]  # what is known of it: rows HASHED, ONE, TWO, SLOT; and row UNSETTLED
    place: Longs  # where in the rows the next block begins; see below
    # DISTINCT: a hash table of the ids of one row, as stamp << 32 | id. A row's stamp tells its ids from earlier ones.
    seen: Longs


NULL_STOP: Final = 2**64 - 1

# Rows of `found`.
HASHED: Final = 0  # the bits of its hash that the table looks at
ONE: Final = 1  # its first eight bytes
TWO: Final = 2  # its next eight
SLOT: Final = 3  # what the table has at its hash
UNSETTLED: Final = 4  # not of text k: the numbers of texts to be settled
FOUND_ROWS: Final = 5

# Cells of `place`. What does not change in a piece:
FIRST_ROW: Final = 0  # the row whose ids begin at starts[0]
LATEST: Final = 1  # MARK at the beginning of the piece
ROOM: Final = 2  # how many ids the output holds
# What a block leaves to the next one:
BASE: Final = 3  # where the block's first id goes
ROW: Final = 4  # the row it goes on in,
AT: Final = 5  # the next byte, or element, of this row
END: Final = 6  # and its end
OPEN: Final = 7  # 1 if a run has begun whose end is not found yet,
RUN: Final = 8  # at this byte
STATUS: Final = 9  # why it ends before the last row, if not because the block is full
STAMP: Final = 10  # rows that `seen` has been used for
PLACE_CELLS: Final = 11

BLOCK_TEXTS: Final = 128  # what one block knows stays in the first-level cache; 256 to 1,024 are not faster
# Texts are found 64 bytes at a time, so that the last look may find some more.
BOUNDS: Final = 2 * BLOCK_TEXTS + 66


def reserved_bytes(id_capacity: int) -> int:
    """Return about how much address space a dictionary reserves."""
    return id_capacity * 8 * (1 + RECORD_CELLS + 2 + 1 + 1 + TEXT_CELLS_PER_ID)


TEXT_CELLS_PER_ID: Final = 32  # 256 bytes, on average over all ids, for texts of more than 16


def default_id_capacity() -> int:
    """Return how many ids to reserve address space for: all there can be, unless the process may use only so much."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)  # Spark sets it where a worker's memory is limited
    capacity = ID_COUNT_MAX
    while limit != resource.RLIM_INFINITY and capacity > ID_CAPACITY_MIN and reserved_bytes(capacity) > limit // 8:
        capacity //= 2
    return capacity


ID_CAPACITY_MIN: Final = 1 << 16

# Linux and macOS; Python has no name for it before 3.13.
_NORESERVE: Final = 0x4000 if sys.platform == "linux" else 0x40


class Reservation:
    """Address space for one array: zeros, of which only what is touched takes memory."""

    def __init__(self, count: int, dtype: npt.DTypeLike) -> None:
        size = max(count * np.dtype(dtype).itemsize, mmap.PAGESIZE)
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        ask_for_huge_pages(self._memory)
        self.array: npt.NDArray[Any] = np.frombuffer(self._memory, dtype, count)

    def give_back(self, start: int, stop: int) -> None:
        """Return the memory of the whole pages between two elements; their contents are lost."""
        item, page = self.array.itemsize, mmap.PAGESIZE
        first = -(-start * item // page) * page
        size = stop * item // page * page - first
        if size > 0:
            self._memory.madvise(mmap.MADV_DONTNEED, first, size)
