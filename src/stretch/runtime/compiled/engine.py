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

from stretch.buffer.ready_log_kernels import merge_now, ready_end, report_speed, wait_for_readers
from stretch.epochs.coordinator import Coordinator, EpochChange
from stretch.epochs.layout import BUSY_NS, READERS_MAX
from stretch.errors import DefinitionError, JobError
from stretch.joins.program import JoinProgram, compile_join, is_join
from stretch.metrics import Metrics
from stretch.native.waiting import WAIT_AGAIN, deadline_after
from stretch.operator.columns import not_compiled
from stretch.operator.plan import Plan, Stream
from stretch.operator.program import Program, compile_plan
from stretch.operator.spec import Mapping
from stretch.runtime.compiled.admission import Encoder
from stretch.runtime.compiled.family import Family
from stretch.runtime.compiled.feed import feed
from stretch.runtime.compiled.image import Section, sections_of
from stretch.runtime.compiled.inlet import Inlet
from stretch.runtime.compiled.join_memory import JoinMemory
from stretch.runtime.compiled.memory import Memory, Place, TableMemory
from stretch.runtime.compiled.readings import read_metrics
from stretch.runtime.compiled.results import Results
from stretch.runtime.compiled.sources import Sources
from stretch.runtime.compiled.upstream import Doorway, Upstream, follow_readers
from stretch.runtime.compiled.workers import Workers
from stretch.runtime.ingress import Disorder
from stretch.strings import Dictionary

FIRST_NS_PER_ENTRY = 20_000  # until it is known how fast workers are, so that not much is pending if they are slow
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


