"""Row stores: rings of rows with lists, filled from a caller's arrays and copied from store to store."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from stretch.buffer.rows import (
    FULL,
    TOO_LONG,
    Column,
    RowStore,
    allocate,
    append_rows,
    copy_rows,
    gather_values,
    place_items,
    place_of,
)
from stretch.errors import StretchError
from stretch.native.memory import address_of

COLUMNS = [
    Column("flag", np.bool_),
    Column("short", np.int16),
    Column("word", np.int32, is_list=True),
    Column("price", np.float32),
    Column("time", np.int64),
    Column("marks", np.float64, is_list=True),
    Column("bytes", np.int8, is_list=True),
]


def make(columns=COLUMNS, rings=2, rows=8, items=16):
    return allocate(lambda arena: RowStore(columns, arena, rings=rings, rows=rows, items=items))


def batch(rows):
    """Return the addresses of a caller's columns, and the arrays that have to stay alive: rows are tuples of values."""
    kept, addresses = [], np.zeros(2 * len(COLUMNS), np.int64)
    for number, column in enumerate(COLUMNS):
        values = [row[number] for row in rows]
        if column.is_list:
            kept.append(np.cumsum([0, *map(len, values)], dtype=np.int32))
            kept.append(np.array([item for value in values for item in value], column.dtype))
            addresses[2 * number : 2 * number + 2] = [address_of(each) for each in kept[-2:]]
        else:
            kept.append(np.array(values, column.dtype))
            addresses[2 * number] = address_of(kept[-1])
    return addresses, kept


def row_at(store, ring, number):
    place = place_of(store.table, ring, number)
    values = []
    for array, column in zip(store.arrays, COLUMNS, strict=True):
        if column.is_list:
            start = array.starts[place]
            assert ring * store.items <= start <= start + array.lengths[place] <= (ring + 1) * store.items
            values.append(array.items[start : start + array.lengths[place]].tolist())
        else:
            values.append(array[place].item())
    return tuple(values)


rows_of_any_kind = some.tuples(
    some.booleans(),
    some.integers(-(2**15), 2**15 - 1),
    some.lists(some.integers(-(2**31), 2**31 - 1), max_size=8),
    some.floats(width=32, allow_nan=False),
    some.integers(-(2**63), 2**63 - 1),
    some.lists(some.floats(allow_nan=False), max_size=3),
    some.lists(some.integers(-128, 127), max_size=8),
)


@given(batches=some.lists(some.tuples(some.lists(rows_of_any_kind, max_size=6), some.integers(0, 8)), max_size=12))
def test_rows_come_out_of_two_stores_as_they_went_in(batches):
    """A source's ring of store one, copied to the only ring of store two, while older rows are freed."""
    first, second = make(), make(rings=1, rows=16, items=32)
    waiting, number, copied, freed = [], 0, 0, 0
    for rows, take in batches:
        addresses, _kept = batch(rows)
        done = append_rows(first.table, 1, number, copied, 0, min(len(rows), 8 - (number - copied)), addresses)
        assert done >= 0
        waiting += rows[:done]
        number += done
        for _ in range(min(take, len(waiting))):
            count = copy_rows(second.table, 0, copied, freed, first.table, 1, copied, 1)
            if count < 1:
                freed = copied
                assert copy_rows(second.table, 0, copied, freed, first.table, 1, copied, 1) == 1, "all is free"
            copied += 1
            if copied - freed == 16:
                freed += 8
            assert row_at(second, 0, copied - 1) == waiting.pop(0)
        for k, row in enumerate(waiting):
            assert row_at(first, 1, copied + k) == row


def test_runs_wrap_at_the_end_of_a_ring():
    store = make(COLUMNS[3:5], rows=4)
    prices, times = np.arange(10, dtype=np.float32), np.arange(10) * 10
    addresses = np.array([address_of(prices), 0, address_of(times), 0])
    assert append_rows(store.table, 0, 3, 3, 2, 6, addresses) == 4
    assert store.arrays[1][:4].tolist() == [30, 40, 50, 20]
    assert store.arrays[0][:4].tolist() == [3, 4, 5, 2]
    assert not store.arrays[1][4:].any()


def test_items_are_given_out_while_there_is_room_and_never_broken():
    store = make([Column("list", np.int64, is_list=True)], rings=2, rows=8, items=8)
    table, (lists,) = store.table, store.arrays
    assert [place_items(table, 0, 1, number, 0, 3) for number in range(3)] == [8, 11, FULL]
    assert place_items(table, 0, 1, 2, 1, 3) == 8, "skips the two at the end, takes what row 0 had"
    assert place_items(table, 0, 1, 3, 1, 1) == FULL
    assert place_items(table, 0, 1, 3, 2, 1) == 11
    assert place_items(table, 0, 1, 4, 2, 5) == TOO_LONG
    assert place_items(table, 0, 1, 4, 2, 0) == 12
    assert lists.lengths[8:13].tolist() == [3, 3, 3, 1, 0]
    assert place_items(table, 0, 0, 0, 0, 4) == 0, "rings do not share items"


def test_a_row_counts_when_all_its_lists_are_there():
    columns = [Column("a", np.int8, is_list=True), Column("b", np.int8, is_list=True)]
    store = make(columns, rings=1, items=8)
    offsets, items = np.array([0, 2, 4, 6], np.int32), np.arange(6, dtype=np.int8)
    longer, more = np.array([0, 4, 8, 12], np.int32), np.arange(12, dtype=np.int8)
    addresses = np.array([address_of(each) for each in (offsets, items, longer, more)])
    assert append_rows(store.table, 0, 0, 0, 0, 3, addresses) == 2
    assert append_rows(store.table, 0, 2, 1, 2, 3, addresses) == 1
    assert store.arrays[0].starts[:3].tolist() == [0, 2, 4]
    assert store.arrays[1].starts[:3].tolist() == [0, 4, 0]
    assert store.arrays[1].items[:4].tolist() == [8, 9, 10, 11]
    longer[3] = 13
    assert append_rows(store.table, 0, 3, 3, 2, 3, addresses) == TOO_LONG


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32, np.int64])
def test_gathers_values_by_their_places(dtype):
    target, origin = (make([Column("value", dtype)], rings=1) for _ in range(2))
    origin.arrays[0][:] = np.arange(8) * 3
    picks = np.array([9, 5, 0, 7])
    gather_values(target.table, origin.table, 0, 4, picks, 1, 3)
    assert target.arrays[0].tolist() == [0, 0, 0, 0, 15, 0, 21, 0]


def test_arrays_do_not_share_cache_lines_or_overlap():
    store = make()
    spans = sorted(
        (address_of(array), address_of(array) + array.nbytes)
        for each in store.arrays
        for array in (each if isinstance(each, tuple) else (each,))
    )
    assert all(first % 128 == 0 for first, _ in spans)
    assert all(end <= first for (_, end), (first, _) in itertools.pairwise(spans))


@pytest.mark.parametrize("sizes", [{"rows": 6}, {"items": 3}, {"rings": 2**20, "items": 2**12}])
def test_refuses_sizes_that_cannot_work(sizes):
    with pytest.raises(StretchError):
        make(**sizes)


def test_refuses_wide_values():
    with pytest.raises(StretchError, match="'wide' cannot be held"):
        make([Column("wide", np.complex128)])
