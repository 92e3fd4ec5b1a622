"""What workers count for `stretch.metrics`, in shared memory: read by anybody, at any time, without stopping anybody.

What
    `updates` are by worker and key group. `latencies` are histograms by worker, with the buckets of `metrics.Latency`.
    `arrivals` is a ring per source: the times of tuples, and when they arrived, oldest first. The latest tuple that
    contributes to a result at time T is the last one before T, of all sources.

Invariants
    A1  A line of arrivals is written before the tuples that it speaks of are staged. Tuples that arrive within
        ARRIVALS_APART_NS share the line of the first of them.
    A2  Times and moments of a source's lines do not go back.

Who writes what
    Row w of `updates` and `latencies`: worker w. A row of `arrivals`: the source. A row is a page or more, so that
    nobody's stores disturb others.

Memory order
    Counts are plain: a reader sees some recent value. The head of a ring of arrivals is stored with release. A line
    that is overwritten while it is read makes one latency wrong, nothing else.

Cost
    One addition per update, in a row that stays in the first-level cache; one search per batch that made results.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.metrics.latency import BUCKETS, STEPS_BITS
from stretch.native.atomics import load_acquire, store_release
from stretch.native.jit import kernel
from stretch.native.system import now_ns

ARRIVALS_MAX: Final = 1 << 14  # lines per source: more than there are entries in its staging
ARRIVALS_APART_NS: Final = 20_000

HEAD: Final = 0  # of a row of arrivals: how many lines were written
LINES: Final = 16
LINE_TIME, LINE_NS, LINE_CELLS = range(3)
ARRIVALS_CELLS: Final = LINES + ARRIVALS_MAX * LINE_CELLS


class Measures(NamedTuple):
    """The views; see the module header."""

    updates: npt.NDArray[np.int64]
    latencies: npt.NDArray[np.int64]
    arrivals: npt.NDArray[np.int64]


def make_measures(groups: int, workers: int, sources: int) -> Measures:
    """Allocate them, all zero."""
    width = -(-groups // 512) * 512
    return Measures(
        updates=np.zeros((workers, width), np.int64),
        latencies=np.zeros((workers, BUCKETS), np.int64),
        arrivals=np.zeros((sources, ARRIVALS_CELLS), np.int64),
    )


@kernel
def note_arrival(measures: Measures, source: int, time: int) -> None:
    """Note that tuples of a source from `time` on arrive now; called by the source, before it stages them (A1)."""
    row, moment = measures.arrivals[source], now_ns()
    head = row[HEAD]
    if head > 0 and moment - row[_line(head - 1) + LINE_NS] < ARRIVALS_APART_NS:
        return
    row[_line(head) + LINE_TIME] = time
    row[_line(head) + LINE_NS] = moment
    store_release(row, HEAD, head + 1)  # pairs with the load_acquire of arrival_before


@kernel
def arrival_before(measures: Measures, time: int) -> int:
    """Return when the latest tuple before `time` arrived; 0 if that is not known."""
    latest = 0
    for source in range(measures.arrivals.shape[0]):
        row = measures.arrivals[source]
        end = load_acquire(row, HEAD)  # pairs with the store_release of note_arrival
        first = max(end - ARRIVALS_MAX + 1, 0)
        low, high = first, end
        while low < high:  # the first line at or after `time`
            middle = (low + high) >> 1
            if row[_line(middle) + LINE_TIME] < time:
                low = middle + 1
            else:
                high = middle
        if low > first:
            latest = max(latest, row[_line(low - 1) + LINE_NS])
    return latest


@kernel
def record_results(measures: Measures, worker: int, time: int, count: int) -> None:
    """Note that a worker has made results with this time just now."""
    arrived = arrival_before(measures, time)
    if arrived > 0:
        measures.latencies[worker, bucket_of(now_ns() - arrived)] += count


@kernel
def bucket_of(latency_ns: int) -> int:
    """Return the bucket of a latency, as `metrics.latency.bucket_edge` draws them."""
    left = max(latency_ns, 0)
    doublings = 0
    while left >= 2 << STEPS_BITS:
        left >>= 1
        doublings += 1
    return min((doublings << STEPS_BITS) + left, BUCKETS - 1)


@kernel(inline=True)
def _line(number: int) -> int:
    return LINES + (number & (ARRIVALS_MAX - 1)) * LINE_CELLS
