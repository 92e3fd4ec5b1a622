"""The `w` of compiled functions: the state of an entry as fields, one word each, behind its key (and held rows)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types

from stretch.native.instance import Field, InstanceType, instance_maker
from stretch.native.jit import specialised
from stretch.operator.compile_keys import Key
from stretch.schema import Schema, Type

_BITS = {"byte": 8, "short": 16, "int": 32, "float": 32}


class Instances(NamedTuple):
    """How kernels build what functions see as `w`: `make(tables, at, left, right)`, an instance per input."""

    make: Callable[..., Any]
    type: Any
    words: int  # of the state of all inputs
    is_empty: Callable[..., bool]


def compile_instances(key: Key, state: Schema | None, inputs: int, first: int) -> Instances:
    """Lay out the state of so many inputs, which begins at word `first` of an entry."""
    columns = () if state is None else state.columns
    fields = tuple(_field(name, word, type_) for word, (name, type_) in enumerate(columns))
    kind = InstanceType(fields, key.type)
    make_one, load_key = instance_maker(kind), key.load
    words = len(fields)

    is_empty = _make_is_empty(fields * inputs, first)
    ones = [_make_one(make_one, load_key, first + number * words) for number in range(inputs)]
    if inputs == 1:
        return Instances(ones[0], kind, words, is_empty)
    make = _no_instance
    for one in reversed(ones):
        make = _join(one, make)
    return Instances(make, types.UniTuple(kind, inputs), words * inputs, is_empty)


def _make_one(make: Callable[..., Any], load_key: Callable[..., Any], first: int) -> Callable[..., Any]:
    @specialised
    def make_one(tables, at, left, right):  # type: ignore[no-untyped-def]
        address = np.int64(tables.heap.ctypes.data) + 8 * (at + first)
        return make(address, left, right, load_key(tables, at))

    return make_one


def _field(name: str, word: int, type_: Type) -> Field:
    kind = "bool" if type_.name == "boolean" else "float" if type_.is_float else "int"
    return Field(name, word, kind, _BITS.get(type_.name, 64))


@specialised
def _no_instance(tables, at, left, right):  # type: ignore[no-untyped-def]
    return ()


def _join(one: Callable[..., Any], rest: Callable[..., Any]) -> Callable[..., Any]:
    @specialised
    def make(tables, at, left, right):  # type: ignore[no-untyped-def]
        return (one(tables, at, left, right), *rest(tables, at, left, right))

    return make


def _make_is_empty(fields: tuple[Field, ...], first: int) -> Callable[..., bool]:
    """Return how to tell that the state is what it was in the beginning: zeros, of either sign."""
    is_empty = _nothing_left
    for word, field in enumerate(fields, first):
        is_empty = _and_zero(word, field.kind == "float", is_empty)
    return is_empty


@specialised
def _nothing_left(tables, at):  # type: ignore[no-untyped-def]
    return True


def _and_zero(word: int, is_float: bool, following: Callable[..., bool]) -> Callable[..., bool]:
    @specialised
    def is_zero(tables, at):  # type: ignore[no-untyped-def]
        value = tables.floats[at + word] if is_float else tables.heap[at + word]
        return value == 0 and following(tables, at)

    return is_zero
