"""What a source promises about the order of its tuples, and what becomes of tuples that break the promise.

A tuple buffer takes sorted sources only. A source either is sorted (implicit watermarks: each tuple is one), or has
bounded disorder, or sends watermarks of its own; in the last two cases its tuples wait here, and are sorted, until
its watermark has reached them. A tuple below the source's watermark is late: counted, kept aside, never dropped
silently. What is late depends on the source's own order of arrival alone, not on batches, threads or other sources.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, Literal

Row = tuple[int, tuple[Any, ...]]
"""A timestamp and the payload."""

Disorder = int | Literal["explicit"] | None
"""None: the source is sorted. An int: how far back a tuple may be. "explicit": watermarks come from outside."""


class Ingress:
    """The order of one source; `watermark` is what it has promised so far."""

    def __init__(self, disorder: Disorder) -> None:
        self._disorder = disorder
        self._waiting: list[tuple[int, int, tuple[Any, ...]]] = []  # heap by timestamp, then arrival
        self._arrivals = 0
        self.watermark: int | None = None
        self.latest: int | None = None  # the highest timestamp that was not late
        self.late_count = 0
        self._late: list[Row] = []

    def accept(self, timestamp: int, values: tuple[Any, ...]) -> Iterator[Row]:
        """Take a tuple; yield the tuples that may go on, in order."""
        if self.watermark is not None and timestamp < self.watermark:
            self.late_count += 1
            self._late.append((timestamp, values))
            return
        self.latest = timestamp if self.latest is None else max(self.latest, timestamp)
        if self._disorder is None:
            self.watermark = timestamp
            yield timestamp, values
            return
        heapq.heappush(self._waiting, (timestamp, self._arrivals, values))
        self._arrivals += 1
        if self._disorder != "explicit":
            yield from self.advance(timestamp - self._disorder)

    def advance(self, watermark: int) -> Iterator[Row]:
        """Promise that no tuple before `watermark` follows; yield the tuples that may go on."""
        if self.watermark is not None and watermark <= self.watermark:
            return
        self.watermark = watermark
        while self._waiting and self._waiting[0][0] <= watermark:
            timestamp, _, values = heapq.heappop(self._waiting)
            yield timestamp, values

    def flush(self) -> Iterator[Row]:
        """Yield all that waits: the source has ended."""
        while self._waiting:
            timestamp, _, values = heapq.heappop(self._waiting)
            yield timestamp, values

    def take_late(self) -> list[Row]:
        """Return the late tuples since the last call."""
        taken, self._late = self._late, []
        return taken
