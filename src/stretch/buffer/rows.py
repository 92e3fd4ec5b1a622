"""Row stores: the columns of one input, in rings of rows, for every buffer.

What
    A row store has `rings` rings (one per source, or one for all) of `rows` rows each, a power of two. A row is known
    by its ring and its *number*, which only grows; its *place* in every array is
    `ring * rows + (number & (rows - 1))`. A scalar column is an array of its own type by place. A list column is two
    arrays by place, `starts` and `lengths` (int32), and one of items, of which each ring has `items` (a power of
    two): row r is `items[starts[r] : starts[r] + lengths[r]]`, never broken at the end of a ring.
    `table` describes the columns by address and width, so that the kernels here are compiled once for all schemas.

Invariants
    R1  Items of a ring are given out in the order of row numbers. `marks` holds for each row the items given out up to
        and with it, counted from the beginning of time, skipped ones too; so head and tail of the item ring are the
        marks of the last row appended and of the last row freed, and no counter lives elsewhere.
    R2  A list that does not fit before the end of its ring starts at the beginning; what is left is skipped. A list of
        at most half a ring therefore fits whenever the ring is free.
    R3  Rows [freed, number) are live: their slots and items are never written.

Who writes what
    Rows, items and marks of a ring: its owner (the source, or who merges). Readers of rows read no marks.

Memory order
    None here: the owner publishes a count of rows (release), readers give back what they have read (release).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from stretch.errors import StretchError
from stretch.native import Cells, kernel
from stretch.native.memory import (
    address_of,
    copy_bytes,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    reserve,
    write_int8,
    write_int16,
    write_int32,
    write_int64,
)

Built = TypeVar("Built")

FULL: Final = -1  # no room now
TOO_LONG: Final = -2  # a list of more items than half an item ring: no room ever

# Fields of `RowStore.table`, one line per column. LENGTHS is 0 for a scalar column; WIDTH is that of an item for lists,
# and VALUES then holds the address of `starts`. ROWS and ITEM_CAPACITY are those of one ring.
WIDTH, VALUES, LENGTHS, MARKS, ITEMS, ITEM_CAPACITY, ROWS, TABLE_FIELDS = range(8)

_ALIGNMENT: Final = 128  # two cache lines: processors fetch them in pairs
_WIDTHS: Final = (1, 2, 4, 8)
_COPY_LONG: Final = 64  # bytes from which on a call of memcpy pays


class Column(NamedTuple):
    """A column of rows: `dtype` of its values, or of the items of its lists."""

    name: str
    dtype: Any
    is_list: bool = False


class ListArrays(NamedTuple):
    """What kernels see of a list column: row r is `items[starts[r] : starts[r] + lengths[r]]`."""

    starts: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int32]
    items: npt.NDArray[Any]


class Arena:
    """Cuts aligned arrays out of one block of memory; without a block it only counts (see `allocate`)."""

    def __init__(self, block: npt.NDArray[np.uint8] | None = None) -> None:
        self.used = 0
        self._block = block

    def array(self, shape: int | tuple[int, ...], dtype: Any = np.int64) -> npt.NDArray[Any]:
        """Return a zeroed array."""
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=object)) * kind.itemsize
        first = self.used
        self.used += -(-size // _ALIGNMENT) * _ALIGNMENT
        if self._block is None:
            return np.broadcast_to(np.zeros(1, kind), shape)
        return self._block[first : first + size].view(kind).reshape(shape)


def allocate(build: Callable[[Arena], Built]) -> Built:
    """Call `build` twice: to measure what it takes from the arena, and with one mapping of that size.

    `build` must not write into the arrays. The mapping lives as long as any of its arrays.
    """
    measure = Arena()
    build(measure)
    return build(Arena(reserve(measure.used)))


class RowStore:
    """The columns of one input; see the module header."""

    def __init__(self, columns: Sequence[Column], arena: Arena, *, rings: int, rows: int, items: int) -> None:
        _require_ring("rows", rows)
        _require_ring("items", items)
        if rings * items > np.iinfo(np.int32).max:
            raise StretchError(
                f"A row store cannot have {rings} rings of {items} list items.",
                why="the starts of lists are int32.",
                do="ask for fewer items per ring.",
            )
        self.columns = tuple(Column(each.name, np.dtype(each.dtype), each.is_list) for each in columns)
        self.rings, self.rows, self.items = rings, rows, items
        self.arrays: tuple[Any, ...] = ()
        self._marks: list[npt.NDArray[np.int64]] = []  # referred to by the table only
        self.table: Cells = np.zeros((len(self.columns), TABLE_FIELDS), np.int64)
        for number, column in enumerate(self.columns):
            self._add_column(number, column, arena)

    def ring(self, number: int) -> tuple[Any, ...]:
        """Return the arrays of one ring, by `number & (rows - 1)`; the items of lists stay whole."""
        part = slice(number * self.rows, (number + 1) * self.rows)
        return tuple(
            each._replace(starts=each.starts[part], lengths=each.lengths[part])
            if isinstance(each, ListArrays)
            else each[part]
            for each in self.arrays
        )

    def _add_column(self, number: int, column: Column, arena: Arena) -> None:
        if column.dtype.itemsize not in _WIDTHS or column.dtype.hasobject:
            raise StretchError(
                f"The column {column.name!r} cannot be held in a row store.",
                why=f"a value of {column.dtype} is not one of {_WIDTHS} bytes wide.",
                do="use numbers, booleans, timestamps or interned texts.",
            )
        places = self.rings * self.rows
        line = self.table[number]
        line[WIDTH], line[ROWS] = column.dtype.itemsize, self.rows
        if not column.is_list:
            values = arena.array(places, column.dtype)
            line[VALUES] = address_of(values)
            self.arrays += (values,)
            return
        starts, lengths = arena.array(places, np.int32), arena.array(places, np.int32)
        items, marks = arena.array(self.rings * self.items, column.dtype), arena.array(places)
        line[VALUES], line[LENGTHS] = address_of(starts), address_of(lengths)
        line[ITEMS], line[MARKS], line[ITEM_CAPACITY] = address_of(items), address_of(marks), self.items
        self._marks.append(marks)
        self.arrays += (ListArrays(starts, lengths, items),)


def _require_ring(what: str, size: int) -> None:
    if size < 1 or size & (size - 1):
        raise StretchError(
            f"A ring cannot have {size} {what}.",
            why="places are computed by masks.",
            do="ask for a power of two.",
        )


# --- Kernels


@kernel
def append_rows(table: Cells, ring: int, number: int, freed: int, first: int, last: int, addresses: Cells) -> int:
    """Copy rows [first, last) of a caller's arrays to rows `number`... of a ring; return how many were copied.

    The caller has made sure that their slots are free, and that rows before `freed` are, with their items.
    `addresses` has two cells per column: (address of values, 0), or for lists (address of int32 offsets as in Arrow,
    address of items). Fewer than asked for when an item ring is full; TOO_LONG if the first row can never fit.
    """
    count = last - first
    if has_lists(table):
        count = append_lists(table, ring, number, freed, first, count, addresses)
    for column in range(table.shape[0]):
        if table[column, LENGTHS] == 0:
            width, rows = table[column, WIDTH], table[column, ROWS]
            slot = number & (rows - 1)
            until_end = min(max(count, 0), rows - slot)
            ring_address = table[column, VALUES] + ring * rows * width
            origin = addresses[2 * column] + first * width
            copy_bytes(ring_address + slot * width, origin, until_end * width)
            if count > until_end:
                copy_bytes(ring_address, origin + until_end * width, (count - until_end) * width)
    return count


@kernel
def copy_rows(
    to_table: Cells,
    to_ring: int,
    to_number: int,
    to_freed: int,
    from_table: Cells,
    from_ring: int,
    from_number: int,
    count: int,
) -> int:
    """Copy rows from one store to another of the same columns; return how many, TOO_LONG as `append_rows`.

    Neither range may wrap: the caller cuts it at the ends of both rings.
    """
    if to_table.shape[0] == 0:
        return count
    to_row = place_of(to_table, to_ring, to_number)
    from_row = place_of(from_table, from_ring, from_number)
    if has_lists(to_table):
        count = copy_lists(to_table, to_ring, to_number, to_freed, from_table, from_row, count)
    for column in range(to_table.shape[0]):
        if to_table[column, LENGTHS] == 0 and count > 0:
            copy_values(to_table, from_table, column, to_row, from_row, count)
    return count


@kernel(inline=True)
def copy_values(to_table: Cells, from_table: Cells, column: int, to_row: int, from_row: int, count: int) -> None:
    """Copy a run of values of a scalar column, by places."""
    width = to_table[column, WIDTH]
    copy_bytes(to_table[column, VALUES] + to_row * width, from_table[column, VALUES] + from_row * width, count * width)


@kernel
def gather_values(
    to_table: Cells, from_table: Cells, column: int, to_row: int, picks: Cells, first: int, count: int
) -> None:
    """Copy the values of a scalar column at places picks[first : first + count] to the places from `to_row` on."""
    width = to_table[column, WIDTH]
    target, origin = to_table[column, VALUES] + to_row * width, from_table[column, VALUES]
    if width == 8:
        for k in range(count):
            write_int64(target + 8 * k, read_int64(origin + 8 * picks[first + k]))
    elif width == 4:
        for k in range(count):
            write_int32(target + 4 * k, read_int32(origin + 4 * picks[first + k]))
    elif width == 2:
        for k in range(count):
            write_int16(target + 2 * k, read_int16(origin + 2 * picks[first + k]))
    else:
        for k in range(count):
            write_int8(target + k, read_int8(origin + picks[first + k]))


@kernel(inline=True)
def place_of(table: Cells, ring: int, number: int) -> int:
    """Return the place of a row."""
    return ring * table[0, ROWS] + (number & (table[0, ROWS] - 1))


@kernel(inline=True)
def has_lists(table: Cells) -> bool:
    """Tell whether any column is a list."""
    found = False
    for column in range(table.shape[0]):
        found = found or table[column, LENGTHS] != 0
    return found


@kernel
def append_lists(table: Cells, ring: int, number: int, freed: int, first: int, count: int, addresses: Cells) -> int:
    """Do what `append_rows` does for the list columns."""
    for k in range(count):
        status = 0
        for column in range(table.shape[0]):
            if table[column, LENGTHS] != 0 and status >= 0:
                offset = addresses[2 * column] + 4 * (first + k)
                begin = read_int32(offset)
                length = read_int32(offset + 4) - begin
                status = place_items(table, column, ring, number + k, freed, length)
                if status >= 0:
                    width = table[column, WIDTH]
                    _copy_short(
                        table[column, ITEMS] + status * width,
                        addresses[2 * column + 1] + begin * width,
                        length * width,
                    )
        if status < 0:
            # The items of this row's first columns are taken again: a row counts when all of its columns are there.
            return TOO_LONG if status == TOO_LONG and k == 0 else k
    return count


@kernel
def copy_lists(
    to_table: Cells, to_ring: int, to_number: int, to_freed: int, from_table: Cells, from_row: int, count: int
) -> int:
    """Do what `copy_rows` does for the list columns; `from_row` is a place."""
    for k in range(count):
        status = 0
        for column in range(to_table.shape[0]):
            if to_table[column, LENGTHS] != 0 and status >= 0:
                width = to_table[column, WIDTH]
                begin = read_int32(from_table[column, VALUES] + 4 * (from_row + k))
                length = read_int32(from_table[column, LENGTHS] + 4 * (from_row + k))
                status = place_items(to_table, column, to_ring, to_number + k, to_freed, length)
                if status >= 0:
                    _copy_short(
                        to_table[column, ITEMS] + status * width,
                        from_table[column, ITEMS] + begin * width,
                        length * width,
                    )
        if status < 0:
            return TOO_LONG if status == TOO_LONG and k == 0 else k
    return count


@kernel
def place_items(table: Cells, column: int, ring: int, number: int, freed: int, count: int) -> int:
    """Give row `number` place for a list of `count` items, and return where in `items`; or FULL or TOO_LONG.

    Called for each row of a ring, in order; again for the same row gives the same place. Sets start and length.
    """
    capacity = table[column, ITEM_CAPACITY]
    if 2 * count > capacity and count > 1:
        return TOO_LONG
    head = items_until(table, column, ring, number)
    tail = items_until(table, column, ring, freed)
    at = head & (capacity - 1)
    if at + count > capacity:
        head += capacity - at  # skips the rest (R2)
        at = 0
    if head + count - tail > capacity:
        return FULL
    row = place_of(table, ring, number)
    start = ring * capacity + at
    write_int32(table[column, VALUES] + 4 * row, start)
    write_int32(table[column, LENGTHS] + 4 * row, count)
    write_int64(table[column, MARKS] + 8 * row, head + count)
    return start


@kernel
def skip_row(table: Cells, ring: int, number: int) -> None:
    """Leave row `number` without values; the next one is appended after it."""
    for column in range(table.shape[0]):
        if table[column, LENGTHS] != 0:
            until = items_until(table, column, ring, number)
            write_int64(table[column, MARKS] + 8 * place_of(table, ring, number), until)


@kernel(inline=True)
def items_until(table: Cells, column: int, ring: int, number: int) -> int:
    """Return how many items were given out before row `number`, of the rows [freed, number] that are known (R1)."""
    if number == 0:
        return 0
    return read_int64(table[column, MARKS] + 8 * place_of(table, ring, number - 1))


@kernel(inline=True)
def _copy_short(target: int, origin: int, size: int) -> None:
    """Copy what is mostly some words: a list."""
    if size >= _COPY_LONG:
        copy_bytes(target, origin, size)
        return
    at = 0
    while at + 8 <= size:
        write_int64(target + at, read_int64(origin + at))
        at += 8
    while at < size:
        write_int8(target + at, read_int8(origin + at))
        at += 1
