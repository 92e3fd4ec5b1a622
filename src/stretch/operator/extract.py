"""Compiled key extraction: a row's keys that belong to this worker, with their hashes and groups.

Each maker returns `extract(inputs, tables, mapping, worker, index, time, scratch, count) -> count`, which appends the
keys of row `index` to the scratch arrays from `count` on, or returns FULL and leaves them as they were. The hash of a
text was computed when it was interned; a worker looks it up, and drops what is not its own before any further work.
A list's keys are written first and counted if they are the worker's own: which of them are, no processor can foresee.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.native.hashing import group_of, hash_int, hash_next, with_hash
from stretch.native.jit import specialised

FULL: Final = -1
SCRATCH_KEYS: Final = 1 << 16

Extract = Callable[..., int]


class Scratch(NamedTuple):
    """A worker's own keys of the rows at hand, before they are looked up in the tables."""

    keys: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.int64]  # the second part of two-word keys
    groups: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    seen: npt.NDArray[np.uint64]  # bits of pairs that a row has had, by first occurrence of each word
    first: npt.NDArray[np.int64]  # for each word of a row, where it occurred first


def make_scratch() -> Scratch:
    """Allocate the scratch arrays of one worker."""
    arrays: list[Any] = [np.zeros(SCRATCH_KEYS, np.int64) for _ in range(5)]
    seen, first = np.zeros(SCRATCH_KEYS, np.uint64), np.zeros(SCRATCH_KEYS, np.int64)
    return Scratch._make([*arrays, seen, first])


def make_extract_ids(source: int, column: int, groups: int) -> Extract:
    """Keys are the texts of a list."""

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        row = inputs[source][column]
        start = np.int64(row.starts[index])
        length = np.int64(row.lengths[index])
        if count + length >= SCRATCH_KEYS:
            return FULL
        for item in range(start, start + length):
            key = np.int64(row.items[item])
            code = tables.hashes[key]
            group = group_of(code, groups)
            scratch.keys[count] = with_hash(key, code)
            scratch.groups[count] = group
            scratch.rows[count] = index
            count += mapping[group] == worker
        return count

    return extract


def make_extract_id(source: int, column: int, groups: int) -> Extract:
    """The key is one text."""

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        if count + 1 > SCRATCH_KEYS:
            return FULL
        key = np.int64(inputs[source][column][index])
        code = tables.hashes[key]
        group = group_of(code, groups)
        if mapping[group] == worker:
            scratch.keys[count] = with_hash(key, code)
            scratch.groups[count] = group
            scratch.rows[count] = index
            count += 1
        return count

    return extract


def make_extract_int(source: int, column: int, groups: int) -> Extract:
    """The key is one int."""

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        if count + 1 > SCRATCH_KEYS:
            return FULL
        key = np.int64(inputs[source][column][index])
        code = hash_int(key)
        group = group_of(code, groups)
        if mapping[group] == worker:
            scratch.keys[count] = key
            scratch.groups[count] = group
            scratch.rows[count] = index
            count += 1
        return count

    return extract


def make_extract_ints(source: int, column: int, groups: int, distinct: bool) -> Extract:
    """Keys are the ints of a list; with `distinct` each once, found by looking back, since lists are short."""

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        row = inputs[source][column]
        start = np.int64(row.starts[index])
        length = np.int64(row.lengths[index])
        if count + length >= SCRATCH_KEYS:
            return FULL
        first = count
        for item in range(start, start + length):
            key = row.items[item]
            code = hash_int(key)
            group = group_of(code, groups)
            if mapping[group] != worker:
                continue
            is_new = True
            if distinct:
                for before in range(first, count):
                    if scratch.keys[before] == key:
                        is_new = False
            if is_new:
                scratch.keys[count] = key
                scratch.groups[count] = group
                scratch.rows[count] = index
                count += 1
        return count

    return extract


