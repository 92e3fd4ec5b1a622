"""The reader of an operator's results: rows of the output log become Arrow tables.

Text leaves the workers as ids. Here it becomes a dictionary-encoded column, and once all results up to a time are
taken, ids that no live window names any more are given back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.buffer.ready_log_kernels import add_readers_at_end, ready_end, release_to, request_merge, take_times
from stretch.operator.columns import Result
from stretch.operator.plan import Plan
from stretch.runtime.compiled.memory import Memory

READER = 0
ROWS_DECODED = 1 << 16  # at once: more repeat more of their texts, and wait longer with ids that could be given back


class Results:
    """Takes results out of the output log; any thread may, one at a time."""

    def __init__(self, memory: Memory, results: tuple[Result, ...], plan: Plan, release: Callable[[int], None]) -> None:
        self._memory = memory
        self._out = out = memory.out
        self._results = results
        self._dictionary = memory.dictionary
        self._release = release
        self.is_reading = True
        self._rings = out.columns()
        self._schema = result_schema(plan)
        self._lock = threading.Lock()
        self._batches: list[pa.RecordBatch] = []
        self._taken = 0  # rows that are not decoded yet, in arrays with room for ROWS_DECODED
        self._make_room()
        self._position = 0
        self._reached: int | None = None  # the key of the last entry taken: its time, or what orders it
        self.is_muted = False
        """Whether results are thrown away: they have been given before."""
        out.add_readers([READER])

    def take(self) -> pa.Table:
        """Return everything that has come since the last call."""
        with self._lock:
            request_merge(self._out.view)
            self._collect()
            self._decode()
            batches, self._batches = self._batches, []
        return pa.Table.from_batches(batches, self._schema)

    def collect(self) -> None:
        """Take out what there is, to be returned later; makes room for workers."""
        with self._lock:
            self._collect()

    def leave_to(self, readers: npt.NDArray[np.int64]) -> int:
        """Let others read from now on, and return where they start: what has not been taken goes to the first."""
        with self._lock:
            if not self.is_reading:
                return int(add_readers_at_end(self._out.view, readers))
            self._out.add_readers(readers, self._position)
            self._out.remove_readers([READER])
            self.is_reading = False
            return self._position

    def _collect(self) -> None:
        view = self._out.view
        while self.is_reading and (end := ready_end(view)) > self._position:
            end = min(end, self._position + ROWS_DECODED - self._taken)
            self._take_entries(self._position, end)
            self._position = end
            release_to(view, READER, end)
            if self._taken == ROWS_DECODED:
                self._decode()

    def _take_entries(self, first: int, end: int) -> None:
        """Copy the rows of the entries [first, end), which lie side by side in the log's rings."""
        view, taken = self._out.view, self._taken
        count, row = take_times(view, first, end, self._times[taken:])
        self._reached = int(view.times[(end - 1) & (len(view.times) - 1)])
        for ring, column in zip(self._rings, self._columns, strict=True):
            until_end = min(count, len(ring) - row)
            column[taken : taken + until_end] = ring[row : row + until_end]
            column[taken + until_end : taken + count] = ring[: count - until_end]
        self._taken += count

    def _decode(self) -> None:
        """Make one batch of the rows that were taken; then their texts need no ids any more."""
        if self._taken and not self.is_muted:
            columns = [self._leave(one) for one in self._columns]
            has_times = len(columns) > sum(len(result.arrays()) for result in self._results)
            self._batches.append(self._batch(columns.pop() if has_times else self._leave(self._times), columns))
            if 2 * self._taken > ROWS_DECODED:
                self._make_room()
        self._taken = 0
        reached = None if self._reached is None else self._memory.time_of(self._reached)
        if reached is not None:
            self._release(reached - 1)

    def _make_room(self) -> None:
        self._times = np.empty(ROWS_DECODED, np.int64)
        self._columns = [np.empty(ROWS_DECODED, ring.dtype) for ring in self._rings]

    def _leave(self, array: Any) -> Any:
        """Return what was taken into an array: the array itself, to be replaced, or a copy where little is in it."""
        taken = array[: self._taken]
        return taken if 2 * self._taken > ROWS_DECODED else taken.copy()

    def _batch(self, times: Any, columns: Any) -> pa.RecordBatch:
        arrays = [pa.array(times).cast(self._schema.field(0).type)]
        position = 0
        for result, field in zip(self._results, list(self._schema)[1:], strict=True):
            values = columns[position]
            valid = columns[position + 1].astype(bool) if result.nullable else None
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