def make_memory(program: Program | JoinProgram, streams: Sequence[Stream], pool: int, dictionary: Dictionary) -> Memory:
    """Reserve the memory that a program runs in."""
    if isinstance(program, JoinProgram):
        return JoinMemory(program, streams, pool, dictionary)
    return TableMemory(program, streams, pool, dictionary)


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
        assert plan.boundaries is not None
        self._family, self._reach = Family(), 0
        self._upstream: CompiledEngine | None = None
        program, dictionary = program_of(plan), self._family.dictionary
        self.memory = memory = make_memory(program, streams, max_parallelism, dictionary)
        encoders = [Encoder(s, program.layouts[s.index], dictionary, f"source {n}") for n, s in enumerate(streams)]
        self._inlets = [
            Inlet(memory.log, memory.measures, n, s, encoders[n], plan.boundaries) for n, s in enumerate(streams)
        ]
        self._sources: Sources | Upstream = Sources(
            streams, self._inlets, memory.log, disorder, idle_seconds, clock, self._relieve
        )
        self._start(plan, program, begin or Begin(tuple(range(parallelism))))

    @classmethod
    def behind(cls, upstream: CompiledEngine, plan: Plan, parallelism: int, max_parallelism: int) -> CompiledEngine:
        """Start an engine whose input is the output of another (Paper: the second form of setup)."""
        upstream._check()
        engine = cls.__new__(cls)
        engine._family, engine._upstream, engine._reach = upstream._family, upstream, upstream._reach + plan.reach
        program, memory = program_of(plan), upstream.memory
        if isinstance(program, JoinProgram) or not isinstance(memory, TableMemory):
            raise not_compiled(
                plan.name, "a chain with a join", "the order of a join's results says more than their times"
            )
        first_reader = upstream._take_slots(max_parallelism)
        before = Place(memory, first_reader)
        engine.memory = TableMemory(program, plan.streams, max_parallelism, memory.dictionary, before)
        engine._inlets, engine._sources = [], Upstream(upstream, first_reader)
        engine._start(plan, program, Begin(tuple(range(parallelism))))
        return engine

    def _start(self, plan: Plan, program: Program | JoinProgram, begin: Begin) -> None:
        memory = self.memory
        self.plan, self.program, self.max_parallelism = plan, program, memory.pool
        self.doorway = Doorway(memory.out)
        self._downstream: list[CompiledEngine] = []
        self._slots_taken = 1  # of readers of the output: that of results
        self._has_finished = False
        self._results = Results(memory, program.results, plan, self._release)
        self._coordinator = Coordinator(memory.epochs, self._is_going_on)
        self._coordinator.request(begin.instances, plan.mapping_for(begin.instances, begin.mapping))
        memory.out.add_sources(begin.instances)
        if begin.load is not None:
            begin.load(memory)
            for inlet in self._inlets:
                inlet.go_on_after_load()
        self._workers = Workers(plan.name, memory, self._family, begin.instances, begin.watermark)
        self._family.add(self)
        # Compiled by now: readers hold back the operator before from here on.
        readers, start = np.array(begin.instances, np.int64) + memory.first_reader, 0
        if self._upstream is None:
            memory.log.add_readers(readers)
        else:
            start = self._upstream._leave_to(self, readers)
        for reader in readers:
            report_speed(memory.log.view, reader, FIRST_NS_PER_ENTRY)
        self._workers.start(start)

    @property
    def parallelism(self) -> int:
        return len(self._coordinator.instances)

    @property
    def source_count(self) -> int:
        return len(self._sources.all)

    def add(self, batch: pa.RecordBatch, source: int, deadline: float | None = None) -> int:
        self._check()
        return self._sources.add(batch, source, deadline)

    def watermark(self, timestamp: int, source: int) -> None:
        self._check()
        self._sources.watermark(timestamp, source)

    def close(self, source: int) -> None:
        self._check()
        self._sources.close(source)

    def reconfigure(self, instances: Sequence[int], mapping: Mapping | None) -> EpochChange:
        self._check()
        change = self._coordinator.request(instances, self.plan.mapping_for(instances, mapping))
        self._sources.announce(change.epoch)
        return change

    def results(self, wait: bool = True) -> pa.Table:
        if not self._results.is_reading and not self._has_finished:
            raise JobError(
                f"{self.plan.name}: its results are the input of another job",
                why="they are read where they are, and kept for nobody else",
                do="read the results of the last job of the chain",
            )
        if self._family.failure is not None:
            raise self._family.failure
        if self._workers.is_running:
            self.check_idle()
            if wait:
                self._settle()
        return self._results.take()

    def late(self, source: int) -> pa.Table:
        return self._sources.late(source)

    def finish(self, beyond: int = 0) -> None:
        self._check()
        self._sources.end(beyond + self.plan.reach)
        self._settle()
        self._results.collect()
        self._has_finished = True
        self._stop_if_over()

    def stop(self) -> None:
        for engine in list(self._downstream):
            engine.stop()
        self._workers.stop()
        if self._upstream is not None:
            self._upstream._forget(self)

    def metrics(self) -> Metrics:
        return read_metrics(self.memory, self._sources, self._coordinator)

    # --- What a node asks for: it brings rows in order, and keeps the state

    def feed(self, rows: Sequence[pa.RecordBatch | None], watermark: int, *, muted: bool = False) -> Iterator[pa.Table]:
        """Take sorted rows of each input, all before `watermark`, and yield results as they come; none if `muted`.

        When it is exhausted the engine is drained: everything is processed, and its results were yielded.
        """
        assert isinstance(self._sources, Sources)
        self._results.is_muted = muted
        self.memory.mute(muted)
        for source, some in zip(self._sources.all, rows, strict=True):
            source.tuples_in += 0 if some is None else some.num_rows
        for _ in feed(self._inlets, rows, watermark):
            self._check()
            yield self._results.take()
        for _ in self._settling():
            self._check()
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

    # --- What engines of a family do for one another

    def collect(self) -> None:
        """Take results out of the way of workers, unless they go on to another operator."""
        self._results.collect()

    def check_idle(self) -> None:
        """Let event time go on without sources that are silent."""
        self._sources.check_idle()

    def signal_stop(self) -> None:
        """Tell the workers to stop."""
        self._workers.signal_stop()

    def _take_slots(self, count: int) -> int:
        """Give so many slots of readers of the output to another engine; return the first."""
        first = self._slots_taken
        if first + count > READERS_MAX:
            raise DefinitionError(
                f"{self.plan.name}: {count} more instances cannot read its results",
                why=f"{first} of {READERS_MAX} places for readers are taken",
                do="use a smaller max_parallelism, or fewer jobs behind this one",
            )
        self._slots_taken += count
        return first

    def _leave_to(self, engine: CompiledEngine, readers: npt.NDArray[np.int64]) -> int:
        """Let the workers of another engine read the results; return where they start."""
        start = self._results.leave_to(readers)
        follow_readers(self.memory.out)
        self._downstream.append(engine)
        self._family.no_longer_reads(self)
        return start

    def _forget(self, engine: CompiledEngine) -> None:
        """Go on without an engine that has stopped: it holds back nobody any more."""
        if engine in self._downstream:
            self._downstream.remove(engine)
            first = engine.memory.first_reader
            self.memory.out.remove_readers(range(first, first + engine.max_parallelism))
            self._family.forget(engine)
            self._stop_if_over()

    def _stop_if_over(self) -> None:
        """Stop the threads of an engine that has finished, unless others need its last watermarks."""
        if self._has_finished and not self._downstream:
            self.stop()

    def _release(self, reached: int) -> None:
        """Give back texts, once results up to a time have been read."""
        self._family.release(self, reached - self._reach)

    def _check(self) -> None:
        """Raise what a worker failed with, or that the job was stopped, if so."""
        self._workers.check()

    def _relieve(self) -> None:
        """Make room for workers; called by a thread that waits for them."""
        self._check()
        self._family.relieve()

    def _settle(self) -> None:
        """Wait until all that was ready when this was called is processed, and its results are ready."""
        if self._upstream is not None:
            self._upstream._settle()
        for _ in self._settling():
            self._relieve()

    def _settling(self) -> Iterator[None]:
        """Do what `_settle` does, step by step; results have to be taken out between steps.

        What is ready comes before all that sources add from now on, so that each round takes a full log of it, and a
        few rounds are enough however much is added meanwhile.
        """
        log, first = self.memory.log, self.memory.first_reader
        last = first + self.max_parallelism
        rounds = 2 + log.max_sources * log.staging_capacity // log.capacity
        for _ in range(rounds):
            merge_now(log.view)
            end = ready_end(log.view)
            while wait_for_readers(log.view, first, last, end, deadline_after(ROUND_NS)) != WAIT_AGAIN:
                yield
        merge_now(self.memory.out.view)

    def _is_going_on(self) -> bool:
        """Tell whether workers run; raise what one of them failed with."""
        if self._family.failure is not None:
            raise self._family.failure
        return self._workers.is_running
