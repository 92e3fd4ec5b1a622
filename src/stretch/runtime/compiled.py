"""The compiled engine as a job runs it: threads over shared memory, no GIL, no copies per thread.

Source side: the thread that calls `add` encodes a batch (see `admission`), and admits it piece by piece; between
pieces it puts in control entries that wait. Workers: one thread per instance of the pool, in compiled code until the
job ends. Reader side: the thread that calls `results`; a source that finds no room takes results out meanwhile, so
that one thread alone can add and read.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.buffer.ready_log import ReadyLog
from stretch.buffer.ready_log import Source as LogSource
from stretch.buffer.ready_log_kernels import admit, advance, stage_control, wait_for_room
from stretch.buffer.rows import Column
from stretch.epochs.coordinator import Coordinator, EpochChange
from stretch.epochs.layout import (
    BUSY_NS,
    EPOCH,
    HANDLED,
    NOW,
    POOL_CELL,
    RESULTS,
    STATE_FULL,
    STOPPED,
    make_epochs,
)
from stretch.epochs.station import Station
from stretch.epochs.worker import make_worker
from stretch.errors import FunctionError, JobError, StretchError
from stretch.native.memory import reserve
from stretch.native.outline import ViewBox
from stretch.native.waiting import deadline_after, wake_all
from stretch.operator.extract import make_scratch
from stretch.operator.plan import Plan, Stream
from stretch.operator.program import Program, compile_plan
from stretch.operator.spec import Mapping
from stretch.runtime.admission import Encoded, Encoder
from stretch.runtime.arrivals import LOWEST, Arrivals, times_of
from stretch.runtime.engine import Metrics
from stretch.runtime.ingress import Disorder
from stretch.runtime.results import Results
from stretch.runtime.sources import check_times
from stretch.schema import Schema
from stretch.strings import Dictionary
from stretch.windows.layout import make_tables

PIECE_ROWS = 4096
HEAP_BYTES = 1 << 33  # address space: only what is touched takes memory
NO_TARGET_NS = 1 << 50  # times 1,000 it still fits into 64 bits
ROUND_NS = 1_000_000  # how long a source that finds no room waits before it looks for control entries again


class Source:
    """One source: the order that it promises, its encoder, and the control entries that wait for its next tuple."""

    def __init__(self, number: int, stream: Stream, disorder: Disorder, encoder: Encoder, now: float) -> None:
        self.number = number
        self.stream = stream
        self.arrivals = Arrivals(disorder, stream.time)
        self.encoder = encoder
        self.controls: deque[int] = deque()
        self.last_heard = now
        self.is_open = True
        self.lock = threading.Lock()
        self.late: list[pa.RecordBatch] = []


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
    ) -> None:
        self.plan = plan
        self.max_parallelism = max_parallelism
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._failure: StretchError | None = None
        self._tuples_in = 0
        self.program = program = compile_plan(plan)
        self._dictionary = Dictionary()
        self._allocate(program, streams)
        encoders = [
            Encoder(s, program.layouts[s.index], self._dictionary, f"source {n}") for n, s in enumerate(streams)
        ]
        self._sources = [Source(n, stream, disorder, encoders[n], clock()) for n, stream in enumerate(streams)]
        self._coordinator = Coordinator(self._epochs)
        self._start(program, parallelism)

    def _allocate(self, program: Program, streams: Sequence[Stream]) -> None:
        """Reserve buffers, state and shared tables."""
        pool = self.max_parallelism
        columns = [
            [Column(f"{column.name}:{column.form.value}", column.dtype, column.is_list) for column in layout.columns]
            for layout in program.layouts
        ]
        outputs = [Column(name, dtype) for result in program.results for name, dtype in result.arrays()]
        self._epochs = make_epochs(program.shape.groups, pool)
        stop = self._epochs.stop
        sources = [LogSource(stream.index, number) for number, stream in enumerate(streams)]
        self._log = ReadyLog(columns, sources, pool, stop=stop)
        # Results wait for their reader in a buffer of fixed size, however long it takes them.
        self._out = ReadyLog([outputs], [LogSource(0)] * pool, 1, stop=stop, target_ns=NO_TARGET_NS)
        self._tables = make_tables(
            reserve(HEAP_BYTES),
            program.shape,
            pool,
            program.template,
            self._dictionary.hashes.view(np.int64),
            program.record,
        )
        self._boxes = [ViewBox(view) for view in (self._epochs, self._log.view, self._out.view)]
        self._results = Results(self._out, program.results, self.plan, self._dictionary)

    def _start(self, program: Program, parallelism: int) -> None:
        """Begin epoch 0 and start the pool."""
        instances = range(parallelism)
        self._coordinator.request(instances, self.plan.mapping_for(instances))
        self._log.add_sources(range(len(self._sources)))
        self._log.add_readers(instances)
        self._out.add_sources(instances)
        for instance in instances:
            self._epochs.workers[instance, EPOCH] = 0
        stations = [self._station(program, number) for number in range(self.max_parallelism)]
        self._stations = [ViewBox(station) for station in stations]
        run = make_worker(program, stations[0])
        self._epochs.stop[0] = 1
        run(self._stations[0].address, 0)  # compiles it, here and once; it stops at once
        self._epochs.stop[0] = 0
        self._threads = []
        for number in range(self.max_parallelism):
            thread = threading.Thread(
                target=self._work,
                args=(run, self._stations[number].address, number),
                name=f"stretch-{number}",
                daemon=True,
            )
            thread.start()
            self._threads.append(thread)

    def _station(self, program: Program, number: int) -> Station:
        staging = self._out.staging(number)
        return Station(
            epochs=self._boxes[0].address,
            log=self._boxes[1].address,
            out=self._boxes[2].address,
            workers=self._epochs.workers,
            mapping=self._epochs.mapping,
            stop=self._epochs.stop,
            times=self._log.view.times,
            refs=self._log.view.refs,
            tables=self._tables,
            inputs=tuple(self._log.columns(index) for index in range(len(self.plan.streams))),
            outs=staging.columns,
            out_times=staging.times,
            out_ranks=staging.ranks,
            scratch=make_scratch(),
            timing=tuple(program.timing),
        )

    def _work(self, run: Any, station: int, number: int) -> None:
        """Run a worker until it stops; what it fails with stops everyone."""
        try:
            status = run(station, number)
        except BaseException as problem:
            self._fail(
                FunctionError(
                    f"{self.plan.name}: a function failed",
                    where=f"instance {number}, at timestamp {int(self._epochs.workers[number, NOW])}",
                    why=f"{type(problem).__name__}: {problem}",
                    do='mend the function; engine="reference" names the key and the line',
                )
            )
            return
        if status != STOPPED:
            what = (
                "its state needs more memory than is reserved" if status == STATE_FULL else "a tuple has too many keys"
            )
            self._fail(
                JobError(
                    f"{self.plan.name}: instance {number} stopped",
                    where=f"at timestamp {int(self._epochs.workers[number, NOW])}",
                    why=what,
                    do="use smaller windows, or fewer keys per tuple",
                )
            )

    def _fail(self, failure: StretchError) -> None:
        if self._failure is None:
            self._failure = failure
        self._signal_stop()

    def _signal_stop(self) -> None:
        """Tell all threads to stop, and wake those that are parked."""
        self._log.close()  # sets the stop flag, which all share
        self._out.close()
        for cell in (0, POOL_CELL):
            wake_all(self._epochs.cells, cell)

    def _check(self) -> None:
        if self._failure is not None:
            self.stop()
            raise self._failure

    # --- What a job asks for

    @property
    def parallelism(self) -> int:
        return len(self._coordinator.instances)

    @property
    def source_count(self) -> int:
        return len(self._sources)

    def add(self, batch: pa.RecordBatch, source: int) -> None:
        self._check()
        one = self._sources[source]
        with one.lock:
            one.last_heard = self._clock()
            self._tuples_in += batch.num_rows
            self._admit(one, one.arrivals.accept(_checked(batch, one)))
            self._promise(one)
        self._check_idle()

    def watermark(self, timestamp: int, source: int) -> None:
        self._check()
        one = self._sources[source]
        with one.lock:
            one.last_heard = self._clock()
            self._advance(one, timestamp)
        self._check_idle()

    def close(self, source: int) -> None:
        self._check()
        one = self._sources[source]
        with one.lock:
            waiting = one.arrivals.flush(None)
            if waiting is not None:
                self._admit(one, waiting)
            self._promise(one)
            one.is_open = False
        if any(other.is_open for other in self._sources):
            self._log.remove_sources([source])

    def reconfigure(self, instances: Sequence[int], mapping: Mapping | None) -> EpochChange:
        self._check()
        change = self._coordinator.request(instances, self.plan.mapping_for(instances, mapping))
        for source in self._sources:
            source.controls.append(change.epoch)
        return change

    def results(self) -> pa.Table:
        self._check()
        self._check_idle()
        return self._results.take()

    def late(self, source: int) -> pa.Table:
        one = self._sources[source]
        schema = Schema(((one.stream.time, one.stream.time_type), *one.stream.schema.columns)).arrow()
        batches = [batch.select(schema.names).cast(schema) for batch in one.arrivals.take_late()]
        return pa.Table.from_batches(batches, schema)

    def finish(self, beyond: int = 0) -> None:
        self._check()
        connected = [one for one in self._sources if one.is_open] or [self._sources[-1]]
        for one in connected:
            waiting = one.arrivals.flush(None)
            if waiting is not None:
                self._admit(one, waiting)
        reached = max(max(one.arrivals.latest, one.arrivals.watermark) for one in self._sources)
        if reached > LOWEST:
            final = reached + beyond + self.plan.reach
            for one in connected:
                self._advance(one, final)
            self._results.collect_until(final, self._check)
        self.stop()

    def stop(self) -> None:
        self._signal_stop()
        for thread in self._threads:
            thread.join()

    def metrics(self) -> Metrics:
        workers = self._epochs.workers
        return Metrics(
            tuples_in=self._tuples_in,
            late=sum(one.arrivals.late_count for one in self._sources),
            results=int(workers[:, RESULTS].sum()),
            parallelism=int(self._epochs.members[self._coordinator.latest_epoch % len(self._epochs.members)].sum()),
            reconfigurations=sum(change.status == "switched" for change in self._coordinator.changes),
            duplicates_avoided=max(0, int(workers[:, HANDLED].sum()) - self._tuples_in),
        )

    @property
    def busy_seconds(self) -> npt.NDArray[np.float64]:
        """How long each worker has worked."""
        busy: npt.NDArray[np.float64] = self._epochs.workers[:, BUSY_NS] / 1e9
        return busy

    # --- Sources

    def _admit(self, one: Source, batch: pa.RecordBatch) -> None:
        """Encode a sorted batch and put it into the log, piece by piece."""
        boundaries = self.plan.boundaries
        assert boundaries is not None
        for start in range(0, batch.num_rows, PIECE_ROWS):
            piece = batch.slice(start, PIECE_ROWS)
            times = np.ascontiguousarray(times_of(piece, one.stream.time))
            until = times // boundaries.advance * boundaries.advance + boundaries.size
            self._admit_piece(one, times, one.encoder.encode(piece, until))

    def _admit_piece(self, one: Source, times: npt.NDArray[np.int64], encoded: Encoded) -> None:
        first, last = 0, len(times)
        while first < last:
            self._send_controls(one, int(times[first]))
            done = admit(self._log.view, one.number, first, last, times.ctypes.data, encoded.addresses)
            if done < 0:
                raise _too_long(one)
            first += done
            if done == 0:
                self._check()
                self._results.collect()
                wait_for_room(self._log.view, one.number, last - first, deadline_after(ROUND_NS))

    def _send_controls(self, one: Source, time: int) -> None:
        """Put the epochs that wait into the log, right before what comes at `time` (Paper: addSTRETCH)."""
        while one.controls:
            if stage_control(self._log.view, one.number, time, one.controls[0]) != 0:
                return
            one.controls.popleft()

    def _advance(self, one: Source, timestamp: int) -> None:
        released = one.arrivals.advance(timestamp, None)
        if released is not None:
            self._admit(one, released)
        self._promise(one)

    def _promise(self, one: Source) -> None:
        if one.arrivals.watermark > LOWEST:
            self._send_controls(one, one.arrivals.watermark)
            advance(self._log.view, one.number, 2 * one.arrivals.watermark)

    def _check_idle(self) -> None:
        """Advance sources that are silent for too long to what all the others have reached."""
        if self._idle_seconds is None:
            return
        now = self._clock()
        silent = [s for s in self._sources if s.is_open and now - s.last_heard >= self._idle_seconds]
        reached = [s.arrivals.watermark for s in self._sources if s.is_open and s not in silent]
        if reached and min(reached) > LOWEST:
            for source in silent:
                # A source that is being added to is not silent, whatever its clock says: we may be blocking it.
                if source.lock.acquire(blocking=False):
                    try:
                        self._advance(source, min(reached))
                    finally:
                        source.lock.release()


def _checked(batch: pa.RecordBatch, one: Source) -> pa.RecordBatch:
    """Check the time column, as the reference engine does, before anything of the batch is taken."""
    check_times(batch, one.stream, one.number)
    return batch


def _too_long(one: Source) -> JobError:
    return JobError(
        "a tuple does not fit into the buffer",
        where=f"source {one.number}",
        why="one of its lists is longer than half of the buffer's room for list items",
        do="cut the list, or split the tuple",
    )
