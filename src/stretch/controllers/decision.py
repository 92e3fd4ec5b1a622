"""A controller: measured load in, a decision with its reason out.

A controller is pure. It keeps nothing between two calls, since all that it may look back at is handed to it; so it can
be tested from a table, shared by jobs, sent to another process, and asked again about a recorded run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from stretch.metrics import Load, Reconfiguration

HISTORY = 256  # loads, and changes, that are kept


@dataclass(frozen=True)
class Decision:
    """What a controller wants, and why."""

    time: float
    """When the interval ended that it was taken on."""
    before: int
    parallelism: int
    """How many instances ran, and how many shall run."""
    reason: str
    mapping: tuple[int, ...] | None = None
    """Who shall have which key group; None leaves it to the operator."""
    reconfiguration: Reconfiguration | None = field(default=None, compare=False)
    """What became of it."""

    @property
    def is_change(self) -> bool:
        """Tell whether anything shall be different."""
        return self.parallelism != self.before or self.mapping is not None

    def __str__(self) -> str:
        if self.parallelism != self.before:
            return f"{self.before} -> {self.parallelism}: {self.reason}"
        return f"{self.before}{', other groups' if self.mapping is not None else ''}: {self.reason}"


def keep(load: Load, reason: str) -> Decision:
    """Leave everything as it is."""
    return Decision(load.time, load.parallelism, load.parallelism, reason)


def resize(load: Load, parallelism: int, reason: str) -> Decision:
    """Run another number of instances."""
    return Decision(load.time, load.parallelism, parallelism, reason)


class History:
    """The latest loads and changes of a job, oldest first."""

    def __init__(self, loads: Iterable[Load] = (), changes: Iterable[Decision] = ()) -> None:
        self.loads = deque(loads, HISTORY)
        self.changes = deque(changes, HISTORY)

    def since_change(self, time: float) -> float:
        """Return how many seconds ago the last change was decided; infinite if there was none."""
        return time - self.changes[-1].time if self.changes else float("inf")

    def recent(self, load: Load, seconds: float) -> list[Load]:
        """Return the loads of the last seconds, with `load` as the newest."""
        return [one for one in self.loads if one.time > load.time - seconds] + [load]


@runtime_checkable
class Controller(Protocol):
    """Decides how many instances run; `past` is what came before `load`."""

    def decide(self, load: Load, past: History) -> Decision:
        """Return what shall be, with the reason in words and numbers."""
