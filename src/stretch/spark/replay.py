"""A streaming source that plays Parquet files: `spark.readStream.format("stretch-replay")`.

    from stretch.spark.replay import ReplaySource

    spark.dataSource.register(ReplaySource)
    tweets = spark.readStream.format("stretch-replay").option("speed", 60).load("tweets.parquet")

Rows come in the order of the files' names, and within a file in its order, all in one partition, so the order is kept.
What is played when:

- `speed`: event time passes so many times as fast as real time; for a time column that is a long, it is its units per
  second. `time` names the column, "ts" by default. Where rows go back in time, they follow the row before them.
- `rate`: so many rows per second.
- neither: as fast as the query takes them.
- `rowsPerBatch`: a micro-batch has at most so many rows, 100,000 by default.

The first row of a query is played alone, and the clock begins after it: that a query takes seconds to start, compiling
included, does not make a jam. With `trigger(availableNow=True)` all rows are available at once: they
are played without waiting.

Invariants
    R1  An offset is a number of rows: those before it have been played. A restart goes on at the next row, whatever the
        pace was, so that nothing is lost or played twice. The clock of `speed` and `rate` begins anew there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from stretch.errors import DefinitionError, StateError
from stretch.spark.recording import NEVER, Piece, Recording, read

ROWS_PER_BATCH = 100_000
ARROW_ROWS = 1 << 16
"""Of one Arrow batch, at most."""

_OPTIONS = {"path": "path", "time": "time", "speed": "speed", "rate": "rate", "rowsperbatch": "rowsPerBatch"}
_MICROSECONDS = 1e6


class ReplaySource(DataSource):
    """The data source; Spark makes it from the options of a reader."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` calls it."""
        return "stretch-replay"

    def schema(self) -> StructType:
        """Return the columns of the files."""
        recording, _ = self._open()
        return from_arrow_schema(recording.schema)

    def streamReader(self, schema: StructType) -> Replay:  # noqa: N802 -- Spark's name
        """Return who plays the files, with the columns that Spark asks for."""
        recording, pace = self._open()
        return Replay(recording, pace, to_arrow_schema(schema, timezone="UTC"))

    def _open(self) -> tuple[Recording, Pace]:
        pace = _pace(self.options)
        recording = Recording(self.options["path"])
        if pace.speed is not None:
            _check_time(recording, pace)
        return recording, pace


@dataclass(frozen=True)
class Pace:
    """How fast rows are played."""

    time: str = "ts"
    speed: float | None = None
    rate: float | None = None
    rows_per_batch: int = ROWS_PER_BATCH


@dataclass(frozen=True)
class Rows(InputPartition):
    """The rows of a micro-batch: what Spark sends to the task that reads them."""

    pieces: tuple[Piece, ...]


