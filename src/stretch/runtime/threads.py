"""The engine "python": the reference engine's instances on threads, for functions that cannot be compiled.

What
    `Threads` stands in for the reference engine's scheduler: a task is a thread, and takes its turns while it holds
    the one lock of the engine. Functions of the user run without it, several at a time; so they are as parallel as
    Python lets them be (functions that wait or compute in NumPy, or a Python without a GIL).

Invariants
    T1  Buffers, stores and epochs are touched only by who holds the lock.
    T2  A function of the user gets tuples and windows that nobody else touches: within an epoch its instance alone
        owns their key group, and nobody passes the barrier before it comes.

Paper: o_j, one thread each, on shared buffers and state.
"""

from __future__ import annotations

import copy
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from stretch.metrics import Metrics, Progress, Reconfiguration
from stretch.operator.keys import KeyFunction
from stretch.operator.plan import Plan, Stream
from stretch.operator.spec import Map, Mapping, keep, purge, store
from stretch.reference.buffer import ReferenceBuffer
from stretch.reference.control import ControlQueues
from stretch.reference.process import NO_ROWS
from stretch.reference.scheduler import Scheduler, Steps, Turn
from stretch.reference.virtual import EGRESS
from stretch.runtime.engine import was_stopped
from stretch.runtime.ingress import Disorder
from stretch.runtime.reference import VirtualEngine, VirtualReconfiguration
from stretch.runtime.sources import Sources

STOP_SECONDS = 5.0
TURNS_HELD = 32  # how many turns a thread takes before it gives the lock to others


class Threads(Scheduler):
    """Tasks on threads of their own, which take turns under one lock, and rest while no other does anything."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.lock = threading.Condition(threading.Lock())
        self.users: set[int] = set()  # the engines that have tasks here
        self.failure: BaseException | None = None
        self.is_stopped = False
        self._threads: list[threading.Thread] = []

    def spawn(self, name: str, task: Steps) -> None:
        """Start a thread for a task."""
        self._tasks[name] = task
        self._threads.append(threading.Thread(target=self._work, args=(name, task), name=name, daemon=True))
        self._threads[-1].start()

    def run(self, turns_max: int = 0) -> None:
        """Wait until every task is idle; raise what one of them failed with."""
        del turns_max
        with self.lock:
            if not self.is_stopped:
                self.wake()
                self.lock.notify_all()
                self.lock.wait_for(lambda: self.is_stopped or len(self._idle) == len(self._tasks))
                self.check()
                if len(self._idle) < len(self._tasks):
                    raise was_stopped(self._name)
        self.check()

    def check(self) -> None:
        """Raise what a task failed with, if so."""
        if self.failure is not None:
            raise self.failure

    def leave(self, user: int) -> None:
        """End all threads when the last engine that uses them ends.

        One that is in a function of the user is waited for, and then left behind and named.
        """
        with self.lock:
            self.users.discard(user)
            if self.users or self.is_stopped:
                return
            self.is_stopped = True
            self.lock.notify_all()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        lost = [thread.name for thread in self._threads if thread.is_alive()]
        if lost:
            warnings.warn(
                f"{', '.join(lost)} did not stop within {STOP_SECONDS:g} seconds.\n"
                "  why:   a function of the operator has been running all that time, and nobody can interrupt it.\n"
                "  do:    mend the function; its thread is a daemon, which ends with the program.",
                RuntimeWarning,
                stacklevel=4,
            )

    def unlocked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the user such that it runs without the lock, generators to their end."""

        def call(*arguments: Any) -> Any:
            self.lock.release()
            try:
                made = function(*arguments)
                is_rows = isinstance(made, Iterable) and not isinstance(made, (tuple, *NO_ROWS))
                return list(made) if is_rows else made
            finally:
                self.lock.acquire()

        return call

    def _work(self, name: str, task: Steps) -> None:
        try:
            while self._take_turns(name, task):
                time.sleep(0)  # a lock does not queue: whoever gave it would get it again
        except BaseException as problem:
            with self.lock:
                self.failure = self.failure or problem
                self.is_stopped = True
                self.lock.notify_all()

    def _take_turns(self, name: str, task: Steps) -> bool:
        """Take some turns, or rest until another task has done something; False when all is over."""
        with self.lock:
            has_run = False
            for _ in range(TURNS_HELD):
                if self.is_stopped:
                    return False
                if next(task) is Turn.IDLE:
                    self._idle.add(name)
                    break
                has_run = True
                self._idle.clear()
            self.lock.notify_all()
            if not has_run:
                self.lock.wait_for(lambda: self.is_stopped or name not in self._idle)
            return not self.is_stopped


