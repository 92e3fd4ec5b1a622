"""Who asks for epochs and keeps their records: the control plane beside the workers (Paper: reconfigure)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

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
from stretch.metrics import Progress, Reconfiguration, ReconfigurationRecord, Status
from stretch.native.atomics import load_acquire
from stretch.native.system import now_ns

CHANGES_KEPT = 2 * EPOCHS_MAX


class EpochChange(Reconfiguration):
    """A change of parallelism or mapping, as the shared row of its epoch has it."""

    def __init__(self, coordinator: Coordinator, epoch: int, instances: Sequence[int]) -> None:
        super().__init__(epoch, instances)
        self._coordinator = coordinator
        self._final: Progress | None = None

    def progress(self) -> Progress:
        return self._final or self._coordinator.progress(self.epoch)

    def check(self) -> bool:
        return self._coordinator.check()

    def finalise(self) -> None:
        """Keep what the shared row says now: the row is about to serve another epoch."""
        self._final = self.progress()


class Coordinator:
    """Writes the rows of epochs (E1); one per operator. `check` is that of `Reconfiguration`."""

    def __init__(self, epochs: Epochs, check: Callable[[], bool]) -> None:
        self._epochs = epochs
        self.check = check
        self._lock = threading.Lock()
        self.changes: deque[EpochChange] = deque(maxlen=CHANGES_KEPT)
        self._switched_before = 0  # of the changes that are not kept
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

    @property
    def requested(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The instances asked for last, and who of them has which key group."""
        with self._lock:
            change = self.changes[-1]
            return change.instances, tuple(self._epochs.mapping[change.epoch % EPOCHS_MAX].tolist())

    def records(self) -> tuple[int, tuple[ReconfigurationRecord, ...]]:
        """Return how many changes have taken effect, and the latest ones."""
        with self._lock:
            records = tuple(change.record() for change in self.changes if change.epoch > 0)
            return self._switched_before + sum(record.status == "switched" for record in records), records

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
                self.changes[-EPOCHS_MAX].finalise()
            self._epochs.mapping[row] = np.asarray(mapping, np.int32)
            self._epochs.members[row] = 0
            self._epochs.members[row, list(instances)] = 1
            self._epochs.progress[row] = 0
            self._epochs.progress[row, REQUESTED_NS] = now_ns()
            self._next += 1
            change = EpochChange(self, number, tuple(instances))
            if len(self.changes) == CHANGES_KEPT:
                self._switched_before += self.changes[0].status == "switched"
            self.changes.append(change)
            return change

    def progress(self, number: int) -> Progress:
        """Return how far the switch to an epoch is."""
        latest = self.latest_epoch  # first: what began before it has all its times
        row = self._epochs.progress[number % EPOCHS_MAX]
        # load_acquire: pairs with the store_release of who completes the switch; read before what it covers.
        switched_ns = load_acquire(row, SWITCHED_NS)
        status: Status = "switched" if switched_ns else "superseded" if latest > number else "waiting"
        watermark = int(row[SWITCHED_AT]) if switched_ns else None
        requested_ns, control_ns, barrier_ns = (int(row[n]) for n in (REQUESTED_NS, FIRST_CONTROL_NS, BARRIER_NS))
        return Progress(status, watermark, requested_ns, control_ns, barrier_ns, switched_ns)

    def changed_by(self, number: int) -> tuple[int, int, int]:
        """Return how many workers came to the barrier and went on, and which one connected; for tests."""
        row = self._epochs.progress[number % EPOCHS_MAX]
        return int(row[ARRIVED]), int(row[PASSED]), int(row[CHANGED_BY]) - 1
