"""The `t` of compiled functions: built from the columns that they use, as the reference engine builds its own.

Numbers are 64 bits wide, whatever the column is; one that may be null is None where it is. A text is a `Text`, a list
of texts a `TextList`, a list of numbers an array. What no function looks at is not stored.
"""

from __future__ import annotations

import dis
from collections import namedtuple
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numba import types

from stretch.native.jit import specialised
from stretch.native.text import TEXT, TEXT_LIST, make_text, make_text_list
from stretch.operator.columns import Form, Layout, dtype_of
from stretch.operator.fingerprint import names_used
from stretch.operator.plan import Stream
from stretch.schema import Type

Build = Callable[..., Any]


class Tuples(NamedTuple):
    """How kernels build the `t` that functions see, `build(inputs, tables, index, time)`, and its type."""

    build: Build
    type: Any


def compile_tuples(stream: Stream, layout: Layout, functions: list[tuple[Callable[..., Any], int]]) -> Tuples:
    """Make the builder of `t` for functions, each with the place of `t` among its arguments."""
    is_whole = any(uses_whole(function, place) for function, place in functions)
    used = names_used(*(function for function, _ in functions))
    columns = [(name, type_) for name, type_ in stream.schema.columns if is_whole or name in used]
    names, parts = ["timestamp"], [_time]
    kinds: list[Any] = [types.int64]
    for name, type_ in columns:
        part, kind = _compile_field(stream.index, name, type_, layout)
        names.append(name)
        parts.append(part)
        kinds.append(kind)
    number = np.int64(stream.index)
    if not is_whole:
        for name, part in ((stream.time, _time), ("input", _constant(number))):
            if name in used and name not in names:
                names.append(name)
                parts.append(part)
                kinds.append(types.int64)
    tuple_type: Any = namedtuple("Tuple", names, rename=True)  # type: ignore[misc]
    rest = chain(parts)

    @specialised
    def build(inputs, tables, index, time):  # type: ignore[no-untyped-def]
        return tuple_type(*rest(inputs, tables, index, time))

    return Tuples(build, types.NamedTuple(kinds, tuple_type))


def compile_values(stream: Stream, layout: Layout, names: tuple[str, ...]) -> Tuples:
    """Make the builder of a plain tuple of columns."""
    fields = [_compile_field(stream.index, name, stream.schema[name], layout) for name in names]
    return Tuples(chain([part for part, _ in fields]), types.Tuple([kind for _, kind in fields]))


def uses_whole(function: Callable[..., Any], place: int) -> bool:
    """Tell whether a function does more with an argument than read attributes: then it needs all of them."""
    code = getattr(function, "__code__", None)
    if code is None or place >= code.co_argcount:
        return True
    name = code.co_varnames[place]
    if name in code.co_cellvars:
        return True
    steps = list(dis.get_instructions(code))
    for step, following in pairwise(steps):
        loaded = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        if step.opname.startswith("LOAD_FAST") and name in loaded:
            is_read = following.opname in ("LOAD_ATTR", "LOAD_METHOD") and loaded[-1] == name
            if not is_read or name in loaded[:-1]:
                return True
    return False


def chain(parts: list[Build]) -> Build:
    """Join builders of one-element tuples into one builder."""
    joined = _nothing
    for part in reversed(parts):
        joined = _join(part, joined)
    return joined


def _join(part: Build, rest: Build) -> Build:
    @specialised
    def build(inputs, tables, index, time):  # type: ignore[no-untyped-def]
        return part(inputs, tables, index, time) + rest(inputs, tables, index, time)

    return build


@specialised
def _nothing(inputs, tables, index, time):  # type: ignore[no-untyped-def]
    return ()


@specialised
def _time(inputs, tables, index, time):  # type: ignore[no-untyped-def]
    return (time,)


def _constant(number: Any) -> Build:
    @specialised
    def constant(inputs, tables, index, time):  # type: ignore[no-untyped-def]
        return (number,)

    return constant


def _compile_field(source: int, name: str, type_: Type, layout: Layout) -> tuple[Build, Any]:
    """Return the builder of one field of `t`, and its type."""
    if type_.is_list:
        return _compile_list(source, name, type_, layout)
    if type_.name == "string":
        position = layout.position(name, Form.ID, np.int32)

        @specialised
        def text(inputs, tables, index, time):  # type: ignore[no-untyped-def]
            number = np.int64(inputs[source][position][index])
            return (make_text(number, tables.texts[0], tables.texts[1]),)

        return text, TEXT
    position = layout.position(name, Form.VALUE, dtype_of(type_))
    valid = layout.position(name, Form.VALID, np.uint8)
    wide: Any = np.float64 if type_.is_float else np.bool_ if type_.name == "boolean" else np.int64

    @specialised
    def number_or_none(inputs: Any, index: int) -> Any:
        if inputs[source][valid][index] == 0:
            return None
        return wide(inputs[source][position][index])

    @specialised
    def value(inputs, tables, index, time):  # type: ignore[no-untyped-def]
        return (number_or_none(inputs, index),)

    kind = types.float64 if type_.is_float else types.boolean if type_.name == "boolean" else types.int64
    return value, types.Optional(kind)


def _compile_list(source: int, name: str, type_: Type, layout: Layout) -> tuple[Build, Any]:
    if type_.name == "string":
        position = layout.position(name, Form.IDS, np.int32)

        @specialised
        def texts(inputs, tables, index, time):  # type: ignore[no-untyped-def]
            column = inputs[source][position]
            items = np.int64(column.items.ctypes.data) + 4 * np.int64(column.starts[index])
            return (make_text_list(items, np.int64(column.lengths[index]), tables.texts[0], tables.texts[1]),)

        return texts, TEXT_LIST
    dtype = np.float64 if type_.name in ("float", "double") else np.int64
    position = layout.position(name, Form.VALUES, dtype)

    @specialised
    def numbers(inputs, tables, index, time):  # type: ignore[no-untyped-def]
        column = inputs[source][position]
        start = column.starts[index]
        return (column.items[start : start + column.lengths[index]],)

    return numbers, types.Array(types.float64 if dtype == np.float64 else types.int64, 1, "C")
