"""Stripes: the rows of one input, put together by the value of a column or two, in the order in which they came.

What
    A *stripe* holds the rows whose column lies in one interval of fixed width, as wide as the band that is looked up,
    so that a probe's rows are in two stripes that lie side by side, rarely three. Where there is a second band, a
    stripe is cut across by a second column, into pieces ACROSS times as wide as that band. A piece is kept in a *slot*
    (`slot_of`), together with others that are far away. A slot is a list of chunks, all but the last one full, and a
    chunk has CHUNK rows at places [chunk * CHUNK, ...) of `numbers` (of rows) and of each column. Slots that lie side
    by side are in one key group (`group_of`), so that a probe's rows are mostly with one owner. What a look-up costs
    is memory that no cache holds, so it shall touch few lines, and those of a chunk side by side.

Invariants
    T1  A slot's row numbers grow along its chunks.
    T2  A chunk is in one slot or in the free list. No slot has a chunk without rows.
    T3  Rows that expired may still be there, a chunk of which all rows expired goes when its slot is written next.

Who writes what
    A slot and its chunks: the worker that owns the slot's group in this epoch, and nobody else reads them. The head of
    the free list: everybody.

Memory order
    `cells[FREE]` is changed by compare_exchange only, which orders what was written to a chunk before it was given back
    and after it was taken. It carries a count of its changes, so that a chunk that went and came back is noticed.

Paper: keys of J+ where the predicate allows them: f_MK gives a tuple's stripe where it is stored, and those of its
band where it is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from stretch.buffer.rows import Arena, allocate
from stretch.native import Cells, compare_exchange, kernel, load_acquire

SLOT_BITS: Final = 12
SLOTS: Final = 1 << SLOT_BITS
CHUNK: Final = 64  # four vectors, and four cache lines, of 32-bit values
ACROSS: Final = 64
NEIGHBOURS: Final = 4  # stripes, and pieces of them, side by side of which no two share a slot
_STEP: Final = 1031  # between slots of pieces side by side
NO_CHUNK: Final = -1
HEAD, TAIL, FILLED, SLOT_FIELDS = 0, 1, 2, 4  # of a slot: its first and last chunk, and the rows of the last
FREE: Final = 0  # a cell: changes << 32 | first free chunk + 1
CHUNK_BITS: Final = (1 << 32) - 1


class Stripes(NamedTuple):
    """The stored rows of one input; see the module header."""

    cells: Cells
    slots: Cells  # SLOT_FIELDS for each
    following: Cells  # by chunk: the next one of its slot, or of the free list
    numbers: Cells  # by place
    columns: tuple[Any, ...]  # by place


def make_stripes(dtypes: Sequence[Any], capacity: int) -> Stripes:
    """Reserve stripes for the rows of a ring of `capacity` rows, whatever their values are."""
    chunks = capacity // CHUNK + 2 * SLOTS  # each slot may have a chunk that begins, and one that ends

    def build(arena: Arena) -> Stripes:
        cells, slots, following, numbers = map(arena.array, (1, SLOTS * SLOT_FIELDS, chunks, chunks * CHUNK))
        return Stripes(cells, slots, following, numbers, tuple(arena.array(chunks * CHUNK, each) for each in dtypes))

    stripes = allocate(build)
    stripes.slots[HEAD::SLOT_FIELDS] = stripes.slots[TAIL::SLOT_FIELDS] = NO_CHUNK
    stripes.following[:-1], stripes.following[-1] = np.arange(1, chunks), NO_CHUNK
    stripes.cells[FREE] = 1
    return stripes


@kernel(inline=True)
def slot_of(stripe: int, piece: int) -> int:
    """Return the slot of a piece of a stripe."""
    return (stripe + _STEP * piece) & (SLOTS - 1)


@kernel(inline=True)
def group_of(slot: int, groups: int) -> int:
    """Return the key group of a slot."""
    return (slot * groups) >> SLOT_BITS


@kernel
def take_chunk(stripes: Stripes) -> int:
    """Take a chunk from the free list, NO_CHUNK if there is none."""
    while True:
        # load_acquire: pairs with the compare_exchange of give_chunk, whose chunk it sees whole.
        head = load_acquire(stripes.cells, FREE)
        chunk = (head & CHUNK_BITS) - 1
        if chunk == NO_CHUNK:
            return NO_CHUNK
        # Another worker may have taken the chunk meanwhile; then what was read here is dropped.
        after = ((head >> 32) + 1) << 32 | (stripes.following[chunk] + 1)
        if compare_exchange(stripes.cells, FREE, head, after):  # pairs with itself
            stripes.following[chunk] = NO_CHUNK
            return chunk


@kernel
def give_chunk(stripes: Stripes, chunk: int) -> None:
    """Give a chunk back."""
    while True:
        head = load_acquire(stripes.cells, FREE)  # pairs with the compare_exchange here and in take_chunk
        stripes.following[chunk] = (head & CHUNK_BITS) - 1
        if compare_exchange(stripes.cells, FREE, head, ((head >> 32) + 1) << 32 | (chunk + 1)):  # pairs with take_chunk
            return


@kernel
def drop_expired(stripes: Stripes, slot: int, expired: int) -> None:
    """Give back the first chunks of a slot while all their rows are before `expired`."""
    at = slot * SLOT_FIELDS
    chunk, tail = stripes.slots[at + HEAD], stripes.slots[at + TAIL]
    while chunk != NO_CHUNK:
        rows = stripes.slots[at + FILLED] if chunk == tail else CHUNK
        if stripes.numbers[chunk * CHUNK + rows - 1] >= expired:
            break
        following = stripes.following[chunk]
        give_chunk(stripes, chunk)
        chunk = following
    stripes.slots[at + HEAD] = chunk
    if chunk == NO_CHUNK:
        stripes.slots[at + TAIL] = NO_CHUNK


@kernel
def sweep(stripes: Stripes, expired: int, mapping: Cells, worker: int) -> None:
    """Drop what expired from all slots of a worker."""
    for slot in range(SLOTS):
        if mapping[group_of(slot, len(mapping))] == worker:
            drop_expired(stripes, slot, expired)


@kernel
def place_for(stripes: Stripes, slot: int, number: int, expired: int) -> int:
    """Append a row to a slot and return its place, NO_CHUNK if there is none; the caller sets its columns."""
    at = slot * SLOT_FIELDS
    if stripes.slots[at + TAIL] == NO_CHUNK or stripes.slots[at + FILLED] == CHUNK:
        drop_expired(stripes, slot, expired)
        fresh = take_chunk(stripes)
        if fresh == NO_CHUNK:
            return NO_CHUNK
        tail = stripes.slots[at + TAIL]
        if tail == NO_CHUNK:
            stripes.slots[at + HEAD] = fresh
        else:
            stripes.following[tail] = fresh
        stripes.slots[at + TAIL], stripes.slots[at + FILLED] = fresh, 0
    place = stripes.slots[at + TAIL] * CHUNK + stripes.slots[at + FILLED]
    stripes.numbers[place] = number
    stripes.slots[at + FILLED] += 1
    return place


@kernel
def sort_rows(rows: Cells, first: int, last: int) -> None:
    """Sort row numbers; nearly always a handful."""
    gap = 1
    while 3 * gap < last - first:
        gap = 3 * gap + 1
    while gap > 0:
        for k in range(first + gap, last):
            row, at = rows[k], k
            while at >= first + gap and rows[at - gap] > row:
                rows[at] = rows[at - gap]
                at -= gap
            rows[at] = row
        gap //= 3
