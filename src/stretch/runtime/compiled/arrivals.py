"""The order of one source, batch by batch: what `ingress` does tuple by tuple, with the same result, on Arrow batches.

Tuples below the source's watermark are late and kept aside. Where the source is not sorted, tuples wait until the
watermark has reached them, and leave sorted by time, then by arrival.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.runtime.ingress import Disorder

LOWEST = -(1 << 62)


class Arrivals:
    """The order of one source; `watermark` is what it has promised so far."""

    def __init__(self, disorder: Disorder, time: str) -> None:
        self._disorder = disorder
        self._time = time
        self._waiting: pa.RecordBatch | None = None  # sorted by time, then by arrival
        self._late: list[pa.RecordBatch] = []
        self.late_count = 0
        self.watermark = LOWEST
        self.latest = LOWEST

    def accept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take a batch; return the tuples that may go on, in order."""
        times = times_of(batch, self._time)
        if len(times) == 0:
            return batch
        highest = np.maximum.accumulate(times)
        if self._disorder is None:
            promised = np.concatenate(([self.watermark], np.maximum(highest[:-1], self.watermark)))
        elif self._disorder == "explicit":
            promised = np.full(len(times), self.watermark)
        else:
            promised = np.concatenate(([self.watermark], np.maximum(highest[:-1] - self._disorder, self.watermark)))
        batch = self._set_aside(batch, times < promised)
        if batch.num_rows == 0:
            return batch
        times = times_of(batch, self._time)
        self.latest = max(self.latest, int(times.max()))
        if self._disorder is None:
            self.watermark = max(self.watermark, int(times[-1]))
            return batch
        self._wait(batch)
        if self._disorder == "explicit":
            return batch.slice(0, 0)
        return self.advance(int(times.max()) - self._disorder, batch.slice(0, 0))

    def advance(self, watermark: int, nothing: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """Promise that no tuple before `watermark` follows; return the tuples that may go on, or `nothing`."""
        self.watermark = max(self.watermark, watermark)
        if self._waiting is None:
            return nothing
        ready = int(np.searchsorted(times_of(self._waiting, self._time), self.watermark, side="right"))
        released = self._waiting.slice(0, ready)
        self._waiting = self._waiting.slice(ready)
        return released

    def flush(self, nothing: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """Return all that waits, or `nothing`: the source has ended."""
        waiting, self._waiting = self._waiting, None
        return nothing if waiting is None else waiting

    def take_late(self) -> list[pa.RecordBatch]:
        """Return the late tuples since the last call."""
        taken, self._late = self._late, []
        return taken

    def _set_aside(self, batch: pa.RecordBatch, is_late: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        count = int(is_late.sum())
        if count == 0:
            return batch
        self.late_count += count
        self._late.append(batch.filter(pa.array(is_late)))
        return batch.filter(pa.array(~is_late))

    def _wait(self, batch: pa.RecordBatch) -> None:
        if self._waiting is not None and self._waiting.num_rows:
            both = pa.Table.from_batches([self._waiting, batch]).combine_chunks().to_batches()
            batch = both[0] if both else batch
        order = np.argsort(times_of(batch, self._time), kind="stable")
        self._waiting = batch.take(pa.array(order))


def times_of(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    """Return the event times of a batch as ints."""
    column = batch.column(batch.schema.get_field_index(name))
    times: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return times
