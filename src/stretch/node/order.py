"""From micro-batches in any order to rows in order: sources, the watermark, rows that are held, rows that are late.

What
    A source is a value of the source column (or a whole input). The watermark is what all sources have passed, less the
    disorder that is allowed for; it never goes back. Rows before the watermark are in order once and for all: sorted by
    time, input, source, arrival. The others are held. So neither the cut into micro-batches nor sources that come and
    go change the order.

    A row before the watermark that stood when its micro-batch began is late. A source begins with its first row that is
    not; one that is idle is not waited for, and is forgotten when the watermark has passed it.

Invariants
    O1  Rows that were let go are before the watermark; held rows, and rows to come, are at or after it.
    O2  What follows depends on the rows that were not late, on `now` and, where it is given, the watermark: so a log of
        these leads to where another was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from stretch.node.held import Held
from stretch.node.marks import LOWEST, Marks
from stretch.node.rows import Shape, times_of
from stretch.schema import Schema, read_column

Rows: TypeAlias = "pa.RecordBatch | None"


class Heard(NamedTuple):
    """What is known of sources of an input without their rows: how far each has come in a micro-batch."""

    input: int
    sources: list[Any]
    latest: list[int]


class Order:
    """The order of all inputs of a node, one shape for each."""

    def __init__(self, shapes: Sequence[Shape], disorder: int, idle_seconds: float | None) -> None:
        self._shapes = shapes
        self._disorder = disorder
        self._idle_seconds = np.inf if idle_seconds is None else idle_seconds
        self.watermark = LOWEST
        self.latest = LOWEST
        """Of all rows that were not late."""
        self.marks = [Marks() for _ in shapes]
        self.held = [Held(shape) for shape in shapes]
        self.late_counts = [0] * len(shapes)
        self._late: list[list[pa.RecordBatch]] = [[] for _ in shapes]

    def arrange(self, batches: Iterable[tuple[int, pa.RecordBatch]]) -> list[Rows]:
        """Put late rows aside, and return the others of each input, sorted."""
        arrived: list[list[pa.RecordBatch]] = [[] for _ in self._shapes]
        for number, batch in batches:
            rows = self._shapes[number].of(batch)
            is_late = times_of(rows) < self.watermark
            if is_late.any():
                self.late_counts[number] += int(is_late.sum())
                self._late[number].append(batch.filter(pa.array(is_late)))
                rows = rows.filter(pa.array(~is_late))
            if rows.num_rows:
                arrived[number].append(rows)
        return [shape.sort(parts) if parts else None for shape, parts in zip(self._shapes, arrived, strict=True)]

    def take(
        self, rows: Sequence[Rows], now: float, watermark: int | None = None, heard: Iterable[Heard] = ()
    ) -> list[Rows]:
        """Take sorted rows of each input, and return those that may go on now.

        The watermark follows from the sources, those of other rows that were `heard` of too, unless it is given.
        """
        for number, some in enumerate(rows):
            if self.marks[number].last_heard is None:
                self.marks[number].last_heard = now
            if some is not None:
                self.latest = max(self.latest, int(times_of(some)[-1]))
                self.marks[number].note(*self._shapes[number].latest(some), now)
                self.held[number].add(some)
        for number, sources, times in heard:
            on_time = [n for n, latest in enumerate(times) if latest >= self.watermark]
            if on_time:
                latest = np.array([times[n] for n in on_time], np.int64)
                self.latest = max(self.latest, int(latest.max()))
                self.marks[number].note([sources[n] for n in on_time], latest, now)
        since = now - self._idle_seconds
        self.watermark = max(self.watermark, self._reached(since) if watermark is None else watermark)
        for marks in self.marks:
            marks.forget(since, self.watermark + self._disorder)
        return [held.let_go(self.watermark) for held in self.held]

    def take_late(self, number: int) -> pa.Table:
        """Return the late rows of an input since the last call, with its declared columns."""
        stream = self._shapes[number].stream
        schema = Schema(((stream.time, stream.time_type), *stream.schema.columns))
        batches, self._late[number] = self._late[number], []
        names = schema.names
        late = [
            pa.RecordBatch.from_arrays([read_column(batch, *c, f"input {number}") for c in schema.columns], names=names)
            for batch in batches
        ]
        return pa.Table.from_batches(late, schema.arrow())

    def state(self) -> dict[str, Any]:
        """Return all but the rows as plain values, for `load`."""
        return {
            "watermark": self.watermark,
            "latest": self.latest,
            "late": self.late_counts,
            "marks": [marks.state() for marks in self.marks],
        }

    def load(self, state: dict[str, Any], held: Sequence[Rows]) -> None:
        """Become what `state`, and the held rows of each input, were taken of."""
        self.watermark, self.latest, self.late_counts = state["watermark"], state["latest"], list(state["late"])
        for marks, saved in zip(self.marks, state["marks"], strict=True):
            marks.load(saved)
        for one, some in zip(self.held, held, strict=True):
            if some is not None:
                one.add(some)

    def _reached(self, since: float) -> int:
        """Return the watermark that the sources stand for; those silent since then only count if all are."""
        reached = [mark for marks in self.marks if (mark := marks.reached(since)) is not None]
        mark = min(reached) if reached else max(marks.furthest() for marks in self.marks)
        return mark if mark == LOWEST else mark - self._disorder
