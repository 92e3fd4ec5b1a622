"""`st.remaining(query)`: what the open windows of a query that has ended would give, as a batch DataFrame.

A task cannot see that a stream ends, so a query never completes its last windows by itself. This reads the state of the
last micro-batch, and leaves it as it is: the query can go on later, and report these windows whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from stretch.errors import DefinitionError, JobError
from stretch.spark import shards
from stretch.spark.places import open_log
from stretch.spark.queries import checkpoint_of, works_of
from stretch.spark.work import Key, Work


def remaining(query: Any, operator: str | None) -> DataFrame:
    """Return the results of the windows that are still open."""
    works = [work for work in works_of(query) if operator in (None, work.name)]
    if len(works) != 1:
        raise DefinitionError(
            f"the query has {len(works)} operators of stretch" + (f" called {operator!r}" if operator else ""),
            why="the remaining results are those of one operator, and nothing takes them further",
            do="name it: st.remaining(query, operator=...), with the name that it was given by name=...",
        )
    if query.isActive:
        raise JobError(
            "the query is running", why="what remains changes with each micro-batch", do="stop it, or wait for its end"
        )
    work = works[0]
    last = query._jsq.streamingQuery().commitLog().getLatestBatchId()
    session = SparkSession.active()
    columns = ", ".join(f"`{name}` {type_}" for name, type_ in work.result_columns)
    version = int(last.get()) if last.isDefined() else None
    reader = _make_reader(work, checkpoint_of(query), str(query.id), version)
    return session.range(0, work.shards, 1, work.shards).mapInArrow(reader, columns)


def _make_reader(
    work: Work, checkpoint: str, query: str, version: int | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stretch.spark.remaining_rows import read_shard

        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_shard(work, checkpoint, Key(query, work.name, number), version)

    return run


def read_shard(work: Work, checkpoint: str, key: Key, version: int | None) -> Iterator[pa.RecordBatch]:
    """Yield what remains of a shard after a micro-batch."""
    if version is None:
        return
    node = shards.restored(work, key.number, open_log(work, checkpoint, key), version)
    try:
        now = node.now
        yield from node.process(version + 1, [], now=now)
        yield from node.flush()
    finally:
        node.stop()
