"""Who runs next: tasks are generators, and a seeded choice steps one of them at a time.

A task yields `RAN` when it did something and `IDLE` when it found nothing to do. The same seed gives the same
interleaving, so that a failing run is replayed by its seed alone.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from enum import Enum

from stretch.errors import JobError


class Turn(Enum):
    """What a task did with its turn."""

    RAN = "ran"
    IDLE = "idle"


Steps = Generator[Turn, None, None]

# A run of turns in which every task only waits, this many times its number of tasks, is a deadlock in our own code.
_TURNS_PER_TASK_MAX = 10_000_000


class Scheduler:
    """Step tasks in an order that only the seed decides."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._choice = random.Random(seed)
        self._tasks: dict[str, Steps] = {}
        self._idle: set[str] = set()
        self._names: Counter[str] = Counter()

    def unique(self, name: str) -> str:
        """Return a name for an operator that no other has: this one, numbered from the second time on."""
        self._names[name] += 1
        return name if self._names[name] == 1 else self.unique(f"{name} {self._names[name]}")

    def spawn(self, name: str, task: Steps) -> None:
        """Add a task; it first runs when it is chosen."""
        self._tasks[name] = task

    def step(self) -> bool:
        """Give one turn to a task that may have something to do; False if every task is idle."""
        waiting = [name for name in self._tasks if name not in self._idle]
        if not waiting:
            return False
        name = self._choice.choice(waiting)
        try:
            turn = next(self._tasks[name])
        except StopIteration:
            del self._tasks[name]
            turn = Turn.RAN
        if turn is Turn.IDLE:
            self._idle.add(name)
        else:
            self._idle.clear()  # what it did may have given work to any other
        return True

    def wake(self) -> None:
        """Let every task look again: something changed from outside."""
        self._idle.clear()

    def run(self, turns_max: int = _TURNS_PER_TASK_MAX) -> None:
        """Step until every task is idle."""
        self.wake()
        for _ in range(turns_max):
            if not self.step():
                return
        raise JobError(
            f"the reference engine did not come to rest in {turns_max:,} turns",
            where=f"scheduler seed {self.seed}",
            why="some task keeps working without new input",
            do="replay with the same seed; if no function of yours loops, please report it",
        )
