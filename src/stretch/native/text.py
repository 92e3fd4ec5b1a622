"""Texts as compiled functions see them: a number, and where the dictionary that gave it has its records.

What
    A `Text` is three ints: the id of a text (0 is None) and the addresses of its dictionary's arrays. A `TextList` is a
    run of ids in a column. What can be done with them beyond passing them on (`len`, comparing) is registered by who
    knows what a dictionary looks like (`stretch.strings.compare`). Compiled only: Python functions see `str`.

Invariants
    T1  All texts of one operator are of one dictionary: equal texts have equal numbers.
    T2  A text is alive as long as the tuple or window that it was read from; nothing here keeps it.
"""

from __future__ import annotations

import operator
from typing import Any, Final

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.extending import models, register_model
from numba.core.imputils import RefType, iternext_impl, lower_builtin
from numba.cpython.unicode import _get_code_point

from stretch.native.jit import compiled_form_of, instruction


class TextType(types.Type):
    """The type of a text in compiled functions."""

    def __init__(self) -> None:
        super().__init__(name="Text")


TEXT: Final = TextType()


class TextIteratorType(types.SimpleIteratorType):  # type: ignore[misc,name-defined]
    """The type of an iterator over a list of texts."""

    def __init__(self) -> None:
        super().__init__("iterator(TextList)", TEXT)


class TextListType(types.SimpleIterableType):  # type: ignore[misc,name-defined]
    """The type of a column's list of texts in compiled functions."""

    def __init__(self) -> None:
        super().__init__("TextList", TextIteratorType())


TEXT_LIST: Final = TextListType()


@register_model(TextType)
class _TextModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, types.int64) for name in ("number", "records", "texts")])


@register_model(TextListType)
class _TextListModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        members = ("items", "length", "records", "texts")
        super().__init__(manager, kind, [(name, types.int64) for name in members])


@register_model(TextIteratorType)
class _TextIteratorModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("index", types.EphemeralPointer(types.int64)), ("list", TEXT_LIST)])


def _member(kind: Any, name: str) -> Any:
    """Return the function that reads a member of a value."""

    @instruction
    def read(_typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return getattr(cgutils.create_struct_proxy(kind)(context, builder, value=values[0]), name)

        return (types.int64(kind), generate) if value == kind else None

    return read


@instruction
def make_text(_typing: Any, number: Any, records: Any, texts: Any) -> Any:
    """Make a text."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        made = cgutils.create_struct_proxy(TEXT)(context, builder)
        made.number, made.records, made.texts = values
        return made._getvalue()

    return TEXT(types.int64, types.int64, types.int64), generate


@instruction
def make_text_list(_typing: Any, items: Any, length: Any, records: Any, texts: Any) -> Any:
    """Make a list of texts, of the address of its first id."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        made = cgutils.create_struct_proxy(TEXT_LIST)(context, builder)
        made.items, made.length, made.records, made.texts = values
        return made._getvalue()

    return TEXT_LIST(types.int64, types.int64, types.int64, types.int64), generate


code_point: Final[Any] = _get_code_point
"""`code_point(text, index)`: a character of a constant of Python, as a number."""


def is_plain_text(kind: Any) -> bool:
    """Tell whether a type is that of a constant of Python."""
    return isinstance(kind, (types.UnicodeType, types.StringLiteral))


number_of: Final = _member(TEXT, "number")
records_of: Final = _member(TEXT, "records")
texts_of: Final = _member(TEXT, "texts")
_length_of: Final = _member(TEXT_LIST, "length")


@instruction
def text_at(_typing: Any, texts: Any, index: Any) -> Any:
    """Return a text of a list, unchecked."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return _text_at(context, builder, *values)

    return TEXT(TEXT_LIST, types.int64), generate


@compiled_form_of(len)
def _length_form(texts: Any) -> Any:
    return (lambda texts: _length_of(texts)) if texts == TEXT_LIST else None


@compiled_form_of(operator.getitem)
def _item_form(texts: Any, index: Any) -> Any:
    if texts != TEXT_LIST or not isinstance(index, types.Integer):
        return None

    def item(texts, index):  # type: ignore[no-untyped-def]
        length = _length_of(texts)
        place = index + length if index < 0 else index
        if place < 0 or place >= length:
            raise IndexError("list index out of range")
        return text_at(texts, place)

    return item


def _text_at(context: Any, builder: Any, texts: Any, index: Any) -> Any:
    whole = cgutils.create_struct_proxy(TEXT_LIST)(context, builder, value=texts)
    items = builder.inttoptr(whole.items, ir.IntType(32).as_pointer())
    made = cgutils.create_struct_proxy(TEXT)(context, builder)
    made.number = builder.sext(builder.load(builder.gep(items, [index])), ir.IntType(64))
    made.records, made.texts = whole.records, whole.texts
    return made._getvalue()


@lower_builtin("getiter", TextListType)  # type: ignore[untyped-decorator]
def _begin(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    made = context.make_helper(builder, signature.return_type)
    made.index = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(64), 0))
    made.list = values[0]
    return made._getvalue()


@lower_builtin("iternext", TextIteratorType)  # type: ignore[untyped-decorator]
@iternext_impl(RefType.UNTRACKED)  # type: ignore[untyped-decorator]
def _next(context: Any, builder: Any, signature: Any, values: Any, result: Any) -> None:
    iterator = context.make_helper(builder, signature.args[0], value=values[0])
    whole = cgutils.create_struct_proxy(TEXT_LIST)(context, builder, value=iterator.list)
    index = builder.load(iterator.index)
    is_there = builder.icmp_signed("<", index, whole.length)
    result.set_valid(is_there)
    with builder.if_then(is_there):
        result.yield_(_text_at(context, builder, iterator.list, index))
        builder.store(builder.add(index, ir.Constant(ir.IntType(64), 1)), iterator.index)


def _compare_with_none(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    place = 0 if signature.args[0] == TEXT else 1
    text = cgutils.create_struct_proxy(TEXT)(context, builder, value=values[place])
    return builder.icmp_signed("==", text.number, ir.Constant(ir.IntType(64), 0))


lower_builtin(operator.is_, TextType, types.NoneType)(_compare_with_none)
lower_builtin(operator.is_, types.NoneType, TextType)(_compare_with_none)
