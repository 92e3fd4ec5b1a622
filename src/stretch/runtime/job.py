"""A job: an operator at work, embedded in any Python program."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa

from stretch.controllers import Decision, Elastic
from stretch.errors import InputError, JobError, a_kind
from stretch.metrics import Load, Metrics, Reconfiguration
from stretch.operator.spec import Mapping
from stretch.runtime.arguments import instances_of
from stretch.runtime.control import ControlLoop
from stretch.runtime.engine import Engine
from stretch.schema import Schema, schema_of, whole_number

_Result = TypeVar("_Result")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Job:
    """A running operator; made by `stretch.setup`, and best used in a `with` statement.

    It checks what it is asked for and in which state; the engine does the work. Where the columns of the input were
    not declared, the engine is made when the first batch shows them.
    """

    def __init__(
        self,
        make: Callable[[Schema | None], Engine],
        engine: Engine | None,
        upstream: Job | None,
        elastic: Elastic | None = None,
    ) -> None:
        self._make = make
        self._engine = engine
        self._upstream = upstream
        self._state = "running"
        self._closed: set[int] = set()
        self._control = None if elastic is None else ControlLoop(elastic, self._read, self.reconfigure, "job")
        if self._control is not None:
            self._control.start()

    @property
    def engine(self) -> Engine:
        """The engine, once the columns of the input are known."""
        if self._engine is None:
            raise JobError(
                "the job has not begun",
                why="the columns of its input are known with the first batch, and none was added",
                do='declare them: stretch.setup(..., inputs="ts timestamp, user string, ...")',
            )
        return self._engine

    @property
    def is_running(self) -> bool:
        """Tell whether the job takes input."""
        return self._state == "running"

    def add(self, batch: pa.RecordBatch | pa.Table, source: int = 0, *, timeout: float | None = None) -> int:
        """Add the rows of an Arrow batch or table; columns are found by name. Return how many rows were taken: all.

        Waits while too much is pending. With a `timeout` it gives up after so many seconds, and returns how many of the
        first rows were taken; add the others again later.
        """
        self._check_running()
        if not isinstance(batch, (pa.RecordBatch, pa.Table)):
            raise InputError(
                f"{a_kind(batch)} was added",
                why="a job takes Arrow record batches and tables",
                do="convert it first, for example with pyarrow.RecordBatch.from_pylist(rows)",
            )
        if self._engine is None:
            self._engine = self._make(schema_of(batch.schema))
        number, deadline = self._check_open(source), _deadline_of(timeout)
        taken = 0
        for part in _whole(batch):
            count: int = self._attempt(lambda part=part: self.engine.add(part, number, deadline))  # type: ignore[misc]
            taken += count
            if count < part.num_rows:
                break
        return taken

    def watermark(self, timestamp: int | dt.datetime, source: int = 0) -> None:
        """Promise that `source` adds nothing before `timestamp`: an explicit watermark, or a heartbeat.

        It is an int as functions see it, or with a timestamp column a datetime (in UTC, unless it says otherwise).
        """
        self._check_running()
        number = self._check_open(source)
        moment = _time_of(timestamp, self.engine.plan.streams[0].time_type.is_timestamp)
        self._attempt(lambda: self.engine.watermark(moment, number))

    def close(self, source: int = 0) -> None:
        """Say that `source` has ended: it no longer holds back the others."""
        self._check_running()
        number = self._check_open(source)
        self._attempt(lambda: self.engine.close(number))
        self._closed.add(number)

    def reconfigure(
        self, parallelism: int | None = None, *, instances: Sequence[int] | None = None, mapping: Mapping | None = None
    ) -> Reconfiguration:
        """Change how many instances run, which ones, or who owns which key group, while the job runs.

        The request travels in the stream: the next tuple or heartbeat of a source carries it, and it takes effect at
        the first one with a *later* time. So on a silent stream it takes two heartbeats (`watermark`), each later
        than the one before. Until then the record's status is "waiting", and if the job ends first it stays so.
        """
        self._check_running()
        chosen = instances_of(parallelism, instances, self.engine)
        return self.engine.reconfigure(chosen, mapping)

    def results(self, wait: bool = True) -> pa.Table:
        """Return the results since the last call, in timestamp order.

        What was added before this call is processed first. With `wait=False` it returns what has come out so far:
        for threads that do nothing but read, beside those that add.
        """
        self._check_not_failed()
        return self._attempt(lambda: self.engine.results(wait))

    def late(self, source: int = 0) -> pa.Table:
        """Return the late tuples of a source since the last call, with the columns of its input."""
        return self.engine.late(self._check_source(source))

    def finish(self) -> pa.Table:
        """End all sources (of the jobs before this one too), complete all windows, and return the last results."""
        self._check_running()
        self._end(0)
        return self.engine.results()

    def stop(self) -> None:
        """Stop without completing windows; what is pending is given up. Safe to call twice, and from any thread.

        It ends within seconds: other calls that wait (for room, for results) end with an error, and an instance that is
        inside a function of the user for longer is left behind, with a warning.
        """
        if self._state == "running":
            self._state = "stopped"  # before threads that use the job learn of it
        self._end_control()
        if self._engine is not None:
            self._engine.stop()

    def metrics(self) -> Metrics:
        """Return what the job has done so far."""
        return self.engine.metrics()

    @property
    def decisions(self) -> list[Decision]:
        """The latest changes that the controller of an elastic parallelism asked for, oldest first."""
        return [] if self._control is None else self._control.decisions

    @property
    def loads(self) -> list[Load]:
        """The latest loads that it was shown, oldest first."""
        return [] if self._control is None else self._control.loads

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _end(self, beyond: int) -> None:
        """End the sources, which are those of the first job, so that the windows of all jobs after it complete.

        Jobs that finished on their own reached as far as their own windows, and have to go on.
        """
        if self._upstream is not None and self._upstream._state in ("running", "finished"):
            self._upstream._end(beyond + self.engine.plan.reach)
        self._attempt(lambda: self.engine.finish(beyond))
        self._state = "finished"
        self._end_control()

    def _read(self) -> Metrics | None:
        """Return what the controller is shown."""
        return self._engine.metrics() if self._engine is not None and self.is_running else None

    def _end_control(self) -> None:
        if self._control is not None:
            self._control.stop()

    def _attempt(self, action: Callable[[], _Result]) -> _Result:
        """Run a step of the engine; what fails there fails the job, except input that was refused as a whole."""
        try:
            return action()
        except InputError:
            raise
        except Exception:
            if self._state == "running":
                self._state = "failed"
            self._end_control()
            raise

    @property
    def _has_failed(self) -> bool:
        return self._state == "failed" or (self._upstream is not None and self._upstream._has_failed)

    def _check_not_failed(self) -> None:
        if self._has_failed:
            raise JobError(
                "the job has failed",
                why="a function of the operator raised an error, which was reported then",
                do="mend the function and set up a new job",
            )

    def _check_running(self) -> None:
        self._check_not_failed()
        if self._state != "running":
            raise JobError(
                f"the job is {self._state}",
                why="it takes no further input or changes after finish() or stop()",
                do="set up a new job",
            )

    def _check_source(self, source: int) -> int:
        count = self.engine.source_count
        if self._upstream is not None:
            raise JobError(
                "input was handed to a chained job",
                why="its input is the output of the job before it",
                do="add to that job instead",
            )
        number = whole_number(source)
        if number is None or not 0 <= number < count:
            raise InputError(
                f"source {source!r} does not exist",
                why=f"the job has {count} source(s), from 0 to {count - 1}",
                do="pass one of them, or sources=... to stretch.setup",
            )
        return number

    def _check_open(self, source: int) -> int:
        number = self._check_source(source)
        if number in self._closed:
            raise JobError(
                f"source {number} is closed",
                why="job.close() has said that nothing more follows from it",
                do="close a source after its last tuple; the job goes on with the others",
            )
        return number


def _deadline_of(timeout: float | None) -> float | None:
    """Return when to give up, by the monotonic clock."""
    if timeout is None:
        return None
    if isinstance(timeout, (int, float)) and timeout >= 0:
        return time.monotonic() + timeout
    raise InputError(
        f"timeout={timeout!r} is not a time to wait",
        why="it is a number of seconds, from 0 up",
        do="pass for example timeout=0.5, or leave it out to wait as long as it takes",
    )


def _whole(batch: pa.RecordBatch | pa.Table) -> list[pa.RecordBatch]:
    """Return a table as one batch, so that it is checked as a whole; only one with over 2 GB in a column is several."""
    if isinstance(batch, pa.RecordBatch):
        return [batch]
    return batch.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], batch.schema)]


def _time_of(given: Any, is_timestamp: bool) -> int:
    """Return a point of event time as functions see it."""
    moment = whole_number(given)
    if is_timestamp and isinstance(given, dt.datetime):
        in_utc = given if given.tzinfo is not None else given.replace(tzinfo=dt.UTC)
        moment = (in_utc - _EPOCH) // dt.timedelta(microseconds=1)
    if moment is not None and -(1 << 63) <= moment < 1 << 63:
        return moment
    raise InputError(
        f"watermark({given!r}) is not a point of event time",
        why="the time column is a timestamp" if is_timestamp else "the time column is a long",
        do="pass a datetime, or an int: microseconds since 1970" if is_timestamp else "pass an int, in its units",
    )
