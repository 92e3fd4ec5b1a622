"""The reference engine as a job runs it: VSN or SN, stepped by the seeded scheduler until nothing is left to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any, Literal

import pyarrow as pa

from stretch.buffer.api import EntryKind
from stretch.metrics import InstanceMetrics, Metrics, Progress, Reconfiguration
from stretch.operator.plan import Plan, Stream
from stretch.operator.spec import Mapping
from stretch.reference.buffer import ReferenceBuffer
from stretch.reference.control import ControlQueues
from stretch.reference.scheduler import Scheduler
from stretch.reference.shared_nothing import SharedNothing
from stretch.reference.virtual import EGRESS, Epoch, VirtualSharedNothing
from stretch.runtime.ingress import Disorder
from stretch.runtime.sources import Sources
from stretch.schema import rows_to_table


class VirtualReconfiguration(Reconfiguration):
    """A change that control tuples carry to the instances."""

    def __init__(self, engine: VirtualEngine, epoch: Epoch) -> None:
        super().__init__(epoch.number, sorted(epoch.instances))
        self._engine = engine

    def progress(self) -> Progress:
        operator = self._engine.operator
        switch, moments = operator.switches.get(self.epoch), operator.moments[self.epoch]
        times = (moments.requested_ns, moments.control_ns, moments.barrier_ns, moments.switched_ns)
        if switch is not None:
            return Progress("switched", switch.trigger[0], *times)
        is_over = operator.latest_epoch.number > self.epoch
        return Progress("superseded" if is_over else "waiting", None, *times)

    def check(self) -> bool:
        return self._engine.is_running


class ImmediateReconfiguration(Reconfiguration):
    """A change that halted the operator and has taken effect (shared-nothing): there is no control tuple or barrier."""

    def __init__(self, epoch: int, instances: Sequence[int], requested_ns: int, switched_ns: int) -> None:
        super().__init__(epoch, instances)
        self._progress = Progress("switched", None, requested_ns, switched_ns=switched_ns)

    def progress(self) -> Progress:
        return self._progress

    def check(self) -> bool:
        return True


class ReferenceEngine:
    """Common to both models: sources, results, and the scheduler."""

    sources: Sources | None

    def __init__(self, plan: Plan, scheduler: Scheduler, max_parallelism: int) -> None:
        self.plan = plan
        self.scheduler = scheduler
        self.max_parallelism = max_parallelism
        self.is_running = True
        self._output: ReferenceBuffer

    @property
    def source_count(self) -> int:
        return 0 if self.sources is None else len(self.sources.all)

    def add(self, batch: pa.RecordBatch, source: int, deadline: float | None = None) -> int:
        """Take all rows of a batch: there is always room."""
        assert self.sources is not None
        self.sources.add(batch, source)
        self.scheduler.run()
        return int(batch.num_rows)

    def watermark(self, timestamp: int, source: int) -> None:
        assert self.sources is not None
        self.sources.watermark(timestamp, source)
        self.scheduler.run()

    def close(self, source: int) -> None:
        assert self.sources is not None
        self.sources.close(source)
        self.scheduler.run()

    def results(self, wait: bool = True) -> pa.Table:
        """Give the results since the last call; there is never anything to wait for."""
        if self.sources is not None:
            self.sources.check_idle()
        self.scheduler.run()
        return rows_to_table(self.take_rows(), self.plan.result_schema().arrow())

    def take_rows(self) -> list[tuple[Any, ...]]:
        """Return the rows that have come out since the last call."""
        rows = []
        while (entry := self._output.get(EGRESS)) is not None:
            if entry.kind is EntryKind.DATA:
                rows.append((entry.timestamp, *entry.payload))
        return rows

    def late(self, source: int) -> pa.Table:
        assert self.sources is not None
        return self.sources.take_late(source)

    def finish(self, beyond: int = 0) -> None:
        if self.sources is not None:
            self.sources.end(beyond + self.plan.reach)
        self.scheduler.run()
        self.is_running = False

    def stop(self) -> None:
        """Give up what is pending; nothing runs between calls."""
        self.is_running = False


class VirtualEngine(ReferenceEngine):
    """VSN, the paper's system."""

    def __init__(
        self, plan: Plan, scheduler: Scheduler, input: ControlQueues, parallelism: int, max_parallelism: int, name: str
    ) -> None:
        super().__init__(plan, scheduler, max_parallelism)
        self.operator = VirtualSharedNothing(
            plan, scheduler, input, parallelism=parallelism, max_parallelism=max_parallelism, name=name
        )
        self.sources = None
        self._output = self.operator.output.buffer

    @property
    def parallelism(self) -> int:
        requested = self.operator.requested
        return len((requested[-1] if requested else self.operator.first_epoch).instances)

    def reconfigure(self, instances: Sequence[int], mapping: Mapping | None) -> Reconfiguration:
        return VirtualReconfiguration(self, self.operator.reconfigure(instances, mapping))

    def metrics(self) -> Metrics:
        operator = self.operator
        epoch = operator.latest_epoch
        marks = (operator.instances[number].watermark for number in epoch.instances)
        reached = [mark for mark in marks if mark is not None]
        return Metrics(
            tuples_in=0 if self.sources is None else self.sources.tuples_in,
            late=0 if self.sources is None else self.sources.late_count,
            results=operator.counts.results,
            parallelism=len(operator.latest_epoch.instances),
            reconfigurations=len(operator.switches),
            duplicates_avoided=operator.counts.duplicates_avoided,
            read_ns=monotonic_ns(),
            watermark=min(reached) if len(reached) == len(epoch.instances) else None,
            instances=tuple(
                InstanceMetrics(is_active=number in epoch.instances) for number in range(len(operator.instances))
            ),
            records=tuple(VirtualReconfiguration(self, each).record() for each in operator.requested),
            mapping=epoch.mapping,
        )


