"""What a job has done so far, as plain values: read while it runs, without stopping anybody.

Counts and nanoseconds only grow, from the start of the job on; rates are differences between two readings, divided by
the difference of `read_ns`. Numbers that are read one after another may disagree by what happened in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stretch.metrics.latency import Latency
from stretch.metrics.reconfiguration import ReconfigurationRecord


@dataclass(frozen=True)
class InstanceMetrics:
    """One instance of the pool, by its number in `Metrics.instances`."""

    is_active: bool
    busy_ns: int = 0
    """Time spent on tuples, windows and results."""
    wait_ns: int = 0
    """Time spent waiting for tuples. Not counted: time in the pool."""
    entries: int = 0
    """Entries of the buffer that it has read: tuples, watermarks, changes."""
    tuples: int = 0
    """Tuples of which it had a key."""
    results: int = 0
    backlog: int = 0
    """Entries that are ready and that it has not given back yet; 0 while in the pool."""
    backlog_ms: float = 0.0
    """How long that takes it, at the speed of its latest batch."""


@dataclass(frozen=True)
class Metrics:
    """What a job has done so far. An engine that cannot know a number leaves it at its default."""

    tuples_in: int
    """Tuples that sources have added, the late ones too."""
    late: int
    results: int
    parallelism: int
    """How many instances run now."""
    reconfigurations: int
    """Changes that have taken effect."""
    duplicates_avoided: int
    """Copies of tuples that shared-nothing parallelism would have made; at least: a tuple without keys counts -1."""
    copies: int = 0
    """Copies of tuples that were made: 0 unless the engine is shared-nothing."""
    bytes_moved: int = 0
    """State that was serialised and moved for a change of parallelism: 0 unless the engine is shared-nothing."""
    read_ns: int = field(default=0, compare=False)
    """When this was read, by the monotonic clock."""
    arrived: tuple[int, ...] = ()
    """`tuples_in`, by input."""
    watermark: int | None = None
    """Event time up to which everything is processed, by every instance; None at the beginning."""
    pending: int = 0
    """Entries that wait in the buffer, ready or not: what the slowest instance has not given back."""
    results_pending: int = 0
    """Results that wait to be read."""
    blocked_ns: int = 0
    """Time that sources spent waiting for room."""
    instances: tuple[InstanceMetrics, ...] = ()
    """One of each instance of the pool."""
    latency: Latency = field(default_factory=Latency)
    """From the arrival of the latest tuple that contributes to a result until the instance has made it."""
    records: tuple[ReconfigurationRecord, ...] = ()
    """The latest changes, oldest first; those before them are only counted."""
    mapping: tuple[int, ...] = field(default=(), repr=False)
    """Which instance owns each key group, in the epoch that runs."""
    updates: tuple[int, ...] = field(default=(), repr=False)
    """Updates of window state, by key group."""
    stored: tuple[int, ...] = ()
    """Of a join: tuples of each input that windows hold."""
    comparisons: int = 0
    """Of a join: pairs of tuples that were compared."""
    state_bytes: int = 0
    """Memory of window state."""
    dictionary_bytes: int = 0
    """Memory of the texts that have an id."""

    @property
    def max_parallelism(self) -> int:
        """How many instances there are, the pool included."""
        return len(self.instances)

    @property
    def backlog(self) -> int:
        """Entries that wait for the slowest instance that runs."""
        return max((each.backlog for each in self.instances if each.is_active), default=0)

    @property
    def backlog_ms(self) -> float:
        """How long it takes the instance that needs longest for what waits for it."""
        return max((each.backlog_ms for each in self.instances if each.is_active), default=0.0)
