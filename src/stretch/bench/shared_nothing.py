"""The compiled engine, shared-nothing: an instance is an engine of its own, with its own log, dictionary and state.

A router copies each tuple to every instance that owns one of its keys, through a queue per instance; a thread per
instance takes from its queue and adds to its engine. Kernels are those of the shared engine: what differs between the
two is what is shared. It cannot change its parallelism: its state would have to move, and that is not measured here.

The results of the instances are read one engine after the other and not merged, which spares this side some work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Queue
from types import TracebackType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.bench.rig import Consume, Play
from stretch.bench.router import Router
from stretch.bench.streams import WINDOW, round_up
from stretch.errors import JobError
from stretch.operator.aggregate import Aggregate
from stretch.operator.plan import make_plan
from stretch.runtime.compiled.engine import Begin, CompiledEngine
from stretch.runtime.compiled.memory import Memory
from stretch.schema import Schema

QUEUE_BATCHES = 8
NOBODY = -1  # owns the groups that an instance does not

_POLL_SECONDS = 0.001
_PATIENCE_SECONDS = 60.0

_Item = tuple[pa.RecordBatch, int] | None
"""Tuples for an instance, and the time up to which there are no others; None at the end."""


class SharedNothing:
    """Instances that share nothing; use it in a `with` statement."""

    def __init__(self, operator: Aggregate, schema: Schema, instances: int, distance: int | None) -> None:
        plan = make_plan(operator, [schema])
        self.router = Router(instances, distance)
        self.start = 0
        """The event time at which the next play begins."""
        self._engines = [
            CompiledEngine(
                plan,
                list(plan.streams),
                1,
                1,
                None,
                None,
                time.monotonic,
                Begin((0,), load=partial(_own, self.router.owners == instance)),
            )
            for instance in range(instances)
        ]
        self._stop = threading.Event()

    def play(self, stream: Iterable[pa.RecordBatch], consume: Consume) -> Play:
        """Play a stream, and hand all results to `consume`, in another thread."""
        self._stop.clear()
        queues: list[Queue[_Item]] = [Queue(QUEUE_BATCHES) for _ in self._engines]
        begun, begun_cpu = time.perf_counter(), time.process_time()
        with ThreadPoolExecutor(len(queues) + 1) as threads:
            reader = threads.submit(self._read, consume)
            feeders = [
                threads.submit(_feed, engine, queue) for engine, queue in zip(self._engines, queues, strict=True)
            ]
            try:
                tuples, latest = 0, self.start
                for batch in stream:
                    latest = batch.column("ts")[-1].as_py()
                    tuples += batch.num_rows
                    for part, queue, feeder in zip(self.router.deal(batch), queues, feeders, strict=True):
                        _put((part, latest), queue, feeder)
                self.start = round_up(latest + 1) + WINDOW
                for queue, feeder in zip(queues, feeders, strict=True):
                    _put((batch.slice(0, 0), self.start), queue, feeder)
                    _put(None, queue, feeder)
                for feeder in feeders:
                    feeder.result(_PATIENCE_SECONDS)
            finally:
                self._stop.set()
            reader.result(_PATIENCE_SECONDS)
        return Play(tuples, time.perf_counter() - begun, time.process_time() - begun_cpu)

    def _read(self, consume: Consume) -> None:
        """Consume results until all tuples are in, and then what is left."""
        while not self._stop.is_set():
            rows = 0
            for engine in self._engines:
                results = engine.results(wait=False)
                rows += results.num_rows
                consume(results)
            if rows == 0:
                time.sleep(_POLL_SECONDS)
        for engine in self._engines:
            consume(engine.results(wait=True))

    def __enter__(self) -> SharedNothing:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for engine in self._engines:
            engine.stop()


def _own(is_own: npt.NDArray[np.bool_], memory: Memory) -> None:
    """Give the one worker of an engine the groups of its instance, before it starts."""
    memory.epochs.mapping[0] = np.where(is_own, 0, NOBODY)


def _feed(engine: CompiledEngine, queue: Queue[_Item]) -> None:
    """Add what comes through the queue."""
    while (item := queue.get(timeout=_PATIENCE_SECONDS)) is not None:
        part, until = item
        if part.num_rows > 0:
            engine.add(part, 0)
        engine.watermark(until, 0)


def _put(item: _Item, queue: Queue[_Item], feeder: Future[None]) -> None:
    """Put into a queue of bounded length; fail with the thread that should take from it."""
    while feeder.running() and queue.full():
        time.sleep(_POLL_SECONDS / 10)
    if feeder.done():
        feeder.result()
        raise JobError("an instance has ended", why="its queue was closed before the stream ended", do="report this")
    queue.put(item)
