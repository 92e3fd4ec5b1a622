"""The memory of a join: its state is the rows that the log keeps, and where each worker is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from stretch.buffer.layout import ROW_NEXT, ROWS_FREED, input_at
from stretch.buffer.ready_log import Keeping
from stretch.buffer.ready_log_kernels import ready_end, report_speed
from stretch.buffer.rows import Column
from stretch.joins.alone import ALONE_CELLS, READER, SOURCE
from stretch.joins.layout import COMPARISONS, Task
from stretch.joins.program import NO_COLUMN, TIME, JoinProgram
from stretch.joins.station import (
    COPY_CELLS,
    PLACE_CELLS,
    SEEN,
    TILE_CELLS,
    Alone,
    Cells,
    Columns,
    JoinStation,
    Side,
    make_handed,
    make_nobody_alone,
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
        is_outer = program.pairing.how != "inner"
        super().__init__(
            program.layouts,
            outputs,
            program.plan.group_count,
            streams,
            pool,
            dictionary,
            keeping,
            extra=int(is_outer),
        )
        self._program = program
        self.alone = self._make_alone() if is_outer else None
        self.handed = make_handed()
        self._tasks: list[Task] = []  # of all workers, for what they count
        self.mode = np.zeros(1, np.int64)
        self._places: list[Cells] = []
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

    @property
    def place(self) -> Cells:
        """Where the workers of a drained join are: the one that has come furthest, since others may be in the pool."""
        return max([self.handed[0], *self._places], key=lambda place: int(place[SEEN] + place[SEEN + 1]))

    def mute(self, is_muted: bool) -> None:
        """Compare nothing, if nobody wants the results; marks of outer joins are made by comparing."""
        self.mode[0] = is_muted and self.alone is None

    def make_worker(self, station: Any) -> Any:
        return make_join_worker(self._program, station, self._columns[0].view)

    def station(self, number: int) -> JoinStation:
        staging, inputs = self.out.staging(number), (self.log.columns(0), self.log.columns(1))
        left, right = (self._side(number) for number in range(2))
        self._tasks += [left.task, right.task]
        self._places.append(np.full(PLACE_CELLS, -1, np.int64))
        self._columns.append(ViewBox(Columns(inputs, staging.columns)))
        return JoinStation(
            epochs=self.boxes[0].address,
            log=self.boxes[1].address,
            out=self.boxes[2].address,
            measures=self.boxes[3].address,
            columns=self._columns[-1].address,
            left=left,
            right=right,
            place=self._places[-1],
            tile=np.zeros(TILE_CELLS, np.int64),
            pairs=make_pairs(),
            handed=self.handed,
            mode=self.mode,
            copies=self._copies(inputs, staging.columns),
            keys=staging.times,
            ranks=staging.ranks,
            result_times=staging.columns[-1],
            timing=self._program.timing,
            alone=self.alone or make_nobody_alone(),
        )

    def _side(self, number: int) -> Side:
        program, columns = self._program, self.log.columns(number)
        numbers = columns[program.numbers[number]] if program.numbers else np.zeros(1, np.int64)
        marks = columns[program.marks[number]] if program.marks else np.zeros(1, np.uint8)
        return make_side(self.log.row_capacity, columns[program.times[number]], numbers, marks)

    def _make_alone(self) -> Alone:
        """Connect the reader and the source of tuples that met nobody."""
        source = self.pool + 1
        staging, inputs = self.out.staging(source), (self.log.columns(0), self.log.columns(1))
        cells = np.zeros(ALONE_CELLS, np.int64)
        cells[READER], cells[SOURCE] = self.pool, source
        self.log.add_readers([self.pool])
        self.out.add_sources([source])
        report_speed(self.log.view, self.pool, 1.0)  # hardly anything, next to what workers do
        copies = self._copies(inputs, staging.columns)
        return Alone(cells, copies, staging.times, staging.ranks, staging.columns[-1])

    def _copies(self, inputs: Any, outs: Any) -> Cells:
        copies = np.zeros((len(self._program.copies), COPY_CELLS), np.int64)
        for line, out, (side, column) in zip(copies, outs, self._program.copies, strict=False):
            if column == NO_COLUMN:
                line[:] = side, 0, address_of(out), 1
            else:
                origin = inputs[side][column]
                line[:] = side, address_of(origin), address_of(out), origin.itemsize
        return copies
