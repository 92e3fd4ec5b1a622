"""Rows that functions make, compiled: what a function may return, and how its values go into columns or are held.

A function yields rows, or returns one row or None. A row is a tuple with a value per column, or the only value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import types

from stretch.errors import DefinitionError
from stretch.native.jit import specialised
from stretch.native.optional import without_none
from stretch.native.text import TEXT, number_of
from stretch.operator.columns import Result
from stretch.operator.spec import where_of
from stretch.schema import Schema, Type


class Rows(NamedTuple):
    """A function that yields rows when called: the types of their values, and whether a row is a tuple."""

    function: Any
    kinds: tuple[Any, ...]
    is_tuple: bool


def compile_rows(compiled: Any, made: Any, function: Any, role: str, schema: Schema, operator: str) -> Rows | None:
    """Return the rows that a compiled function makes, given the type of what it returns; None if it makes none."""
    if isinstance(made, types.NoneType):
        return None
    row = made.yield_type if isinstance(made, types.Generator) else getattr(made, "type", made)
    if not isinstance(made, types.Generator) and not isinstance(row, types.BaseTuple):
        raise DefinitionError(
            f"{operator}: {role} does not yield rows",
            where=where_of(function),
            why=f"it returns {made}",
            do="write `yield w.key, w.count` (rows are yielded, so that there may be none or many)",
        )
    is_tuple = isinstance(row, types.BaseTuple)
    kinds: tuple[Any, ...] = tuple(getattr(row, "types", (row,)))
    columns = [type_ for _, type_ in schema.columns]
    if len(kinds) != len(columns) or not all(map(_fits, kinds, columns)):
        raise DefinitionError(
            f"{operator}: {role} yields {row}",
            where=where_of(function),
            why=f"the schema has the types {', '.join(map(str, columns))}",
            do=f"make {role} yield one value per column and of its type, or correct the schema",
        )
    return Rows(compiled if isinstance(made, types.Generator) else _as_rows(compiled), kinds, is_tuple)


def _as_rows(compiled: Any) -> Any:
    @specialised
    def rows(*arguments):  # type: ignore[no-untyped-def]
        made = compiled(*arguments)
        if made is not None:
            yield without_none(made)

    return rows


def _fits(found: Any, declared: Type) -> bool:
    if isinstance(found, types.NoneType):
        return True
    found = found.type if isinstance(found, types.Optional) else found
    if declared.is_list:
        return False
    if declared.name == "string":
        return bool(found == TEXT)
    if declared.name == "boolean":
        return isinstance(found, types.Boolean)
    if declared.is_float:
        return isinstance(found, (types.Float, types.Integer, types.Boolean))
    if declared.is_timestamp:
        return isinstance(found, types.Integer)
    return isinstance(found, (types.Integer, types.Boolean))


def _may_be_none(kind: Any) -> bool:
    return kind != TEXT and isinstance(kind, (types.Optional, types.NoneType))


def result_columns(schema: Schema, makers: Sequence[Rows]) -> tuple[Result, ...]:
    """Return the columns of the results; texts say themselves if they are None."""
    return tuple(
        Result(name, type_, type_.name != "string" and any(_may_be_none(rows.kinds[place]) for rows in makers))
        for place, (name, type_) in enumerate(schema.columns)
    )


# --- writing: `write(outs, made, index)` puts a row into columns, `hold(tables, made, at)` into words


@specialised
def _write_nothing(outs, made, index):  # type: ignore[no-untyped-def]
    return


def compile_write(rows: Rows, results: Sequence[Result]) -> Callable[..., None]:
    """Return how a row goes into the columns of the output."""
    write, out = _write_nothing, sum(len(result.arrays()) for result in results)
    for place in reversed(range(len(results))):
        result = results[place]
        out -= len(result.arrays())
        write = _write_value(place, rows, result, out, write)
    return write


def _taker(place: int, rows: Rows) -> Callable[..., Any]:
    """Return how a value is taken from a row."""
    if not rows.is_tuple:
        return _whole

    @specialised
    def part(made):  # type: ignore[no-untyped-def]
        return made[place]

    return part


@specialised
def _whole(made):  # type: ignore[no-untyped-def]
    return made


def _plain_of(kind: Any, type_: Type) -> Callable[..., Any]:
    """Return how a value that is there becomes what a column holds."""
    if type_.name == "string":
        return _text_number
    wide: Any = np.float64 if type_.is_float else np.bool_ if type_.name == "boolean" else np.int64

    @specialised
    def number(value):  # type: ignore[no-untyped-def]
        return wide(value)

    return number


@specialised
def _text_number(value):  # type: ignore[no-untyped-def]
    return number_of(value)


def _write_value(place: int, rows: Rows, result: Result, out: int, following: Any) -> Any:
    take, plain, kind = _taker(place, rows), _plain_of(rows.kinds[place], result.type), rows.kinds[place]
    valid, is_nullable = out + 1, result.nullable

    @specialised
    def write_none(outs, made, index):  # type: ignore[no-untyped-def]
        outs[out][index] = 0
        if is_nullable:
            outs[valid][index] = 0
        following(outs, made, index)

    @specialised
    def write_present(outs, made, index):  # type: ignore[no-untyped-def]
        outs[out][index] = plain(take(made))
        if is_nullable:
            outs[valid][index] = 1
        following(outs, made, index)

    @specialised
    def write_optional(outs, made, index):  # type: ignore[no-untyped-def]
        value = take(made)
        outs[out][index] = 0
        if value is not None:
            outs[out][index] = plain(without_none(value))
        if is_nullable:
            outs[valid][index] = 1 if value is not None else 0
        following(outs, made, index)

    if isinstance(kind, types.NoneType):
        return write_none
    return write_optional if isinstance(kind, types.Optional) else write_present


@specialised
def _hold_nothing(tables, made, at):  # type: ignore[no-untyped-def]
    return


def compile_hold(rows: Rows, results: Sequence[Result]) -> Callable[..., None]:
    """Return how a row goes into words of the heap: one for each array of the output."""
    hold, word = _hold_nothing, sum(len(result.arrays()) for result in results)
    for place in reversed(range(len(results))):
        result = results[place]
        word -= len(result.arrays())
        hold = _hold_value(place, rows, result, word, hold)
    return hold


def _hold_value(place: int, rows: Rows, result: Result, word: int, following: Any) -> Any:
    take, plain, kind = _taker(place, rows), _plain_of(rows.kinds[place], result.type), rows.kinds[place]
    is_nullable, is_float = result.nullable, result.type.is_float

    @specialised
    def put(tables: Any, value: Any, at: int) -> None:
        if is_float:
            tables.floats[at + word] = plain(value)
        else:
            tables.heap[at + word] = plain(value)

    @specialised
    def hold_none(tables, made, at):  # type: ignore[no-untyped-def]
        tables.heap[at + word] = 0
        if is_nullable:
            tables.heap[at + word + 1] = 0
        following(tables, made, at)

    @specialised
    def hold_present(tables, made, at):  # type: ignore[no-untyped-def]
        put(tables, take(made), at)
        if is_nullable:
            tables.heap[at + word + 1] = 1
        following(tables, made, at)

    @specialised
    def hold_optional(tables, made, at):  # type: ignore[no-untyped-def]
        value = take(made)
        tables.heap[at + word] = 0
        if value is not None:
            put(tables, without_none(value), at)
        if is_nullable:
            tables.heap[at + word + 1] = 1 if value is not None else 0
        following(tables, made, at)

    if isinstance(kind, types.NoneType):
        return hold_none
    return hold_optional if isinstance(kind, types.Optional) else hold_present


def compile_release(results: Sequence[Result]) -> Callable[..., None]:
    """Return how the words of a held row go into the columns of the output: `write(outs, tables, at, index)`."""
    write = _release_nothing
    arrays = [dtype for result in results for _, dtype in result.arrays()]
    for word in reversed(range(len(arrays))):
        write = _release_word(word, np.issubdtype(arrays[word], np.floating), write)
    return write


@specialised
def _release_nothing(outs, tables, at, index):  # type: ignore[no-untyped-def]
    return


def _release_word(word: int, is_float: bool, following: Any) -> Any:
    @specialised
    def release(outs, tables, at, index):  # type: ignore[no-untyped-def]
        if is_float:
            outs[word][index] = tables.floats[at + word]
        else:
            outs[word][index] = tables.heap[at + word]
        following(outs, tables, at, index)

    return release