class Replay(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plays a recording. The driver has one for a query, which keeps the time; tasks only `read`."""

    def __init__(
        self, recording: Recording, pace: Pace, schema: pa.Schema, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._recording = recording
        self._pace = pace
        self._schema = schema
        self._clock = clock
        self._begun: tuple[float, int, int] | None = None
        """When the clock began, with which row, and the event time of that row."""
        self._first: int | None = None
        self._is_all_available = False

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset before the first row."""
        return self._offset(0)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return how far the rows are that may be played now."""
        row = self._row(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else self._recording.rows
        return self._offset(self._due(row, min(row + most, self._recording.rows)))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the most that a micro-batch takes."""
        return ReadMaxRows(self._pace.rows_per_batch)

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        """Return where the recording ends, for the query's progress."""
        return self._offset(self._recording.rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take all rows as available."""
        self._is_all_available = True

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[Rows]:
        """Return the rows of a micro-batch as one partition."""
        pieces = tuple(self._recording.pieces(self._row(start), self._row(end)))
        return [Rows(pieces)] if pieces else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        assert isinstance(partition, Rows)
        for piece in partition.pieces:
            yield from read(piece, self._schema, ARROW_ROWS)

    def _due(self, row: int, stop: int) -> int:
        """Return the first row from `row` on, up to `stop`, whose time to be played has not come."""
        pace = self._pace
        if self._is_all_available or (pace.speed is None and pace.rate is None) or row == stop:
            return stop
        if self._begun is None:
            if self._first in (None, row):
                self._first = row
                return row + 1
            begin = 0 if pace.speed is None else self._recording.time(row, pace.time)
            if begin == NEVER:  # no time: the clock begins with the next row
                return row + 1
            self._begun = self._clock(), row, begin
        started, first, begin = self._begun
        passed = self._clock() - started
        if pace.rate is not None:
            return max(row, min(stop, first + int(passed * pace.rate)))
        assert pace.speed is not None
        return self._recording.due(row, stop, pace.time, begin + int(passed * pace.speed * self._ticks))

    @property
    def _ticks(self) -> float:
        return _MICROSECONDS if pa.types.is_timestamp(self._recording.schema.field(self._pace.time).type) else 1.0

    def _offset(self, row: int) -> dict[str, int]:
        return {"row": row, "rows": self._recording.rows}

    def _row(self, offset: dict[str, int]) -> int:
        if offset["rows"] != self._recording.rows:
            raise StateError(
                f"the recording at {self._recording.location!r} is not the one that the query began with",
                why=f"it has {self._recording.rows:,} rows, and had {offset['rows']:,}: the numbers of rows have moved",
                do="bring the files back, or start the query with a new checkpoint directory",
            )
        return offset["row"]


# --- Options


def _pace(options: MutableMapping[str, str]) -> Pace:
    """Read the options, which Spark hands over as text."""
    unknown = [name for name in options if name.lower() not in _OPTIONS]
    if unknown:
        raise DefinitionError(
            f"stretch-replay does not know the option {unknown[0]!r}",
            why=f"its options are {', '.join(_OPTIONS.values())}",
            do="leave it out, or correct its name",
        )
    if "path" not in options:
        raise DefinitionError(
            "stretch-replay does not know what to play",
            why="there is no path",
            do='name a Parquet file or a directory of them: .load("tweets.parquet")',
        )
    if "speed" in options and "rate" in options:
        raise DefinitionError(
            f"stretch-replay got speed={options['speed']} and rate={options['rate']}",
            why="each of them says alone when a row is played",
            do="leave one of them out",
        )
    if "time" in options and "speed" not in options:
        raise DefinitionError(
            f"stretch-replay got time={options['time']!r}, and no speed",
            why="only speed looks at event time",
            do="leave time out, or set speed",
        )
    return Pace(
        options.get("time", "ts"),
        _number(options, "speed", float, "1 plays as fast as it was"),
        _number(options, "rate", float, "it counts rows per second"),
        _number(options, "rowsPerBatch", int, "it counts rows") or ROWS_PER_BATCH,
    )


def _number(options: MutableMapping[str, str], name: str, kind: type[Any], meaning: str) -> Any:
    if name not in options:
        return None
    try:
        value = kind(options[name])
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise DefinitionError(
            f"{name}={options[name]!r} is not {'a whole' if kind is int else 'a'} number above zero",
            why=meaning,
            do=f'write for example .option("{name}", 60)',
        )
    return value


def _check_time(recording: Recording, pace: Pace) -> None:
    names = recording.schema.names
    if pace.time not in names:
        raise DefinitionError(
            f"the time column {pace.time!r} does not exist",
            where=recording.location,
            why=f"the files' columns are {', '.join(names)}",
            do='name the column with .option("time", ...)',
        )
    found = recording.schema.field(pace.time).type
    if not (pa.types.is_timestamp(found) or pa.types.is_integer(found)):
        raise DefinitionError(
            f"the time column {pace.time!r} is {found}",
            where=recording.location,
            why="event time is a timestamp or a long",
            do='name another column with .option("time", ...), or play at a rate',
        )
