"""What a join does with tuples, as functions of an operator: how the reference engine runs it (Paper: J+, ScaleJoin).

Three forms. Without keys, every tuple is shown to all key groups, each compares it with the tuples that it stores, and
one of them, round robin, stores it. With keys, each key compares the tuples that have it. Where tuples that met nobody
are reported, all are kept under one key, because nobody else could know.

A row says where it stands among the rows of its time: by the later tuple of the pair, then by the earlier one, so that
the order does not depend on who stored what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from stretch.operator.keys import KeyColumns, KeyFunction, as_key
from stretch.operator.meeting import Meeting
from stretch.operator.spec import Placed, named, place_of, purge

How = Literal["inner", "left", "right", "full"]

PAIRS, ALONE = 0, 1
"""What comes first among rows of one time."""

Keys = KeyColumns | KeyFunction


@dataclass(frozen=True)
class Pairing:
    """What a join does, bound to the columns of its inputs."""

    meeting: Meeting
    match: Callable[[Any, Any], Any] | None
    output: Callable[[Any, Any], Any] | None
    keys: tuple[Keys, ...] | None
    how: How
    is_self_join: bool
    widths: tuple[int, int]
    """The numbers of columns of both inputs."""

    @property
    def keeps_alone(self) -> tuple[bool, bool]:
        """Whether left, and right, tuples that met nobody are reported."""
        return self.how in ("left", "full"), self.how in ("right", "full")

    def pair(self, t: Any, earlier: Any) -> tuple[Any, Any] | None:
        """Return the two as left and right tuple, or None if they do not meet, whatever their keys are."""
        if earlier.timestamp < self.meeting.since(t.timestamp, t.input):
            return None
        l, r = (t, earlier) if t.input == 0 else (earlier, t)
        if self.is_self_join and _within_source(l) == _within_source(r):
            return None  # the same row, fed to both sides
        return None if self.match is not None and not named("match", self.match)(l, r) else (l, r)

    def row(self, l: Any, r: Any) -> Any:
        """Return the row of a pair."""
        return (*l[1:], *r[1:]) if self.output is None else named("output", self.output)(l, r)

    def row_alone(self, t: Any) -> tuple[Any, ...]:
        """Return the row of a tuple that met nobody."""
        left, right = self.widths
        return (*t[1:], *[None] * right) if t.input == 0 else (*[None] * left, *t[1:])

    def shared(self, t: Any, earlier: Any) -> list[Any]:
        """Return the keys that two tuples share, in the order in which the later one has them."""
        assert self.keys is not None
        theirs = {as_key(key) for key in self.keys[earlier.input](earlier)}
        return [key for key in map(as_key, self.keys[t.input](t)) if key in theirs]


def compare_all(pairing: Pairing, groups: int) -> Callable[[Any, Any], Iterator[Placed]]:
    """Return the update of a join without keys: compare with what this group stores, and store what is its turn."""
    keep_printed = pairing.meeting.is_printed

    def update(ws: Any, t: Any) -> Iterator[Placed]:
        this, other = ws[t.input], ws[1 - t.input]
        if keep_printed:
            _drop_printed(pairing, other, t)
        yield from _pairs(pairing, other.tuples, t)
        this.seen += 1
        other.seen += 1
        if this.seen % groups == this.key:
            this.tuples.append(t)

    return update


def compare_keys(pairing: Pairing) -> Callable[[Any, Any], Iterator[Placed]]:
    """Return the update of a join with keys: a pair is reported under the first key that both have."""
    keep_printed = pairing.meeting.is_printed

    def update(ws: Any, t: Any) -> Iterator[Placed]:
        this, other = ws[t.input], ws[1 - t.input]
        if keep_printed:
            _drop_printed(pairing, other, t)
        yield from _pairs(pairing, [e for e in other.tuples if pairing.shared(t, e)[0] == this.key], t)
        this.tuples.append(t)

    return update


def compare_and_mark(pairing: Pairing) -> Callable[[Any, Any], Iterator[Placed]]:
    """Return the update of a join that reports tuples that met nobody."""

    def update(ws: Any, t: Any) -> Iterator[Placed]:
        this, other = ws[t.input], ws[1 - t.input]
        candidates = [e for e in other.tuples if pairing.keys is None or pairing.shared(t, e)]
        yield from _pairs(pairing, candidates, t)
        this.tuples.append(t)

    return update


def report_alone(pairing: Pairing) -> Callable[[Any], Iterator[Placed]]:
    """Return the output of a join that reports tuples that met nobody."""

    def output(ws: Any) -> Iterator[Placed]:
        for w in ws:
            for t in w.tuples:
                if _is_due(pairing, t) == w.right and not t.__dict__.get("has_met"):
                    yield Placed((ALONE, *place_of(t)), pairing.row_alone(t))

    return output


def next_alone(pairing: Pairing, size: int) -> Callable[[Any, int], int | None]:
    """Return the function that finds the next window, from a left boundary on, at whose end something is reported."""

    def next_left(ws: Any, left: int) -> int | None:
        due = [_is_due(pairing, t) for w in ws for t in w.tuples]
        return min((right - size for right in due if right is not None and right - size >= left), default=None)

    return next_left


def slide_all(ws: Any) -> None:
    """Drop the tuples that the window has left behind, of all inputs."""
    for w in ws:
        purge(w)


def every(groups: int) -> Callable[[Any], range]:
    """Return the key function that shows every tuple to all groups."""

    def keys(t: Any) -> range:
        del t
        return range(groups)

    return keys


def _pairs(pairing: Pairing, candidates: Sequence[Any], t: Any) -> Iterator[Placed]:
    for earlier in candidates:
        pair = pairing.pair(t, earlier)
        if pair is not None:
            t.__dict__["has_met"] = earlier.__dict__["has_met"] = True
            yield Placed((PAIRS, *place_of(t), *place_of(earlier)), pairing.row(*pair))


def _within_source(t: Any) -> tuple[int, int]:
    """Return a tuple's time and number, which are the same for a row that two sources bring alike."""
    timestamp, _, sequence = place_of(t)
    return timestamp, sequence


def _is_due(pairing: Pairing, t: Any) -> int | None:
    """Return the time at which a tuple is reported if it met nobody by then, None if it never is."""
    return pairing.meeting.alone_time(t.timestamp, t.input) if pairing.keeps_alone[t.input] else None


def _drop_printed(pairing: Pairing, other: Any, t: Any) -> None:
    since = pairing.meeting.since(t.timestamp, t.input)
    other.tuples[:] = [earlier for earlier in other.tuples if earlier.timestamp >= since]