class SharedNothingEngine(ReferenceEngine):
    """SN, what the paper compares with."""

    sources: Sources

    def __init__(
        self, plan: Plan, scheduler: Scheduler, sources: Sequence[int], parallelism: int, max_parallelism: int
    ) -> None:
        super().__init__(plan, scheduler, max_parallelism)
        self.operator = SharedNothing(
            plan, scheduler, sources, parallelism=parallelism, max_parallelism=max_parallelism
        )
        self._output = self.operator.output
        self._changes = 0

    @property
    def parallelism(self) -> int:
        return len(self.operator.active)

    def reconfigure(self, instances: Sequence[int], mapping: Mapping | None) -> Reconfiguration:
        requested_ns = monotonic_ns()
        self.operator.reconfigure(instances, mapping)
        self._changes += 1
        return ImmediateReconfiguration(self._changes, instances, requested_ns, monotonic_ns())

    def metrics(self) -> Metrics:
        return Metrics(
            tuples_in=self.sources.tuples_in,
            late=self.sources.late_count,
            results=self.operator.counts.results,
            parallelism=self.parallelism,
            reconfigurations=self._changes,
            duplicates_avoided=0,
            copies=self.operator.copies,
            bytes_moved=self.operator.bytes_moved,
            read_ns=monotonic_ns(),
            instances=tuple(
                InstanceMetrics(is_active=number in self.operator.active) for number in range(self.max_parallelism)
            ),
        )


EngineName = Literal["reference", "shared-nothing", "python", "compiled"]


def make_engine(
    kind: EngineName,
    plan: Plan,
    streams: Sequence[Stream],
    parallelism: int,
    max_parallelism: int,
    disorder: Disorder,
    idle_seconds: float | None,
    seed: int,
    clock: Callable[[], float],
) -> VirtualEngine | SharedNothingEngine:
    """Make a reference engine with sources of its own."""
    scheduler = Scheduler(seed)
    numbers = range(len(streams))
    engine: VirtualEngine | SharedNothingEngine
    if kind == "shared-nothing":
        engine = SharedNothingEngine(plan, scheduler, numbers, parallelism, max_parallelism)
        engine.sources = Sources(streams, engine.operator, disorder, idle_seconds, clock)
        return engine
    queues = ControlQueues(ReferenceBuffer(numbers, [EGRESS]))
    engine = VirtualEngine(plan, scheduler, queues, parallelism, max_parallelism, plan.name)
    queues.buffer.remove_readers([EGRESS])
    engine.sources = Sources(streams, queues, disorder, idle_seconds, clock)
    return engine


def chain_engine(upstream: VirtualEngine, plan: Plan, parallelism: int, max_parallelism: int) -> VirtualEngine:
    """Make an engine whose input is the output of another (Paper: the second form of setup)."""
    queues = upstream.operator.output
    name = f"{upstream.operator.name} > {plan.name}"
    return VirtualEngine(plan, upstream.scheduler, queues, parallelism, max_parallelism, name)
