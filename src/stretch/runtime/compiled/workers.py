"""The threads of a pool: one per instance, in compiled code until the job ends.

The first that fails stops all of its family, and its error is what every later call on their jobs raises.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Sequence

from stretch.epochs.layout import EPOCH, HAS_WATERMARK, NOW, POOL_CELL, POSITION, STATE_FULL, STOPPED, WATERMARK
from stretch.errors import FunctionError, JobError
from stretch.native.outline import ViewBox
from stretch.native.turns import take_short_turns
from stretch.native.waiting import wake_all
from stretch.runtime.compiled.family import Family
from stretch.runtime.compiled.memory import Memory
from stretch.runtime.engine import was_stopped

STOP_SECONDS = 5.0


class Workers:
    """The pool of one operator; `instances` run in the first epoch, which has been requested.

    They begin with `watermark`, where they take over the state of others.
    """

    def __init__(
        self, name: str, memory: Memory, family: Family, instances: Sequence[int], watermark: int | None = None
    ) -> None:
        self._memory = memory
        self._family = family
        self._name = name
        self._is_reported = False
        for instance in instances:
            row = memory.epochs.workers[instance]
            row[EPOCH] = 0
            if watermark is not None:
                row[WATERMARK], row[HAS_WATERMARK] = watermark, 1
        stations = [memory.station(number) for number in range(memory.pool)]
        self._stations = [ViewBox(station) for station in stations]
        self._run = memory.make_worker(stations[0])
        memory.epochs.stop[0] = 1
        self._run(self._stations[0].address, 0)  # compiles it, here and once; it stops at once
        memory.epochs.stop[0] = 0
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"stretch-{number}", daemon=True)
            for number in range(memory.pool)
        ]

    def start(self, position: int) -> None:
        """Begin at a position of the input, where the first instances are connected."""
        self._memory.epochs.workers[:, POSITION] = position
        for thread in self._threads:
            thread.start()

    @property
    def is_running(self) -> bool:
        """Tell whether nobody has failed or been told to stop."""
        return self._family.failure is None and not self._memory.epochs.stop[0]

    def check(self) -> None:
        """Raise what a worker failed with, or that the job was stopped, if so."""
        if self._family.failure is not None:
            raise self._family.failure
        if not self.is_running:
            raise was_stopped(self._name)

    def stop(self) -> None:
        """Stop all threads, and wait for them; who does not come within STOP_SECONDS is left behind, and named."""
        self.signal_stop()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            if thread.is_alive():  # or was never started
                thread.join(max(0.0, deadline - time.monotonic()))
        lost = [thread.name for thread in self._threads if thread.is_alive()]
        if lost and not self._is_reported:
            self._is_reported = True
            warnings.warn(
                f"{self._name}: {', '.join(lost)} did not stop within {STOP_SECONDS:g} seconds.\n"
                "  why:   a function of the operator has been running all that time, and nobody can interrupt it.\n"
                "  do:    mend the function; its thread is a daemon, which keeps a core busy until the program ends.",
                RuntimeWarning,
                stacklevel=4,
            )

    def _work(self, number: int) -> None:
        """Run a worker until it stops; what it fails with stops everyone."""
        take_short_turns()
        try:
            status = self._run(self._stations[number].address, number)
        except BaseException as problem:
            self._family.fail(
                FunctionError(
                    f"{self._name}: a function failed",
                    where=f"instance {number}, at timestamp {int(self._memory.epochs.workers[number, NOW])}",
                    why=f"{type(problem).__name__}: {problem}",
                    do='mend the function; engine="reference" names the key and the line',
                )
            )
            return
        if status != STOPPED:
            what = (
                "its state needs more memory than is reserved" if status == STATE_FULL else "a tuple has too many keys"
            )
            self._family.fail(
                JobError(
                    f"{self._name}: instance {number} stopped",
                    where=f"at timestamp {int(self._memory.epochs.workers[number, NOW])}",
                    why=what,
                    do="use smaller windows, or fewer keys per tuple",
                )
            )

    def signal_stop(self) -> None:
        """Tell all threads to stop, and wake those that are parked."""
        self._memory.log.close()  # sets the stop flag, which all share
        self._memory.out.close()
        for cell in (0, POOL_CELL):
            wake_all(self._memory.epochs.cells, cell)
