"""What is done with results: kept until the clock has stopped, or added up and let go at once."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from stretch.bench.digest import Digest, add_up, digest

_COUNT = -1  # the last column of all results here


class Kept:
    """Keeps all results, as the rivals do; digests them afterwards."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []

    def __call__(self, results: pa.Table) -> None:
        if results.num_rows > 0:
            self._tables.append(results)

    def digest(self, start: int) -> Digest:
        """Digest rows of `ts, key..., count`, with times counted from `start`."""
        return add_up(
            digest(_times(batch) - start, batch.columns[1:_COUNT], batch.column(batch.num_columns - 1).to_numpy())
            for table in self._tables
            for batch in table.to_batches()
        )


class Summed:
    """Adds up rows and counts, and lets the results go: for streams that never end."""

    def __init__(self) -> None:
        self.rows = 0
        self.total = 0

    def __call__(self, results: pa.Table) -> None:
        self.rows += results.num_rows
        for chunk in results.column(results.num_columns - 1).chunks:
            self.total += int(chunk.to_numpy().sum())


class PerWindow:
    """Adds up rows and counts of each window."""

    def __init__(self) -> None:
        self._rows: Counter[int] = Counter()
        self._totals: Counter[int] = Counter()

    def __call__(self, results: pa.Table) -> None:
        for batch in results.to_batches():
            rights, counts = _times(batch), batch.column(batch.num_columns - 1).to_numpy()
            firsts = np.flatnonzero(np.diff(rights, prepend=rights[0] - 1))  # of each window: results come in order
            windows = rights[firsts].tolist()
            rows, totals = np.diff(np.append(firsts, len(rights))), np.add.reduceat(counts, firsts)
            self._rows.update(dict(zip(windows, rows.tolist(), strict=True)))
            self._totals.update(dict(zip(windows, totals.tolist(), strict=True)))

    @property
    def rows(self) -> int:
        """All rows."""
        return self._rows.total()

    def windows(self, start: int) -> dict[int, tuple[int, int]]:
        """Return rows and sum of counts by right boundary, counted from `start`."""
        return {right - start: (rows, self._totals[right]) for right, rows in self._rows.items()}


def _times(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    times: np.ndarray[tuple[int], np.dtype[np.int64]] = batch.column(0).to_numpy()
    return times
