"""The sources of the compiled engine: batches go into the log piece by piece, in the order that the source promises.

A thread that calls `add` encodes a batch (see `admission`) and admits it as flow control lets it; between pieces it
puts in control entries that wait. While it finds no room it relieves the engine (takes results out), so that one
thread alone can add and read.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.buffer.ready_log import ReadyLog
from stretch.buffer.ready_log_kernels import admit, advance, stage_control, wait_for_room
from stretch.errors import JobError
from stretch.native.waiting import deadline_after
from stretch.operator.plan import Stream
from stretch.runtime.compiled.admission import Encoded, Encoder
from stretch.runtime.compiled.arrivals import LOWEST, Arrivals, times_of
from stretch.runtime.ingress import Disorder
from stretch.runtime.sources import check_times
from stretch.schema import Schema
from stretch.windows.spec import Boundaries

PIECE_ROWS = 4096
ROUND_NS = 1_000_000  # how long a source that finds no room waits before it looks for control entries again


class Source:
    """One source: the order that it promises, its encoder, and the control entries that wait for its next tuple."""

    def __init__(self, number: int, stream: Stream, disorder: Disorder, encoder: Encoder, now: float) -> None:
        self.number = number
        self.stream = stream
        self.arrivals = Arrivals(disorder, stream.time)
        self.encoder = encoder
        self.controls: deque[int] = deque()
        self.last_heard = now
        self.is_open = True
        self.lock = threading.Lock()


class Sources:
    """All sources of an engine; each is used by one thread at a time."""

    def __init__(
        self,
        streams: Sequence[Stream],
        encoders: Sequence[Encoder],
        log: ReadyLog,
        boundaries: Boundaries,
        disorder: Disorder,
        idle_seconds: float | None,
        clock: Callable[[], float],
        relieve: Callable[[], None],
    ) -> None:
        self._log = log
        self._boundaries = boundaries
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._relieve = relieve
        self.all = [Source(n, stream, disorder, encoders[n], clock()) for n, stream in enumerate(streams)]
        self.tuples_in = 0
        log.add_sources(range(len(self.all)))

    @property
    def late_count(self) -> int:
        """How many tuples were late, taken or not."""
        return sum(one.arrivals.late_count for one in self.all)

    def add(self, batch: pa.RecordBatch, number: int) -> None:
        """Take the rows of a batch, and the watermark that they bring with them."""
        one = self.all[number]
        with one.lock:
            one.last_heard = self._clock()
            self.tuples_in += batch.num_rows
            self._admit(one, one.arrivals.accept(_checked(batch, one)))
            self._promise(one)
        self.check_idle()

    def watermark(self, timestamp: int, number: int) -> None:
        """Advance a source without a tuple."""
        one = self.all[number]
        with one.lock:
            one.last_heard = self._clock()
            self._advance(one, timestamp)
        self.check_idle()

    def close(self, number: int) -> None:
        """End a source; the last one stays connected, since someone has to carry the final watermark."""
        one = self.all[number]
        with one.lock:
            self._flush(one)
            self._promise(one)
            one.is_open = False
        if any(other.is_open for other in self.all):
            self._log.remove_sources([number])

    def announce(self, epoch: int) -> None:
        """Have every source put a control entry before its next tuple or heartbeat."""
        for source in self.all:
            source.controls.append(epoch)

    def late(self, number: int) -> pa.Table:
        """Return the late tuples of a source since the last call."""
        one = self.all[number]
        schema = Schema(((one.stream.time, one.stream.time_type), *one.stream.schema.columns)).arrow()
        batches = [batch.select(schema.names).cast(schema) for batch in one.arrivals.take_late()]
        return pa.Table.from_batches(batches, schema)

    def end(self, reach: int) -> None:
        """End all sources, with a last watermark so far beyond the last tuple that no window survives it."""
        connected = [one for one in self.all if one.is_open] or [self.all[-1]]
        for one in connected:
            with one.lock:
                self._flush(one)
        reached = max(max(one.arrivals.latest, one.arrivals.watermark) for one in self.all)
        if reached == LOWEST:
            return
        for one in connected:
            with one.lock:
                self._advance(one, reached + reach)

    def check_idle(self) -> None:
        """Advance sources that are silent for too long to what all the others have reached."""
        if self._idle_seconds is None:
            return
        now = self._clock()
        silent = [s for s in self.all if s.is_open and now - s.last_heard >= self._idle_seconds]
        reached = [s.arrivals.watermark for s in self.all if s.is_open and s not in silent]
        if reached and min(reached) > LOWEST:
            for source in silent:
                # A source that is being added to is not silent, whatever its clock says: we may be blocking it.
                if source.lock.acquire(blocking=False):
                    try:
                        self._advance(source, min(reached))
                    finally:
                        source.lock.release()

    def _admit(self, one: Source, batch: pa.RecordBatch) -> None:
        """Encode a sorted batch and put it into the log, piece by piece."""
        boundaries = self._boundaries
        for start in range(0, batch.num_rows, PIECE_ROWS):
            piece = batch.slice(start, PIECE_ROWS)
            times = np.ascontiguousarray(times_of(piece, one.stream.time))
            until = times // boundaries.advance * boundaries.advance + boundaries.size
            self._admit_piece(one, times, one.encoder.encode(piece, until))

    def _admit_piece(self, one: Source, times: npt.NDArray[np.int64], encoded: Encoded) -> None:
        first, last = 0, len(times)
        while first < last:
            self._send_controls(one, int(times[first]))
            done = admit(self._log.view, one.number, first, last, times.ctypes.data, encoded.addresses)
            if done < 0:
                raise _too_long(one)
            first += done
            if done == 0:
                self._relieve()
                wait_for_room(self._log.view, one.number, last - first, deadline_after(ROUND_NS))

    def _send_controls(self, one: Source, time: int) -> None:
        """Put the epochs that wait into the log, right before what comes at `time` (Paper: addSTRETCH)."""
        while one.controls:
            if stage_control(self._log.view, one.number, time, one.controls[0]) != 0:
                return
            one.controls.popleft()

    def _advance(self, one: Source, timestamp: int) -> None:
        released: Any = one.arrivals.advance(timestamp, None)
        if released is not None:
            self._admit(one, released)
        self._promise(one)

    def _flush(self, one: Source) -> None:
        waiting = one.arrivals.flush(None)
        if waiting is not None:
            self._admit(one, waiting)

    def _promise(self, one: Source) -> None:
        if one.arrivals.watermark > LOWEST:
            self._send_controls(one, one.arrivals.watermark)
            advance(self._log.view, one.number, 2 * one.arrivals.watermark)


def _checked(batch: pa.RecordBatch, one: Source) -> pa.RecordBatch:
    """Check the time column, as the reference engine does, before anything of the batch is taken."""
    check_times(batch, one.stream, one.number)
    return batch


def _too_long(one: Source) -> JobError:
    return JobError(
        "a tuple does not fit into the buffer",
        where=f"source {one.number}",
        why="one of its lists is longer than half of the buffer's room for list items",
        do="cut the list, or split the tuple",
    )
