"""When two tuples of a join meet: arithmetic over their times, the same for every engine.

Of a pair the *later* tuple is the one that comes later in the total order; it meets tuples of the other input that came
before it and are not too old. Without `before` and `after` that is what windows say: some window holds both. The result
of a pair carries the right boundary of the earliest window that holds the later tuple; that of a tuple that met nobody,
the first time at which it is certain.
"""

from __future__ import annotations

from dataclasses import dataclass

from stretch.duration import Duration, ticks_for
from stretch.errors import DefinitionError
from stretch.windows.spec import Boundaries


@dataclass(frozen=True)
class Interval:
    """How far a right tuple may lie before and after a left one, both ends included."""

    before: Duration
    after: Duration

    def ticks(self, time_is_timestamp: bool, column: str) -> tuple[int, int]:
        """Resolve both lengths against a time column."""
        return (
            ticks_for(self.before, time_is_timestamp, "before", column),
            ticks_for(self.after, time_is_timestamp, "after", column),
        )

    def boundaries(self, time_is_timestamp: bool, column: str, resolution: int = 1) -> Boundaries:
        """Return windows that hold whatever may meet, and move with every tick."""
        del resolution
        lengths = self.ticks(time_is_timestamp, column)
        if min(lengths) < 0:
            raise DefinitionError(
                f"before={self.before.written}, after={self.after.written} is no interval around a tuple",
                why="both say how far away the other tuple may be, and one of them is below zero",
                do="pass lengths from 0 up; 0 means at the same time",
            )
        return Boundaries(max(lengths) + 1, 1, "single")


@dataclass(frozen=True)
class Meeting:
    """When tuples meet, in ticks of the time column."""

    boundaries: Boundaries
    before: int
    after: int
    is_printed: bool = False
    """Keep tuples as the paper's ScaleJoin does in print: up to and including one size (docs/paper-notes.md, 11)."""

    def reach(self, input: int) -> int:
        """Return how far back a tuple of this input looks: a left one `before`, a right one `after`."""
        return self.after if input else self.before

    def since(self, timestamp: int, input: int) -> int:
        """Return the earliest time at which a tuple of the other input may have come to be met."""
        since = timestamp - self.reach(input)
        return since if self.is_printed else max(since, self.boundaries.earliest_left(timestamp))

    def result_time(self, timestamp: int) -> int:
        """Return the time of the results of a later tuple."""
        return self.boundaries.right(self.boundaries.earliest_left(timestamp))

    def alone_time(self, timestamp: int, input: int) -> int:
        """Return the time at which it is certain that a tuple met all that it could."""
        last = self.boundaries.right(self.boundaries.latest_left(timestamp))
        return min(last, timestamp + self.reach(1 - input) + 1)


def meeting_of(boundaries: Boundaries, interval: tuple[int, int] | None, is_printed: bool) -> Meeting:
    """Return when tuples meet that share a window, and if `interval` is given, are not further apart than it says."""
    before, after = interval or (boundaries.size, boundaries.size)
    return Meeting(boundaries, before, after, is_printed)
