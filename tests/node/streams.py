"""What tests of nodes have in common: an operator, rows as micro-batches, and what should come out, by a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

import stretch as st

SCHEMA = "ts long, device string, words array<string>, x long"
NEVER = -(1 << 62)

Row = tuple[Any, ...]


@cache
def operator(size: int = 20, advance: int = 10) -> st.Aggregate:
    """Count words, with an aggregate for which order matters, and texts of all lengths in keys and state."""
    return st.Aggregate(
        window=st.sliding(size, advance),
        keys="words",
        groups=64,
        n=st.count(),
        total=st.sum("x"),
        first=st.first("device"),
        last=st.last("x"),
    )


class Tuple(NamedTuple):
    """A row of the input."""

    ts: int
    device: str | None
    words: tuple[str, ...]
    x: int


def batch(rows: Sequence[Tuple]) -> pa.RecordBatch:
    """Return rows as Arrow data."""
    columns = zip(*rows, strict=True) if rows else [()] * 4
    types = [pa.int64(), pa.string(), pa.list_(pa.string()), pa.int64()]
    arrays = [pa.array(list(values), type_) for values, type_ in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=["ts", "device", "words", "x"])


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """Return result batches as rows, in order."""
    return [tuple(row.values()) for each in batches for row in each.to_pylist()]


def expected(rows: Iterable[Tuple], until: int | None = None, by_device: bool = False) -> list[Row]:
    """Return the results for rows in order of arrival, up to a watermark."""
    key = (lambda t: (t.ts, t.device is not None, t.device or "")) if by_device else (lambda t: t.ts)
    table = pa.Table.from_batches([batch(sorted(rows, key=key))])
    made = st.testing.run(operator(), table.to_pylist(), schemas={"input": SCHEMA})
    return [tuple(row.values()) for row in made if until is None or row["ts"] <= until]


class Model:
    """Which rows are late and how far the watermark is, in a few lines."""

    def __init__(self, disorder: int = 0, by_device: bool = False, idle: float | None = None) -> None:
        self.disorder, self.by_device, self.idle = disorder, by_device, idle
        self.watermark = NEVER
        self.rows: list[Tuple] = []
        self.late: list[Tuple] = []
        self.latest: dict[Any, int] = defaultdict(lambda: NEVER)
        self.heard: dict[Any, float] = {}
        self.begun: float | None = None

    def take(self, rows: Sequence[Tuple], now: float) -> None:
        """Take a micro-batch."""
        self.begun = now if self.begun is None else self.begun
        self.late += [t for t in rows if t.ts < self.watermark]
        for t in rows:
            if t.ts >= self.watermark:
                source = t.device if self.by_device else "all"
                self.rows.append(t)
                self.latest[source] = max(self.latest[source], t.ts)
                self.heard[source] = now
        loud = [s for s in self.latest if self.idle is None or now - self.heard[s] < self.idle]
        marks = [self.latest[s] for s in loud or self.latest]
        if marks:
            self.watermark = max(self.watermark, (min(marks) if loud else max(marks)) - self.disorder)

    def flush(self) -> None:
        """Complete all windows."""
        if self.rows:
            self.watermark = max(t.ts for t in self.rows) // 10 * 10 + 20

    def results(self) -> list[Row]:
        """Return all results so far."""
        return expected(self.rows, self.watermark, self.by_device)
