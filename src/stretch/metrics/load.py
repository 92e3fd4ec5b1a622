"""What an operator did in an interval, and what it has before it: all that a controller knows.

A `Load` is the difference of two readings of a job's counters. Its numbers are plain, so that a controller can be
tested from a table, and a recorded run be played back.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple


class Work(NamedTuple):
    """What was done in an interval, counted over all instances."""

    tuples: int = 0
    """Tuples that every instance has left behind."""
    updates: int = 0
    """Windows updated: one per tuple and key."""
    comparisons: int = 0
    """Pairs of tuples compared."""
    outputs: int = 0
    """Results written."""


@dataclass(frozen=True)
class Reading:
    """The counters of an operator at one moment; they only grow, except for what it has before it."""

    time: float
    arrived: tuple[int, ...]
    work: Work
    busy_ns: tuple[int, ...]
    """How long each instance of the pool has worked."""
    instances: tuple[int, ...]
    """Those that run."""
    pending: int = 0
    stored: tuple[int, ...] = ()
    group_work: tuple[int, ...] = ()
    mapping: tuple[int, ...] = ()


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
    def between(cls, before: Reading, after: Reading, minimum: int, maximum: int) -> Load:
        """Return what happened between two readings; those that run at the second have run all the time."""
        seconds = after.time - before.time
        spent = [(after.busy_ns[number] - before.busy_ns[number]) / 1e9 / seconds for number in after.instances]
        return cls(
            time=after.time,
            seconds=seconds,
            parallelism=len(after.instances),
            minimum=minimum,
            maximum=maximum,
            arrived=_grown(before.arrived, after.arrived),
            work=Work(*_grown(before.work, after.work)),
            busy=tuple(min(1.0, max(0.0, part)) for part in spent),
            pending=after.pending,
            stored=after.stored,
            instances=after.instances,
            group_work=_grown(before.group_work, after.group_work),
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


def _grown(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    """Return by how much each counter has grown."""
    return tuple(late - early for early, late in zip(before, after, strict=True))
