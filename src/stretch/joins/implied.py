"""Bands that a function implies: what has to be true of two columns whenever `match(l, r)` is.

What
    The function is called with symbols in place of rows. A symbol knows which columns it is the difference of; each
    comparison forks, and goes one way in one call and the other way in another, until all ways have been gone. What
    was decided on every way that may end in true is implied, and for a difference of a left and a right column that
    is a band. `abs(l.x - r.a) <= 10 and abs(l.y - r.b) <= 10` implies two; so do all other ways to write it.

Invariants
    P1  A band that is found holds for every pair that matches. What a symbol cannot say (a product, a call of sqrt, an
        attribute that is no number) is unknown, and a way on which the function fails may end in true.
    P2  Floats: only a difference of two columns, compared with a constant, says something, for nothing else is free of
        infinities and of roundings that are large compared with the columns; nor does a comparison that is false,
        because NaN makes all of them so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stretch.operator.bands import Band
from stretch.operator.plan import Stream
from stretch.schema import plain

WAYS_MAX: Final = 64
DECISIONS_MAX: Final = 64

Interval = tuple[float, float]
Pair = tuple[str, str]


def implied_bands(function: Callable[[Any, Any], Any], streams: Sequence[Stream]) -> tuple[Band, ...]:
    """Return the bands that hold for all rows of these streams that match, with an end on both sides."""
    common: dict[Pair, Interval] | None = None
    for way in _ways(function, streams):
        if way is None:
            return ()
        if common is None:
            common = way
        else:
            common = {
                pair: (min(common[pair][0], low), max(common[pair][1], high))
                for pair, (low, high) in way.items()
                if pair in common
            }
    bounded = {pair: ends for pair, ends in (common or {}).items() if all(map(math.isfinite, ends))}
    return tuple(Band(*pair, -low, high) for pair, (low, high) in bounded.items())


def _ways(function: Callable[[Any, Any], Any], streams: Sequence[Stream]) -> Iterator[dict[Pair, Interval] | None]:
    """Yield what is decided on each way that may end in true; None if there are too many ways."""
    pending: list[tuple[bool, ...]] = [()]
    for _ in range(WAYS_MAX):
        if not pending:
            return
        way = _Way(pending.pop())
        try:
            result = function(*(_Row(way, stream) for stream in streams))
            may_hold = isinstance(result, _Symbol) or bool(plain(result))
        except Exception:
            may_hold = True  # a symbol got where it means nothing, and a value might not have
        pending += way.others
        if may_hold:
            yield way.intervals
    yield None


class _Way:
    """One way through the function: what it decides, and the other ways that branch off."""

    def __init__(self, decided: tuple[bool, ...]) -> None:
        self._decided = decided
        self._taken: list[bool] = []
        self.others: list[tuple[bool, ...]] = []
        self.intervals: dict[Pair, Interval] = {}

    def decide(self) -> bool:
        """Go on in one direction."""
        if len(self._taken) == DECISIONS_MAX:
            raise RecursionError("too many decisions")
        place = len(self._taken)
        if place >= len(self._decided):
            self.others.append((*self._taken, False))
        answer = self._decided[place] if place < len(self._decided) else True
        self._taken.append(answer)
        return answer

    def note(self, pair: Pair, low: float, high: float) -> None:
        """Note that the right column less the left one lies in an interval."""
        known = self.intervals.get(pair, (-math.inf, math.inf))
        self.intervals[pair] = max(known[0], low), min(known[1], high)


class _Row:
    """A tuple of symbols."""

    def __init__(self, way: _Way, stream: Stream) -> None:
        self._way, self._stream = way, stream

    def __getattr__(self, name: str) -> _Symbol:
        schema = self._stream.schema
        if name not in schema:
            return _Symbol(self._way)  # the time, or a mistake that compiling finds
        type_ = schema[name]
        is_id = type_.name == "string" and not type_.is_list
        if not (type_.is_integer or type_.is_float or type_.is_timestamp or is_id):
            return _Symbol(self._way)
        side = self._stream.index
        return _Symbol(self._way, ((side, name, 1),), is_float=type_.is_float, is_id=is_id)


@dataclass(frozen=True, eq=False)
class _Symbol:
    """A column, the difference of two plus a constant (of ints only), or its absolute value; or, if empty, unknown."""

    way: _Way
    terms: tuple[tuple[int, str, int], ...] = ()
    """Side, column and sign."""
    offset: int = 0
    is_float: bool = False
    is_id: bool = False
    is_absolute: bool = False

    def __sub__(self, other: Any) -> _Symbol:
        if isinstance(other, _Symbol):
            return self._less(other)
        return self + -other

    def __rsub__(self, other: Any) -> _Symbol:
        return -self + other

    def __add__(self, other: Any) -> _Symbol:
        number = plain(other)
        if not self._is_linear or self.is_float or isinstance(number, bool) or not isinstance(number, int):
            return _Symbol(self.way)
        return _Symbol(self.way, self.terms, self.offset + number)

    __radd__ = __add__

    def __neg__(self) -> _Symbol:
        if not self._is_linear:
            return _Symbol(self.way)
        return _Symbol(self.way, tuple((s, name, -sign) for s, name, sign in self.terms), -self.offset, self.is_float)

    def __abs__(self) -> _Symbol:
        if not self._is_linear:
            return _Symbol(self.way)
        return _Symbol(self.way, self.terms, self.offset, self.is_float, is_absolute=True)

    def _unknown(self, *others: Any) -> _Symbol:
        return _Symbol(self.way)

    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _unknown
    __pow__ = __rpow__ = __lshift__ = __rshift__ = __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = _unknown
    __pos__ = __invert__ = _unknown

    def __le__(self, other: Any) -> bool:
        return self._compare(other, (-math.inf, 0), (0, math.inf))

    __lt__ = __le__  # an interval that is too wide by its end is one still

    def __ge__(self, other: Any) -> bool:
        return self._compare(other, (0, math.inf), (-math.inf, 0))

    __gt__ = __ge__

    def __eq__(self, other: object) -> bool:
        return self._compare(other, (0, 0), None)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self.way.decide()

    __hash__ = None  # type: ignore[assignment]

    @property
    def _is_linear(self) -> bool:
        return bool(self.terms) and not self.is_absolute and not self.is_id

    def _less(self, other: _Symbol) -> _Symbol:
        is_plain = not self.offset and not other.offset and len(self.terms) == len(other.terms) == 1
        if not (self._is_linear and other._is_linear) or ((self.is_float or other.is_float) and not is_plain):
            return _Symbol(self.way)
        terms = (*self.terms, *(-other).terms)
        if len(terms) > 2:
            return _Symbol(self.way)
        return _Symbol(self.way, terms, self.offset - other.offset, self.is_float or other.is_float)

    def _compare(self, other: Any, if_true: Interval, if_false: Interval | None) -> bool:
        """Decide; note in which interval `self - other` lies then."""
        answer = self.way.decide()
        interval = if_true if answer else if_false
        if interval is None:
            return answer
        if not isinstance(other, _Symbol):
            number = plain(other)
            if isinstance(number, (int, float)) and math.isfinite(number) and (answer or not self.is_float):
                self._note(interval[0] + number, interval[1] + number)
        elif self.is_id and other.is_id and answer:
            _Symbol(self.way, (*self.terms, *((s, name, -1) for s, name, _ in other.terms)))._note(*interval)
        elif not self.is_float and not other.is_float:
            self._less(other)._note(*interval)
        return answer

    def _note(self, low: float, high: float) -> None:
        if self.is_absolute:
            low = -high
        low, high = low - self.offset, high - self.offset
        if self.is_absolute and self.offset:
            return
        if len(self.terms) == 2 and self.terms[0][0] != self.terms[1][0] and self.terms[0][2] == -self.terms[1][2]:
            (_, left, sign), (_, right, _) = sorted(self.terms)
            if sign > 0:
                low, high = -high, -low
            self.way.note((left, right), low, high)
