"""Tweets as streams of record batches: dealt to sources, or again and again at some rate until stopped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

WINDOW, ADVANCE = 120_000, 60_000  # the windows of all benches: two minutes by one, in milliseconds

BATCH_ROWS = 8_192
TICK_SECONDS = 0.0002  # how often a paced stream brings what is due


def dealt(table: pa.Table, start: int, sources: int, batch_rows: int = BATCH_ROWS) -> list[list[pa.RecordBatch]]:
    """Deal tweets to sources in turn, with times that begin at `start`."""
    later = shifted(table.combine_chunks(), start)
    turns = [pa.array(range(source, later.num_rows, sources)) for source in range(sources)]
    return [later.take(turn).combine_chunks().to_batches(batch_rows) for turn in turns]


def cycled(
    table: pa.Table,
    start: int,
    stop: threading.Event,
    rate: float | None = None,
    batch_rows: int = BATCH_ROWS,
    begun: float | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the tweets from `start` on, over and over with later times; at `rate` tweets per second, or at once.

    The first one is due at `begun`, or when it is asked for.
    """
    batch = table.combine_chunks().to_batches()[0]
    times = batch.column("ts").to_numpy()
    span = span_of(times)
    done, begun = 0, begun if begun is not None else time.perf_counter()
    while not stop.is_set():
        due = batch_rows if rate is None else min(batch_rows, int((time.perf_counter() - begun) * rate) - done)
        if due <= 0:
            time.sleep(TICK_SECONDS)
            continue
        cycle, first = divmod(done, batch.num_rows)
        piece = batch.slice(first, due)
        late = pa.array(times[first : first + due] + (start + cycle * span))
        done += piece.num_rows
        yield pa.RecordBatch.from_arrays([late, *piece.columns[1:]], schema=batch.schema)
        if rate is not None:
            time.sleep(TICK_SECONDS)


def first_of_cycle(table: pa.Table, start: int, count: int, batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield just the first `count` tweets of what `cycled` yields."""
    left = count
    for batch in cycled(table, start, threading.Event(), None, batch_rows):
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def shifted(table: pa.Table, start: int) -> pa.Table:
    """Return the tweets with later times."""
    return table.set_column(0, "ts", pa.array(np.asarray(table["ts"].to_numpy()) + start))


def span_of(times: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Return how much later each cycle of tweets is than the one before."""
    return round_up(int(times[-1]) + 1)


def round_up(time: int) -> int:
    """Return the next time at which windows begin."""
    return -(-time // ADVANCE) * ADVANCE
