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
from stretch.windows.layout import NULL_INT

FULL: Final = -1
NO_GROUP: Final = -2  # a key is not the group that it should be
SCRATCH_KEYS: Final = 1 << 16
REST_WORDS: Final = 8

Extract = Callable[..., int]


class Scratch(NamedTuple):
    """A worker's own keys of the rows at hand, before they are looked up in the tables."""

    keys: npt.NDArray[np.int64]
    rest: npt.NDArray[np.int64]  # the other words of keys, REST_WORDS for each
    groups: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    inputs: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]  # of their entries in the log
    times: npt.NDArray[np.int64]
    seen: npt.NDArray[np.uint64]  # bits of pairs that a row has had, by first occurrence of each word
    first: npt.NDArray[np.int64]  # for each word of a row, where it occurred first


def make_scratch() -> Scratch:
    """Allocate the scratch arrays of one worker."""
    arrays = {name: np.zeros(SCRATCH_KEYS, np.int64) for name in Scratch._fields}
    arrays["rest"] = np.zeros(SCRATCH_KEYS * REST_WORDS, np.int64)
    return Scratch(**arrays | {"seen": np.zeros(SCRATCH_KEYS, np.uint64)})


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


def make_extract_int(source: int, column: int, valid: int | None, groups: int) -> Extract:
    """The key is one int; where it may be None (`valid` is a column), it is narrow enough for NULL_INT."""
    position = 0 if valid is None else valid

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        if count + 1 > SCRATCH_KEYS:
            return FULL
        key = np.int64(inputs[source][column][index])  # 0 where it is None, which has the same hash
        group = group_of(hash_int(key), groups)
        if mapping[group] == worker:
            if valid is not None and inputs[source][position][index] == 0:
                key = np.int64(NULL_INT)
            scratch.keys[count] = key
            scratch.groups[count] = group
            scratch.rows[count] = index
            count += 1
        return count

    return extract


def make_extract_ints(source: int, column: int, groups: int, distinct: bool, is_narrow: bool) -> Extract:
    """Keys are the ints of a list; with `distinct` each once, found by looking back, since lists are short.

    In narrow ones NULL_INT stands for None.
    """

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        row = inputs[source][column]
        start = np.int64(row.starts[index])
        length = np.int64(row.lengths[index])
        if count + length >= SCRATCH_KEYS:
            return FULL
        first = count
        for item in range(start, start + length):
            key = np.int64(row.items[item])
            code = hash_int(key)
            group = group_of(hash_int(np.int64(0)) if key == NULL_INT and is_narrow else code, groups)
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


def make_extract_function(build: Any, keys: Any, put: Any, key_words: int, groups: int, distinct: bool) -> Extract:
    """Keys are what a function of the user gives one after another; `put` writes a key and returns its hash."""
    is_had = _make_is_had(key_words)

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        first = count
        for made in keys(build(inputs, tables, index, time)):
            if count == SCRATCH_KEYS:
                return FULL
            group = group_of(put(tables, made, scratch, count), groups)
            if mapping[group] == worker and not (distinct and is_had(scratch, first, count)):
                scratch.groups[count] = group
                scratch.rows[count] = index
                count += 1
        return count

    return extract


def make_extract_groups(build: Any, keys: Any, groups: int, is_one: bool, distinct: bool) -> Extract:
    """Keys are ints that are their own groups, from a function of the user."""
    is_had = _make_is_had(1)

    @specialised
    def put_group(made, mapping, worker, index, scratch, first, count):  # type: ignore[no-untyped-def]
        group = np.int64(made)
        if group < 0 or group >= groups:
            return NO_GROUP
        scratch.keys[count] = group
        if mapping[group] == worker and not (distinct and is_had(scratch, first, count)):
            scratch.groups[count] = group
            scratch.rows[count] = index
            return count + 1
        return count

    @specialised(inline=True)
    def extract_many(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        first = count
        for made in keys(build(inputs, tables, index, time)):
            if count == SCRATCH_KEYS:
                return FULL
            count = put_group(made, mapping, worker, index, scratch, first, count)
            if count < 0:
                return count
        return count

    @specialised(inline=True)
    def extract_one(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        if count == SCRATCH_KEYS:
            return FULL
        made = keys(build(inputs, tables, index, time))
        return put_group(made, mapping, worker, index, scratch, count, count)

    return extract_one if is_one else extract_many


def _make_is_had(key_words: int) -> Any:
    @specialised
    def is_had(scratch, first, count):  # type: ignore[no-untyped-def]
        """Tell whether a row has had the key at `count` already, by looking back to its first one."""
        for before in range(first, count):
            is_same = scratch.keys[before] == scratch.keys[count]
            for word in range(key_words - 1):
                rest = scratch.rest[before * REST_WORDS + word] == scratch.rest[count * REST_WORDS + word]
                is_same = is_same and rest
            if is_same:
                return True
        return False

    return is_had


def make_extract_one(build: Any, keys: Any, put: Any, groups: int) -> Extract:
    """The key is what a function gives."""

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        if count == SCRATCH_KEYS:
            return FULL
        group = group_of(put(tables, keys(build(inputs, tables, index, time)), scratch, count), groups)
        if mapping[group] == worker:
            scratch.groups[count] = group
            scratch.rows[count] = index
            count += 1
        return count

    return extract


def make_extract_tuple(groups: int) -> Extract:
    """Every tuple has one owner, by its place in the order: what has no windows needs no keys."""

    @specialised(inline=True)
    def extract(inputs, tables, mapping, worker, index, time, scratch, count):  # type: ignore[no-untyped-def]
        if count == SCRATCH_KEYS:
            return FULL
        group = group_of(hash_int(index), groups)
        if mapping[group] == worker:
            scratch.rows[count] = index
            count += 1
        return count

    return extract
