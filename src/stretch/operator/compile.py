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
from stretch.native.jit import JIT_ENABLED, specialised, user_function
from stretch.operator.columns import Form, Layout, dtype_of
from stretch.operator.plan import Stream
from stretch.operator.spec import where_of
from stretch.schema import Type

_HINTS = (
    ("unknown attribute", "read only columns of the input, and the key, boundaries and state fields of the window"),
    ("Untyped global name", "use only numbers, functions and modules that Numba knows, passed in as closure or global"),
    ("NRT required", 'do not build lists, sets, dicts or arrays, or pass engine="python" to stretch.setup'),
    ("Text", 'compare texts, take their len() or use them as keys; for more, pass engine="python" to stretch.setup'),
    ("unicode", 'texts cannot be made in compiled functions; pass engine="python" to stretch.setup'),
)


class TupleView(NamedTuple):
    """How kernels build the `t` that functions see, and a sample of it for type inference."""

    build: Callable[..., Any]
    sample: Any


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


def compile_pair_output(
    function: Callable[..., Any], left: TupleView, right: TupleView, columns: list[Type], operator: str
) -> tuple[Any, bool]:
    """Compile `output(l, r)` of a join and compare what it returns with the schema; tell whether it is a tuple."""
    compiled = user_function(function)
    made = _return_type(compiled, function, (left.sample, right.sample), "output", operator)
    return compiled, _check_row(made, "output makes", function, columns, operator)


def _check_row(row: Any, makes: str, function: Callable[..., Any], columns: list[Type], operator: str) -> bool:
    """Compare the type of a row with the schema; tell whether it is a tuple."""
    parts = list(getattr(row, "types", (row,)))
    if len(parts) != len(columns) or not all(map(_fits, parts, columns)):
        raise DefinitionError(
            f"{operator}: {makes} {row}",
            where=where_of(function),
            why=f"the schema has the types {', '.join(map(str, columns))}",
            do="make output give one value per column and of its type, or correct the schema",
        )
    return bool(isinstance(row, types.BaseTuple))


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
    return compile_function(compiled, function, tuple(numba.typeof(sample) for sample in samples), role, operator)


def compile_function(
    compiled: Any, function: Callable[..., Any], signature: tuple[Any, ...], role: str, operator: str
) -> Any:
    """Compile a function alone for arguments of these types and return the type of its result, or say why not."""
    try:
        compiled.compile(signature)
    except NumbaError as problem:
        text = str(problem)
        hint = next((hint for sign, hint in _HINTS if sign in text), None)
        skipped = ("Failed in", "During:", "File ", "^")
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(skipped)]
        reason = next((line for line in reversed(lines) if "Error" in line or "nknown" in line), [*lines, text][0])
        raise DefinitionError(
            f"{operator}: {role} cannot be compiled",
            where=where_of(function),
            why=reason.removeprefix("TypingError: "),
            do=hint or 'use what Numba compiles (numbers, tuples, loops), or pass engine="python" to stretch.setup',
        ) from problem
    return compiled.overloads[signature].signature.return_type
