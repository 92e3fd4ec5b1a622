"""A node: one shard, which is one operator on some threads, fed micro-batch by micro-batch (DESIGN section 6).

    node = Node(operator, ["ts timestamp, user string"], time="ts", source="partition", parallelism=2)
    for rows in node.process(0, [(0, batch), ...]):      # micro-batch 0; results leave as they come
        ...
    node.commit(StateLog("state/0"))                     # from here on version 0 can be restored
    ...
    node = Node.restore(StateLog("state/0"), 41, operator, [...], time="ts", source="partition")
    node.process(42, ...)

A node is used by one thread at a time, but for `reconfigure` and `metrics`, which any thread may call. Whoever drops
a node calls `stop`. A node whose `process` did not come to its end, for whatever reason, can only be stopped.
"""

from __future__ import annotations

import time as wall_clock
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from stretch.metrics import Reconfiguration
from stretch.node.state_log import CommitRecord, StateLog
from stretch.operator.plan import AnyOperator
from stretch.operator.spec import Mapping
from stretch.runtime.engine import Metrics


@dataclass(frozen=True)
class NodeMetrics:
    """What a node has done, restored versions included where the log knows it."""

    engine: Metrics
    """Of the engine in this process, since the node was made."""
    version: int | None
    watermark: int | None
    """Event time up to which everything is processed."""
    held: int
    """Rows that wait for the watermark."""
    late: int
    sources: int
    dictionary_texts: int
    state_bytes: int


class Node:
    """One shard of an operator; see the module header.

    - `inputs`: the schemas of the inputs, as Spark DDL. `time` names the column of event time in each.
    - `source`: the column (of each input) whose values, ints or text, tell sources apart; each source is sorted by
      time across micro-batches. It may be a column of the schema, or one more. None: each input is one source.
    - `disorder`: how far back a row may be behind the latest one of its source, "10 seconds"; without `source` this is
      Spark's withWatermark.
    - `idle`: a source silent for so long ("5 seconds" of real time) does not hold back the others.
    - `clock`: real time in seconds; `process(now=...)` overrides it.
    """

    version: int | None
    """The last micro-batch that memory holds; None if there was none yet."""

    def __init__(
        self,
        operator: AnyOperator,
        inputs: Any,
        *,
        time: str = "ts",
        source: str | None = None,
        disorder: str | int | None = None,
        parallelism: int = 1,
        max_parallelism: int | None = None,
        idle: str | None = None,
        resolution: str | int | None = None,
        engine: str = "compiled",
        clock: Callable[[], float] = wall_clock.monotonic,
    ) -> None:
        raise NotImplementedError

    @classmethod
    def restore(
        cls,
        log: StateLog,
        version: int,
        operator: AnyOperator,
        inputs: Any,
        *,
        parallelism: int | None = None,
        **options: Any,
    ) -> Node:
        """Make the node that committed `version`; `options` are those of `Node`.

        Without a `parallelism` it is the one asked for last, and so is the mapping.
        """
        raise NotImplementedError

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of the results, the time column first; text is plain."""
        raise NotImplementedError

    def process(
        self, batch_id: int, batches: Iterable[tuple[int, pa.RecordBatch]], *, now: float | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Take the rows of a micro-batch, as pairs (number of the input, rows), and yield results in time order.

        When it is exhausted, everything that is ready has been processed and `version` is `batch_id`, which has to
        be the one after the last. `now` is the real time of the micro-batch: pass one that is the same in a retry, so
        that all attempts agree on who is idle.
        """
        raise NotImplementedError

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Process what waits for the watermark and complete all windows, between `process` and `commit`.

        The watermark then is where the last window ends: rows before it that still come are late.
        """
        raise NotImplementedError

    def commit(self, log: StateLog) -> CommitRecord:
        """Write what the last micro-batch changed; when it returns, the version can be restored."""
        raise NotImplementedError

    def late(self, input: int = 0) -> pa.Table:
        """Return the late rows of an input since the last call."""
        raise NotImplementedError

    def reconfigure(
        self, parallelism: int | None = None, *, instances: Sequence[int] | None = None, mapping: Mapping | None = None
    ) -> Reconfiguration:
        """Change how many instances run, which ones, or who owns which key group; as `Job.reconfigure`."""
        raise NotImplementedError

    def metrics(self) -> NodeMetrics:
        """Return what the node has done so far."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop its threads and give its memory back, whatever state it is in. Safe to call twice."""
        raise NotImplementedError
