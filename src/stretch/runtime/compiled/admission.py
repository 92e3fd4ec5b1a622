"""From an Arrow batch to the arrays that a tuple buffer copies rows from.

One `Encoder` per source: it knows which columns the program reads and in which form, interns text once per tuple, and
gives the addresses of plain arrays. Numbers are not copied where Arrow already has them in the right type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.errors import InputError
from stretch.operator.columns import Column, Form, Layout
from stretch.operator.plan import Stream
from stretch.runtime.compiled.arrivals import times_of
from stretch.schema import read_column
from stretch.strings import HASHTAGS, VALUES, WORDS, Dictionary
from stretch.strings.columns import most_ids

_KINDS = {Form.ID: VALUES, Form.IDS: VALUES, Form.WORDS: WORDS, Form.HASHTAGS: HASHTAGS}


class Encoder:
    """Encodes the batches of one source; used by one thread at a time."""

    def __init__(self, stream: Stream, layout: Layout, dictionary: Dictionary, where: str) -> None:
        self._stream = stream
        self._columns = layout.columns
        self._dictionary = dictionary
        self._where = where
        self.rows = 0
        """How many rows were encoded."""
        self._rooms: dict[Column, npt.NDArray[np.int32]] = {}

    def encode(self, batch: pa.RecordBatch, until: npt.NDArray[np.int64]) -> Encoded:
        """Return the rows of a batch as arrays, good until the next call; `until` is how long text may be named."""
        arrays: list[tuple[Any, Any]] = [self._encode_column(batch, column, until) for column in self._columns]
        self.rows += batch.num_rows
        return Encoded(arrays)

    def _encode_column(self, batch: pa.RecordBatch, column: Column, until: Any) -> tuple[Any, Any]:
        if column.form is Form.NUMBER:
            return np.arange(self.rows, self.rows + batch.num_rows, dtype=np.int64), None
        if column.form is Form.MARK:
            return np.zeros(batch.num_rows, np.uint8), None
        if column.name == self._stream.time:
            return np.ascontiguousarray(times_of(batch, column.name)), None
        data = read_column(batch, column.name, self._stream.schema[column.name], self._where)
        if column.form is Form.VALID:
            valid = data.is_valid().cast(pa.uint8()) if data.null_count else None
            return (np.ones(len(data), np.uint8) if valid is None else valid.to_numpy(), None)
        if column.form in (Form.ID, Form.IDS, Form.WORDS, Form.HASHTAGS):
            return self._intern(data, column, until)
        if column.is_list:
            return self._lists(data, column)
        return self._values(data, column), None

    def _values(self, data: pa.Array, column: Column) -> npt.NDArray[Any]:
        if data.null_count:
            if not self._has_validity(column.name):
                raise _no_nulls(column.name, data.null_count, self._where)
            data = data.fill_null(False if pa.types.is_boolean(data.type) else 0)
        return _numpy(data, column.dtype)

    def _lists(self, data: pa.Array, column: Column) -> tuple[Any, Any]:
        if data.null_count:
            data = pa.ListArray.from_arrays(_offsets_without_nulls(data), data.flatten())
        items = data.flatten()
        if items.null_count:
            raise _no_nulls(column.name, items.null_count, self._where)
        offsets = data.offsets.to_numpy() - data.offsets[0].as_py()
        return _numpy(items, column.dtype), np.ascontiguousarray(offsets, np.int32)

    def _intern(self, data: pa.Array, column: Column, until: Any) -> tuple[Any, Any]:
        text = self._dictionary.column(data, _KINDS[column.form], distinct=column.distinct)
        ids, starts = self._dictionary.intern_all(text, until, self._room_for(column, most_ids(text)))
        return (ids, None) if column.form is Form.ID else (ids, starts.astype(np.int32))

    def _room_for(self, column: Column, count: int) -> npt.NDArray[np.int32]:
        """Return memory for ids; it is used again and again, since new memory costs more than what is put there."""
        if column not in self._rooms or len(self._rooms[column]) < count:
            self._rooms[column] = np.empty(2 * count, np.int32)
        return self._rooms[column]

    def _has_validity(self, name: str) -> bool:
        return any(other.name == name and other.form is Form.VALID for other in self._columns)


class Encoded:
    """Rows as arrays, kept alive while kernels copy from their addresses."""

    def __init__(self, arrays: Sequence[tuple[Any, Any]]) -> None:
        self._arrays = arrays
        cells = [
            (values.ctypes.data, 0) if offsets is None else (offsets.ctypes.data, values.ctypes.data)
            for values, offsets in arrays
        ]
        self.addresses: npt.NDArray[np.int64] = np.array(cells, np.int64).reshape(-1)


def _numpy(data: pa.Array, dtype: Any) -> npt.NDArray[Any]:
    if pa.types.is_timestamp(data.type):
        data = data.cast(pa.int64())
    return np.ascontiguousarray(data.to_numpy(zero_copy_only=False), dtype)


def _offsets_without_nulls(data: pa.ListArray) -> pa.Array:
    lengths = data.value_lengths().fill_null(0).to_numpy()
    return pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())


def _no_nulls(name: str, count: int, where: str) -> InputError:
    return InputError(
        f"column {name!r} has {count} null(s)",
        where=where,
        why="compiled functions and keys have no None",
        do='fill or filter the nulls first, or pass engine="python" to stretch.setup',
    )
