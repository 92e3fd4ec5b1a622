"""The reference engine as a job runs it: VSN or SN, stepped by the seeded scheduler until nothing is left to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from stretch.buffer.api import EntryKind
from stretch.operator.plan import Plan, Stream
from stretch.operator.spec import Mapping
from stretch.reference.buffer import ReferenceBuffer
from stretch.reference.control import ControlQueues
from stretch.reference.scheduler import Scheduler
from stretch.reference.shared_nothing import SharedNothing
from stretch.reference.virtual import EGRESS, Epoch, VirtualSharedNothing
from stretch.runtime.engine import Metrics, Reconfiguration, Status, describe
from stretch.runtime.ingress import Disorder
from stretch.runtime.sources import Sources
from stretch.schema import rows_to_table


@dataclass(frozen=True, repr=False)
class VirtualReconfiguration:
    """A change that control tuples carry to the instances."""

    operator: VirtualSharedNothing
    requested: Epoch

    @property
    def epoch(self) -> int:
        return self.requested.number

    @property
    def parallelism(self) -> int:
        return len(self.requested.instances)

    @property
    def status(self) -> Status:
        if self.epoch in self.operator.switches:
            return "switched"
        return "superseded" if self.operator.latest_epoch.number > self.epoch else "waiting"

    @property
    def watermark(self) -> int | None:
        switch = self.operator.switches.get(self.epoch)
        return None if switch is None else switch.trigger[0]

    def __repr__(self) -> str:
        return describe(self)


@dataclass(frozen=True, repr=False)
class ImmediateReconfiguration:
    """A change that halted the operator and has taken effect (shared-nothing)."""

    epoch: int
    parallelism: int
    watermark: int | None = None
    status: Status = "switched"

    def __repr__(self) -> str:
        return describe(self)


class ReferenceEngine:
    """Common to both models: sources, results, and the scheduler."""

    sources: Sources | None

    def __init__(self, plan: Plan, scheduler: Scheduler, max_parallelism: int) -> None:
        self.plan = plan
        self.scheduler = scheduler
        self.max_parallelism = max_parallelism
        self._output: ReferenceBuffer

    @property
    def source_count(self) -> int:
        return 0 if self.sources is None else len(self.sources.all)

    def add(self, batch: pa.RecordBatch, source: int) -> None:
        assert self.sources is not None
        self.sources.add(batch, source)
        self.scheduler.run()

    def watermark(self, timestamp: int, source: int) -> None:
        assert self.sources is not None
        self.sources.watermark(timestamp, source)
        self.scheduler.run()

    def close(self, source: int) -> None:
        assert self.sources is not None
        self.sources.close(source)
        self.scheduler.run()

    def results(self) -> pa.Table:
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

    def stop(self) -> None:
        """Nothing runs between calls."""


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
        return VirtualReconfiguration(self.operator, self.operator.reconfigure(instances, mapping))

    def metrics(self) -> Metrics:
        operator = self.operator
        return Metrics(
            tuples_in=0 if self.sources is None else self.sources.tuples_in,
            late=0 if self.sources is None else self.sources.late_count,
            results=operator.counts.results,
            parallelism=len(operator.latest_epoch.instances),
            reconfigurations=len(operator.switches),
            duplicates_avoided=operator.counts.duplicates_avoided,
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
        self.operator.reconfigure(instances, mapping)
        self._changes += 1
        return ImmediateReconfiguration(self._changes, len(instances))

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
        )


EngineName = Literal["reference", "shared-nothing", "compiled"]


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
