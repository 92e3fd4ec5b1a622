"""The sources of a reference engine: Arrow rows become entries of the tuple buffer, in order, each with a position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from stretch.buffer.api import Entry, EntryKind, Member, Position
from stretch.errors import InputError
from stretch.operator.plan import Stream
from stretch.runtime.ingress import Disorder, Ingress, Row
from stretch.schema import Schema, read_column, rows_to_table, to_python


class Sink(Protocol):
    """Where sources add to: control queues (VSN) or the queues of instances (SN)."""

    def add(self, entry: Entry, source: Member) -> None: ...

    def advance(self, bound: Position, source: Member) -> None: ...

    def remove_sources(self, sources: Iterable[Member]) -> bool: ...


@dataclass
class Source:
    """One source: the input that it feeds, what it has promised, and when it was last heard of."""

    number: int
    stream: Stream
    ingress: Ingress
    last_heard: float
    sequence: int = 0
    is_open: bool = True


class Sources:
    """All sources of an engine. A source that is silent for `idle_seconds` no longer holds back the others."""

    def __init__(
        self,
        streams: Sequence[Stream],
        sink: Sink,
        disorder: Disorder,
        idle_seconds: float | None,
        clock: Callable[[], float],
    ) -> None:
        self._sink = sink
        self._clock = clock
        self._idle_seconds = idle_seconds
        self.all = [Source(n, stream, Ingress(disorder), clock()) for n, stream in enumerate(streams)]
        self._connected = list(self.all)
        self.tuples_in = 0

    @property
    def late_count(self) -> int:
        """How many tuples were late, taken or not."""
        return sum(source.ingress.late_count for source in self.all)

    def add(self, batch: pa.RecordBatch, number: int) -> None:
        """Add the rows of a batch, and the watermark that they bring with them."""
        source = self.all[number]
        rows = rows_of(batch, source.stream, number)
        source.last_heard = self._clock()
        self.tuples_in += len(rows)
        for timestamp, values in rows:
            self._send(source, source.ingress.accept(timestamp, values))
        self._promise(source)
        self.check_idle()

    def watermark(self, timestamp: int, number: int) -> None:
        """Advance a source without a tuple."""
        source = self.all[number]
        source.last_heard = self._clock()
        self._advance(source, timestamp)
        self.check_idle()

    def close(self, number: int) -> None:
        """End a source; the last one stays connected, since someone has to carry the final watermark."""
        source = self.all[number]
        self._send(source, source.ingress.flush())
        self._promise(source)
        source.is_open = False
        if len(self._connected) > 1:
            self._connected.remove(source)
            self._sink.remove_sources([number])

    def check_idle(self) -> None:
        """Advance sources that are silent for too long to what all the others have reached.

        If there are no others, all are advanced to the furthest of them: nobody is waited for.
        """
        if self._idle_seconds is None:
            return
        now = self._clock()
        connected = [s for s in self.all if s.is_open]
        silent = [s for s in connected if now - s.last_heard >= self._idle_seconds]
        others = [s for s in connected if s not in silent]
        marks = [s.ingress.watermark for s in others or silent]
        known = [mark for mark in marks if mark is not None]
        if not known or (others and len(known) < len(others)):
            return
        reached = min(known) if others else max(known)
        for source in silent:
            self._advance(source, reached)

    def end(self, reach: int) -> None:
        """End all sources, with a last watermark so far beyond the last tuple that no window survives it."""
        for source in self._connected:
            self._send(source, source.ingress.flush())
        latest = [s.ingress.latest for s in self.all if s.ingress.latest is not None]
        marks = [s.ingress.watermark for s in self.all if s.ingress.watermark is not None]
        if latest or marks:
            final = max(latest + marks) + max(reach, 1)  # beyond the last tuples, of all sources
            for source in self._connected:
                self._advance(source, final)

    def take_late(self, number: int) -> pa.Table:
        """Return the late tuples of a source since the last call."""
        source = self.all[number]
        rows = [(timestamp, *values) for timestamp, values in source.ingress.take_late()]
        schema = Schema(((source.stream.time, source.stream.time_type), *source.stream.schema.columns))
        return rows_to_table(rows, schema.arrow())

    def _advance(self, source: Source, timestamp: int) -> None:
        self._send(source, source.ingress.advance(timestamp))
        self._promise(source)

    def _send(self, source: Source, rows: Iterable[Row]) -> None:
        for timestamp, values in rows:
            position = (timestamp, source.number, source.sequence)
            source.sequence += 1
            self._sink.add(Entry(position, EntryKind.DATA, values, source.stream.index), source.number)

    def _promise(self, source: Source) -> None:
        if source.ingress.watermark is not None:
            self._sink.advance((source.ingress.watermark,), source.number)


def rows_of(batch: pa.RecordBatch, stream: Stream, source: int) -> list[Row]:
    """Return the rows of a batch as functions will see them."""
    where = f"source {source} (input {stream.index})"
    times = check_times(batch, stream, source)
    columns = [to_python(read_column(batch, name, type_, where), type_) for name, type_ in stream.schema.columns]
    timestamps = to_python(times, stream.time_type)
    return list(zip(timestamps, zip(*columns, strict=True), strict=True)) if columns else [(t, ()) for t in timestamps]


def check_times(batch: pa.RecordBatch, stream: Stream, source: int) -> pa.Array:
    """Return the time column of a batch, or say what is wrong with it."""
    where = f"source {source} (input {stream.index})"
    times = read_column(batch, stream.time, stream.time_type, where)
    if times.null_count:
        raise InputError(
            f"{times.null_count} of {len(times)} rows have no time",
            where=f"{where}, column {stream.time!r}",
            why="a tuple without event time belongs to no window",
            do="filter those rows out first",
        )
    return times
