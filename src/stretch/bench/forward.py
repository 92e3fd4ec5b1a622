"""Figure 3: every tuple of two sorted inputs to every reader, merged in the order of time.

Measured is the tuple buffer alone, without an operator on top: two source threads, two reader threads that read one
8-byte column, and nothing else. Delivered tuples count once for each reader. Latency is from when a tuple was due.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.bench import forward_kernels as kernels
from stretch.bench.report import Chart, Report, Say
from stretch.buffer import scalegate_kernels
from stretch.buffer.layout import INDEX_SHIFT, INPUT_SHIFT
from stretch.buffer.ready_log import ReadyLog, Source
from stretch.buffer.rows import Column
from stretch.buffer.scalegate_layout import allocate_gate
from stretch.errors import JobError
from stretch.native import deadline_after
from stretch.native.memory import address_of

HELP = "all tuples of two inputs to all readers: tuples per second and latency of the tuple buffers"

GOALS = {"ReadyLog": 20e6, "ElasticScaleGate": 3e6}
LATENCY_GOAL_MS = 5.0
LOAD = 0.7
READERS = 2
SOURCES = 2

_GATE_NODES = 16_384
_BUCKETS = 100_000  # of 10 us: up to a second
_PATIENCE_NS = 120_000_000_000

Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rows: int  # per source
    repetitions: int
    paced_seconds: float
    seed: int = 0


FULL = Size(rows=5_000_000, repetitions=7, paced_seconds=1.0)
QUICK = Size(rows=1_000_000, repetitions=5, paced_seconds=0.5)


class Flow(NamedTuple):
    """What went through a buffer."""

    delivered: int
    seconds: float
    latencies: Array  # of all readers, by bucket
    is_complete: bool

    @property
    def rate(self) -> float:
        """Tuples per second, delivered to all readers together."""
        return self.delivered / self.seconds

    def latency_ms(self, percent: float) -> float:
        """Return the upper end of the bucket that so many percent of the latencies do not exceed."""
        counted = np.cumsum(self.latencies)
        bucket = int(np.searchsorted(counted, counted[-1] * percent / 100))
        return (bucket + 1) * kernels.BUCKET_NS / 1e6


def run(size: Size, say: Say) -> Report:
    """Measure it."""
    report = Report("forward")
    random = np.random.default_rng(size.seed)
    times = [np.cumsum(random.integers(0, 3, size.rows)) for _ in range(SOURCES)]
    rates, latencies = {}, {}
    for name, flow in {"ReadyLog": flow_log, "ElasticScaleGate": _flow_gate}.items():
        say(f"{name}: compiling")
        flow([part[:1000] for part in times], 0, READERS)
        plain = [_noted(report, f"{name} alone", flow(times, 0, READERS), say) for _ in range(size.repetitions)]
        rate = median(one.rate for one in plain)
        pace_ps = int(1e12 * SOURCES * READERS / (LOAD * rate))
        due = [part[: int(size.paced_seconds * 1e12 / pace_ps)] for part in times]
        paced = [
            _noted(report, f"{name} alone, {LOAD:.0%} load", flow(due, pace_ps, READERS), say)
            for _ in range(size.repetitions)
        ]
        report.add(f"{name} alone, no operator: delivered to {READERS} readers", rate, "tuples/s", at_least=GOALS[name])
        for percent, goal in ((50, None), (99, LATENCY_GOAL_MS)):
            latency = median(one.latency_ms(percent) for one in paced)
            report.add(f"{name} alone, {LOAD:.0%} load: p{percent} latency", latency, "ms", at_most=goal)
        wrong = sum(not one.is_complete for one in plain + paced)
        report.add(f"{name} alone: runs that lost or repeated tuples", wrong, "runs", at_most=0)
        rates[name] = [one.rate for one in plain]
        latencies[name] = [one.latency_ms(99) for one in paced]
    report.charts.append(Chart("Tuple buffers alone, 2 sources, 2 readers", "delivered tuples/s", rates))
    report.charts.append(Chart(f"p99 latency at {LOAD:.0%} load", "ms", latencies, is_logarithmic=True))
    return report


def _noted(report: Report, name: str, flow: Flow, say: Say) -> Flow:
    say(f"{name}: {flow.rate:,.0f} tuples/s")
    report.add_run(name, delivered=flow.delivered, seconds=flow.seconds, tuples_per_second=flow.rate)
    return flow


# --- The two buffers


def flow_log(times: list[Array], pace_ps: int, reader_count: int) -> Flow:
    """Let two sources fill a ReadyLog, and everybody read it all."""
    columns = [[Column("value", np.int64)]] * SOURCES
    log = ReadyLog(columns, [Source(number, number) for number in range(SOURCES)], reader_count)
    log.add_sources(range(SOURCES))
    log.add_readers(range(reader_count))
    values = _values(times)
    first, second = (log.columns(number)[0] for number in range(SOURCES))
    addresses = [np.array([address_of(part), 0]) for part in values]

    def feed(source: int, end: int, deadline_ns: int) -> int:
        at = address_of(times[source])
        return kernels.feed_log(log.view, source, at, values[source], addresses[source], pace_ps, end, deadline_ns)

    def read(reader: int, rows: int, found: Array, latencies: Array, deadline_ns: int) -> int:
        return kernels.read_log(log.view, reader, first, second, rows, found, latencies, deadline_ns)

    return _flow(times, values, pace_ps, reader_count, feed, read)


def _flow_gate(times: list[Array], pace_ps: int, reader_count: int) -> Flow:
    view = allocate_gate(range(SOURCES), reader_count, capacity=_GATE_NODES)
    scalegate_kernels.open_readers(view, np.arange(reader_count))
    scalegate_kernels.add_sources(view, -1, np.arange(SOURCES), -(2**61))
    values = _values(times)
    refs = [np.arange(len(part)) << INDEX_SHIFT | number << INPUT_SHIFT for number, part in enumerate(times)]
    fetched = [
        (np.zeros(4 * kernels.BATCH, np.int64), np.zeros(4 * kernels.BATCH, np.int64)) for _ in range(reader_count)
    ]

    def feed(source: int, end: int, deadline_ns: int) -> int:
        return kernels.feed_gate(view, source, times[source], values[source], refs[source], pace_ps, end, deadline_ns)

    def read(reader: int, rows: int, found: Array, latencies: Array, deadline_ns: int) -> int:
        (fetched_times, fetched_refs), (first, second) = fetched[reader], values
        return kernels.read_gate(
            view, reader, fetched_times, fetched_refs, first, second, rows, found, latencies, deadline_ns
        )

    return _flow(times, values, pace_ps, reader_count, feed, read)


def _values(times: list[Array]) -> list[Array]:
    return [np.arange(len(part)) for part in times]


def _flow(
    times: list[Array], values: list[Array], pace_ps: int, reader_count: int, feed: Callable[..., int], read: Any
) -> Flow:
    """Let sources and readers run until everybody has read everything."""
    rows, end = sum(map(len, times)), max(int(part[-1]) for part in times) + 1
    found = np.zeros((reader_count, kernels.FOUND_CELLS), np.int64)
    latencies = np.zeros((reader_count, _BUCKETS if pace_ps else 0), np.int64)
    deadline_ns = deadline_after(_PATIENCE_NS)
    ready = threading.Barrier(SOURCES + reader_count + 1)

    def at_once(work: Callable[..., int], *arguments: Any) -> int:
        ready.wait()
        return work(*arguments)

    with ThreadPoolExecutor(SOURCES + reader_count) as threads:
        readers = [
            threads.submit(at_once, read, k, rows, found[k], latencies[k], deadline_ns) for k in range(reader_count)
        ]
        sources = [threads.submit(at_once, feed, k, end, deadline_ns) for k in range(SOURCES)]
        ready.wait()
        begun = time.perf_counter()
        added, statuses = [one.result() for one in sources], [one.result() for one in readers]
        seconds = time.perf_counter() - begun
    if sum(added) != rows or any(statuses):
        raise JobError("tuples did not come through", why=f"{added} of {rows} were added", do="report this as a defect")
    total = np.concatenate(values).sum()  # wraps around as the readers' sums do
    is_complete = bool((found == [rows, total]).all())
    return Flow(reader_count * rows, seconds, latencies.sum(axis=0), is_complete)
