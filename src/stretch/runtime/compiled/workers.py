"""The threads of a pool: one per instance, in compiled code until the job ends.

The first that fails stops all, and its error is what every later call on the job raises.
"""

from __future__ import annotations

import threading

from stretch.epochs.layout import EPOCH, NOW, POOL_CELL, STATE_FULL, STOPPED
from stretch.epochs.worker import make_worker
from stretch.errors import FunctionError, JobError, StretchError
from stretch.native.outline import ViewBox
from stretch.native.waiting import wake_all
from stretch.operator.program import Program
from stretch.runtime.compiled.memory import Memory


class Workers:
    """The pool of one operator; `instances` run in the first epoch, which has been requested."""

    def __init__(self, program: Program, memory: Memory, instances: range) -> None:
        self._memory = memory
        self._name = program.plan.name
        self.failure: StretchError | None = None
        for instance in instances:
            memory.epochs.workers[instance, EPOCH] = 0
        stations = [memory.station(number) for number in range(memory.pool)]
        self._stations = [ViewBox(station) for station in stations]
        self._run = make_worker(program, stations[0])
        memory.epochs.stop[0] = 1
        self._run(self._stations[0].address, 0)  # compiles it, here and once; it stops at once
        memory.epochs.stop[0] = 0
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"stretch-{number}", daemon=True)
            for number in range(memory.pool)
        ]
        for thread in self._threads:
            thread.start()

    def check(self) -> None:
        """Raise what a worker failed with, if one has."""
        if self.failure is not None:
            self.stop()
            raise self.failure

    def stop(self) -> None:
        """Stop all threads, and wait for them."""
        self._signal_stop()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        """Run a worker until it stops; what it fails with stops everyone."""
        try:
            status = self._run(self._stations[number].address, number)
        except BaseException as problem:
            self._fail(
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
            self._fail(
                JobError(
                    f"{self._name}: instance {number} stopped",
                    where=f"at timestamp {int(self._memory.epochs.workers[number, NOW])}",
                    why=what,
                    do="use smaller windows, or fewer keys per tuple",
                )
            )

    def _fail(self, failure: StretchError) -> None:
        if self.failure is None:
            self.failure = failure
        self._signal_stop()

    def _signal_stop(self) -> None:
        """Tell all threads to stop, and wake those that are parked."""
        self._memory.log.close()  # sets the stop flag, which all share
        self._memory.out.close()
        for cell in (0, POOL_CELL):
            wake_all(self._memory.epochs.cells, cell)
