"""What is done with results: kept until the clock has stopped, or added up, timed and let go at once."""

from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pyarrow as pa

from stretch.bench.digest import Digest, add_up, digest
from stretch.bench.streams import span_of

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


class Timed:
    """Adds up results, and notes how long after the tweet that completed their window they came.

    That is the first tweet at or after the right boundary; it counts from when it was due, not from when it got in.
    """

    def __init__(self, table: pa.Table, start: int, rate: float, begun: float) -> None:
        self.rows = 0
        self._times = table["ts"].to_numpy()
        self._span = span_of(self._times)
        self._start, self._rate, self._begun = start, rate, begun
        self._windows: list[tuple[int, int, float]] = []  # right boundary, rows, when they came

    def __call__(self, results: pa.Table) -> None:
        now = time.perf_counter()
        self.rows += results.num_rows
        rights, rows = np.unique(results["ts"].to_numpy(), return_counts=True)
        self._windows += zip(rights.tolist(), rows.tolist(), [now] * len(rows), strict=True)

    def latencies_ms(self, tweets: int) -> tuple[float, float] | tuple[None, None]:
        """Return the median and the 99th percentile over the rows, without those that only the end completed.

        None if there are no others: the stream was too short, or the machine too busy, for a window to end meanwhile.
        """
        if not self._windows:
            return None, None
        rights, rows, came = (np.array(values) for values in zip(*self._windows, strict=True))
        cycles, within = np.divmod(rights - self._start, self._span)
        completing = cycles * len(self._times) + np.searchsorted(self._times, within)
        late = came - (self._begun + completing / self._rate)
        counted = completing < tweets
        order = np.argsort(late[counted])
        late, below = late[counted][order], np.cumsum(rows[counted][order])
        if len(late) == 0:
            return None, None
        median, high = (float(late[np.searchsorted(below, below[-1] * share)]) for share in (0.50, 0.99))
        return 1e3 * median, 1e3 * high


def _times(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    times: np.ndarray[tuple[int], np.dtype[np.int64]] = batch.column(0).to_numpy()
    return times
