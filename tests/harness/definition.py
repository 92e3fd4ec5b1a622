"""The result of an operator, by definition: over a whole finite input, without engine, order of arrival or epochs.

This is what every engine is compared with (Paper: Definition "correctness"), so it imports nothing of the library and
is short enough to be checked by eye.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

Row = tuple[Any, ...]


class Tuple(NamedTuple):
    """A tuple of the input; `row` holds the columns by name. Sorted as it is written here: the total order."""

    timestamp: int
    source: int
    sequence: int
    input: int
    row: Any


class Cut(NamedTuple):
    """How event time is cut into windows `[n * advance, n * advance + size)`, for every whole n."""

    size: int
    advance: int
    kind: str = "multi"


def nothing(*given: Any) -> Iterable[Row]:
    """Give no rows."""
    return ()


def results(
    tuples: Sequence[Tuple],
    cut: Cut,
    keys: Callable[[Tuple], Iterable[Hashable]],
    on_update: Callable[[Hashable, list[Tuple], Tuple], Iterable[Row]] = nothing,
    on_output: Callable[[Hashable, list[Tuple]], Iterable[Row]] = nothing,
) -> list[Row]:
    """Group by window and key; `on_output` makes rows of a whole group, `on_update` of each tuple and those before it.

    A row's timestamp is the right boundary of its window. Where `kind` is "single" there is one sliding instance per
    key, so that a tuple meets those before it once: in the earliest window that holds it.
    """
    groups: dict[tuple[int, Hashable], list[Tuple]] = defaultdict(list)  # (right boundary, key) -> tuples in order
    rows: list[Row] = []
    for t in sorted(tuples):
        latest = t.timestamp // cut.advance * cut.advance
        rights = [left + cut.size for left in range(latest, t.timestamp - cut.size, -cut.advance)]
        for right in reversed(rights):
            for key in keys(t):
                if cut.kind == "multi" or right == min(rights):
                    rows += [(right, *row) for row in on_update(key, groups[right, key], t)]
                groups[right, key].append(t)
    rows += [(right, *row) for (right, key), group in groups.items() for row in on_output(key, group)]
    return rows


class Cutless(NamedTuple):
    """Tuples meet if the right one is at most `before` before the left one and `after` after it."""

    before: int
    after: int


def meetings(when: Cut | Cutless, earlier: Tuple, later: Tuple) -> list[int]:
    """Return the times of the results of a pair, if it matches: of two tuples, in the total order.

    With windows, the right boundaries of those that hold both: of all (multi), or of the earliest that holds the later
    one (single).
    """
    if isinstance(when, Cutless):
        right_minus_left = later.timestamp - earlier.timestamp if later.input else earlier.timestamp - later.timestamp
        return [later.timestamp + 1] * (-when.before <= right_minus_left <= when.after)
    lefts = [left for left in windows(when, later) if left <= earlier.timestamp < left + when.size]
    if when.kind == "single":
        lefts = [left for left in lefts if left == windows(when, later)[0]]
    return [left + when.size for left in lefts]


def windows(cut: Cut, t: Tuple) -> list[int]:
    """Return the left boundaries of the windows that hold a tuple, the earliest first."""
    latest = t.timestamp // cut.advance * cut.advance
    return [*range(latest, t.timestamp - cut.size, -cut.advance)][::-1]


def end_of_chances(when: Cut | Cutless, t: Tuple) -> int:
    """Return the time from which on nobody can come any more that a tuple meets."""
    if isinstance(when, Cutless):
        return t.timestamp + (when.before if t.input else when.after) + 1
    return windows(when, t)[-1] + when.size


def joined(
    tuples: Sequence[Tuple],
    when: Cut | Cutless,
    match: Callable[[Any, Any], Any],
    keys: Callable[[Tuple], Iterable[Hashable]] | None = None,
    how: str = "inner",
    is_self: bool = False,
) -> list[Row]:
    """Return the rows of a join, in order: by time, then pairs by their later and then their earlier tuple.

    Rows of tuples that met nobody come after the pairs of their time.
    """
    made: list[tuple[Any, Row]] = []
    lonely = set(tuples)
    for later in tuples:
        for earlier in (t for t in tuples if t < later and t.input != later.input):
            l, r = (earlier, later) if later.input else (later, earlier)
            is_same = is_self and (l.timestamp, l.sequence) == (r.timestamp, r.sequence)
            if is_same or (keys is not None and not set(keys(l)) & set(keys(r))) or not match(l.row, r.row):
                continue
            for time in meetings(when, earlier, later):
                made.append(((time, 0, later[:3], earlier[:3]), (time, *l.row, *r.row)))
                lonely -= {l, r}
    for t in lonely:
        if (how in ("left", "full") and t.input == 0) or (how in ("right", "full") and t.input == 1):
            time, nothing = end_of_chances(when, t), (None,) * len(t.row)
            made.append(((time, 1, t[:3]), (time, *(t.row + nothing if t.input == 0 else nothing + t.row))))
    return [row for _, row in sorted(made, key=lambda item: item[0])]


def mapped(tuples: Sequence[Tuple], function: Callable[[Any], Iterable[Row]]) -> list[Row]:
    """Return what a stateless operator gives: the rows of each tuple, at the tuple's own time."""
    return [(t.timestamp, *row) for t in tuples for row in function(t.row)]


def exact(rows: Iterable[Row]) -> list[str]:
    """Return rows as text, in order: tells 0.0 from -0.0, and finds NaN equal to itself."""
    return [repr(row) for row in rows]


def multiset(rows: Iterable[Row]) -> list[str]:
    """Return rows as text, in an order that depends on nothing but the rows."""
    return sorted(exact(rows))
