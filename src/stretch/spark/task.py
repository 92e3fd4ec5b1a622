"""What a Spark task does: one micro-batch of one shard.

It takes the shard's node at the version before, feeds it, writes the new version to the state log, and only then lets
the last results go; so a version is there before Spark can know that the task has succeeded.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from stretch.errors import DefinitionError
from stretch.node import StateLog
from stretch.spark import shards
from stretch.spark.places import open_log
from stretch.spark.route import Route
from stretch.spark.rows import Travelled
from stretch.spark.work import CHECKPOINT, PROBLEM, Key, Work, task_name

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


def make_task(work: Work) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what Spark calls with the rows of a partition; its name is what plans show."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stretch.spark.task import run_task

        return run_task(work, batches)

    run.__name__ = task_name(work)
    return run


def make_router(work: Work, route: Route) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what Spark calls with the rows of a partition before the shuffle."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stretch.spark.route import send

        return send(route, batches)

    run.__name__ = f"to_shards_of_{work.name}"
    return run


def run_task(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Process the rows of a partition, and yield the results."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    travelled = Travelled(work.layout, batches, work.options["time"], work.options["source"])
    number = context.partitionId()
    if not work.is_streaming:
        return _run_batch(work, number, travelled)
    problem = context.getLocalProperty(PROBLEM)
    if problem is not None:
        raise DefinitionError(problem, why="each has state of its own under its name", do="give them names: name=...")
    key = Key(_property(context, _QUERY), work.name, number)
    log = open_log(work, context.getLocalProperty(CHECKPOINT), key)
    return _run_micro_batch(work, key, log, int(_property(context, _BATCH)), travelled)


def _run_batch(work: Work, number: int, travelled: Travelled) -> Iterator[pa.RecordBatch]:
    """Process rows that are all there is."""
    node = shards.new_node(work, number)
    try:
        for rows in node.process(0, travelled.rows(), heard=travelled.heard):
            yield work.results.of(rows)
        for rows in node.flush():
            yield work.results.of(rows)
    finally:
        node.stop()


def _run_micro_batch(
    work: Work, key: Key, log: StateLog, batch_id: int, travelled: Travelled
) -> Iterator[pa.RecordBatch]:
    """Process a micro-batch; the last results leave when its version is in the log."""
    shard = shards.take(work, key, log, batch_id)
    try:
        node, begun = shard.node, time.perf_counter()
        waiting: list[pa.RecordBatch] = []
        now = node.now if travelled.now is None else travelled.now  # no rows: time stands still
        for rows in node.process(batch_id, travelled.rows(), now=now, heard=travelled.heard):
            yield from waiting
            waiting = [work.results.of(rows)]
        late = [node.late(number) for number in range(len(work.inputs))]  # taken in any case, or they pile up
        if work.has_late and key.number == 0:  # every shard has all of them
            waiting += work.results.of_late(late)
        record = node.commit(log, f"{work.token}:{uuid.uuid4().hex}")
    except BaseException:
        shards.drop(shard)
        raise
    shards.give_back(shard, record, time.perf_counter() - begun)
    yield from waiting


def _property(context: Any, name: str) -> str:
    value = context.getLocalProperty(name)
    if value is None:
        raise DefinitionError(
            "Spark does not say which micro-batch of which query this is",
            why=f"the local property {name} is missing",
            do="use a version of PySpark from 4.1 up, and micro-batches (no continuous or real-time trigger)",
        )
    return str(value)
