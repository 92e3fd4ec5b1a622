"""Two streams for the band join of ScaleJoin, and the join by a single thread that does nothing else.

Tuples of both inputs alternate, one of each per step of time, so that a window of so many steps holds as many tuples of
each side. Attributes are uniform between 1 and 10,000: one pair in 250,000 matches.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.native.jit import kernel

REACH = 10
HIGHEST = 10_000

INPUTS = ["ts long, x int, y float", "ts long, a int, b float, c double, d boolean"]


class Joined(NamedTuple):
    """What a join of a part of the streams gave; `total` adds up the first attributes of all pairs."""

    tuples: int
    seconds: float
    matches: int
    total: int


class Streams:
    """Both inputs: tuple number n is of the left one if n is even."""

    def __init__(self, tuples: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.times = np.arange(tuples, dtype=np.int64) // 2
        self.firsts = random.integers(1, HIGHEST + 1, tuples, dtype=np.int32)
        self.seconds = random.uniform(1, HIGHEST, tuples).astype(np.float32)

    def batches(self, start: int, stop: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the tuples of both inputs with numbers from `start`, which is even, to `stop`."""
        left, right = slice(start, stop, 2), slice(start + 1, stop, 2)
        lefts = {"ts": self.times[left], "x": self.firsts[left], "y": self.seconds[left]}
        some = self.times[right]
        rights = {"ts": some, "a": self.firsts[right], "b": self.seconds[right]}
        rights |= {"c": np.zeros(len(some)), "d": np.zeros(len(some), np.bool_)}
        return pa.RecordBatch.from_pydict(lefts), pa.RecordBatch.from_pydict(rights)

    def join_alone(self, start: int, stop: int, window: int) -> Joined:
        """Join the tuples from `start` to `stop` with those before them, on one thread (the paper's 1T)."""
        sides = [(self.firsts[side::2].copy(), self.seconds[side::2].copy()) for side in (0, 1)]
        (lefts, left_seconds), (rights, right_seconds) = sides
        found = np.zeros(2, np.int64)
        begun = time.perf_counter()
        join_alone(lefts, left_seconds, rights, right_seconds, start, stop, window, found)
        return Joined(stop - start, time.perf_counter() - begun, int(found[0]), int(found[1]))


@kernel
def join_alone(
    lefts: npt.NDArray[np.int32],
    left_seconds: npt.NDArray[np.float32],
    rights: npt.NDArray[np.int32],
    right_seconds: npt.NDArray[np.float32],
    start: int,
    stop: int,
    window: int,
    found: npt.NDArray[np.int64],
) -> None:
    """Compare each tuple with the other side's of the last `window` steps; count pairs, and add up attributes.

    Tuple n is at time n // 2. A left one meets rights before its time, a right one lefts up to its time.
    """
    for number in range(start, stop):
        step = number >> 1
        low = max(0, step - window + 1)
        if number & 1 == 0:
            first, second = lefts[step], left_seconds[step]
            matches, total = _compare(rights, right_seconds, low, step, first, second)
        else:
            first, second = rights[step], right_seconds[step]
            matches, total = _compare(lefts, left_seconds, low, step + 1, first, second)
        found[0] += matches
        found[1] += total


@kernel(inline=True)
def _compare(
    firsts: npt.NDArray[np.int32],
    seconds: npt.NDArray[np.float32],
    low: int,
    high: int,
    first: np.int32,
    second: np.float32,
) -> tuple[np.int64, np.int64]:
    """Compare one tuple with a slice of the others: first only count, since pairs are rare."""
    reach, near = np.int32(REACH), np.float32(REACH)
    count = np.int32(0)  # 32 bits, as the columns: only then the loop becomes wide vector code
    some, others = firsts[low:high], seconds[low:high]
    for place in range(len(some)):
        is_near = (abs(some[place] - first) <= reach) & (abs(others[place] - second) <= near)
        count += np.int32(is_near)
    total = np.int64(0)
    if count > 0:
        for place in range(len(some)):
            if (abs(some[place] - first) <= reach) & (abs(others[place] - second) <= near):
                total += np.int64(first) + np.int64(some[place])
    return np.int64(count), total
