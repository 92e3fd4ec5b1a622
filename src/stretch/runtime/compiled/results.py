"""The reader of an operator's results: rows of the output log become Arrow tables.

Text leaves the workers as ids. Here it becomes a dictionary-encoded column, and once all results up to a time are
taken, ids that no live window names any more are given back.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pyarrow as pa

from stretch.buffer.layout import DATA, INDEX_SHIFT
from stretch.buffer.ready_log import ReadyLog
from stretch.buffer.ready_log_kernels import ready_end, release_to, request_merge
from stretch.operator.columns import Result
from stretch.operator.plan import Plan
from stretch.strings import Dictionary

READER = 0


class Results:
    """Takes results out of the output log; any thread may, one at a time."""

    def __init__(self, out: ReadyLog, results: tuple[Result, ...], plan: Plan, dictionary: Dictionary) -> None:
        self._out = out
        self._results = results
        self._dictionary = dictionary
        self._columns = out.columns()
        self._schema = result_schema(plan)
        self._lock = threading.Lock()
        self._batches: list[pa.RecordBatch] = []
        self._position = 0
        self._reached: int | None = None  # time of the last entry taken
        out.add_readers([READER])

    def take(self) -> pa.Table:
        """Return everything that has come since the last call."""
        with self._lock:
            request_merge(self._out.view)
            self._collect()
            batches, self._batches = self._batches, []
        return pa.Table.from_batches(batches, self._schema)

    def collect(self) -> None:
        """Take out what there is, to be returned later; makes room for workers."""
        with self._lock:
            self._collect()

    def _collect(self) -> None:
        view = self._out.view
        while (end := ready_end(view)) > self._position:
            self._take_entries(self._position, end)
            self._position = end
            release_to(view, READER, end)
        if self._reached is not None:
            self._dictionary.release(self._reached - 1)

    def _take_entries(self, first: int, end: int) -> None:
        """Copy the rows of the entries [first, end) out of the log's rings."""
        view = self._out.view
        places = np.arange(first, end) & (len(view.times) - 1)
        times, refs = view.times[places], view.refs[places]
        self._reached = int(times[-1])
        is_row = (refs & 3) == DATA
        rows = refs[is_row] >> INDEX_SHIFT
        if len(rows):
            self._batches.append(self._batch(times[is_row], rows))

    def _batch(self, times: Any, rows: Any) -> pa.RecordBatch:
        arrays = [pa.array(times).cast(self._schema.field(0).type)]
        position = 0
        for result, field in zip(self._results, list(self._schema)[1:], strict=True):
            values = self._columns[position][rows]
            valid = self._columns[position + 1][rows].astype(bool) if result.nullable else None
            position += 2 if result.nullable else 1
            arrays.append(self._column(result, values, valid, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, result: Result, values: Any, valid: Any, type_: pa.DataType) -> pa.Array:
        if result.type.name == "string":
            if valid is not None:
                values = np.where(valid, values, 0)
            return self._dictionary.decode_dictionary(values)
        mask = None if valid is None else ~valid
        return pa.array(values, mask=mask).cast(type_)


def result_schema(plan: Plan) -> pa.Schema:
    """Return the columns of the results; text is dictionary-encoded."""
    encoded = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [(field.name, encoded if field.type == pa.string() else field.type) for field in plan.result_schema().arrow()]
    )
