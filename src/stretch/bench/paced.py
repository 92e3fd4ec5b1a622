"""A job whose instances are busy as told, so that 70 of them fit on a machine with few cores.

The load is simulated, and nothing else: a window's update takes a fixed service time, in which its thread sleeps
instead of computing. Tuples, buffers, threads, barriers, epochs, metrics and controllers are real. So instances
can be overloaded, and relieved by more of them, far beyond the number of cores; what more threads cost the cores is not
hidden. There is one key per key group, and keys take turns, so that load is as balanced as it is for the paper's joins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.controllers import Elastic
from stretch.errors import JobError
from stretch.metrics import Latency, Load, Metrics
from stretch.metrics.latency import bucket_edge
from stretch.native.system import sleep_ns
from stretch.operator.spec import Operator
from stretch.runtime.setup import setup
from stretch.windows.groups import hash_key
from stretch.windows.spec import tumbling

SERVICE_NS = 2_000_000
GROUPS = 5_040  # divided evenly, or nearly so, by most numbers of instances
WINDOW_MS = 50
SCHEMA = "ts long, key long"

_TICK_SECONDS = 0.002
_READ_SECONDS = 0.005
_PATIENCE_SECONDS = 60.0


def serve(w: Any, t: Any) -> None:
    """Keep an instance busy for the service time."""
    sleep_ns(SERVICE_NS)
    w.served += 1


def report(w: Any) -> Iterator[tuple[int, int]]:
    """Say how often a key came."""
    yield w.key, w.served


def served() -> Operator:
    """Return the operator."""
    return Operator(
        window=tumbling(WINDOW_MS),
        keys="key",
        state="served long",
        update=serve,
        output=report,
        schema="key long, served long",
        groups=GROUPS,
        name="Served",
    )


def one_key_per_group() -> npt.NDArray[np.int64]:
    """Return the smallest key of each group, group after group."""
    found: dict[int, int] = {}
    key = 0
    while len(found) < GROUPS:
        found.setdefault(hash_key(key) % GROUPS, key)
        key += 1
    return np.array([found[group] for group in range(GROUPS)])


class PacedJob:
    """The job, a thread that adds tuples at `rate`, and one that reads results; use it in a `with` statement."""

    def __init__(self, parallelism: int | Elastic, max_parallelism: int | None = None) -> None:
        self.rate = 0.0
        """Tuples per second; may be set at any time. What the job does not take in time is owed, and follows."""
        self.added = 0
        self.failure: BaseException | None = None
        self.job = setup(
            served(),
            inputs=SCHEMA,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            engine="compiled",
        )
        self.results = 0
        self.latencies: list[tuple[float, int, float]] = []
        """When results were read (by `time.monotonic`), how many, and the milliseconds since their windows ended."""
        self._begun = time.monotonic()
        self._keys = one_key_per_group()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._guarded, args=(one,)) for one in (self._feed, self._read)]

    def warm_up(self) -> None:
        """Let everything run once, so that what compiles has compiled."""
        before, self.rate = self.added, 100.0
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self.results == 0 and self.failure is None:
            if time.monotonic() > deadline and self.added > before:
                raise JobError("nothing came out", why="it took too long", do="report this as a defect")
            time.sleep(0.01)
        self.check()

    def check(self) -> None:
        """Raise what a thread failed with."""
        if self.failure is not None:
            raise self.failure

    def watch(self, seconds: float, minimum: int = 1, maximum: int = 1 << 10) -> tuple[Load, Latency]:
        """Return the load of the next seconds, and the latencies of results."""
        before = self.job.metrics()
        time.sleep(seconds)
        self.check()
        after = self.job.metrics()
        return Load.between(before, after, minimum, maximum), after.latency.since(before.latency)

    def latency_ms(self, begin: float, end: float) -> float:
        """Return the average latency of the results read in between, from when their windows were due to end."""
        read = [(rows, each) for when, rows, each in self.latencies if begin <= when < end]
        return sum(rows * each for rows, each in read) / sum(rows for rows, _ in read) if read else 0.0

    def metrics(self) -> Metrics:
        """Return the metrics of the job."""
        return self.job.metrics()

    def __enter__(self) -> PacedJob:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self.job.stop()
        for thread in self._threads:
            thread.join()

    def _guarded(self, work: Any) -> None:
        try:
            work()
        except BaseException as problem:
            if not self._stop.is_set():
                self.failure = problem

    def _feed(self) -> None:
        """Add what is due every few milliseconds, at event times that follow the clock."""
        begun = last = self._begun
        owed = 0.0
        while not self._stop.is_set():
            time.sleep(_TICK_SECONDS)
            now = time.monotonic()
            owed += self.rate * (now - last)
            count = int(owed)
            if count > 0:
                first, end = int((last - begun) * 1000), int((now - begun) * 1000)
                times = np.linspace(first, end, count).astype(np.int64)
                keys = self._keys[(self.added + np.arange(count)) % GROUPS]
                self.job.add(pa.record_batch({"ts": times, "key": keys}))
                self.added += count
                owed -= count
            last = now

    def _read(self) -> None:
        while not self._stop.is_set():
            rows = self.job.results(wait=False)
            now = time.monotonic()
            if rows.num_rows > 0:
                ended = float(rows.column(0).to_numpy().mean())
                self.latencies.append((now, rows.num_rows, (now - self._begun) * 1000 - ended))
                self.results += rows.num_rows
            time.sleep(_READ_SECONDS)


def mean_ms(latency: Latency) -> float:
    """Return the average of a histogram, each bucket in its middle; 0 without results."""
    counted = [(bucket_edge(n) + bucket_edge(n + 1)) / 2e6 * count for n, count in enumerate(latency.counts) if count]
    return sum(counted) / latency.total if latency.total else 0.0
