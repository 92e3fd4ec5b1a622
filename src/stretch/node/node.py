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

Invariants
    L1  A version of the log is the state after its micro-batch: a snapshot of it, or what `Processing` was given.
"""

from __future__ import annotations

import time as wall_clock
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from stretch.errors import JobError
from stretch.metrics import Metrics, Reconfiguration
from stretch.node.files import rows_section
from stretch.node.marks import LOWEST
from stretch.node.order import Heard, Rows
from stretch.node.processing import Options, Processing, Saved
from stretch.node.state_log import CommitRecord, StateLog
from stretch.operator.plan import AnyOperator
from stretch.operator.spec import Mapping
from stretch.runtime.arguments import instances_of

FILE_SECONDS = 0.001  # what it takes to open a file, about
DELTAS_PER_SNAPSHOT = 2.0  # in seconds of processing per second of writing

_STATES = {
    "ready": "waits for its next micro-batch",
    "processed": "has processed a micro-batch that is not committed",
    "failed": "did not come to the end of what it began",
    "stopped": "was stopped",
}


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


@dataclass
class _MicroBatch:
    """What a micro-batch has brought, for its delta."""

    rows: Sequence[Rows] = ()
    now: float = 0.0
    heard: Sequence[Heard] = ()
    watermarks: list[int] = field(default_factory=list)
    """After its rows; and after a flush."""
    seconds: float = 0.0

    @property
    def bytes(self) -> int:
        return sum(0 if rows is None else rows.nbytes for rows in self.rows)


class Node:
    """One shard of an operator; see the module header.

    - `inputs`: the schemas of the inputs, as Spark DDL. `time` names the column of event time in each.
    - `source`: the column (of each input) whose values, ints or text, tell sources apart; each source is sorted by
      time across micro-batches. It may be a column of the schema, or one more. None: each input is one source.
    - `disorder`: how far back a row may be behind the latest one of its source, "10 seconds"; without `source` this is
      Spark's withWatermark.
    - `idle`: a source silent for so long ("5 seconds" of real time) does not hold back the others.
    - `share`: which of how many nodes it is, that have the same input and share the key groups: (0, 2) and (1, 2).
    - `clock`: real time in seconds, the same after a restart; `process(now=...)` overrides it.
    """

    version: int | None
    """The last micro-batch that memory holds; None if there was none yet."""
    now: float | None
    """The real time of that micro-batch."""

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
        clock: Callable[[], float] = wall_clock.time,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        self._set_up(
            Processing(
                Options(
                    operator,
                    inputs,
                    time,
                    source,
                    disorder,
                    parallelism,
                    max_parallelism,
                    idle,
                    resolution,
                    engine,
                    clock,
                    share,
                )
            ),
            clock,
        )

    def _set_up(self, processing: Processing, clock: Callable[[], float]) -> None:
        self._processing = processing
        self._clock = clock
        self.version = self.now = None
        self._state = "ready"
        self._batch = _MicroBatch()
        self._base: int | None = None
        self._replay_seconds = 0.0  # of all deltas since the base
        self._snapshot_seconds = 0.0
        self._attempt = ""

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
        last = log.header(version)
        instances, mapping = last["instances"], last["mapping"]
        if parallelism is not None:
            instances, mapping = range(parallelism), None
        chosen = Options(operator, inputs, parallelism=len(instances), **options)
        if max(instances) >= chosen.pool:
            instances, mapping = range(min(len(instances), chosen.pool)), None
        with log.read(int(last["base"])) as file:
            processing = Processing(chosen, Saved(file, instances, mapping))
        node = cls.__new__(cls)
        node._set_up(processing, chosen.clock)
        node._base = node.version = int(last["base"])
        node._attempt, node.now = last["attempt"], last["now"]
        try:
            for delta in range(node._base + 1, version + 1):
                node._replay(log, delta)
        except BaseException:
            node.stop()
            raise
        return node

    def catch_up(self, log: StateLog, version: int) -> bool:
        """Process what others have committed since, up to `version`; False if it has to be restored instead.

        That is so if the version of this node was written again by somebody else, or a snapshot came later.
        """
        self._require("ready", f"catch_up({version})")
        if self.version is None or self.version > version or not {self.version, version} <= set(log.versions()):
            return False
        if not self._attempt or log.header(self.version)["attempt"] != self._attempt:
            return False
        last = log.header(version)
        if last["base"] != self._base:
            return False
        self._state = "failed"
        for delta in range(self.version + 1, version + 1):
            self._replay(log, delta)
        self._state, self._attempt, self.now = "ready", last["attempt"], last["now"]
        return True

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of the results, the time column first; text is plain."""
        return self._processing.result_schema

    def process(
        self,
        batch_id: int,
        batches: Iterable[tuple[int, pa.RecordBatch]],
        *,
        now: float | None = None,
        heard: Sequence[Heard] = (),
    ) -> Iterator[pa.RecordBatch]:
        """Take the rows of a micro-batch, as pairs (number of the input, rows), and yield results in time order.

        When it is exhausted, everything that is ready has been processed and `version` is `batch_id`, which has to
        be the one after the last. `now` is the real time of the micro-batch: pass one that is the same in a retry, so
        that all attempts agree on who is idle. `heard` is how far sources have come whose rows went to other nodes;
        it is looked at when all batches were taken.
        """
        self._require("ready", f"process({batch_id})")
        if self.version is not None and batch_id != self.version + 1:
            raise JobError(
                f"{self._name}: micro-batch {batch_id} was given to a node that has seen {self.version}",
                why="its state leads on to the next micro-batch, and to no other",
                do=f"restore version {batch_id - 1} from the state log",
            )
        self._state = "failed"  # until it has come to its end
        processing = self._processing
        self.now = self._clock() if now is None else now
        batch = self._batch = _MicroBatch(processing.order.arrange(batches), self.now, list(heard))
        begun = processing.seconds
        yield from processing.advance(batch.rows, batch.now, heard=batch.heard)
        batch.seconds = processing.seconds - begun
        batch.watermarks.append(processing.order.watermark)
        self.version = batch_id
        self._state = "processed"

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Process what waits for the watermark and complete all windows, between `process` and `commit`.

        The watermark then is where the last window ends: rows before it that still come are late.
        """
        self._require("processed", "flush()")
        self._state = "failed"
        begun = self._processing.seconds
        yield from self._processing.end(self._batch.now)
        self._batch.seconds += self._processing.seconds - begun
        self._batch.watermarks.append(self._processing.order.watermark)
        self._state = "processed"

    def commit(self, log: StateLog, attempt: str = "") -> CommitRecord:
        """Write what the last micro-batch changed; when it returns, the version can be restored.

        `attempt` is written with it, and tells whether the version in the log is that of this node (`catch_up`).
        """
        self._require("processed", "commit()")
        self._state = "failed"
        processing, batch = self._processing, self._batch
        self._replay_seconds += batch.seconds + FILE_SECONDS
        limit = max(log.replay_seconds, DELTAS_PER_SNAPSHOT * self._snapshot_seconds)
        is_large = batch.bytes > processing.engine.state_bytes
        header = processing.header() | {"version": self.version, "base": self._base}
        header |= {"attempt": attempt, "now": batch.now}
        if self._base is None or is_large or self._replay_seconds > limit:
            header |= {"kind": "snapshot", "base": self.version, "order": processing.order.state()}
            record = log.write(header, processing.sections())
            self._base, self._replay_seconds, self._snapshot_seconds = self.version, 0.0, record.seconds
        else:
            header |= {"kind": "delta", "watermarks": batch.watermarks, "heard": batch.heard}
            header |= {"late": processing.order.late_counts, "seconds": batch.seconds}
            rows = [rows_section(f"rows {n}", rows) for n, rows in enumerate(batch.rows) if rows is not None]
            record = log.write(header, rows)
        self._state, self._attempt = "ready", attempt
        return record

    def late(self, input: int = 0) -> pa.Table:
        """Return the late rows of an input since the last call."""
        return self._processing.order.take_late(input)

    def reconfigure(
        self, parallelism: int | None = None, *, instances: Sequence[int] | None = None, mapping: Mapping | None = None
    ) -> Reconfiguration:
        """Change how many instances run, which ones, or who owns which key group; as `Job.reconfigure`."""
        engine = self._processing.engine
        return engine.reconfigure(instances_of(parallelism, instances, engine), mapping)

    def metrics(self) -> NodeMetrics:
        """Return what the node has done so far."""
        order, engine = self._processing.order, self._processing.engine
        return NodeMetrics(
            engine=engine.metrics(),
            version=self.version,
            watermark=None if order.watermark == LOWEST else order.watermark,
            held=sum(held.count for held in order.held),
            late=sum(order.late_counts),
            sources=sum(len(marks.values) for marks in order.marks),
            dictionary_texts=engine.memory.dictionary.live_count(),
            state_bytes=engine.state_bytes,
        )

    def stop(self) -> None:
        """Stop its threads and give its memory back, whatever state it is in. Safe to call twice."""
        self._state = "stopped"
        self._processing.engine.stop()

    @property
    def _name(self) -> str:
        return self._processing.plan.name

    def _require(self, state: str, call: str) -> None:
        """Check that the node is in the state in which `call` makes sense."""
        if self._state != state:
            raise JobError(
                f"{self._name}: {call} was called on a node that {_STATES[self._state]}",
                why=f"it makes sense for one that {_STATES[state]}",
                do="commit each micro-batch once it is processed; stop and restore a node that has failed",
            )

    def _replay(self, log: StateLog, version: int) -> None:
        """Process the rows of a delta again."""
        processing = self._processing
        with log.read(version) as file:
            header = file.header
            processing.check(header)
            rows = [processing.rows_from(file, "rows", number) for number in range(len(processing.shapes))]
            file.finish()
        heard = [Heard(*each) for each in header["heard"]]
        for watermark in header["watermarks"]:
            for _ in processing.advance(rows, header["now"], watermark, heard, muted=True):
                raise AssertionError("a muted engine gave results")
            rows, heard = [None] * len(rows), []
        processing.order.late_counts = list(header["late"])
        self._replay_seconds += header["seconds"] + FILE_SECONDS
        self.version = version