def make_extract_nothing(groups: int) -> Extract:
    """There is one key for everything: the int 0 stands for the empty tuple, in the group of that tuple."""
    group_of_nothing = 0 % groups

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        if count + 1 > SCRATCH_KEYS:
            return FULL
        if mapping[group_of_nothing] == worker:
            scratch.keys[count] = 0
            scratch.groups[count] = group_of_nothing
            scratch.rows[count] = index
            count += 1
        return count

    return extract


def make_extract_pairs(source: int, column: int, distance: int | None, groups: int, distinct: bool) -> Extract:
    """Keys are pairs of words of a list, never stored as such: two ids in one word, hashed on the fly.

    A pair repeats in a row only if its words do. `first[i]` is where word i occurred first; the pair (i, j) was had
    before iff the bit (first[i], first[j]) is set.
    """
    reach = SCRATCH_KEYS if distance is None else distance

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        row = inputs[source][column]
        start = np.int64(row.starts[index])
        length = np.int64(row.lengths[index])
        words = (length + 63) >> 6
        if count + length * min(length, reach) >= SCRATCH_KEYS or length * words > SCRATCH_KEYS:
            return FULL
        items = row.items
        if distinct:
            for i in range(length):
                scratch.first[i] = i
                for before in range(i):
                    if items[start + before] == items[start + i]:
                        scratch.first[i] = before
                        break
            for word in range(length * words):
                scratch.seen[word] = 0
        for i in range(length):
            left = np.int64(items[start + i])
            begun = hash_next(2, tables.hashes[left])
            for j in range(i + 1, min(length, i + 1 + reach)):
                right = np.int64(items[start + j])
                code = hash_next(begun, tables.hashes[right])
                group = group_of(code, groups)
                is_own = mapping[group] == worker
                if distinct:
                    other = scratch.first[j]
                    word = scratch.first[i] * words + (other >> 6)
                    bit = np.uint64(1) << np.uint64(other & 63)
                    is_own &= scratch.seen[word] & bit == 0
                    scratch.seen[word] |= bit
                scratch.keys[count] = right << 32 | left
                scratch.groups[count] = group
                scratch.rows[count] = index
                count += is_own
        return count

    return extract


def make_extract_every_group(groups: int) -> Extract:
    """Keys are the ints from 0 to groups - 1, each its own group: every tuple goes to every group."""

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        if count + groups > SCRATCH_KEYS:
            return FULL
        for group in range(groups):
            if mapping[group] == worker:
                scratch.keys[count] = group
                scratch.groups[count] = group
                scratch.rows[count] = index
                count += 1
        return count

    return extract


def make_extract_function(build: Any, keys: Any, to_words: Any, groups: int, distinct: bool) -> Extract:
    """Keys are what a function of the user yields; `build` makes the tuple it sees, `to_words` hashes a key."""

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        first = count
        for made in keys(build(inputs, index, time)):
            key, second, code = to_words(tables, made)
            group = group_of(code, groups)
            if mapping[group] != worker:
                continue
            is_new = True
            if distinct:
                for before in range(first, count):
                    if scratch.keys[before] == key and scratch.seconds[before] == second:
                        is_new = False
            if is_new:
                if count == SCRATCH_KEYS:
                    return FULL
                scratch.keys[count] = key
                scratch.seconds[count] = second
                scratch.groups[count] = group
                scratch.rows[count] = index
                count += 1
        return count

    return extract


def make_extract_one(build: Any, keys: Any, to_words: Any, groups: int) -> Extract:
    """The key is what a function of the user returns."""

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        if count == SCRATCH_KEYS:
            return FULL
        key, second, code = to_words(tables, keys(build(inputs, index, time)))
        group = group_of(code, groups)
        if mapping[group] == worker:
            scratch.keys[count] = key
            scratch.seconds[count] = second
            scratch.groups[count] = group
            scratch.rows[count] = index
            count += 1
        return count

    return extract
