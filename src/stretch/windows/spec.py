"""Windows and their boundaries (Paper: WA, WS, WT).

Window l covers `[l * advance, l * advance + size)` for every integer l, negative ones included. The left boundary
belongs to the window, the right one does not; outputs carry the right boundary as their timestamp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from stretch.duration import Duration, duration, ticks_for
from stretch.errors import DefinitionError

Kind = Literal["single", "multi"]

# A tuple is written once per window it falls into when the kind is "multi"; beyond this the choice is a mistake.
WINDOWS_PER_TUPLE_MAX = 100_000


@dataclass(frozen=True)
class Window:
    """How event time is cut (Paper: WA, WS, WT); made by `sliding` and `tumbling`.

    `advance=None` stands for the smallest step of event time (Paper: delta).
    """

    size: Duration
    advance: Duration | None
    kind: Kind

    def boundaries(self, time_is_timestamp: bool, column: str, resolution: int = 1) -> Boundaries:
        """Resolve the durations against a time column."""
        size = ticks_for(self.size, time_is_timestamp, "size", column)
        advance = resolution
        if self.advance is not None:
            advance = ticks_for(self.advance, time_is_timestamp, "advance", column)
        if advance > size:
            raise DefinitionError(
                f"the window's size of {size} is below the resolution of {resolution}",
                why="the advance was left out, and then is one step of event time",
                do="pass a larger size, a smaller resolution, or an advance",
            )
        if self.kind == "multi" and size // advance > WINDOWS_PER_TUPLE_MAX:
            raise DefinitionError(
                f"each tuple would fall into {size // advance:,} windows",
                why=f"size / advance is above {WINDOWS_PER_TUPLE_MAX:,} and the kind is 'multi'",
                do="pass a larger advance, or kind='single' (one instance per key that slides)",
            )
        return Boundaries(size, advance, self.kind)


@dataclass(frozen=True)
class Boundaries:
    """Boundary arithmetic in ticks of the time column; pure."""

    size: int
    advance: int
    kind: Kind

    def earliest_left(self, timestamp: int) -> int:
        """Return the left boundary of the earliest window that holds `timestamp` (Paper: earliestWinL)."""
        return ((timestamp - self.size) // self.advance + 1) * self.advance

    def latest_left(self, timestamp: int) -> int:
        """Return the left boundary of the latest window that holds `timestamp` (Paper: latestWinL)."""
        return timestamp // self.advance * self.advance

    def right(self, left: int) -> int:
        """Return the right boundary, which the window does not include."""
        return left + self.size

    def is_expired(self, left: int, watermark: int) -> bool:
        """Tell whether no further tuple can fall into the window (Paper: `<=`, see docs/paper-notes.md, 8)."""
        return self.right(left) <= watermark


def sliding(
    size: str | int | Duration, advance: str | int | Duration | None = None, kind: Kind | None = None
) -> Window:
    """Make windows of `size`, one every `advance`.

    `kind="multi"` keeps one instance per key and window, `kind="single"` one per key that slides; results are the
    same. Without an `advance` windows move with every step of event time, as joins want it, and `kind` is "single".

    >>> sliding("1 hour", "30 minutes").kind
    'multi'
    """
    length = duration(size, "size")
    step = None if advance is None else duration(advance, "advance")
    _check_positive("size", length)
    if step is not None:
        _check_positive("advance", step)
        _check_order(length, step)
    if kind is None:
        kind = "single" if advance is None else "multi"
    if kind not in get_args(Kind):
        raise DefinitionError(
            f"kind={kind!r} is not a kind of window",
            why="a window is either kept once per key ('single') or once per key and boundary ('multi')",
            do="pass kind='single' or kind='multi', or leave it out",
        )
    return Window(length, step, kind)


def tumbling(size: str | int | Duration, kind: Kind | None = None) -> Window:
    """Make windows of `size` that follow one another without overlap."""
    return sliding(size, size, kind)


def _check_positive(name: str, length: Duration) -> None:
    if length.ticks <= 0:
        raise DefinitionError(
            f"{name}={length.written} is not a possible window {name}",
            why="a window must cover and advance by at least one step of event time",
            do=f"pass a positive {name}",
        )


def _check_order(size: Duration, step: Duration) -> None:
    if size.unit != step.unit:
        raise DefinitionError(
            f"size={size.written} and advance={step.written} are in different units",
            why="one is text (for timestamp columns), the other an int (for long columns)",
            do="write both as text or both as ints",
        )
    if step.ticks > size.ticks:
        raise DefinitionError(
            f"advance={step.written} is above size={size.written}",
            why="tuples between two windows would belong to none and be lost",
            do="pass an advance up to the size",
        )
