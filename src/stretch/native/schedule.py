"""Replayable interleavings of concurrent Python code.

What
    With `NUMBA_DISABLE_JIT=1` kernels are plain Python and every atomic calls `schedule_point()` before it acts. That
    call does nothing until an `Interleaver` runs: then real threads take turns, one at a time, and each schedule
    point may hand the turn (the baton) to another thread. All choices come from one seeded generator, so a failure
    is replayed by its seed.

Invariants
    I1  At most one worker runs between two schedule points. The interleaver's own fields are touched only by the
        worker that holds the baton, so they need no lock; handing over a `threading.Lock` orders them.
    I2  What happens depends on the seed and the workers only. Time is counted in steps: `now_ns()` of a worker is
        virtual (1 us a step), so deadlines replay too.
    I3  A parked worker runs again only when it is unparked or its deadline has come. When all are parked, time jumps
        to the first deadline; with `strict_parks` that is an error instead, for it means that a wake-up was lost.
    I4  Every run ends: too many steps (a livelock) or too much real time (a worker that blocks outside a schedule
        point) is an error that names the seed.

Who writes what
    `_installed`: `Interleaver.run`, under `_run_lock`. Everything else: the worker with the baton (I1).

What it cannot find
    Only sequentially consistent interleavings at atomics are explored. A plain access that should have been atomic,
    or an order that is too weak, needs the stress tests with compiled code.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from types import FrameType
from typing import Any, Final

from stretch.errors import StretchError
from stretch.native.jit import compiled_form_of

STEP_NS: Final = 1_000  # virtual duration of a step

# Mean lengths of the turns of one run, one of them drawn by the seed: short turns find races inside a few
# instructions, long ones find those that need a worker to finish a phase while another stands still.
_TURN_LENGTHS: Final = (1.0, 2.0, 8.0, 40.0)


class InterleavingError(StretchError):
    """A run failed: a worker raised, nobody can go on, or a bound was reached. The text names the seed."""


class _Abandoned(BaseException):
    """Unwinds the other workers after a failure; not an Exception, so that no handler of theirs takes it."""


class _Worker:
    """One callable, its thread and what it waits for."""

    def __init__(self, worker_id: int, function: Callable[[], Any]) -> None:
        self.id = worker_id
        self.function = function
        self.gate = threading.Lock()  # held while it is not this worker's turn
        self.gate.acquire()
        self.thread: threading.Thread | None = None
        self.result: Any = None
        self.park_key: Hashable | None = None  # what can unpark it; None for a sleeper
        self.deadline_ns: int | None = None  # virtual; None for a worker that can run

    @property
    def name(self) -> str:
        return f"worker {self.id} ({getattr(self.function, '__qualname__', repr(self.function))})"


class Interleaver:
    """Run callables as threads in an order drawn from `seed`.

    Made for `NUMBA_DISABLE_JIT=1`. With compiled kernels it still interleaves Python code that calls atomics, but a
    kernel is one step, and one that waits really blocks.

    `max_steps` bounds the schedule points of a run, `wall_seconds` its real time. After a run, `trace` holds the
    turns as `(step, worker)`, `steps` their length, and `failures` every exception that a worker raised.
    """

    def __init__(
        self, seed: int, max_steps: int = 100_000, *, strict_parks: bool = False, wall_seconds: float = 30.0
    ) -> None:
        self.seed = seed
        self.max_steps = max_steps
        self.strict_parks = strict_parks
        self.wall_seconds = wall_seconds
        self.steps = 0
        self.now_ns = 0
        self.trace: list[tuple[int, int]] = []
        self.failures: list[tuple[int, BaseException]] = []
        self._random = random.Random(seed)
        self._turn_length = self._random.choice(_TURN_LENGTHS)
        self._turn_left = 0
        self._live: list[_Worker] = []
        self._by_thread: dict[int, _Worker] = {}
        self._stuck: str | None = None  # why the run was abandoned, when no worker raised
        self._done = threading.Event()

    def run(self, functions: Sequence[Callable[[], Any]]) -> list[Any]:
        """Run all functions to their ends and return their results; raise `InterleavingError` if one fails."""
        global _installed
        if self._by_thread:
            raise RuntimeError("this Interleaver has run already: make one per run")
        workers = [_Worker(index, function) for index, function in enumerate(functions)]
        if not workers:
            return []
        if not _run_lock.acquire(blocking=False):
            raise RuntimeError("an Interleaver is running already: runs cannot nest or overlap")
        try:
            for worker in workers:
                self._start(worker)
            self._live = list(workers)
            _installed = self
            self._choose(None).gate.release()
            finished = self._done.wait(self.wall_seconds)
            if not finished:
                raise self._blocked()
        finally:
            _installed = None
            _run_lock.release()
        self._raise_failure(workers)
        return [worker.result for worker in workers]

    # The rest runs in the workers' threads, always in the one that holds the baton (I1).

    def step(self, *, is_waiting: bool) -> None:
        """Count a schedule point and maybe hand over; a waiting worker gives its turn away if another can run."""
        worker = self._by_thread.get(threading.get_ident())
        if worker is None:
            return
        self._count_step()
        self._turn_left -= 1
        if is_waiting or self._turn_left < 1:
            self._hand_over(worker, is_waiting)

    def park(self, key: Hashable | None, timeout_ns: int) -> None:
        """Stop the calling worker until `unpark(key)` or the timeout (virtual time)."""
        worker = self._by_thread[threading.get_ident()]
        self._count_step()
        worker.park_key = key
        worker.deadline_ns = self.now_ns + max(timeout_ns, 0)
        self._hand_over(worker, is_waiting=True)
        worker.park_key = worker.deadline_ns = None

    def unpark(self, key: Hashable) -> int:
        """Let every worker parked on `key` run again; return how many there were."""
        parked = [worker for worker in self._live if worker.deadline_ns is not None and worker.park_key == key]
        for worker in parked:
            worker.park_key = worker.deadline_ns = None
        return len(parked)

    def manages_this_thread(self) -> bool:
        return threading.get_ident() in self._by_thread

    def _start(self, worker: _Worker) -> None:
        thread = threading.Thread(target=self._work, args=(worker,), name=worker.name, daemon=True)
        worker.thread = thread
        thread.start()
        assert thread.ident is not None
        self._by_thread[thread.ident] = worker

    def _work(self, worker: _Worker) -> None:
        worker.gate.acquire()
        try:
            if not self._is_abandoned():
                worker.result = worker.function()
        except _Abandoned:
            pass
        except BaseException as error:
            self.failures.append((worker.id, error))
        self._live.remove(worker)
        if self._live:
            self._choose(None).gate.release()
        else:
            self._done.set()

    def _is_abandoned(self) -> bool:
        return bool(self.failures) or self._stuck is not None

    def _count_step(self) -> None:
        if self._is_abandoned():
            raise _Abandoned
        self.steps += 1
        self.now_ns += STEP_NS
        if self.steps > self.max_steps:
            self._stuck = f"no end after {self.max_steps} steps: a livelock, a deadlock, or max_steps is too small"
            self._stuck += self._describe_positions()
            raise _Abandoned

    def _hand_over(self, worker: _Worker, is_waiting: bool) -> None:
        chosen = self._choose(worker if is_waiting else None)
        if chosen is not worker:
            chosen.gate.release()
            worker.gate.acquire()
        if self._is_abandoned():
            raise _Abandoned

    def _choose(self, waiting: _Worker | None) -> _Worker:
        """Draw the worker of the next turn: any that can run, `waiting` only if it is the only one."""
        if self._is_abandoned():
            return self._live[0]  # they unwind one after the other
        runnable = self._runnable()
        if not runnable:
            if self.strict_parks and all(worker.park_key is not None for worker in self._live):
                self._stuck = "every worker is parked and nobody is left to wake one: a wake-up was lost"
                self._stuck += self._describe_positions()
                return self._live[0]
            self.now_ns = min(worker.deadline_ns or 0 for worker in self._live)  # all of them have a deadline
            runnable = self._runnable()
        if waiting in runnable and len(runnable) > 1:
            runnable.remove(waiting)
        chosen = self._random.choice(runnable)
        # A geometric length: the chance that the turn ends is the same at every step of it.
        self._turn_left = 1
        while self._random.random() > 1.0 / self._turn_length:
            self._turn_left += 1
        self.trace.append((self.steps, chosen.id))
        return chosen

    def _runnable(self) -> list[_Worker]:
        return [each for each in self._live if each.deadline_ns is None or each.deadline_ns <= self.now_ns]

    def _raise_failure(self, workers: Sequence[_Worker]) -> None:
        replay = f"Interleaver(seed={self.seed}, max_steps={self.max_steps}, strict_parks={self.strict_parks})"
        if self.failures:
            worker_id, error = self.failures[0]
            raise InterleavingError(
                f"{workers[worker_id].name} raised {type(error).__name__}: {error}",
                where=self._where(),
                why="this order of turns breaks it; its error is the cause of this one.",
                do=f"replay exactly this order with {replay}.",
            ) from error
        if self._stuck is not None:
            raise InterleavingError(
                f"The workers cannot go on: {self._stuck}",
                where=self._where(),
                why="in this order of turns each waits for another.",
                do=f"replay exactly this order with {replay}.",
            )

    def _blocked(self) -> InterleavingError:
        return InterleavingError(
            f"The workers did not end within {self.wall_seconds} s.{self._describe_positions()}",
            where=self._where(),
            why="one of them blocks, or loops, without reaching a schedule point.",
            do="wait with the functions of stretch.native.waiting, and lock with atomics, never with a real lock.",
        )

    def _where(self) -> str:
        return f"step {self.steps} of seed {self.seed}"

    def _describe_positions(self) -> str:
        frames = sys._current_frames()
        lines = []
        for worker in self._live:
            ident = worker.thread.ident if worker.thread is not None else None
            frame = frames.get(ident) if ident is not None else None
            state = "parked" if worker.park_key is not None else "running"
            lines.append(f"\n  {worker.name} is {state} at {_position_outside_native(frame)}")
        return "".join(lines)


def _position_outside_native(frame: FrameType | None) -> str:
    """Name the innermost line that is not the machinery of this folder."""
    innermost = frame
    while frame is not None:
        if not str(frame.f_globals.get("__name__", "")).startswith(("stretch.native.", "threading")):
            return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return "its start" if innermost is None else innermost.f_code.co_name


_run_lock: Final = threading.Lock()
_installed: Interleaver | None = None


def schedule_point() -> None:
    """Offer the turn to another thread; nothing at all unless an interleaver runs this thread."""
    interleaver = _installed
    if interleaver is not None:
        interleaver.step(is_waiting=False)


def waiting_point() -> None:
    """A schedule point of a thread that waits for another one, which therefore gets the turn."""
    interleaver = _installed
    if interleaver is not None:
        interleaver.step(is_waiting=True)


def current_interleaver() -> Interleaver | None:
    """Return the interleaver that runs the calling thread, if one does."""
    interleaver = _installed
    return interleaver if interleaver is not None and interleaver.manages_this_thread() else None


@compiled_form_of(schedule_point)
@compiled_form_of(waiting_point)
def _no_schedule_point() -> Callable[[], None]:
    return lambda: None
