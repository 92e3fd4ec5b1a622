"""The memory of a join: its state is the rows that the log keeps, and where each worker is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stretch.buffer.layout import ROW_NEXT, ROWS_FREED, input_at
from stretch.buffer.ready_log import Keeping
from stretch.buffer.ready_log_kernels import ready_end
from stretch.buffer.rows import Column
from stretch.joins.layout import COMPARISONS, Task
from stretch.joins.program import TIME, JoinProgram
from stretch.joins.station import (
    COPY_CELLS,
    PLACE_CELLS,
    TILE_CELLS,
    Cells,
    Columns,
    JoinStation,
    make_handed,
    make_pairs,
    make_side,
)
from stretch.joins.worker import make_join_worker
from stretch.native.memory import address_of
from stretch.native.outline import ViewBox
from stretch.operator.plan import Stream
from stretch.runtime.compiled.memory import Memory
from stretch.strings import Dictionary

KEPT_ROWS: Final = 1 << 26  # of each input, at most: address space, only what is touched takes memory


class JoinMemory(Memory):
    """The memory of a join with a pool of `pool` workers."""

    def __init__(self, program: JoinProgram, streams: Sequence[Stream], pool: int, dictionary: Dictionary) -> None:
        outputs = [Column(name, dtype) for result in program.results for name, dtype in result.arrays()]
        outputs.append(Column(TIME, np.int64))
        keeping = Keeping(KEPT_ROWS, program.times, program.kept_ticks)
        super().__init__(program.layouts, outputs, program.plan.group_count, streams, pool, dictionary, keeping)
        self._program = program
        self.handed = make_handed()
        self._tasks: list[Task] = []  # of all workers, for what they count
        self._columns: list[ViewBox] = []  # by worker; kept, since stations hold their addresses

    def time_of(self, key: int) -> int | None:
        """Return the time of the entry at a position of the log, unless it was overwritten."""
        view = self.log.view
        if not 0 <= key < ready_end(view):
            return None
        time = int(view.times[key & (self.log.capacity - 1)])
        is_there = ready_end(view) - key < self.log.capacity // 2  # who merges is never so far ahead of readers
        return time if is_there else None

    @property
    def state_bytes(self) -> int:
        widths = [sum(column.dtype.itemsize for column in columns) for columns in self.log.inputs]
        return sum(rows * width for rows, width in zip(self.stored, widths, strict=True))

    @property
    def stored(self) -> tuple[int, ...]:
        merging = self.log.view.merging
        inputs = [input_at(merging, number) for number in range(len(self.log.inputs))]
        return tuple(max(0, int(merging[at + ROW_NEXT] - merging[at + ROWS_FREED])) for at in inputs)

    @property
    def comparisons(self) -> int:
        return sum(int(task.cells[COMPARISONS]) for task in self._tasks)

    def make_worker(self, station: Any) -> Any:
        return make_join_worker(self._program, station, self._columns[0].view)

    def station(self, number: int) -> JoinStation:
        staging, inputs = self.out.staging(number), (self.log.columns(0), self.log.columns(1))
        left, right = (
            make_side(self.log.row_capacity, columns[at])
            for columns, at in zip(inputs, self._program.times, strict=True)
        )
        self._tasks += [left.task, right.task]
        self._columns.append(ViewBox(Columns(inputs, staging.columns)))
        return JoinStation(
            epochs=self.boxes[0].address,
            log=self.boxes[1].address,
            out=self.boxes[2].address,
            measures=self.boxes[3].address,
            columns=self._columns[-1].address,
            left=left,
            right=right,
            place=np.full(PLACE_CELLS, -1, np.int64),
            tile=np.zeros(TILE_CELLS, np.int64),
            pairs=make_pairs(),
            handed=self.handed,
            copies=self._copies(inputs, staging.columns),
            keys=staging.times,
            ranks=staging.ranks,
            result_times=staging.columns[-1],
            timing=self._program.timing,
        )

    def _copies(self, inputs: Any, outs: Any) -> Cells:
        copies = np.zeros((len(self._program.copies), COPY_CELLS), np.int64)
        for line, out, (side, column) in zip(copies, outs, self._program.copies, strict=False):
            origin = inputs[side][column]
            line[:] = side, address_of(origin), address_of(out), origin.itemsize
        return copies
