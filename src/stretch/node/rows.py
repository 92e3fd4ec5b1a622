"""Rows of one input as a node keeps them: a record batch of time, then source if there are any, then what is read.

Sorted means by time, then source, then arrival. Sources are ordered by their values, null first, so that the order does
not depend on when a source came up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stretch.errors import InputError
from stretch.operator.plan import Stream
from stretch.runtime.sources import check_times
from stretch.schema import read_column

Times = npt.NDArray[np.int64]

TEXT_BYTES_MAX = 1 << 30  # Arrow's text columns hold twice as much; with more than this, offsets become long


class Shape:
    """What rows of one input consist of; `kept` are the columns that the operator reads."""

    def __init__(self, stream: Stream, kept: Iterable[str], source: str | None) -> None:
        self.stream = stream
        self.source = source
        self.kept = sorted(set(kept) - {stream.time})

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch as rows, not sorted yet, or say what is wrong with it."""
        stream, where = self.stream, f"input {self.stream.index}"
        columns = {stream.time: check_times(batch, stream, stream.index)}
        if self.source is not None:
            columns[f"{self.source}:source"] = _sources(batch, self.source, where)
        for name in self.kept:
            columns[name] = read_column(batch, name, stream.schema[name], where)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def adopt(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows that another shape has made, whose columns include those of this one."""
        first = [self.stream.time] if self.source is None else [self.stream.time, f"{self.source}:source"]
        columns = [*rows.columns[: len(first)], *(rows.column(name) for name in self.kept)]
        return pa.RecordBatch.from_arrays(columns, names=[*first, *self.kept])

    def sort(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Return rows that arrived one part after another as one sorted batch; at least one part."""
        rows = _together(parts)
        order = _order(times_of(rows), rows.column(1) if self.source is not None else None)
        return rows if order is None else rows.take(pa.array(order))

    def latest(self, rows: pa.RecordBatch) -> tuple[list[Any], Times]:
        """Return the sources of sorted rows, and the latest time of each."""
        times = times_of(rows)
        if self.source is None:
            return [None], times[-1:]
        encoded = rows.column(1).dictionary_encode(null_encoding="encode")
        latest = np.empty(len(encoded.dictionary), np.int64)
        latest[encoded.indices.to_numpy()] = times  # of several the last one stays, which is the latest
        return encoded.dictionary.to_pylist(), latest


def times_of(rows: pa.RecordBatch) -> Times:
    """Return the times of rows as ints."""
    times: Times = rows.column(0).cast(pa.int64()).to_numpy()
    return times


def _sources(batch: pa.RecordBatch, name: str, where: str) -> pa.Array:
    """Return the source column as int64 or text."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise InputError(
            f"the batch has no column {name!r}",
            where=where,
            why=f"it tells sources apart; the columns are {', '.join(batch.schema.names) or 'none'}",
            do=f"add the column {name!r}, or leave out source",
        )
    column = batch.column(index)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return column.cast(pa.int64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    raise InputError(
        f"the source column {name!r} is {column.type}",
        where=where,
        why="sources are told apart by whole numbers or text",
        do="cast it to long or string",
    )


def _together(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return parts of one schema as one batch."""
    if len(parts) == 1:
        return parts[0]
    if sum(part.nbytes for part in parts) > TEXT_BYTES_MAX or any(_is_long(part.schema) for part in parts):
        parts = [part.cast(_with_long_offsets(part.schema)) for part in parts]
    return pa.concat_batches(parts)


def _is_long(schema: pa.Schema) -> bool:
    return any(pa.types.is_large_string(field.type) or pa.types.is_large_list(field.type) for field in schema)


def _with_long_offsets(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, _long(field.type)) for field in schema])


def _long(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_string(type_):
        return pa.large_string()
    if pa.types.is_list(type_):
        return pa.large_list(_long(type_.value_type))
    return type_


def _order(times: Times, sources: pa.Array | None) -> npt.NDArray[np.int64] | None:
    """Return where the rows of sorted order are; None if they are in order."""
    steps = np.diff(times)
    if (steps > 0).all() or (sources is None and (steps >= 0).all()):
        return None
    if sources is None:
        return np.argsort(times, kind="stable")
    ranks = _ranks(sources)
    if (steps >= 0).all() and ((steps > 0) | (np.diff(ranks) >= 0)).all():
        return None
    by_source = np.argsort(ranks, kind="stable")
    return by_source[np.argsort(times[by_source], kind="stable")]


def _ranks(sources: pa.Array) -> npt.NDArray[Any]:
    """Return the place of each row's source among those that occur."""
    encoded = sources.dictionary_encode(null_encoding="encode")
    order = pc.array_sort_indices(encoded.dictionary, null_placement="at_start").to_numpy()
    ranks = np.empty(len(order), np.int16 if len(order) < 1 << 15 else np.int64)  # short ones are sorted by radix
    ranks[order] = np.arange(len(order))
    places: npt.NDArray[Any] = ranks[encoded.indices.to_numpy()]
    return places