class PythonChange(VirtualReconfiguration):
    """A change while threads work."""

    def progress(self) -> Progress:
        with self._engine.scheduler.lock:  # type: ignore[attr-defined]
            return super().progress()

    def check(self) -> bool:
        self._engine.scheduler.check()  # type: ignore[attr-defined]
        return super().check()


class PythonEngine(VirtualEngine):
    """The reference model on threads; whoever calls it holds the lock for a moment and waits for the threads."""

    scheduler: Threads

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.scheduler.users.add(id(self))

    def add(self, batch: pa.RecordBatch, source: int, deadline: float | None = None) -> int:
        """Take all rows of a batch: there is always room."""
        assert self.sources is not None
        with self.scheduler.lock:
            self.sources.add(batch, source)
        self.scheduler.run()
        return int(batch.num_rows)

    def watermark(self, timestamp: int, source: int) -> None:
        assert self.sources is not None
        with self.scheduler.lock:
            self.sources.watermark(timestamp, source)
        self.scheduler.run()

    def close(self, source: int) -> None:
        assert self.sources is not None
        with self.scheduler.lock:
            self.sources.close(source)
        self.scheduler.run()

    def reconfigure(self, instances: Sequence[int], mapping: Mapping | None) -> Reconfiguration:
        with self.scheduler.lock:
            return PythonChange(self, self.operator.reconfigure(instances, mapping))

    def metrics(self) -> Metrics:
        with self.scheduler.lock:
            return super().metrics()

    def results(self, wait: bool = True) -> pa.Table:
        if wait:
            with self.scheduler.lock:
                if self.sources is not None:
                    self.sources.check_idle()
            self.scheduler.run()
        return super().results(False)

    def take_rows(self) -> list[tuple[Any, ...]]:
        with self.scheduler.lock:
            return super().take_rows()

    def finish(self, beyond: int = 0) -> None:
        with self.scheduler.lock:
            if self.sources is not None:
                self.sources.end(beyond + self.plan.reach)
        self.scheduler.run()
        self.stop()

    def stop(self) -> None:
        super().stop()
        self.scheduler.leave(id(self))


def make_python_engine(
    plan: Plan,
    streams: Sequence[Stream],
    parallelism: int,
    max_parallelism: int,
    disorder: Disorder,
    idle_seconds: float | None,
    clock: Callable[[], float],
) -> PythonEngine:
    """Make an engine with sources of its own."""
    threads = Threads(plan.name)
    queues = ControlQueues(ReferenceBuffer(range(len(streams)), [EGRESS]))
    with threads.lock:
        engine = PythonEngine(unlock(plan, threads), threads, queues, parallelism, max_parallelism, plan.name)
        queues.buffer.remove_readers([EGRESS])
        engine.sources = Sources(streams, queues, disorder, idle_seconds, clock)
    return engine


def chain_python_engine(upstream: PythonEngine, plan: Plan, parallelism: int, max_parallelism: int) -> PythonEngine:
    """Make an engine whose input is the output of another, on threads beside those of the other."""
    threads, before = upstream.scheduler, upstream.operator
    with threads.lock:
        name = f"{before.name} > {plan.name}"
        return PythonEngine(unlock(plan, threads), threads, before.output, parallelism, max_parallelism, name)


def unlock(plan: Plan, threads: Threads) -> Plan:
    """Return a plan whose functions of the user run without the lock."""
    operator: Any = copy.copy(plan.operator)
    if isinstance(operator, Map):
        operator.function = threads.unlocked(operator.function)
        return replace(plan, operator=operator)
    ours = (None, store, purge, keep)
    for role in ("update", "output", "slide"):
        function = getattr(operator, role)
        setattr(operator, role, function if function in ours else threads.unlocked(function))
    return replace(plan, operator=operator, streams=tuple(_unlock_keys(each, threads) for each in plan.streams))


def _unlock_keys(stream: Stream, threads: Threads) -> Stream:
    if not isinstance(stream.keys, KeyFunction):
        return stream
    return replace(stream, keys=KeyFunction(threads.unlocked(stream.keys.function)))
