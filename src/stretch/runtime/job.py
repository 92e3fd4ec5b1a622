"""A job: an operator at work, embedded in any Python program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from stretch.errors import InputError, JobError, ReconfigurationError
from stretch.operator.spec import Mapping
from stretch.runtime.engine import Engine, Metrics, Reconfiguration
from stretch.schema import Schema, schema_of

_Result = TypeVar("_Result")


class Job:
    """A running operator; made by `stretch.setup`, and best used in a `with` statement.

    It checks what it is asked for and in which state; the engine does the work. Where the columns of the input were
    not declared, the engine is made when the first batch shows them.
    """

    def __init__(self, make: Callable[[Schema | None], Engine], engine: Engine | None, upstream: Job | None) -> None:
        self._make = make
        self._engine = engine
        self._upstream = upstream
        self._state = "running"

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

    def add(self, batch: pa.RecordBatch | pa.Table, source: int = 0) -> None:
        """Add the rows of an Arrow batch or table; columns are found by name."""
        self._check_running()
        if not isinstance(batch, (pa.RecordBatch, pa.Table)):
            raise InputError(
                f"a {type(batch).__name__} was added",
                why="a job takes Arrow record batches and tables",
                do="convert it first, for example with pyarrow.RecordBatch.from_pylist(rows)",
            )
        if self._engine is None:
            self._engine = self._make(schema_of(batch.schema))
        self._check_source(source)
        for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
            self._attempt(lambda part=part: self.engine.add(part, source))  # type: ignore[misc]

    def watermark(self, timestamp: int, source: int = 0) -> None:
        """Promise that `source` adds nothing before `timestamp`: an explicit watermark, or a heartbeat."""
        self._check_running()
        self._check_source(source)
        self._attempt(lambda: self.engine.watermark(timestamp, source))

    def close(self, source: int = 0) -> None:
        """Say that `source` has ended: it no longer holds back the others."""
        self._check_running()
        self._check_source(source)
        self._attempt(lambda: self.engine.close(source))

    def reconfigure(
        self, parallelism: int | None = None, *, instances: Sequence[int] | None = None, mapping: Mapping | None = None
    ) -> Reconfiguration:
        """Change how many instances run, which ones, or who owns which key group, while the job runs.

        The change takes effect at the first watermark beyond what the sources have reached; until then the record's
        status is "waiting". Without input a heartbeat (`watermark`) makes it happen.
        """
        self._check_running()
        if instances is None:
            instances = range(self.engine.parallelism if parallelism is None else parallelism)
        _check_instances(list(instances), parallelism, self.engine.max_parallelism)
        return self.engine.reconfigure(list(instances), mapping)

    def results(self) -> pa.Table:
        """Return the results since the last call, in timestamp order."""
        self._check_not_failed()
        return self._attempt(self.engine.results)

    def late(self, source: int = 0) -> pa.Table:
        """Return the late tuples of a source since the last call, with the columns of its input."""
        self._check_source(source)
        return self.engine.late(source)

    def finish(self) -> pa.Table:
        """End all sources (of the jobs before this one too), complete all windows, and return the last results."""
        self._check_running()
        self._end(0)
        return self.engine.results()

    def stop(self) -> None:
        """Stop without completing windows; what is pending is given up. Safe to call twice."""
        if self._engine is not None and self._state == "running":
            self._engine.stop()
            self._state = "stopped"

    def metrics(self) -> Metrics:
        """Return what the job has done so far."""
        return self.engine.metrics()

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _end(self, beyond: int) -> None:
        """End the sources, which are those of the first job, so that the windows of all jobs after it complete."""
        if self._upstream is not None and self._upstream.is_running:
            self._upstream._end(beyond + self.engine.plan.reach)
        self._attempt(lambda: self.engine.finish(beyond))
        self._state = "finished"

    def _attempt(self, action: Callable[[], _Result]) -> _Result:
        """Run a step of the engine; what fails there fails the job, except input that was refused as a whole."""
        try:
            return action()
        except InputError:
            raise
        except Exception:
            self._state = "failed"
            raise

    def _check_not_failed(self) -> None:
        if self._state == "failed":
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

    def _check_source(self, source: int) -> None:
        count = self.engine.source_count
        if self._upstream is not None:
            raise JobError(
                "input was handed to a chained job",
                why="its input is the output of the job before it",
                do="add to that job instead",
            )
        if not 0 <= source < count:
            raise InputError(
                f"source {source!r} does not exist",
                why=f"the job has {count} source(s), from 0 to {count - 1}",
                do="pass one of them, or sources=... to stretch.setup",
            )


def _check_instances(instances: list[int], parallelism: int | None, pool: int) -> None:
    if not instances or (parallelism is not None and parallelism != len(instances)):
        raise ReconfigurationError(
            f"parallelism={parallelism!r} with {len(instances)} instance(s) is not possible",
            why="at least one instance has to run, and both must agree",
            do="pass parallelism=... or instances=..., one is enough",
        )
    strangers = [number for number in instances if not 0 <= number < pool]
    if strangers or len(set(instances)) != len(instances):
        raise ReconfigurationError(
            f"the instances {instances} are not possible",
            why=f"the pool has {pool} instance(s), numbered from 0 to {pool - 1}, each of which runs once",
            do="ask for fewer, or pass a larger max_parallelism to stretch.setup",
        )
