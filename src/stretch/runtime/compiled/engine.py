"""What a job asks of the compiled engine: it puts sources, memory, workers and results together.

Source side: the thread that calls `add`. Workers: one thread per instance of the pool. Reader side: the thread that
calls `results`; a source that finds no room takes results out meanwhile, so that one thread alone can add and read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.buffer.ready_log_kernels import merge_now, ready_end, wait_for_readers
from stretch.epochs.coordinator import Coordinator, EpochChange
from stretch.epochs.layout import BUSY_NS
from stretch.joins.program import JoinProgram, compile_join, is_join
from stretch.metrics import Metrics
from stretch.native.waiting import WAIT_AGAIN, deadline_after
from stretch.operator.plan import Plan, Stream
from stretch.operator.program import Program, compile_plan
from stretch.operator.spec import Mapping
from stretch.runtime.compiled.admission import Encoder
from stretch.runtime.compiled.feed import feed
from stretch.runtime.compiled.image import Section, sections_of
from stretch.runtime.compiled.inlet import Inlet
from stretch.runtime.compiled.join_memory import JoinMemory
from stretch.runtime.compiled.memory import Memory, TableMemory
from stretch.runtime.compiled.readings import read_metrics
from stretch.runtime.compiled.results import Results
from stretch.runtime.compiled.sources import Sources
from stretch.runtime.compiled.workers import Workers
from stretch.runtime.ingress import Disorder

ROUND_NS = 2_000_000  # how long a thread waits for workers before it takes results out of their way


@dataclass(frozen=True)
class Begin:
    """What an engine begins with: who runs, and, where it goes on with the work of another, its state and watermark."""

    instances: tuple[int, ...]
    mapping: Mapping | None = None
    watermark: int | None = None
    load: Callable[[Memory], None] | None = None


def program_of(plan: Plan) -> Program | JoinProgram:
    """Compile a plan, or say what of it cannot be compiled."""
    return compile_join(plan) if is_join(plan) else compile_plan(plan)


def make_memory(program: Program | JoinProgram, streams: Sequence[Stream], pool: int) -> Memory:
    """Reserve the memory that a program runs in."""
    if isinstance(program, JoinProgram):
        return JoinMemory(program, streams, pool)
    return TableMemory(program, streams, pool)


class CompiledEngine:
    """Runs one operator on threads."""

    def __init__(
        self,
        plan: Plan,
        streams: Sequence[Stream],
        parallelism: int,
        max_parallelism: int,
        disorder: Disorder,
        idle_seconds: float | None,
        clock: Callable[[], float],
        begin: Begin | None = None,
    ) -> None:
        self.plan = plan
        self.max_parallelism = max_parallelism
        self.program = program = program_of(plan)
        assert plan.boundaries is not None
        self.memory = memory = make_memory(program, streams, max_parallelism)
        self._results = Results(memory, program.results, plan)
        encoders = [
            Encoder(s, program.layouts[s.index], memory.dictionary, f"source {n}") for n, s in enumerate(streams)
        ]
        self._inlets = [
            Inlet(memory.log, memory.measures, n, s, encoders[n], plan.boundaries) for n, s in enumerate(streams)
        ]
        self._sources = Sources(streams, self._inlets, memory.log, disorder, idle_seconds, clock, self._relieve)
        self._coordinator = Coordinator(memory.epochs, self._is_going_on)
        begin = begin or Begin(tuple(range(parallelism)))
        self._coordinator.request(begin.instances, plan.mapping_for(begin.instances, begin.mapping))
        memory.log.add_readers(begin.instances)
        memory.out.add_sources(begin.instances)
        if begin.load is not None:
            begin.load(memory)
        self._workers = Workers(plan.name, memory, begin.instances, begin.watermark)

    @property
    def parallelism(self) -> int:
        return len(self._coordinator.instances)

    @property
    def source_count(self) -> int:
        return len(self._sources.all)

    def add(self, batch: pa.RecordBatch, source: int) -> None:
        self._workers.check()
        self._sources.add(batch, source)

    def watermark(self, timestamp: int, source: int) -> None:
        self._workers.check()
        self._sources.watermark(timestamp, source)

    def close(self, source: int) -> None:
        self._workers.check()
        self._sources.close(source)

    def reconfigure(self, instances: Sequence[int], mapping: Mapping | None) -> EpochChange:
        self._workers.check()
        change = self._coordinator.request(instances, self.plan.mapping_for(instances, mapping))
        self._sources.announce(change.epoch)
        return change

    def results(self, wait: bool = True) -> pa.Table:
        if self._workers.failure is not None:
            raise self._workers.failure
        if self._workers.is_running:
            self._sources.check_idle()
            if wait:
                self._settle()
        return self._results.take()

    def late(self, source: int) -> pa.Table:
        return self._sources.late(source)

    def finish(self, beyond: int = 0) -> None:
        self._workers.check()
        self._sources.end(beyond + self.plan.reach)
        self._settle()
        self._results.collect()
        self.stop()

    def stop(self) -> None:
        self._workers.stop()

    def metrics(self) -> Metrics:
        return read_metrics(self.memory, self._sources, self._coordinator)

    # --- What a node asks for: it brings rows in order, and keeps the state

    def feed(self, rows: Sequence[pa.RecordBatch | None], watermark: int, *, muted: bool = False) -> Iterator[pa.Table]:
        """Take sorted rows of each input, all before `watermark`, and yield results as they come; none if `muted`.

        When it is exhausted the engine is drained: everything is processed, and its results were yielded.
        """
        self._results.is_muted = muted
        self._sources.tuples_in += sum(0 if some is None else some.num_rows for some in rows)
        for _ in feed(self._inlets, rows, watermark):
            self._workers.check()
            yield self._results.take()
        for _ in self._settling():
            self._workers.check()
            yield self._results.take()
        yield self._results.take()

    def image(self) -> list[Section]:
        """Return the state; the engine is drained, and stays so until the sections have been read."""
        return sections_of(self.memory)

    @property
    def state_bytes(self) -> int:
        """How much memory the state takes now: blocks of tables, and texts."""
        return self.memory.state_bytes + self.memory.dictionary.live_bytes()

    @property
    def requested(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The instances asked for last, and who of them has which key group."""
        return self._coordinator.requested

    @property
    def busy_seconds(self) -> npt.NDArray[np.float64]:
        """How long each worker has worked."""
        busy: npt.NDArray[np.float64] = self.memory.epochs.workers[:, BUSY_NS] / 1e9
        return busy

    def _relieve(self) -> None:
        """Make room for workers; called by a thread that waits for them."""
        self._workers.check()
        self._results.collect()

    def _settle(self) -> None:
        """Wait until all that was ready when this was called is processed, and its results are ready."""
        for _ in self._settling():
            self._relieve()

    def _settling(self) -> Iterator[None]:
        """Do what `_settle` does, step by step; results have to be taken out between steps.

        What is ready comes before all that sources add from now on, so that each round takes a full log of it, and a
        few rounds are enough however much is added meanwhile.
        """
        log = self.memory.log
        rounds = 2 + log.max_sources * log.staging_capacity // log.capacity
        for _ in range(rounds):
            merge_now(log.view)
            end = ready_end(log.view)
            while wait_for_readers(log.view, 0, log.max_readers, end, deadline_after(ROUND_NS)) != WAIT_AGAIN:
                yield
        merge_now(self.memory.out.view)

    def _is_going_on(self) -> bool:
        """Tell whether workers run; raise what one of them failed with."""
        if self._workers.failure is not None:
            raise self._workers.failure
        return self._workers.is_running
