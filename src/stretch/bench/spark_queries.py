"""The queries that `stretch bench spark` runs, ours and Spark's own, over the same Parquet files of tweets.

Spark's own are what its users write: `explode`, then `groupBy(window, key).count()`, in append mode. A word or a pair
counts once per tweet, as in ours.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stretch.bench.data import make_tweets
from stretch.bench.paircount import DISTANCES
from stretch.operator.aggregate import Aggregate, count
from stretch.operator.keys import pairs, words
from stretch.windows.spec import sliding

WINDOW, ADVANCE = "2 minutes", "1 minute"
SCHEMA = "ts timestamp, user string, text string"


@dataclass(frozen=True)
class Batch:
    """A micro-batch that is over: its rows, and where its time went, in milliseconds."""

    rows: int
    results: int
    total: float
    work: float
    """Reading, processing and writing: what Spark calls addBatch. The rest is planning and the checkpoint."""


class Folder:
    """A folder with tweets as Parquet files, and a checkpoint for each query."""

    def __init__(self, root: str, files: int, rows: int, seed: int = 0) -> None:
        self.input = Path(root) / "in"
        self.input.mkdir()
        self._root = Path(root)
        self._queries = 0
        table = make_tweets(files * rows, seed).table
        times = pa.array(table["ts"].to_numpy() * 1000).cast(pa.timestamp("us", tz="UTC"))
        table = table.set_column(0, "ts", times)
        for number in range(files):
            path = self.input / f"{number:05}.parquet"
            pq.write_table(table.slice(number * rows, rows), path)
            os.utime(path, (1_600_000_000 + number,) * 2)  # Spark takes the oldest first

    def new(self) -> Path:
        """Return a folder of its own for a query."""
        self._queries += 1
        path = self._root / f"query{self._queries}"
        path.mkdir()
        return path

    def tweets(self, spark: Any, files_per_batch: int = 1) -> Any:
        """Return the tweets as a stream, a file per micro-batch."""
        return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files_per_batch).parquet(str(self.input))


def run_query(frame: Any, folder: Path, sink: str = "noop", limit: int | None = None) -> list[Batch]:
    """Run a query until its input is used up, or has brought so many micro-batches; return them."""
    writer = (
        frame.writeStream.format(sink).outputMode("append").option("checkpointLocation", str(folder / "checkpoint"))
    )
    query = writer.trigger(availableNow=True).start(*([str(folder / "out")] if sink != "noop" else []))
    try:
        while query.isActive and (limit is None or len(query.recentProgress) < limit):
            query.awaitTermination(0.05)
    finally:
        query.stop()
    if query.exception() is not None:
        raise query.exception()
    done = [progress for progress in query.recentProgress if progress["numInputRows"] > 0]
    return [_batch(progress) for progress in (done if limit is None else done[:limit])]


def rate(batches: list[Batch]) -> float:
    """Return rows per second, from the second micro-batch on: the first one compiles, on both sides."""
    rest = batches[1:]
    return 1000 * sum(batch.rows for batch in rest) / sum(batch.total for batch in rest)


def typical(batches: list[Batch], what: str) -> float:
    """Return the median of what micro-batches took, from the second on."""
    return float(median(getattr(batch, what) for batch in batches[1:]))


def counted(tweets: Any, level: str, parallelism: int, max_parallelism: int | None = None) -> Any:
    """Count words, or pairs of a level, with our operator."""
    keys = words("text") if level == "words" else pairs("text", DISTANCES[level])
    operator = Aggregate(window=sliding(WINDOW, ADVANCE), keys=keys, count=count(), name=f"count-{level}")
    return operator.on(tweets, time="ts", parallelism=parallelism, max_parallelism=max_parallelism)


def counted_by_spark(spark: Any, tweets: Any, level: str) -> Any:
    """Count the same with Spark's explode and groupBy."""
    key = "explode(array_distinct(split(text, ' '))) AS key"
    if level != "words":
        reach = DISTANCES[level] or 1_000
        near = f"transform(slice(w, i + 2, {reach}), other -> struct(word, other))"
        key = f"explode(array_distinct(flatten(transform(w, (word, i) -> {near})))) AS key"
    exploded = tweets.withWatermark("ts", "0 seconds").selectExpr("ts", "split(text, ' ') AS w", "text")
    exploded.selectExpr("ts", key).createOrReplaceTempView("exploded")
    return spark.sql(
        f"SELECT window, key, count(*) AS count FROM exploded GROUP BY window(ts, '{WINDOW}', '{ADVANCE}'), key"
    )


def passed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass batches on as they are: what any Python in a query costs."""
    yield from batches


def folder_of(files: int, rows: int, seed: int = 0) -> tuple[tempfile.TemporaryDirectory[str], Folder]:
    """Return a folder that goes when its owner closes it."""
    owner = tempfile.TemporaryDirectory(prefix="stretch-bench-", ignore_cleanup_errors=True)
    return owner, Folder(owner.name, files, rows, seed)


def _batch(progress: Any) -> Batch:
    took, sink = progress["durationMs"], progress["sink"]
    return Batch(
        int(progress["numInputRows"]), int(sink["numOutputRows"]), took["triggerExecution"], took.get("addBatch", 0)
    )
