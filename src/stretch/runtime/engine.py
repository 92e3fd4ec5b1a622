"""What a job asks of an engine; every engine gives the same results, only the speed differs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from stretch.errors import JobError
from stretch.metrics import Metrics, Reconfiguration
from stretch.operator.plan import Plan
from stretch.operator.spec import Mapping


def was_stopped(operator: str) -> JobError:
    """Build the error of a call that was at work when the job was stopped."""
    return JobError(
        f"{operator}: the job was stopped",
        why="another thread called stop() while this call was at work",
        do="let the threads that use a job end before it is stopped",
    )


class Engine(Protocol):
    """Runs one operator."""

    plan: Plan

    @property
    def parallelism(self) -> int:
        """How many instances run now, or will once pending changes have taken effect."""

    @property
    def max_parallelism(self) -> int:
        """How many instances there are, the pool included."""

    @property
    def source_count(self) -> int:
        """How many sources there are."""

    def add(self, batch: pa.RecordBatch, source: int, deadline: float | None = None) -> int:
        """Take the rows of a batch; return how many, fewer if there was no room for the others in time."""

    def watermark(self, timestamp: int, source: int) -> None:
        """Take a promise that nothing before `timestamp` follows from `source`."""

    def close(self, source: int) -> None:
        """Take the end of a source."""

    def reconfigure(self, instances: Sequence[int], mapping: Mapping | None) -> Reconfiguration:
        """Change who runs and who owns what."""

    def results(self, wait: bool = True) -> pa.Table:
        """Give the results since the last call, after all that was added before it is processed, or without waiting."""

    def late(self, source: int) -> pa.Table:
        """Give the late tuples of a source since the last call."""

    def finish(self, beyond: int = 0) -> None:
        """End all sources and complete all windows, those of later operators too, which reach `beyond` further."""

    def stop(self) -> None:
        """Give up what is pending."""

    def metrics(self) -> Metrics:
        """Say what was done so far."""
