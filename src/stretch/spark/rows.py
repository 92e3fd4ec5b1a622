"""How rows of several inputs travel as rows of one kind, since Spark's `mapInArrow` takes one DataFrame.

A travelling row has the number of its input, where there are several, or rows go to several shards; the time of its
micro-batch, where somebody wants to know; then slots. A slot has one type, and each input uses it for at most one of
its columns, so that inputs that have the same types share all slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from stretch.node import Heard

INPUT = "input"
NOW = "now"
MICROSECONDS = 1e6


@dataclass(frozen=True)
class Layout:
    """Which slot holds which column: for each input pairs of column and slot; and the types of all slots, as DDL."""

    columns: tuple[tuple[tuple[str, int], ...], ...]
    slots: tuple[str, ...]
    has_input: bool = False
    has_now: bool = False

    @property
    def first_slot(self) -> int:
        """Where the slots begin."""
        return self.has_input + self.has_now


class Travelled:
    """The rows of a partition, as they arrive."""

    def __init__(
        self, layout: Layout, batches: Iterable[pa.RecordBatch], time: str = "ts", source: str | None = None
    ) -> None:
        self._layout = layout
        self._time = time
        self._source = source
        self.heard: list[Heard] = []
        """How far sources have come whose rows may be elsewhere; known when all rows were taken."""
        self._batches = iter(batches)
        self._first: list[pa.RecordBatch] = []
        self.now: float | None = None
        """The time of the micro-batch, in seconds; None where nobody wants to know, or there is no row."""
        if layout.has_now:
            for batch in self._batches:
                self._first.append(batch)
                if batch.num_rows:
                    self.now = batch.column(int(layout.has_input))[0].as_py() / MICROSECONDS
                    break

    def rows(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield rows with the number of their input."""
        for batch in self._first:
            yield from self._untangled(batch)
        self._first = []
        for batch in self._batches:
            yield from self._untangled(batch)

    def _untangled(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        if not self._layout.has_input:
            yield 0, self._columns_of(0, batch)
            return
        numbers = batch.column(0).to_numpy()
        for number in map(int, np.unique(numbers)):
            is_own = numbers == number
            rows = batch if is_own.all() else batch.filter(pa.array(is_own))
            if number >= 0:
                yield number, self._columns_of(number, rows)
            else:
                self.heard.append(self._mark(-1 - number, rows))

    def _mark(self, number: int, marks: pa.RecordBatch) -> Heard:
        """Read what marks say: how far each source has come."""
        columns = self._columns_of(number, marks)
        times = columns.column(self._time).cast(pa.int64()).to_pylist()
        sources = [None] * len(times) if self._source is None else columns.column(self._source).to_pylist()
        return Heard(number, sources, times)

    def _columns_of(self, number: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = self._layout.columns[number]
        return pa.RecordBatch.from_arrays(
            [rows.column(self._layout.first_slot + slot) for _, slot in columns], names=[name for name, _ in columns]
        )


def make_layout(inputs: Sequence[Sequence[tuple[str, str]]], has_input: bool, has_now: bool) -> Layout:
    """Deal the columns of each input, pairs of name and type, to slots."""
    slots: list[str] = []
    dealt = []
    for columns in inputs:
        used: list[tuple[str, int]] = []
        for name, type_ in columns:
            taken = {slot for _, slot in used}
            free = [slot for slot, its in enumerate(slots) if its == type_ and slot not in taken]
            if not free:
                free = [len(slots)]
                slots.append(type_)
            used.append((name, free[0]))
        dealt.append(tuple(used))
    return Layout(tuple(dealt), tuple(slots), has_input, has_now)
