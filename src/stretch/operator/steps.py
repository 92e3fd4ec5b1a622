"""Compiled aggregates: what a tuple does to an entry, how two panes' entries merge, and the row that an entry gives.

A reduction's state is `[count, value]` (only `[count]` where that is all). Each maker returns one kernel that does its
part and calls the next, so that a whole aggregate compiles to one straight piece of code.

    step(inputs, tables, at, index, time)      a tuple's values go into the entry at `at`
    merge(tables, at, other)                   the entry at `other`, of a later pane, goes into the one at `at`
    write(outs, tables, at, out)               the results of the entry go into row `out` of the output

Sums of floats are added pane by pane, as `stretch.operator.reduction` defines them; the first of several NaNs wins,
NaN is above every other number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from stretch.native.jit import kernel, specialised

Step = Callable[..., None]

FIRST: Final = 1  # added to the count of first/last: how often anything came; the value's validity is the low bit


@kernel
def step_nothing(inputs: Any, tables: Any, at: int, index: int, time: int) -> None:
    """End a chain of steps."""


@kernel
def merge_nothing(tables: Any, at: int, other: int) -> None:
    """End a chain of merges."""


@kernel
def write_nothing(outs: Any, tables: Any, at: int, out: int) -> None:
    """End a chain of writes."""


def make_count(word: int, source: int, valid: int | None, following: Step) -> Step:
    """Count tuples, or those whose column is valid."""
    if valid is None:

        @specialised(inline=True)
        def step(inputs, tables, at, index, time):  # type: ignore[no-untyped-def]
            tables.heap[at + word] += 1
            following(inputs, tables, at, index, time)

        return step

    position = valid

    @specialised(inline=True)
    def step_valid(inputs, tables, at, index, time):  # type: ignore[no-untyped-def]
        tables.heap[at + word] += np.int64(inputs[source][position][index])
        following(inputs, tables, at, index, time)

    return step_valid


def make_accumulate(
    kind: str, word: int, source: int, column: int, valid: int, is_float: bool, following: Step
) -> Step:
    """Take a value into a sum, minimum, maximum, first or last."""
    combine = COMBINE[kind]

    @specialised(inline=True)
    def step_float(inputs, tables, at, index, time):  # type: ignore[no-untyped-def]
        if inputs[source][valid][index]:
            value = np.float64(inputs[source][column][index])
            tables.floats[at + word + 1] = combine(tables.floats[at + word + 1], value)
            tables.heap[at + word] += 1
        following(inputs, tables, at, index, time)

    @specialised(inline=True)
    def step_int(inputs, tables, at, index, time):  # type: ignore[no-untyped-def]
        if inputs[source][valid][index]:
            value = np.int64(inputs[source][column][index])
            tables.heap[at + word + 1] = combine(tables.heap[at + word + 1], value)
            tables.heap[at + word] += 1
        following(inputs, tables, at, index, time)

    return step_float if is_float else step_int


def make_keep(kind: str, word: int, source: int, column: int, valid: int, is_float: bool, following: Step) -> Step:
    """Keep the first or last value, null or not: state is `[1 + validity, value]`, 0 before any tuple."""
    keep_first = kind == "first"

    @specialised(inline=True)
    def step(inputs, tables, at, index, time):  # type: ignore[no-untyped-def]
        if not keep_first or tables.heap[at + word] == 0:
            tables.heap[at + word] = 1 + np.int64(inputs[source][valid][index])
            if is_float:
                tables.floats[at + word + 1] = np.float64(inputs[source][column][index])
            else:
                tables.heap[at + word + 1] = np.int64(inputs[source][column][index])
        following(inputs, tables, at, index, time)

    return step


def make_merge(kind: str, word: int, is_float: bool, following: Step) -> Step:
    """Merge a reduction's state of a later pane into that of an earlier one."""
    if kind == "count":

        @specialised(inline=True)
        def merge_count(tables, at, other):  # type: ignore[no-untyped-def]
            tables.heap[at + word] += tables.heap[other + word]
            following(tables, at, other)

        return merge_count
    if kind in ("first", "last"):
        keep_first = kind == "first"

        @specialised(inline=True)
        def merge_kept(tables, at, other):  # type: ignore[no-untyped-def]
            if not keep_first or tables.heap[at + word] == 0:
                tables.heap[at + word] = tables.heap[other + word]
                tables.heap[at + word + 1] = tables.heap[other + word + 1]
            following(tables, at, other)

        return merge_kept
    combine = COMBINE[kind]

    @specialised(inline=True)
    def merge_float(tables, at, other):  # type: ignore[no-untyped-def]
        if tables.heap[other + word] > 0:
            tables.floats[at + word + 1] = combine(tables.floats[at + word + 1], tables.floats[other + word + 1])
            tables.heap[at + word] += tables.heap[other + word]
        following(tables, at, other)

    @specialised(inline=True)
    def merge_int(tables, at, other):  # type: ignore[no-untyped-def]
        if tables.heap[other + word] > 0:
            tables.heap[at + word + 1] = combine(tables.heap[at + word + 1], tables.heap[other + word + 1])
            tables.heap[at + word] += tables.heap[other + word]
        following(tables, at, other)

    return merge_float if is_float else merge_int


