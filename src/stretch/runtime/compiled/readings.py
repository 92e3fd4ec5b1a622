"""What the compiled engine shows of itself: a reading of shared memory, which stops nobody."""

from __future__ import annotations

from stretch.buffer.layout import (
    CONSUMED,
    IS_READER,
    READER_CELLS,
    READY,
    RELEASED,
    SOURCE_CELLS,
    SPEED,
    STAGED,
    LogView,
)
from stretch.buffer.ready_log_kernels import slowest_of
from stretch.epochs.coordinator import Coordinator
from stretch.epochs.layout import (
    BUSY_NS,
    ENTRIES,
    EPOCHS_MAX,
    HANDLED,
    HAS_WATERMARK,
    READERS_MAX,
    RESULTS,
    WAIT_NS,
    WATERMARK,
)
from stretch.metrics import InstanceMetrics, Latency, Metrics
from stretch.native.system import now_ns
from stretch.runtime.compiled.memory import Memory
from stretch.runtime.compiled.sources import Sources
from stretch.runtime.compiled.upstream import Upstream


def read_metrics(memory: Memory, sources: Sources | Upstream, coordinator: Coordinator) -> Metrics:
    """Read everything once."""
    epochs, measures = memory.epochs, memory.measures
    row = coordinator.latest_epoch % EPOCHS_MAX
    members = epochs.members[row].tolist()
    instances = tuple(_instance(memory, number, bool(member)) for number, member in enumerate(members))
    handled, results = sum(each.tuples for each in instances), sum(each.results for each in instances)
    tuples_in, late = sources.tuples_in, sources.late_count
    switched, records = coordinator.records()
    running = [epochs.workers[number] for number, member in enumerate(members) if member]
    reached = [int(worker[WATERMARK]) for worker in running if worker[HAS_WATERMARK]]
    return Metrics(
        tuples_in=tuples_in,
        arrived=sources.arrived,
        late=late,
        results=results,
        parallelism=len(running),
        reconfigurations=switched,
        duplicates_avoided=max(0, handled - (tuples_in - late)),
        read_ns=now_ns(),
        watermark=min(reached) if len(reached) == len(running) else None,
        pending=pending_in(memory.log.view, memory.first_reader, memory.first_reader + memory.pool),
        results_pending=pending_in(memory.out.view, 0, READERS_MAX),
        blocked_ns=sources.blocked_ns,
        instances=instances,
        latency=Latency(tuple(measures.latencies.sum(axis=0).tolist())),
        records=records,
        mapping=tuple(epochs.mapping[row].tolist()),
        updates=tuple(measures.updates[:, : memory.groups].sum(axis=0).tolist()),
        stored=memory.stored,
        comparisons=memory.comparisons,
        state_bytes=memory.state_bytes,
        dictionary_bytes=memory.dictionary.memory_bytes(),
    )


def pending_in(log: LogView, first: int, last: int) -> int:
    """Return how many entries wait in a log: staged, or not given back by all readers of the slots [first, last)."""
    staged = sum(int(log.sources[base + STAGED] - log.sources[base + CONSUMED]) for base in _bases(log))
    return max(0, staged) + max(0, int(log.cells[READY]) - slowest_of(log, first, last))


def _bases(log: LogView) -> range:
    return range(0, len(log.sources), SOURCE_CELLS)


def _instance(memory: Memory, number: int, is_active: bool) -> InstanceMetrics:
    log, row = memory.log.view, memory.epochs.workers[number]
    base = (memory.first_reader + number) * READER_CELLS
    reader = log.readers[base : base + READER_CELLS]
    backlog = max(0, int(log.cells[READY] - reader[RELEASED])) if reader[IS_READER] else 0
    return InstanceMetrics(
        is_active=is_active,
        busy_ns=int(row[BUSY_NS]),
        wait_ns=int(row[WAIT_NS]),
        entries=int(row[ENTRIES]),
        tuples=int(row[HANDLED]),
        results=int(row[RESULTS]),
        backlog=backlog,
        backlog_ms=backlog * int(reader[SPEED]) / 1e9,
    )
