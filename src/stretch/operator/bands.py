"""Predicates that say what they compare: bands, and their combinations with other predicates.

A band is an ordinary predicate, `match(l, r)`, for every engine. The compiled engine also sees which columns it
compares, and may find the pairs by an index instead of looking at all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stretch.duration import duration, ticks_for
from stretch.errors import DefinitionError, a_kind
from stretch.schema import Schema, plain

Match = Callable[[Any, Any], Any]


class Predicate:
    """A predicate over a left and a right tuple that can be combined with others by `&`."""

    @property
    def parts(self) -> tuple[Match, ...]:
        """The predicates that all have to hold."""
        return (self,)

    def __call__(self, l: Any, r: Any) -> bool:
        raise NotImplementedError

    def __and__(self, other: Match) -> All:
        return All((*self.parts, *_parts_of(other)))

    def __rand__(self, other: Match) -> All:
        return All((*_parts_of(other), *self.parts))

    def bind(self, left: Schema, right: Schema, operator: str) -> Match:
        """Return the predicate for columns of these types, or say what does not fit."""
        del left, right, operator
        return self


@dataclass(frozen=True)
class Band(Predicate):
    """`-below <= r.right - l.left <= above`; false where a column is null."""

    left: str
    right: str
    below: Any
    above: Any

    def __call__(self, l: Any, r: Any) -> bool:
        ours, theirs = getattr(l, self.left), getattr(r, self.right)
        return ours is not None and theirs is not None and -self.below <= theirs - ours <= self.above

    def bind(self, left: Schema, right: Schema, operator: str) -> Band:
        is_timestamp = [_check(schema, name, operator) for schema, name in ((left, self.left), (right, self.right))]
        if is_timestamp[0] != is_timestamp[1]:
            raise DefinitionError(
                f"{operator}: the band compares {self.left!r} with {self.right!r}",
                why="one is a timestamp and the other a number",
                do="compare columns that count the same",
            )
        if not is_timestamp[0] and isinstance(self.below, str):
            raise DefinitionError(
                f"{operator}: the band of {self.left!r} and {self.right!r} has a width of {self.below!r}",
                why="lengths of time are for timestamps, and these columns are numbers",
                do="pass a number",
            )
        if not is_timestamp[0]:
            return self
        below, above = (
            ticks_for(duration(width, "within"), True, "within", self.left) for width in (self.below, self.above)
        )
        return Band(self.left, self.right, below, above)

    def __str__(self) -> str:
        return f"{self.right} within {self.below} of {self.left}"


@dataclass(frozen=True)
class Same(Predicate):
    """The columns are equal, or both null: how key columns are compared."""

    left: str
    right: str

    def __call__(self, l: Any, r: Any) -> bool:
        return bool(getattr(l, self.left) == getattr(r, self.right))


@dataclass(frozen=True)
class All(Predicate):
    """Several predicates, all of which have to hold; compared from left to right."""

    predicates: tuple[Match, ...]

    @property
    def parts(self) -> tuple[Match, ...]:
        return self.predicates

    def __call__(self, l: Any, r: Any) -> bool:
        return all(predicate(l, r) for predicate in self.predicates)

    def bind(self, left: Schema, right: Schema, operator: str) -> All:
        return All(tuple(bind_match(predicate, left, right, operator) for predicate in self.predicates))


def band(left: str, right: str, within: float | str) -> Band:
    """Match tuples whose columns differ by at most `within`: `st.band("x", "a", 10)` is `abs(l.x - r.a) <= 10`.

    `left` is a column of the left input, `right` one of the right input: numbers, or timestamps with a length of time
    (`st.band("sent", "seen", "5 seconds")`). Combine bands with one another and with functions: `band & other`.
    """
    for name in (left, right):
        if not isinstance(name, str):
            raise DefinitionError(
                f"band: {name!r} is not the name of a column",
                why=f"it is {a_kind(name)}",
                do='name a column of the left and one of the right input, as in st.band("x", "a", 10)',
            )
    width = plain(within)
    is_number = isinstance(width, (int, float)) and not isinstance(width, bool)
    if not isinstance(width, str) and not (is_number and 0 <= width < float("inf")):
        raise DefinitionError(
            f"band: within={within!r} is not a distance",
            why="it says by how much the columns may differ, and 0 is not at all",
            do='pass a number from 0 up, or for timestamps a length of time such as "5 seconds"',
        )
    if isinstance(width, str):
        duration(width, "within")
    return Band(left, right, width, width)


def bind_match(match: Match, left: Schema, right: Schema, operator: str) -> Match:
    """Bind a predicate to the columns of the inputs, where it says what they are."""
    return match.bind(left, right, operator) if isinstance(match, Predicate) else match


def _parts_of(match: Match) -> tuple[Match, ...]:
    if isinstance(match, Predicate):
        return match.parts
    if callable(match):
        return (match,)
    raise DefinitionError(
        f"{match!r} cannot be combined with a band",
        why=f"it is {a_kind(match)}, not a predicate",
        do="combine bands with other bands or with functions match(l, r)",
    )


def _check(schema: Schema, name: str, operator: str) -> bool:
    """Check the column of a band; tell whether it is a timestamp."""
    if name not in schema:
        missing = schema.missing(name)
        raise DefinitionError(f"{operator}: the column {name!r} {missing.predicate}", why=missing.why, do=missing.do)
    type_ = schema[name]
    if type_.is_list or not (type_.is_integer or type_.is_float or type_.is_timestamp):
        raise DefinitionError(
            f"{operator}: the column {name!r} is {type_}, and a band needs a number or a timestamp",
            why="a band is a distance, and there is none between such values",
            do="name another column, or write the predicate as a function",
        )
    return type_.is_timestamp
