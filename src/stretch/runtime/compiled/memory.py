"""What all threads of one operator share: buffers, state, epochs. Reserved at once; what is touched exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from stretch.buffer.ready_log import CAPACITY, STAGING, Keeping, ReadyLog, Source
from stretch.buffer.rows import Column
from stretch.epochs.layout import READERS_MAX, make_epochs
from stretch.epochs.measures import make_measures
from stretch.epochs.station import Station
from stretch.epochs.worker import make_worker
from stretch.native.memory import reserve
from stretch.native.outline import ViewBox
from stretch.operator.columns import Layout
from stretch.operator.extract import make_scratch
from stretch.operator.plan import Stream
from stretch.operator.program import Program
from stretch.runtime.compiled.upstream import columns_behind, seen_by
from stretch.strings import Dictionary
from stretch.windows.layout import LIVE_WORDS, make_tables

HEAP_BYTES = 1 << 33  # address space: only what is touched takes memory
NO_TARGET_NS = 1 << 50  # times 1,000 it still fits into 64 bits


class Memory:
    """The memory of one operator with a pool of `pool` workers: what there is besides its state.

    `layouts` are the columns of its inputs, `outputs` those of the results. Its input is a log with one slot for each
    of `streams`; or, chained, the output log of `before`.
    Behind the workers' there are `extra` readers of the log and sources of results.
    """

    def __init__(
        self,
        layouts: Sequence[Layout],
        outputs: Sequence[Column],
        groups: int,
        streams: Sequence[Stream],
        pool: int,
        dictionary: Dictionary,
        keeping: Keeping | None = None,
        before: Place | None = None,
        extra: int = 0,
    ) -> None:
        self.pool, self.groups = pool, groups
        self.dictionary = dictionary
        self.first_reader = 0 if before is None else before.first_reader
        """The slot of worker 0 as a reader of the log."""
        self.epochs = make_epochs(groups, pool, self.first_reader)
        self.measures = make_measures(groups, pool, len(streams))
        stop = self.epochs.stop
        if before is None:
            columns = [
                [
                    Column(f"{column.name}:{column.form.value}", column.dtype, column.is_list)
                    for column in layout.columns
                ]
                for layout in layouts
            ]
            sources = [Source(stream.index, number) for number, stream in enumerate(streams)]
            self.log = ReadyLog(
                columns, sources, pool + extra, capacity=CAPACITY, staging=STAGING, stop=stop, keeping=keeping
            )
        else:
            self.log = seen_by(before.memory.out, stop)
            self.measures = self.measures._replace(arrivals=before.memory.measures.arrivals)
        # Results wait for their reader in a buffer of fixed size, however long it takes them. Behind those of
        # workers there is a source for control entries to the operators behind.
        sources = [Source(0)] * (pool + 1 + extra)
        self.out: ReadyLog = ReadyLog(
            [outputs], sources, READERS_MAX, capacity=CAPACITY, staging=STAGING, stop=stop, target_ns=NO_TARGET_NS
        )
        self.boxes = [ViewBox(view) for view in (self.epochs, self.log.view, self.out.view, self.measures)]

    @property
    def state_bytes(self) -> int:
        """How much memory the state takes now, besides texts."""
        raise NotImplementedError

    @property
    def stored(self) -> tuple[int, ...]:
        """How many rows of each input a join keeps; nothing for other operators."""
        return ()

    @property
    def comparisons(self) -> int:
        """How many pairs of rows a join has compared."""
        return 0

    def mute(self, is_muted: bool) -> None:
        """Say whether nobody wants the results: what is done for them alone can be left out."""

    def station(self, number: int) -> Any:
        """Return what one worker works with."""
        raise NotImplementedError

    def make_worker(self, station: Any) -> Any:
        """Compile the loop of workers with stations of this type."""
        raise NotImplementedError

    def time_of(self, key: int) -> int | None:
        """Return the time before which all results are out once those before `key` are; None if that is unknown."""
        raise NotImplementedError


class Place(NamedTuple):
    """Where a chained operator reads: the memory of the one before it, and its own first reader there."""

    memory: TableMemory
    first_reader: int


class TableMemory(Memory):
    """The memory of an operator whose state is in tables."""

    def __init__(
        self,
        program: Program,
        streams: Sequence[Stream],
        pool: int,
        dictionary: Dictionary,
        before: Place | None = None,
    ) -> None:
        outputs = [Column(name, dtype) for result in program.results for name, dtype in result.arrays()]
        groups = program.shape.groups
        super().__init__(program.layouts, outputs, groups, streams, pool, dictionary, before=before)
        self._program = program
        self.shape = program.shape
        if before is None:
            self._inputs = tuple(self.log.columns(index) for index in range(len(self.log.inputs)))
        else:
            results, name = before.memory._program.results, program.plan.name
            self._inputs = (columns_behind(self.log, results, program.layouts[0], name),)
        self.tables = make_tables(
            reserve(HEAP_BYTES),
            program.shape,
            pool,
            program.template,
            self.dictionary.hashes.view(np.int64),
            program.record,
        )

    @property
    def state_bytes(self) -> int:
        return 8 * int(self.tables.free[:, LIVE_WORDS].sum())

    def time_of(self, key: int) -> int | None:
        return key

    def make_worker(self, station: Any) -> Any:
        return make_worker(self._program, station)

    def station(self, number: int) -> Station:
        """Return what one worker works with."""
        staging = self.out.staging(number)
        return Station(
            epochs=self.boxes[0].address,
            log=self.boxes[1].address,
            out=self.boxes[2].address,
            measures=self.boxes[3].address,
            workers=self.epochs.workers,
            mapping=self.epochs.mapping,
            stop=self.epochs.stop,
            updates=self.measures.updates[number],
            times=self.log.view.times,
            refs=self.log.view.refs,
            tables=self.tables,
            inputs=self._inputs,
            outs=staging.columns,
            out_times=staging.times,
            out_ranks=staging.ranks,
            scratch=make_scratch(),
            timing=tuple(self._program.timing),
        )
