"""Functions of the user, compiled one by one before anything starts, so that an error names the function at fault.

Compiled functions see the same `t` and `w` as in the reference engine, with two differences that types make visible:
a text is its interned id (an int32, so it can be passed on and compared, and be a key), and there is no None.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numba
import numpy as np
from numba import types
from numba.core.errors import NumbaError

from stretch.errors import DefinitionError
from stretch.native.hashing import hash_int, hash_next, with_hash
from stretch.native.jit import JIT_ENABLED, specialised, user_function
from stretch.operator.columns import Form, Layout, dtype_of
from stretch.operator.plan import Stream
from stretch.operator.spec import where_of
from stretch.schema import Type
from stretch.windows.layout import KEY_ID, KEY_ID_PAIR, KEY_INT, KEY_INT_PAIR

_HINTS = (
    ("len", "text cannot be measured or cut in a compiled function; add a column with its length to the input"),
    ("unknown attribute", "read only columns of the input, and key and state fields of the window"),
    ("Untyped global name", "use only numbers, functions and modules that Numba knows, passed in as closure or global"),
    ("NRT required", "do not build lists, sets, dicts or arrays; yield keys and rows one by one"),
    ("unicode", "text is an int id in compiled functions; compare it with another text column only"),
)


class TupleView(NamedTuple):
    """How kernels build the `t` that functions see, and a sample of it for type inference."""

    build: Callable[..., Any]
    sample: Any


class CompiledKeys(NamedTuple):
    """A keys function: what kind of key it makes, and how kernels take a key apart."""

    kind: int
    function: Any
    to_words: Callable[..., Any]
    is_generator: bool


def compile_view(stream: Stream, layout: Layout, used: set[str]) -> TupleView:
    """Make the builder of `t` with the columns that functions use."""
    fields, parts, samples = ["timestamp"], [], [np.int64(0)]
    for name, type_ in stream.schema.columns:
        if name not in used:
            continue
        part, sample = _compile_field(stream.index, name, type_, layout)
        fields.append(name)
        parts.append(part)
        samples.append(sample)
    if stream.time in used and stream.time not in fields:
        fields.append(stream.time)
        parts.append(_time_again)
        samples.append(np.int64(0))
    tuple_type = namedtuple("Tuple", fields)  # type: ignore[misc]
    rest, make_tuple = _chain(parts), cast("Any", tuple_type)

    @specialised
    def build(inputs, index, time):  # type: ignore[no-untyped-def]
        return make_tuple(time, *rest(inputs, index, time))

    return TupleView(build, make_tuple(*samples))


@specialised
def _time_again(inputs, index, time):  # type: ignore[no-untyped-def]
    return (time,)


@specialised
def _no_more(inputs, index, time):  # type: ignore[no-untyped-def]
    return ()


def _chain(parts: list[Callable[..., Any]]) -> Callable[..., Any]:
    """Join builders of one-element tuples into one builder."""
    joined = _no_more
    for part in reversed(parts):
        joined = _join(part, joined)
    return joined


def _join(part: Callable[..., Any], rest: Callable[..., Any]) -> Callable[..., Any]:
    @specialised
    def build(inputs, index, time):  # type: ignore[no-untyped-def]
        return part(inputs, index, time) + rest(inputs, index, time)

    return build


def _compile_field(source: int, name: str, type_: Type, layout: Layout) -> tuple[Callable[..., Any], Any]:
    """Return the builder of one field of `t`, and a sample value."""
    if type_.is_list:
        is_text = type_.name == "string"
        wide = np.float64 if type_.name in ("float", "double") else np.int64
        dtype = np.int32 if is_text else wide
        position = layout.position(name, Form.IDS if is_text else Form.VALUES, dtype)

        @specialised
        def list_field(inputs, index, time):  # type: ignore[no-untyped-def]
            column = inputs[source][position]
            start = column.starts[index]
            return (column.items[start : start + column.lengths[index]],)

        return list_field, np.zeros(1, dtype)
    if type_.name == "string":
        position = layout.position(name, Form.ID, np.int32)

        @specialised
        def id_field(inputs, index, time):  # type: ignore[no-untyped-def]
            return (inputs[source][position][index],)

        return id_field, np.int32(0)
    position = layout.position(name, Form.VALUE, dtype_of(type_))
    if type_.is_integer or type_.is_float:
        # As the reference engine computes: at full width, whatever the column is.
        wide = np.int64 if type_.is_integer else np.float64

        @specialised
        def number_field(inputs, index, time):  # type: ignore[no-untyped-def]
            return (wide(inputs[source][position][index]),)

        return number_field, wide(0)
    return _plain_field(source, position), dtype_of(type_)(0)


def _plain_field(source: int, position: int) -> Callable[..., Any]:
    @specialised
    def field(inputs, index, time):  # type: ignore[no-untyped-def]
        return (inputs[source][position][index],)

    return field


def compile_keys(function: Callable[..., Any], view: TupleView, operator: str) -> CompiledKeys:
    """Compile a keys function and find out what kind of key it makes."""
    compiled = user_function(function)
    made = _return_type(compiled, function, (view.sample,), "keys", operator)
    is_generator = isinstance(made, types.Generator)
    key: Any = made.yield_type if is_generator else made
    parts = list(key.types) if _is_tuple(key) else [key]
    kinds = [KEY_ID if part == types.int32 else KEY_INT if isinstance(part, types.Integer) else None for part in parts]
    if None in kinds or len(parts) > 2 or len(set(kinds)) != 1:
        raise DefinitionError(
            f"{operator}: keys makes {key}",
            where=where_of(function),
            why="compiled keys are an int, a text column's value, or a pair of either",
            do='yield such keys, or pass engine="python" to stretch.setup',
        )
    kind = kinds[0] if len(parts) == 1 else KEY_ID_PAIR if kinds[0] == KEY_ID else KEY_INT_PAIR
    assert kind is not None
    return CompiledKeys(kind, compiled, _TO_WORDS[kind], is_generator)


@specialised
def _int_to_words(tables, made):  # type: ignore[no-untyped-def]
    key = np.int64(made)
    return key, 0, hash_int(key)


@specialised
def _id_to_words(tables, made):  # type: ignore[no-untyped-def]
    code = tables.hashes[np.int64(made)]
    return with_hash(np.int64(made), code), 0, code


@specialised
def _id_pair_to_words(tables, made):  # type: ignore[no-untyped-def]
    left, right = np.int64(made[0]), np.int64(made[1])
    return right << 32 | left, 0, hash_next(hash_next(2, tables.hashes[left]), tables.hashes[right])


@specialised
def _int_pair_to_words(tables, made):  # type: ignore[no-untyped-def]
    left, right = np.int64(made[0]), np.int64(made[1])
    return left, right, hash_next(hash_next(2, hash_int(left)), hash_int(right))


_TO_WORDS: dict[int, Callable[..., Any]] = {
    KEY_INT: _int_to_words,
    KEY_ID: _id_to_words,
    KEY_ID_PAIR: _id_pair_to_words,
    KEY_INT_PAIR: _int_pair_to_words,
}


def _is_tuple(made: Any) -> bool:
    return isinstance(made, types.BaseTuple)


def compile_update(function: Callable[..., Any], record: Any, view: TupleView, operator: str) -> Any:
    """Compile `update(w, t)`; it changes the record and returns nothing."""
    compiled = user_function(function)
    made = _return_type(compiled, function, (record, view.sample), "update", operator)
    if not isinstance(made, types.NoneType):
        raise DefinitionError(
            f"{operator}: update makes {made}",
            where=where_of(function),
            why="rows that are made while a window is open cannot be compiled yet",
            do='report them from output, or pass engine="python" to stretch.setup',
        )
    return compiled


def compile_match(function: Callable[..., Any], left: TupleView, right: TupleView, operator: str) -> Any:
    """Compile `match(l, r)`; it tells whether two tuples belong together."""
    compiled = user_function(function)
    made = _return_type(compiled, function, (left.sample, right.sample), "match", operator)
    if not isinstance(made, (types.Boolean, types.Integer, types.Float)):
        raise DefinitionError(
            f"{operator}: match makes {made}",
            where=where_of(function),
            why="it says whether two tuples belong together, true or false",
            do="return the value of a comparison on every way through the function",
        )
    return compiled


def compile_output(function: Callable[..., Any], record: Any, columns: list[Type], operator: str) -> tuple[Any, bool]:
    """Compile `output(w)` and compare what it yields with the schema; tell whether a row is a tuple."""
    compiled = user_function(function)
    made = _return_type(compiled, function, (record,), "output", operator)
    if not isinstance(made, types.Generator):
        raise DefinitionError(
            f"{operator}: output does not yield rows",
            where=where_of(function),
            why=f"it returns {made}",
            do="write `yield w.key, w.count` (rows are yielded, so that there may be none or many)",
        )
    return compiled, _check_row(made.yield_type, "output yields", function, columns, operator)


def compile_pair_output(
    function: Callable[..., Any], left: TupleView, right: TupleView, columns: list[Type], operator: str
) -> tuple[Any, bool]:
    """Compile `output(l, r)` of a join and compare what it returns with the schema; tell whether it is a tuple."""
    compiled = user_function(function)
    made = _return_type(compiled, function, (left.sample, right.sample), "output", operator)
    return compiled, _check_row(made, "output makes", function, columns, operator)


def _check_row(row: Any, makes: str, function: Callable[..., Any], columns: list[Type], operator: str) -> bool:
    """Compare the type of a row with the schema; tell whether it is a tuple."""
    parts = list(row.types) if _is_tuple(row) else [row]
    if len(parts) != len(columns) or not all(map(_fits, parts, columns)):
        raise DefinitionError(
            f"{operator}: {makes} {row}",
            where=where_of(function),
            why=f"the schema has the types {', '.join(map(str, columns))}",
            do="make output give one value per column and of its type, or correct the schema",
        )
    return bool(_is_tuple(row))


def _fits(found: Any, declared: Type) -> bool:
    if declared.is_float:
        return isinstance(found, (types.Float, types.Integer))
    if declared.name == "boolean":
        return bool(found == types.boolean)
    if declared.name == "string":
        return bool(found == types.int32)  # the id of a text
    return isinstance(found, types.Integer) or (found == types.boolean and declared.is_integer)


def _return_type(
    compiled: Any, function: Callable[..., Any], samples: tuple[Any, ...], role: str, operator: str
) -> Any:
    """Compile a function alone for these arguments and return the type of its result."""
    assert JIT_ENABLED, "the compiled engine needs Numba's JIT"
    signature = tuple(numba.typeof(sample) for sample in samples)
    try:
        compiled.compile(signature)
    except NumbaError as problem:
        text = str(problem)
        hint = next((hint for sign, hint in _HINTS if sign in text), None)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        reason = next((line for line in reversed(lines) if "Error" in line or "nknown" in line), lines[0])
        raise DefinitionError(
            f"{operator}: {role} cannot be compiled",
            where=where_of(function),
            why=reason.removeprefix("TypingError: "),
            do=hint or 'use what Numba compiles (numbers, tuples, loops), or pass engine="python" to stretch.setup',
        ) from problem
    return compiled.overloads[signature].signature.return_type
