"""What a Spark task does: one micro-batch of one shard.

A shard's node stays in memory from one micro-batch to the next, since Spark keeps Python workers. Whoever uses it takes
it out of `_nodes`, and puts it back when its micro-batch is committed: so what a failed attempt has changed is never
seen again. Without one that is at the version before, the node is restored from the state log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa

from stretch.errors import DefinitionError
from stretch.node import Node, StateLog
from stretch.operator.plan import AnyOperator
from stretch.schema import Schema
from stretch.spark.rows import Layout

CHECKPOINT = "stretch.checkpoint"  # a local property of Spark: where the query's checkpoint is
_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


@dataclass(frozen=True)
class Work:
    """What all tasks of an operator know; it travels in the plan."""

    operator: AnyOperator
    inputs: tuple[Schema, ...]
    layout: Layout
    name: str
    """Tells the operators of a query apart; the same after a restart."""
    token: str
    """Made anew wherever `on` is called."""
    is_streaming: bool
    state: str | None
    min_versions: int
    options: dict[str, Any]
    parallelism: int
    max_parallelism: int | None


class _Shard(NamedTuple):
    """Which shard it is, of which run of which query."""

    query: str
    token: str
    number: int


_nodes: dict[_Shard, Node] = {}


def make_task(work: Work) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what Spark calls with the rows of a partition; its name is what plans show."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from stretch.spark.task import run_task

        return run_task(work, batches)

    run.__name__ = f"stretch_{work.name}"
    return run


def run_task(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Process the rows of a partition, and yield the results."""
    from pyspark import TaskContext

    rows = (part for batch in batches for part in work.layout.untangle(batch))
    if not work.is_streaming:
        return _run_batch(work, rows)
    context = TaskContext.get()
    assert context is not None
    shard = _Shard(_property(context, _QUERY), work.token, context.partitionId())
    batch_id = int(_property(context, _BATCH))
    log = StateLog(_location(work, context, shard), min_versions=work.min_versions)
    return _run_micro_batch(work, shard, log, batch_id, rows)


def _run_batch(work: Work, rows: Iterator[tuple[int, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    node = _new_node(work)
    try:
        yield from node.process(0, rows)
        yield from node.flush()
    finally:
        node.stop()


def _run_micro_batch(
    work: Work, shard: _Shard, log: StateLog, batch_id: int, rows: Iterator[tuple[int, pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """Process a micro-batch; the last results leave when its version is in the log."""
    node = _node_for(work, shard, log, batch_id)
    try:
        last: pa.RecordBatch | None = None
        for results in node.process(batch_id, rows):
            if last is not None:
                yield last
            last = results
        node.commit(log)
    except BaseException:
        node.stop()
        raise
    _nodes[shard] = node
    if last is not None:
        yield last


def _node_for(work: Work, shard: _Shard, log: StateLog, batch_id: int) -> Node:
    """Return the shard's node at the version before; nobody else has it from now on."""
    node = _nodes.pop(shard, None)
    if node is not None:
        if node.version == batch_id - 1:
            return node
        node.stop()
    if batch_id == 0:
        return _new_node(work)
    return Node.restore(
        log,
        batch_id - 1,
        work.operator,
        list(work.inputs),
        parallelism=work.parallelism,
        max_parallelism=work.max_parallelism,
        **work.options,
    )


def _new_node(work: Work) -> Node:
    return Node(
        work.operator,
        list(work.inputs),
        parallelism=work.parallelism,
        max_parallelism=work.max_parallelism,
        **work.options,
    )


def _location(work: Work, context: Any, shard: _Shard) -> str:
    """Return where the shard's state is."""
    root = work.state or context.getLocalProperty(CHECKPOINT)
    if root is None:
        raise DefinitionError(
            f"{work.name}: where to keep the state is not known",
            why="Spark did not tell where the checkpoint of the query is",
            do='pass a directory that every executor reaches: operator.on(..., state="hdfs://...")',
        )
    return f"{_plain(root)}/stretch/{shard.query}/{work.name}/{shard.number}"


def _plain(root: str) -> str:
    """Return local files as paths, everything else as it is."""
    parsed = urlparse(root)
    return unquote(parsed.path) if parsed.scheme == "file" else root.rstrip("/")


def _property(context: Any, name: str) -> str:
    value = context.getLocalProperty(name)
    assert value is not None, f"Spark does not tell {name}"
    return str(value)
