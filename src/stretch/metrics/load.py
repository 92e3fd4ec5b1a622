"""What an operator did in an interval, and what it has before it: all that a controller knows.

A `Load` is the difference of two readings of a job's metrics. Its numbers are plain, so that a controller can be
tested from a table, and a recorded run be played back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from stretch.metrics.metrics import Metrics


class Work(NamedTuple):
    """What was done in an interval, counted over all instances."""

    tuples: int = 0
    """Tuples that every instance has left behind; heartbeats are among them."""
    updates: int = 0
    """Windows updated: one per tuple and key."""
    comparisons: int = 0
    """Pairs of tuples compared."""
    outputs: int = 0
    """Results written."""


@dataclass(frozen=True)
class Load:
    """One interval of a running operator."""

    time: float
    """When the interval ended, in seconds of a clock that only goes forward."""
    seconds: float
    """How long it was; the parallelism did not change in it."""
    parallelism: int
    minimum: int
    maximum: int
    """The parallelism that runs, and the limits that it has to stay in."""
    arrived: tuple[int, ...]
    """Tuples that arrived, input by input."""
    work: Work
    busy: tuple[float, ...]
    """Which part of the interval each running instance worked, from 0 to 1."""
    pending: int = 0
    """Tuples that are ready and wait, because some instance has not come to them."""
    stored: tuple[int, ...] = ()
    """Tuples that the windows of a join hold, input by input; nothing for other operators."""
    instances: tuple[int, ...] = ()
    """The numbers of the running instances, in the order of `busy`."""
    group_work: tuple[int, ...] = ()
    """How much of the work each key group was; empty where it is not measured."""
    mapping: tuple[int, ...] = ()
    """Which instance has each key group."""

    @property
    def arrival_rate(self) -> float:
        """Tuples per second that arrived, over all inputs."""
        return sum(self.arrived) / self.seconds

    @property
    def processing_rate(self) -> float:
        """Tuples per second that were processed."""
        return self.work.tuples / self.seconds

    @property
    def busy_instances(self) -> float:
        """How many instances would have been enough, had each worked all the time."""
        return sum(self.busy)

    @property
    def average_busy(self) -> float:
        """The part of the interval that instances worked, on average."""
        return self.busy_instances / self.parallelism

    @property
    def most_busy(self) -> float:
        """The part of the interval that the busiest instance worked."""
        return max(self.busy, default=0.0)

    @property
    def backlog_seconds(self) -> float:
        """How long the tuples that wait would take at the rate of this interval; infinite if nothing was processed."""
        if self.pending == 0:
            return 0.0
        return self.pending / self.processing_rate if self.work.tuples > 0 else float("inf")

    @classmethod
    def between(cls, before: Metrics, after: Metrics, minimum: int, maximum: int) -> Load:
        """Return what happened between two readings; those that run at the second have run all the time."""
        nanoseconds = max(1, after.read_ns - before.read_ns)
        running = [number for number, each in enumerate(after.instances) if each.is_active]
        pairs = [(before.instances[number], after.instances[number]) for number in running]
        group_work = tuple(late - early for early, late in zip(before.updates, after.updates, strict=True))
        return cls(
            time=after.read_ns / 1e9,
            seconds=nanoseconds / 1e9,
            parallelism=len(running),
            minimum=minimum,
            maximum=maximum,
            arrived=_arrived(before, after),
            work=Work(
                tuples=min((late.entries - early.entries for early, late in pairs), default=0),
                updates=sum(group_work),
                comparisons=after.comparisons - before.comparisons,
                outputs=after.results - before.results,
            ),
            busy=tuple(min(1.0, (late.busy_ns - early.busy_ns) / nanoseconds) for early, late in pairs),
            pending=after.backlog,
            stored=after.stored,
            instances=tuple(running),
            group_work=group_work,
            mapping=after.mapping,
        )

    def to_record(self) -> dict[str, Any]:
        """Return it as plain data, for files."""
        return asdict(self) | {"work": self.work._asdict()}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Load:
        """Read what `to_record` wrote."""
        plain = {one.name: record[one.name] for one in fields(cls) if one.name in record}
        lists = {name: tuple(value) for name, value in plain.items() if isinstance(value, (list, tuple))}
        return cls(**{**plain, **lists, "work": Work(**record["work"])})


def _arrived(before: Metrics, after: Metrics) -> tuple[int, ...]:
    """Return how many tuples arrived, input by input where that is known."""
    if not after.arrived:
        return (after.tuples_in - before.tuples_in,)
    return tuple(late - early for early, late in zip(before.arrived, after.arrived, strict=True))
