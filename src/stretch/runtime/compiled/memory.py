"""What all threads of one operator share: buffers, state, epochs. Reserved at once; what is touched exists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stretch.buffer.ready_log import Keeping, ReadyLog, Source
from stretch.buffer.rows import Column
from stretch.epochs.layout import make_epochs
from stretch.epochs.measures import make_measures
from stretch.epochs.station import Station
from stretch.epochs.worker import make_worker
from stretch.native.memory import reserve
from stretch.native.outline import ViewBox
from stretch.operator.columns import Layout
from stretch.operator.extract import make_scratch
from stretch.operator.plan import Stream
from stretch.operator.program import Program
from stretch.strings import Dictionary
from stretch.windows.layout import LIVE_WORDS, make_tables

HEAP_BYTES = 1 << 33  # address space: only what is touched takes memory
NO_TARGET_NS = 1 << 50  # times 1,000 it still fits into 64 bits


class Memory:
    """The memory of one operator with a pool of `pool` workers: what there is besides its state.

    The log has one slot for each of `streams`; `layouts` are the columns of its inputs, `outputs` those of the results.
    """

    def __init__(
        self,
        layouts: Sequence[Layout],
        outputs: Sequence[Column],
        groups: int,
        streams: Sequence[Stream],
        pool: int,
        keeping: Keeping | None = None,
    ) -> None:
        self.pool, self.groups = pool, groups
        self.dictionary = Dictionary()
        columns = [
            [Column(f"{column.name}:{column.form.value}", column.dtype, column.is_list) for column in layout.columns]
            for layout in layouts
        ]
        self.epochs = make_epochs(groups, pool)
        self.measures = make_measures(groups, pool, len(streams))
        stop = self.epochs.stop
        sources = [Source(stream.index, number) for number, stream in enumerate(streams)]
        self.log = ReadyLog(columns, sources, pool, stop=stop, keeping=keeping)
        # Results wait for their reader in a buffer of fixed size, however long it takes them.
        self.out = ReadyLog([outputs], [Source(0)] * pool, 1, stop=stop, target_ns=NO_TARGET_NS)
        self.boxes = [ViewBox(view) for view in (self.epochs, self.log.view, self.out.view, self.measures)]

    @property
    def state_bytes(self) -> int:
        """How much memory the state takes now, besides texts."""
        raise NotImplementedError

    def station(self, number: int) -> Any:
        """Return what one worker works with."""
        raise NotImplementedError

    def make_worker(self, station: Any) -> Any:
        """Compile the loop of workers with stations of this type."""
        raise NotImplementedError

    def time_of(self, key: int) -> int | None:
        """Return the time before which all results are out once those before `key` are; None if that is unknown."""
        raise NotImplementedError


class TableMemory(Memory):
    """The memory of an operator whose state is in tables."""

    def __init__(self, program: Program, streams: Sequence[Stream], pool: int) -> None:
        outputs = [Column(name, dtype) for result in program.results for name, dtype in result.arrays()]
        super().__init__(program.layouts, outputs, program.shape.groups, streams, pool)
        self._program = program
        self.shape = program.shape
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
            inputs=tuple(self.log.columns(index) for index in range(len(self.log.inputs))),
            outs=staging.columns,
            out_times=staging.times,
            out_ranks=staging.ranks,
            scratch=make_scratch(),
            timing=tuple(self._program.timing),
        )
