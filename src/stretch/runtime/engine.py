"""What a job asks of an engine; every engine gives the same results, only the speed differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa

from stretch.operator.plan import Plan
from stretch.operator.spec import Mapping

Status = Literal["waiting", "switched", "superseded"]


@dataclass(frozen=True)
class Metrics:
    """What a job has done so far."""

    tuples_in: int
    late: int
    results: int
    parallelism: int
    reconfigurations: int
    duplicates_avoided: int
    """Copies of tuples that shared-nothing parallelism would have made."""
    copies: int = 0
    """Copies of tuples that were made: 0 unless the engine is shared-nothing."""
    bytes_moved: int = 0
    """State that was serialised and moved for a change of parallelism: 0 unless the engine is shared-nothing."""


class Reconfiguration(Protocol):
    """A change of parallelism or mapping, from its request on."""

    @property
    def epoch(self) -> int:
        """The number of the epoch that it begins."""

    @property
    def parallelism(self) -> int:
        """The number of instances from then on."""

    @property
    def status(self) -> Status:
        """Whether it waits for the sources' watermark to go on, took effect, or was overtaken by a later one.

        A request that waits when the job ends has never taken effect, and stays "waiting".
        """

    @property
    def watermark(self) -> int | None:
        """The event time of the tuple or heartbeat at which it took effect."""


def describe(change: Reconfiguration) -> str:
    """Show a change in one line."""
    at = "" if change.watermark is None else f" at {change.watermark}"
    return f"<Reconfiguration: epoch {change.epoch}, parallelism {change.parallelism}, {change.status}{at}>"


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

    def add(self, batch: pa.RecordBatch, source: int) -> None:
        """Take the rows of a batch."""

    def watermark(self, timestamp: int, source: int) -> None:
        """Take a promise that nothing before `timestamp` follows from `source`."""

    def close(self, source: int) -> None:
        """Take the end of a source."""

    def reconfigure(self, instances: Sequence[int], mapping: Mapping | None) -> Reconfiguration:
        """Change who runs and who owns what."""

    def results(self) -> pa.Table:
        """Give the results since the last call."""

    def late(self, source: int) -> pa.Table:
        """Give the late tuples of a source since the last call."""

    def finish(self, beyond: int = 0) -> None:
        """End all sources and complete all windows, those of later operators too, which reach `beyond` further."""

    def stop(self) -> None:
        """Give up what is pending."""

    def metrics(self) -> Metrics:
        """Say what was done so far."""
