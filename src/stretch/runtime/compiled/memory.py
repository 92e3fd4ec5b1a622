"""What all threads of one operator share: buffers, window state, epochs. Reserved at once; what is touched exists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stretch.buffer.ready_log import ReadyLog, Source
from stretch.buffer.rows import Column
from stretch.epochs.layout import make_epochs
from stretch.epochs.measures import make_measures
from stretch.epochs.station import Station
from stretch.native.memory import reserve
from stretch.native.outline import ViewBox
from stretch.operator.extract import make_scratch
from stretch.operator.plan import Stream
from stretch.operator.program import Program
from stretch.strings import Dictionary
from stretch.windows.layout import make_tables

HEAP_BYTES = 1 << 33  # address space: only what is touched takes memory
NO_TARGET_NS = 1 << 50  # times 1,000 it still fits into 64 bits


class Memory:
    """The memory of one operator with a pool of `pool` workers, and one slot of the log for each of `streams`."""

    def __init__(self, program: Program, streams: Sequence[Stream], pool: int) -> None:
        self._program = program
        self.pool = pool
        self.shape = program.shape
        self.dictionary = Dictionary()
        columns = [
            [Column(f"{column.name}:{column.form.value}", column.dtype, column.is_list) for column in layout.columns]
            for layout in program.layouts
        ]
        outputs = [Column(name, dtype) for result in program.results for name, dtype in result.arrays()]
        self.epochs = make_epochs(program.shape.groups, pool)
        self.measures = make_measures(program.shape.groups, pool, len(streams))
        stop = self.epochs.stop
        sources = [Source(stream.index, number) for number, stream in enumerate(streams)]
        self.log = ReadyLog(columns, sources, pool, stop=stop)
        # Results wait for their reader in a buffer of fixed size, however long it takes them.
        self.out = ReadyLog([outputs], [Source(0)] * pool, 1, stop=stop, target_ns=NO_TARGET_NS)
        self.tables = make_tables(
            reserve(HEAP_BYTES),
            program.shape,
            pool,
            program.template,
            self.dictionary.hashes.view(np.int64),
            program.record,
        )
        self._boxes = [ViewBox(view) for view in (self.epochs, self.log.view, self.out.view, self.measures)]

    def station(self, number: int) -> Station:
        """Return what one worker works with."""
        staging = self.out.staging(number)
        return Station(
            epochs=self._boxes[0].address,
            log=self._boxes[1].address,
            out=self._boxes[2].address,
            measures=self._boxes[3].address,
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
