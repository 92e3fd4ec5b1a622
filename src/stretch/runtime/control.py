"""The thread beside a job that asks its controller, and does what it says.

It knows no engine: it is given a function that reads metrics, and one that changes the parallelism. So jobs and nodes
share it. Each interval begins when the last change has taken effect, so that a load is one of a single parallelism.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stretch.controllers import Decision, Elastic, History
from stretch.metrics import Load, Metrics, Reconfiguration

log = logging.getLogger("stretch.control")

Read = Callable[[], Metrics | None]
"""Reads the metrics; None while there are none."""

Change = Callable[..., Reconfiguration]
"""`reconfigure(parallelism=..., mapping=...)` of a job or node."""

_STOP_SECONDS = 5.0
_WAIT_SECONDS = 1.0  # for a change, at most: it waits for input
_PAUSE_SECONDS = 0.001  # between two looks


class ControlLoop:
    """Reads, asks and changes until it is stopped; a failure of the controller stops nothing but is reported once."""

    def __init__(self, elastic: Elastic, read: Read, change: Change, name: str) -> None:
        self.history = History()
        self._elastic = elastic
        self._read = read
        self._change = change
        self._name = name
        self._lock = threading.Lock()  # of the history
        self._stopped = threading.Event()
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name=f"stretch-control-{name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it; safe to call twice, before `start`, and from the controller itself."""
        self._stopped.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(_STOP_SECONDS)

    @property
    def decisions(self) -> list[Decision]:
        """The latest changes, oldest first, with what became of them."""
        with self._lock:
            return list(self.history.changes)

    @property
    def loads(self) -> list[Load]:
        """The latest loads, oldest first."""
        with self._lock:
            return list(self.history.loads)

    def _run(self) -> None:
        seconds = self._elastic.seconds
        before: Metrics | None = None
        while not self._stopped.wait(seconds):
            after = self._attempt(self._read)
            if before is not None and after is not None and _are_of_one_kind(before, after):
                self._attempt(lambda before=before, after=after: self._step(before, after))  # type: ignore[misc]
                after = self._attempt(self._read)
            before = after

    def _step(self, before: Metrics, after: Metrics) -> None:
        """Ask about one interval, and do what the controller says."""
        load = Load.between(before, after, self._elastic.minimum, self._elastic.maximum)
        decision = self._elastic.controller.decide(load, self.history)
        with self._lock:
            self.history.loads.append(load)
        last = self.history.changes[-1].reconfiguration if self.history.changes else None
        if not decision.is_change or (last is not None and last.status == "waiting"):
            log.debug("%s: %s", self._name, decision)
            return
        change = self._change(parallelism=decision.parallelism, mapping=decision.mapping)
        with self._lock:
            self.history.changes.append(replace(decision, reconfiguration=change))
        self._wait_for(change)
        log.info("%s: %s (%s)", self._name, decision, change)

    def _wait_for(self, change: Reconfiguration) -> None:
        """Wait until a change has taken effect, so that the next interval begins after it."""
        deadline = time.monotonic() + min(self._elastic.seconds, _WAIT_SECONDS)
        while change.status == "waiting" and time.monotonic() < deadline:
            if self._stopped.wait(_PAUSE_SECONDS):
                return

    def _attempt(self, action: Callable[[], Any]) -> Any:
        """Do something that may fail; report it once, unless the job has ended meanwhile."""
        try:
            return action()
        except Exception:
            if not self._has_failed and not self._stopped.is_set():
                self._has_failed = True
                log.exception(
                    "%s: its parallelism stays as it is: the controller, or the change it asked for, failed", self._name
                )
            return None


def _are_of_one_kind(before: Metrics, after: Metrics) -> bool:
    """Tell whether nobody came or went between two readings, and nobody began to count anew."""
    pairs = list(zip(before.instances, after.instances, strict=True))
    return all(early.is_active == late.is_active and early.entries <= late.entries for early, late in pairs)
