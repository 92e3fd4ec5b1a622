"""Arrow columns as kernels take them, and back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.errors import InputError
from stretch.strings.layout import BOUNDS, FOUND_ROWS, PLACE_CELLS, VALUES, Longs, TextColumn
from stretch.strings.tokenise import Bytes, views_of

TEXT_BYTES_MAX: Final = 2**31 - 1
_NO_BITS: Final[Bytes] = np.zeros(0, np.uint8)
_NO_BITS.flags.writeable = False


def text_column(array: pa.Array, kind: int, distinct: bool) -> TextColumn:
    """View an Arrow column of text, or of lists of text, without copying the text.

    `kind` says what rows are made into; `distinct`, whether each row's ids are a set.
    """
    array = _plain(array, kind)
    is_list = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
    elements = array.values if is_list else array
    row_valid, row_bit = _validity(array)
    if is_list:
        row_offsets = _offsets(array)
        begin, end = int(row_offsets[0]), int(row_offsets[-1])
        row_offsets = row_offsets - begin
        elements = elements.slice(begin, end - begin)
        offsets = _offsets(elements)
        valid, bit = _validity(elements)
    elif kind == VALUES:
        row_offsets = np.arange(len(array) + 1, dtype=np.int64)
        offsets = _offsets(array)
        valid, bit = row_valid, row_bit
        row_valid = _NO_BITS  # a null text is a key, as null; a null list has no keys
    else:
        row_offsets = offsets = _offsets(array)
        valid, bit = _NO_BITS, 0
    single, text = views_of(elements.buffers()[2], int(offsets[-1]))
    longest = int(np.diff(offsets).max(initial=0))
    _check_length(longest)
    texts_in_row = texts_max(kind, int(np.diff(row_offsets).max(initial=0))) if distinct else 1
    return TextColumn(
        kind=kind,
        distinct=distinct,
        row_offsets=row_offsets,
        row_valid=row_valid,
        row_bit=row_bit,
        offsets=offsets,
        valid=valid,
        bit=bit,
        single=single,
        text=text,
        longest=longest,
        bounds=np.empty(BOUNDS, np.uint64),
        untils=np.empty(BOUNDS // 2, np.int64),
        found=np.empty((FOUND_ROWS, BOUNDS // 2), np.uint64),
        place=np.zeros(PLACE_CELLS, np.int64),
        seen=np.zeros(2 << texts_in_row.bit_length(), np.int64),
    )


def most_ids(column: TextColumn) -> int:
    """Return how many ids the column may give at most."""
    size = int(column.row_offsets[-1] - column.row_offsets[0])
    # Each row may end in half a byte more than it has.
    return texts_max(column.kind, size) + (0 if column.kind == VALUES else len(column.row_offsets) - 1)


def texts_max(kind: int, size: int) -> int:
    """Return how many texts there can be in so many bytes of one row, or elements of any number of rows."""
    return size if kind == VALUES else (size + 1) // 2


def text_array(ids: npt.NDArray[np.int32], offsets: npt.NDArray[np.int32], data: Bytes) -> pa.StringArray:
    """Wrap decoded texts; id 0 is null."""
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(data), *_null_bits(ids))


def dictionary_array(
    ids: npt.NDArray[np.int32], indices: npt.NDArray[np.int32], dictionary: pa.Array
) -> pa.DictionaryArray:
    """Wrap indices into a dictionary; id 0 is null."""
    bits, null_count = _null_bits(ids)
    wrapped = pa.Array.from_buffers(pa.int32(), len(ids), [bits, pa.py_buffer(indices)], null_count)
    return pa.DictionaryArray.from_arrays(wrapped, dictionary, safe=False)


def _null_bits(ids: npt.NDArray[np.int32]) -> tuple[pa.Buffer | None, int]:
    null_count = len(ids) - int(np.count_nonzero(ids))
    return (pa.py_buffer(np.packbits(ids != 0, bitorder="little")), null_count) if null_count else (None, 0)


def _plain(array: pa.Array, kind: int) -> pa.Array:
    """Return the column with offsets and one data buffer; say what is wrong if it is no text."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type) or pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    of_list = array.type.value_type if pa.types.is_list(array.type) or pa.types.is_large_list(array.type) else None
    if of_list is not None and (pa.types.is_dictionary(of_list) or pa.types.is_string_view(of_list)):
        array, of_list = array.cast(pa.large_list(pa.large_string())), pa.large_string()
    is_text = _is_text(array.type) or (kind == VALUES and of_list is not None and _is_text(of_list))
    if not is_text:
        raise InputError(
            f"a column of type {array.type} cannot be interned",
            why="it is not text" if kind == VALUES else "words and hashtags are found in text columns",
            do="pass a string column" + (", or a list of strings" if kind == VALUES else ""),
        )
    return array


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _offsets(array: pa.Array) -> Longs:
    """Return a column's offsets as int64: kernels compile once, and 8 bytes a row are little beside the text."""
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_list(array.type)
    dtype = np.dtype(np.int64 if is_large else np.int32)
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:
        return np.zeros(1, np.int64)
    return np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize).astype(np.int64)


def _validity(array: pa.Array) -> tuple[Bytes, int]:
    """Return a column's validity bits and the bit of its first row."""
    buffer: Any = array.buffers()[0]
    if buffer is None or array.null_count == 0:
        return _NO_BITS, 0
    bits = np.frombuffer(buffer, np.uint8)
    bits.flags.writeable = False
    return bits, array.offset


def _check_length(longest: int) -> None:
    if longest > TEXT_BYTES_MAX:
        raise InputError(
            f"a text of {longest:,} bytes cannot be interned",
            why=f"the limit is {TEXT_BYTES_MAX:,} bytes",
            do="shorten the text before it gets here",
        )
