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


def pairs(
    match: Callable[[Any, Any], Any], make: Callable[[Any, Any], Row]
) -> Callable[[Hashable, list[Tuple], Tuple], Iterable[Row]]:
    """Return the `on_update` of a join: a tuple meets the earlier ones of the other input.

    So a pair is joined where both share a window and a key: with "single" once, in the earliest window of the later
    tuple, if the earlier one is in it; with "multi" once in each window that they share.
    """

    def on_update(key: Hashable, earlier: list[Tuple], t: Tuple) -> Iterable[Row]:
        both = [(t.row, e.row) if t.input == 0 else (e.row, t.row) for e in earlier if e.input != t.input]
        return [make(left, right) for left, right in both if match(left, right)]

    return on_update


def mapped(tuples: Sequence[Tuple], function: Callable[[Any], Iterable[Row]]) -> list[Row]:
    """Return what a stateless operator gives: the rows of each tuple, at the tuple's own time."""
    return [(t.timestamp, *row) for t in tuples for row in function(t.row)]


def exact(rows: Iterable[Row]) -> list[str]:
    """Return rows as text, in order: tells 0.0 from -0.0, and finds NaN equal to itself."""
    return [repr(row) for row in rows]


def multiset(rows: Iterable[Row]) -> list[str]:
    """Return rows as text, in an order that depends on nothing but the rows."""
    return sorted(exact(rows))
