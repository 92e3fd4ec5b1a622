"""The source side of a chained engine: the results of the engine before it, read where they are.

The output log of one operator is the input log of the next. Its workers are readers of that log, in slots of their own;
the number of the first slot also names the operator in control entries, since several operators may read one log.
Control entries come in through a source of the log that is connected for that moment only (see `Doorway`).
"""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.buffer.layout import IS_SOURCE, NO_BOUND, SOURCE_CELLS, TARGET_NS, TARGET_NS_DEFAULT
from stretch.buffer.ready_log import ReadyLog
from stretch.buffer.ready_log_kernels import bound_of, stage_control
from stretch.epochs.layout import RESULTS, control_index
from stretch.errors import ReconfigurationError
from stretch.native import store_release
from stretch.operator.columns import Form, Layout, Result, not_compiled

if TYPE_CHECKING:
    from stretch.runtime.compiled.engine import CompiledEngine


class Doorway:
    """Where control entries enter an output log, which has workers as its sources: the slot after theirs.

    Invariant: it is connected with a bound that some worker has reached, and disconnected at once, so what it adds
    holds back nobody, and is ready when that worker has gone on.
    """

    def __init__(self, out: ReadyLog) -> None:
        self._out = out
        self._slot = out.max_sources - 1
        self._bound = NO_BOUND
        self._lock = threading.Lock()

    def announce(self, operator: int, epoch: int) -> None:
        """Put a control entry into the log, after what all workers have promised."""
        view = self._out.view
        with self._lock:
            connected = (s for s in range(self._slot) if view.sources[s * SOURCE_CELLS + IS_SOURCE])
            self._bound = max(self._bound, max((bound_of(view, s) for s in connected), default=NO_BOUND))
            self._out.add_sources([self._slot], self._bound)
            status = stage_control(view, self._slot, self._bound >> 1, control_index(operator, epoch))
            self._out.remove_sources([self._slot])
        if status != 0:
            raise ReconfigurationError(
                "too many reconfigurations wait already",
                why="they take effect as the results of the job before go on, and they do not",
                do="send input or a heartbeat to the first job before asking for more",
            )


class Upstream:
    """What a chained engine has in the place of sources."""

    def __init__(self, engine: CompiledEngine, first_reader: int) -> None:
        self._engine = engine
        self._first_reader = first_reader
        self._results_before = self._results
        self.all: tuple[()] = ()
        self.late_count = 0
        self.blocked_ns = 0

    @property
    def tuples_in(self) -> int:
        """The results of the engine before, since this one reads them."""
        return self._results - self._results_before

    @property
    def arrived(self) -> tuple[int, ...]:
        """The same, by input."""
        return (self.tuples_in,)

    @property
    def _results(self) -> int:
        return int(self._engine.memory.epochs.workers[:, RESULTS].sum())

    def announce(self, epoch: int) -> None:
        """Have the log carry the epoch to the workers."""
        self._engine.doorway.announce(self._first_reader, epoch)

    def check_idle(self) -> None:
        """Let event time go on if the first sources are silent."""
        self._engine.check_idle()

    def end(self, reach: int) -> None:
        """Nothing: the first engine ends its sources, and the others learn of it through the logs."""

    def add(self, batch: pa.RecordBatch, number: int, deadline: float | None = None) -> int:
        raise NotImplementedError  # a job refuses it

    def watermark(self, timestamp: int, number: int) -> None:
        raise NotImplementedError

    def close(self, number: int) -> None:
        raise NotImplementedError

    def late(self, number: int) -> pa.Table:
        raise NotImplementedError


def seen_by(out: ReadyLog, stop: Any) -> ReadyLog:
    """Return the same log for readers with a stop flag of their own."""
    log = copy.copy(out)
    log.view = out.view._replace(stop=stop)
    return log


def follow_readers(out: ReadyLog) -> None:
    """Let flow control follow the speed of readers from now on: they are workers."""
    store_release(out.view.cells, TARGET_NS, TARGET_NS_DEFAULT)  # pairs with the plain load of who looks for room


def columns_behind(out: ReadyLog, results: tuple[Result, ...], layout: Layout, name: str) -> tuple[Any, ...]:
    """Return the columns that a chained operator reads: those that the workers of the one before write."""
    arrays = dict(zip((name for result in results for name, _ in result.arrays()), out.columns(), strict=True))
    nullable = {result.name for result in results if result.nullable}
    checked = {column.name for column in layout.columns if column.form is Form.VALID}
    found: list[npt.NDArray[Any]] = []
    for column in layout.columns:
        if column.form is Form.VALID:
            ones = np.ones(out.capacity, np.uint8) if column.name not in nullable else arrays[f"{column.name}:valid"]
            found.append(ones)
            continue
        if column.form not in (Form.VALUE, Form.ID):
            raise not_compiled(name, f"{column.form.value} of {column.name!r}", "results of a job are single values")
        if column.name in nullable - checked:
            raise not_compiled(
                name,
                f"the column {column.name!r} as a key or in a function",
                "the job before may leave it null, and compiled functions and keys have no None",
            )
        found.append(arrays[column.name])
    return tuple(found)
