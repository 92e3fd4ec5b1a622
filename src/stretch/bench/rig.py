"""A job that is kept warm over many repetitions: each plays a stream through it, later in event time than the last.

After the tweets of a play come a silence longer than a window, one last tweet, and heartbeats. Results leave in order
of time, so when those of the last tweet have come, all results of the play have: that is when the clock stops. It
starts with the first batch, so that compiling is not in it; sources, workers and the thread that reads results are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import NamedTuple

import pyarrow as pa

from stretch.bench.streams import WINDOW, dealt, round_up
from stretch.errors import JobError
from stretch.metrics import Reconfiguration
from stretch.operator.plan import AnyOperator
from stretch.runtime.reference import EngineName
from stretch.runtime.setup import setup

SCHEMA = "ts long, user string, text string"

_POLL_SECONDS = 0.001
_FEW_ROWS = 16_384  # so many that it pays to look again at once
_PATIENCE_SECONDS = 60.0
_LAST_TEXT = "the end"

Stream = Iterable[pa.RecordBatch]
Consume = Callable[[pa.Table], object]


class Play(NamedTuple):
    """What a play took."""

    tweets: int
    seconds: float
    cpu_seconds: float


class Rig:
    """One job and the threads around it; use it in a `with` statement."""

    def __init__(self, operator: AnyOperator, *, sources: int, max_parallelism: int, engine: EngineName) -> None:
        self.job = setup(
            operator, inputs=SCHEMA, sources=sources, parallelism=1, max_parallelism=max_parallelism, engine=engine
        )
        self.sources = sources
        self.start = 0
        """The event time at which the next play begins."""
        self._parallelism = 1
        self._end = 0  # of what the current play has in its windows; set when its last tweet is known
        self._stop = threading.Event()
        # The reference engine does all its work in the thread that calls it, so threads take turns.
        self._turn: AbstractContextManager[object] = nullcontext() if engine == "compiled" else threading.Lock()

    def resize(self, parallelism: int) -> None:
        """Change the parallelism; it takes effect with the next play."""
        if parallelism != self._parallelism:
            self.job.reconfigure(parallelism=parallelism)
            self._parallelism = parallelism

    def change(self, parallelism: int) -> Reconfiguration:
        """Change the parallelism while a stream plays, and wait until it has taken effect."""
        change = self.job.reconfigure(parallelism=parallelism)
        self._parallelism = parallelism
        if not change.wait(_PATIENCE_SECONDS):
            raise JobError(f"{change} did not happen", why="it waited for too long", do="look for a stalled source")
        return change

    def warm_up(self, table: pa.Table, parallelisms: Iterable[int]) -> None:
        """Compile everything, and let all threads have run once."""
        for parallelism in (*parallelisms, 1):
            self.resize(parallelism)
            self.play(dealt(table, self.start, self.sources), lambda results: None)

    def play(self, streams: Sequence[Stream], consume: Consume, meanwhile: Callable[[], object] | None = None) -> Play:
        """Play a stream per source, and hand all results to `consume`, in another thread.

        `meanwhile` runs in the calling thread; when it returns, endless streams have to end.
        """
        self._end = 1 << 62
        self._stop.clear()
        with ThreadPoolExecutor(len(streams) + 1) as threads:
            reader = threads.submit(self._read, consume)
            begun, begun_cpu = time.perf_counter(), time.process_time()
            try:
                sources = [threads.submit(self._feed, stream, number) for number, stream in enumerate(streams)]
                if meanwhile is not None:
                    meanwhile()
                fed = [source.result() for source in sources]
                self._finish(max(latest for _, latest in fed))
                seconds, cpu_seconds = reader.result(_PATIENCE_SECONDS)
            finally:
                self._stop.set()
        return Play(sum(tweets for tweets, _ in fed), seconds - begun, cpu_seconds - begun_cpu)

    def __enter__(self) -> Rig:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.job.stop()

    def _feed(self, stream: Stream, source: int) -> tuple[int, int]:
        """Add a stream; return how many tweets there were, and the time of the last one."""
        tweets, latest = 0, self.start
        for batch in stream:
            with self._turn:
                self.job.add(batch, source)
            tweets += batch.num_rows
            latest = batch.column(0)[-1].as_py()
        return tweets, latest

    def _finish(self, latest: int) -> None:
        """Add the last tweet, long after all others, and let its windows end."""
        last = round_up(latest + 1) + WINDOW
        self._end = last
        schema = pa.schema([("ts", pa.int64()), ("user", pa.string()), ("text", pa.string())])
        with self._turn:
            self.job.add(pa.RecordBatch.from_pylist([{"ts": last, "user": "", "text": _LAST_TEXT}], schema))
            for source in range(self.sources):
                self.job.watermark(last + WINDOW, source)
        self.start = last + WINDOW

    def _read(self, consume: Consume) -> tuple[float, float]:
        """Consume results until those of the last tweet have come; return when that was, by both clocks."""
        while not self._stop.is_set():
            with self._turn:
                results = self.job.results(wait=False)
            if results.num_rows > 0 and results["ts"][-1].as_py() > self._end:
                seconds, cpu_seconds = time.perf_counter(), time.process_time()
                rights = results["ts"].to_numpy()
                consume(results.slice(0, int((rights <= self._end).sum())))
                return seconds, cpu_seconds
            consume(results)
            if results.num_rows < _FEW_ROWS:
                time.sleep(_POLL_SECONDS)
        raise JobError("the results are not complete", why="a source failed, or took too long", do="see its error")
