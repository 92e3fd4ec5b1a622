"""Rows that wait for the watermark, sorted, in runs whose sizes at least halve from one to the next.

A new run is joined with the last ones while they are not larger than twice its size. So there are few runs, a row is
copied O(log n) times in all, and a micro-batch costs in proportion to its own rows, however many are held.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from stretch.node.rows import Shape, times_of


class _Run(NamedTuple):
    """Sorted rows, of which those before `first` have left."""

    rows: pa.RecordBatch
    first: int = 0

    @property
    def left(self) -> pa.RecordBatch:
        return self.rows.slice(self.first)

    @property
    def size(self) -> int:
        return int(self.rows.num_rows) - self.first


class Held:
    """The held rows of one input."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._runs: list[_Run] = []  # in the order of arrival, which sorting keeps

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(run.size for run in self._runs)

    def add(self, rows: pa.RecordBatch) -> None:
        """Take sorted rows that have arrived after all others."""
        self._add(_Run(rows))

    def let_go(self, watermark: int) -> pa.RecordBatch | None:
        """Give all rows before `watermark`, sorted; None if there are none."""
        gone, runs = [], self._runs
        self._runs = []
        for run in runs:
            until = int(np.searchsorted(times_of(run.rows), watermark))
            if until > run.first:
                gone.append(run.rows.slice(run.first, until - run.first))
                run = _Run(run.rows, until)
            if run.size > 0:
                self._add(run)
        return self._shape.sort(gone) if gone else None

    def all(self) -> pa.RecordBatch | None:
        """Return all rows, sorted; None if there are none."""
        return self._shape.sort([run.left for run in self._runs]) if self._runs else None

    def _add(self, run: _Run) -> None:
        while self._runs and self._runs[-1].size <= 2 * run.size:
            run = _Run(self._shape.sort([self._runs.pop().left, run.left]))
        if run.size <= run.first:  # more memory is kept than needed
            run = _Run(run.left.take(pa.array(np.arange(run.size))))
        self._runs.append(run)
