"""Who asks for epochs and keeps their records: the control plane beside the workers (Paper: reconfigure)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stretch.epochs.layout import (
    ARRIVED,
    BARRIER_NS,
    CHANGED_BY,
    EPOCHS_MAX,
    FIRST_CONTROL_NS,
    LATEST_EPOCH,
    PASSED,
    REQUESTED_NS,
    SWITCHED_AT,
    SWITCHED_NS,
    Epochs,
)
from stretch.errors import ReconfigurationError
from stretch.native.atomics import load_acquire
from stretch.native.system import now_ns

Status = Literal["waiting", "switched", "superseded"]


@dataclass(frozen=True)
class Times:
    """When the steps of a switch happened, in nanoseconds of the monotonic clock; 0 for steps that did not (yet)."""

    requested_ns: int
    first_control_ns: int
    barrier_ns: int
    switched_ns: int


class EpochChange:
    """A change of parallelism or mapping, from its request on."""

    def __init__(self, coordinator: Coordinator, number: int, instances: tuple[int, ...]) -> None:
        self._coordinator = coordinator
        self.epoch = number
        self.instances = instances
        self._final: tuple[Times, int] | None = None

    @property
    def parallelism(self) -> int:
        """The number of instances from then on."""
        return len(self.instances)

    @property
    def status(self) -> Status:
        """Whether it waits for the sources' watermark to go on, took effect, or was overtaken by a later one."""
        times, _ = self._look()
        if times.switched_ns:
            return "switched"
        return "superseded" if self._coordinator.latest_epoch > self.epoch else "waiting"

    @property
    def times(self) -> Times:
        """When its steps happened."""
        return self._look()[0]

    @property
    def watermark(self) -> int | None:
        """The event time of the entry at which it took effect."""
        times, watermark = self._look()
        return watermark if times.switched_ns else None

    @property
    def milliseconds(self) -> float | None:
        """From the request until every instance went on in the new epoch."""
        times = self.times
        return (times.switched_ns - times.requested_ns) / 1e6 if times.switched_ns else None

    def __repr__(self) -> str:
        took = "" if self.milliseconds is None else f" in {self.milliseconds:.2f} ms"
        return f"<Reconfiguration to {self.parallelism} instance(s), epoch {self.epoch}: {self.status}{took}>"

    def finalise(self) -> None:
        """Keep what the shared row says now: the row is about to serve another epoch."""
        self._final = self._look()

    def _look(self) -> tuple[Times, int]:
        return self._final or self._coordinator.look(self.epoch)


class Coordinator:
    """Writes the rows of epochs (E1); one per operator."""

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs
        self._lock = threading.Lock()
        self.changes: list[EpochChange] = []
        self._next = 0

    @property
    def latest_epoch(self) -> int:
        """The number of the epoch that began last."""
        # load_acquire: pairs with the store_release of the worker that completes the switch.
        return load_acquire(self._epochs.cells, LATEST_EPOCH)

    @property
    def instances(self) -> tuple[int, ...]:
        """The instances of the epoch asked for last."""
        return self.changes[-1].instances

    def request(self, instances: Sequence[int], mapping: Sequence[int]) -> EpochChange:
        """Write the rows of a new epoch; announcing it is up to the sources."""
        with self._lock:
            number = self._next
            if number - self.latest_epoch >= EPOCHS_MAX - 2:
                raise ReconfigurationError(
                    f"{number - self.latest_epoch} reconfigurations wait already",
                    why="they take effect as the sources' watermark goes on, and it does not",
                    do="send input or a heartbeat (job.watermark) before asking for more",
                )
            row = number % EPOCHS_MAX
            if number >= EPOCHS_MAX:
                self.changes[number - EPOCHS_MAX].finalise()
            self._epochs.mapping[row] = np.asarray(mapping, np.int32)
            self._epochs.members[row] = 0
            self._epochs.members[row, list(instances)] = 1
            self._epochs.progress[row] = 0
            self._epochs.progress[row, REQUESTED_NS] = now_ns()
            self._next += 1
            change = EpochChange(self, number, tuple(instances))
            self.changes.append(change)
            return change

    def look(self, number: int) -> tuple[Times, int]:
        """Return the times of an epoch's switch and the event time at which it happened."""
        row = self._epochs.progress[number % EPOCHS_MAX]
        times = [int(row[cell]) for cell in (REQUESTED_NS, FIRST_CONTROL_NS, BARRIER_NS, SWITCHED_NS)]
        return Times(*times), int(row[SWITCHED_AT])

    def changed_by(self, number: int) -> tuple[int, int, int]:
        """Return how many workers came to the barrier and went on, and which one connected; for tests."""
        row = self._epochs.progress[number % EPOCHS_MAX]
        return int(row[ARRIVED]), int(row[PASSED]), int(row[CHANGED_BY]) - 1
