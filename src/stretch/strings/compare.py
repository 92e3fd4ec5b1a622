"""What compiled functions can do with a text: `len`, truth, comparisons with other texts and with constants.

As Python does it: lengths are in characters, and texts are ordered by code points, which is the order of their bytes
in UTF-8. Texts of one dictionary are equal if their numbers are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from stretch.native.jit import compiled_form_of, kernel
from stretch.native.memory import read_int64
from stretch.native.text import TEXT, code_point, is_plain_text, number_of, records_of, texts_of
from stretch.strings.layout import FIRST, INLINE_BYTES, LENGTH, RECORD_CELLS

_LOW: Final = np.uint64(0x0101010101010101)
_ONE: Final = np.uint64(1)
_6, _7, _56 = np.uint64(6), np.uint64(7), np.uint64(56)


@kernel
def word_of(number: int, records: int, texts: int, index: int) -> int:
    """Return eight bytes of a text, the first one lowest; zeros where it is shorter."""
    record = records + 8 * RECORD_CELLS * number
    if read_int64(record + 8 * LENGTH) <= INLINE_BYTES:
        return read_int64(record + 8 * (FIRST + index))
    begin = read_int64(record + 8 * (FIRST + 1)) + 1
    return read_int64(texts + 8 * (begin + index))


@kernel
def bytes_of(number: int, records: int) -> int:
    """Return how many bytes a text has."""
    return read_int64(records + 8 * (RECORD_CELLS * number + LENGTH))


@kernel
def count_characters(number: int, records: int, texts: int) -> int:
    """Return how many characters a text has: its bytes but those that continue a character."""
    size = bytes_of(number, records)
    continued: Any = 0
    for index in range((size + 7) >> 3):
        word = np.uint64(word_of(number, records, texts, index))
        continued += np.int64((((word >> _7) & ~(word >> _6) & _LOW) * _LOW) >> _56)
    return int(size - continued)


@kernel
def byte_of(number: int, records: int, texts: int, place: int) -> int:
    """Return one byte of a text."""
    return (word_of(number, records, texts, place >> 3) >> (8 * (place & 7))) & 0xFF


@kernel
def compare_texts(left: int, right: int, records: int, texts: int) -> int:
    """Return -1, 0 or 1 as the left text is below, equal to or above the right one."""
    if left == right:
        return 0
    left_size, right_size = bytes_of(left, records), bytes_of(right, records)
    for place in range(min(left_size, right_size)):
        mine, other = byte_of(left, records, texts, place), byte_of(right, records, texts, place)
        if mine != other:
            return -1 if mine < other else 1
    return -1 if left_size < right_size else 1


def equals_constant(text, constant):  # type: ignore[no-untyped-def]
    """Compare byte by byte with the constant in UTF-8, which is encoded on the way."""
    number, records, texts = number_of(text), records_of(text), texts_of(text)
    if number == 0:
        return False
    size, place = bytes_of(number, records), 0
    for index in range(len(constant)):
        point = np.int64(code_point(constant, index))
        more = 0 if point < 0x80 else 1 if point < 0x800 else 2 if point < 0x10000 else 3
        if place + more >= size:
            return False
        lead = 0 if more == 0 else 0xC0 if more == 1 else 0xE0 if more == 2 else 0xF0
        first = (point >> (6 * more)) | lead
        if byte_of(number, records, texts, place) != first:
            return False
        for behind in range(more):
            shift = 6 * (more - 1 - behind)
            if byte_of(number, records, texts, place + 1 + behind) != ((point >> shift) & 0x3F | 0x80):
                return False
        place += 1 + more
    return place == size


@compiled_form_of(len)
def _length_form(text: Any) -> Any:
    if text != TEXT:
        return None

    def length(text):  # type: ignore[no-untyped-def]
        if number_of(text) == 0:
            raise TypeError("object of type 'NoneType' has no len()")
        return count_characters(number_of(text), records_of(text), texts_of(text))

    return length


@compiled_form_of(bool)
def _truth_form(text: Any) -> Any:
    if text != TEXT:
        return None
    return lambda text: number_of(text) != 0 and bytes_of(number_of(text), records_of(text)) > 0


def _register_equality(compare: Callable[..., Any], wanted: bool) -> None:
    @compiled_form_of(compare)
    def form(left: Any, right: Any) -> Any:
        if left == TEXT and right == TEXT:
            return lambda left, right: (number_of(left) == number_of(right)) == wanted
        if left == TEXT and is_plain_text(right):
            return lambda left, right: _equal(left, right) == wanted
        if right == TEXT and is_plain_text(left):
            return lambda left, right: _equal(right, left) == wanted
        return None


def _register_order(compare: Callable[..., Any]) -> None:
    @compiled_form_of(compare)
    def form(left: Any, right: Any) -> Any:
        if left != TEXT or right != TEXT:
            return None

        def ordered(left, right):  # type: ignore[no-untyped-def]
            if number_of(left) == 0 or number_of(right) == 0:
                raise TypeError("None has no order")
            return compare(compare_texts(number_of(left), number_of(right), records_of(left), texts_of(left)), 0)

        return ordered


def _equal(text: Any, constant: Any) -> bool:
    raise NotImplementedError("compiled functions only")


@compiled_form_of(_equal)
def _equal_form(text: Any, constant: Any) -> Any:
    return equals_constant


_register_equality(operator.eq, True)
_register_equality(operator.ne, False)
for _compare in (operator.lt, operator.le, operator.gt, operator.ge):
    _register_order(_compare)