def make_write(kind: str, word: int, out: int, is_float: bool, following: Step) -> Step:
    """Write a reduction's result to output array `out`, and its validity behind it."""
    if kind == "count":

        @specialised(inline=True)
        def write_count(outs, tables, at, index):  # type: ignore[no-untyped-def]
            outs[out][index] = tables.heap[at + word]
            following(outs, tables, at, index)

        return write_count
    kept, mean, valid = kind in ("first", "last"), kind == "mean", out + 1

    @specialised(inline=True)
    def write(outs, tables, at, index):  # type: ignore[no-untyped-def]
        count = tables.heap[at + word]
        outs[valid][index] = count > 1 if kept else count > 0
        if mean:
            total = tables.floats[at + word + 1] if is_float else np.float64(tables.heap[at + word + 1])
            outs[out][index] = total / count if count > 0 else 0.0
        elif is_float:
            outs[out][index] = tables.floats[at + word + 1]
        else:
            outs[out][index] = tables.heap[at + word + 1]
        following(outs, tables, at, index)

    return write


def make_write_key(word: int, out: int, following: Step) -> Step:
    """Write a key of one word."""

    @specialised(inline=True)
    def write(outs, tables, at, index):  # type: ignore[no-untyped-def]
        outs[out][index] = tables.heap[at + word]
        following(outs, tables, at, index)

    return write


def make_write_id_pair(out: int, following: Step) -> Step:
    """Write a key of two ids in one word."""
    second = out + 1

    @specialised(inline=True)
    def write(outs, tables, at, index):  # type: ignore[no-untyped-def]
        outs[out][index] = tables.heap[at] & 0xFFFFFFFF
        outs[second][index] = tables.heap[at] >> 32
        following(outs, tables, at, index)

    return write


@kernel
def write_no_value(outs: Any, made: Any, out: int) -> None:
    """End a chain of values."""


def make_write_value(position: int, is_tuple: bool, following: Step) -> Step:
    """Write one value of a row that a function of the user yielded: `write(outs, made, index)`."""
    if is_tuple:

        @specialised(inline=True)
        def write_part(outs, made, index):  # type: ignore[no-untyped-def]
            outs[position][index] = made[position]
            following(outs, made, index)

        return write_part

    @specialised(inline=True)
    def write_whole(outs, made, index):  # type: ignore[no-untyped-def]
        outs[position][index] = made

    return write_whole


def make_update(update: Any, build: Any, entry_words: int) -> Step:
    """Call the user's `update` on the record of an entry and the tuple."""

    @specialised(inline=True)
    def step(inputs, tables, at, index, time):  # type: ignore[no-untyped-def]
        update(tables.records[at // entry_words], build(inputs, index, time))

    return step


@kernel(inline=True)
def _add(total: Any, value: Any) -> Any:
    return total + value


@kernel(inline=True)
def _smaller(least: Any, value: Any) -> Any:
    return value if value < least or (least != least and value == value) else least


@kernel(inline=True)
def _larger(most: Any, value: Any) -> Any:
    return value if value > most or (value != value and most == most) else most


COMBINE: Final = {"sum": _add, "mean": _add, "min": _smaller, "max": _larger}

_INT64: Final = np.iinfo(np.int64)


def initial_words(kind: str, is_float: bool) -> list[int]:
    """Return the state words that a new entry starts with."""
    if kind == "count":
        return [0]
    if kind not in ("min", "max"):
        return [0, 0]  # the bits of 0.0 are 0 too
    if is_float:
        # Above every number stands NaN, so a minimum starts there; below every number -inf.
        start = np.array([np.nan if kind == "min" else -np.inf])
        return [0, int(start.view(np.int64)[0])]
    return [0, int(_INT64.max if kind == "min" else _INT64.min)]
