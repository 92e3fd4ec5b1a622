"""The sources of the compiled engine: batches go into the log piece by piece, in the order that the source promises.

A thread that calls `add` admits a batch as flow control lets it (see `inlet`). While it finds no room it relieves the
engine (takes results out), so that one thread alone can add and read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from stretch.buffer.ready_log import ReadyLog
from stretch.native.system import now_ns
from stretch.operator.plan import Stream
from stretch.runtime.compiled.arrivals import LOWEST, Arrivals
from stretch.runtime.compiled.inlet import PIECE_ROWS, Inlet, Piece
from stretch.runtime.ingress import Disorder
from stretch.runtime.sources import check_times
from stretch.schema import Schema


class Source:
    """One source: the order that it promises, and its way into the log."""

    def __init__(self, inlet: Inlet, stream: Stream, disorder: Disorder, now: float) -> None:
        self.inlet = inlet
        self.number = inlet.number
        self.stream = stream
        self.arrivals = Arrivals(disorder, stream.time)
        self.last_heard = now
        self.tuples_in = 0
        self.is_open = True
        self.rest: tuple[Piece, int] | None = None
        """A piece that was taken but not admitted in time, and its first row that is not in the log."""
        self.lock = threading.Lock()


class Sources:
    """All sources of an engine; each is used by one thread at a time."""

    def __init__(
        self,
        streams: Sequence[Stream],
        inlets: Sequence[Inlet],
        log: ReadyLog,
        disorder: Disorder,
        idle_seconds: float | None,
        clock: Callable[[], float],
        relieve: Callable[[], None],
    ) -> None:
        self._log = log
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._relieve = relieve
        self.all = [Source(*each, disorder, clock()) for each in zip(inlets, streams, strict=True)]
        self._connected = list(self.all)
        self.blocked_ns = 0
        log.add_sources(range(len(self.all)))

    @property
    def late_count(self) -> int:
        """How many tuples were late, taken or not."""
        return sum(one.arrivals.late_count for one in self.all)

    @property
    def tuples_in(self) -> int:
        """How many tuples were added, the late ones too."""
        return sum(one.tuples_in for one in self.all)

    @property
    def arrived(self) -> tuple[int, ...]:
        """The same, by input."""
        counts = [0] * (1 + max(one.stream.index for one in self.all))
        for one in self.all:
            counts[one.stream.index] += one.tuples_in
        return tuple(counts)

    def add(self, batch: pa.RecordBatch, number: int, deadline: float | None = None) -> int:
        """Take the rows of a batch, and the watermark that they bring with them; return how many rows.

        Who cannot wait as long as it takes hands over piece by piece. A piece is taken as a whole: what is left of the
        last one in the end goes into the log first when the source is used again.
        """
        one = self.all[number]
        _checked(batch, one)
        with one.lock:
            one.last_heard = self._clock()
            taken, rows = 0, batch.num_rows if deadline is None else PIECE_ROWS
            while self._admit_rest(one, deadline):
                part = batch.slice(taken, rows)
                one.tuples_in += part.num_rows
                taken += part.num_rows
                self._admit(one, one.arrivals.accept(part), deadline)
                if taken == batch.num_rows:
                    break
            self._promise(one)
        self.check_idle()
        return taken

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
        if len(self._connected) > 1:
            self._connected.remove(one)
            self._log.remove_sources([number])

    def announce(self, epoch: int) -> None:
        """Have every source put a control entry before its next tuple or heartbeat."""
        for source in self.all:
            source.inlet.controls.append(epoch)

    def late(self, number: int) -> pa.Table:
        """Return the late tuples of a source since the last call."""
        one = self.all[number]
        schema = Schema(((one.stream.time, one.stream.time_type), *one.stream.schema.columns)).arrow()
        batches = [batch.select(schema.names).cast(schema) for batch in one.arrivals.take_late()]
        return pa.Table.from_batches(batches, schema)

    def end(self, reach: int) -> None:
        """End all sources, with a last watermark so far beyond the last tuple that no window survives it."""
        for one in self._connected:
            with one.lock:
                self._flush(one)
        reached = max(max(one.arrivals.latest, one.arrivals.watermark) for one in self.all)
        if reached == LOWEST:
            return
        for one in self._connected:
            with one.lock:
                self._advance(one, reached + max(reach, 1))  # beyond the last tuples, of all sources

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

    def _admit(self, one: Source, batch: pa.RecordBatch, deadline: float | None = None) -> None:
        """Put a sorted batch into the log, piece by piece; only the last one gives up in time.

        The arrays of a piece are used again for the next one, so that there is never more than one.
        """
        last = (batch.num_rows - 1) // PIECE_ROWS
        for number, piece in enumerate(one.inlet.pieces(batch)):
            one.rest = piece, 0
            self._admit_rest(one, deadline if number == last else None)

    def _admit_rest(self, one: Source, deadline: float | None) -> bool:
        """Put what is left of a piece into the log; False if there was no room for all of it in time."""
        if one.rest is None:
            return True
        piece, first = one.rest
        last = len(piece.times)
        while first < last:
            done = one.inlet.admit(piece, first)
            first += done
            if done == 0:
                if deadline is not None and time.monotonic() >= deadline:
                    one.rest = piece, first
                    return False
                begun = now_ns()
                self._relieve()
                one.inlet.wait_for_room(last - first)
                self.blocked_ns += now_ns() - begun
        one.rest = None
        return True

    def _advance(self, one: Source, timestamp: int) -> None:
        self._admit_rest(one, None)
        released: Any = one.arrivals.advance(timestamp, None)
        if released is not None:
            self._admit(one, released)
        self._promise(one)

    def _flush(self, one: Source) -> None:
        self._admit_rest(one, None)
        waiting = one.arrivals.flush(None)
        if waiting is not None:
            self._admit(one, waiting)

    def _promise(self, one: Source) -> None:
        """Promise what the source has promised, unless rows before it are still to come."""
        if one.rest is None and one.arrivals.watermark > LOWEST:
            one.inlet.promise(one.arrivals.watermark)


def _checked(batch: pa.RecordBatch, one: Source) -> pa.RecordBatch:
    """Check the time column, as the reference engine does, before anything of the batch is taken."""
    check_times(batch, one.stream, one.number)
    return batch
