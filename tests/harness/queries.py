"""Operators to test, each with its definition; plain data, so that a failing example prints as code that rebuilds it.

All inputs of all queries have the same columns. A function of a user is the same for the engine and the definition
(it is part of the question); what is made of it, and all ready-made functions, are written here a second time.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby, pairwise
from operator import add
from typing import Any

import stretch as st
from tests.harness.definition import Cut, Cutless, Row, Tuple, joined, mapped, results

COLUMNS = "user long, tag string, tags array<string>, x long, y double"
SCHEMA = f"ts long, {COLUMNS}"
Columns = namedtuple("Columns", "user tag tags x y")


def neighbours(t: Any) -> Iterable[int]:
    """Two or three keys, one of them twice now and then."""
    yield t.x % 3
    yield (t.x + 1) % 3
    yield (t.x * t.x) % 3


def pairs_of_tags(t: Any) -> Iterable[tuple[str, str]]:
    """Composite keys; none for tuples with less than two tags."""
    known = [tag for tag in t.tags or [] if tag is not None]
    yield from pairwise(known)


def one_or_none(t: Any) -> int | None:
    """A single key, returned instead of yielded, that may be None."""
    return None if t.x < 0 else t.x % 2


@dataclass(frozen=True)
class Keys:
    """Where keys come from: as an operator is told, and by definition."""

    spec: Any
    of: Callable[[Tuple], list[Any]]
    columns: tuple[str, ...] = ()
    """The key columns that an `Aggregate` reports; empty where it cannot tell."""


KEYS = {
    "one for all": Keys(None, lambda t: [()]),
    "user": Keys("user", lambda t: [t.row.user], ("user",)),
    "tag": Keys("tag", lambda t: [t.row.tag], ("tag",)),
    "user and tag": Keys(("user", "tag"), lambda t: [(t.row.user, t.row.tag)], ("user", "tag")),
    "tags": Keys("tags", lambda t: list(t.row.tags or []), ("tags",)),
    "neighbours": Keys(neighbours, lambda t: list(neighbours(t.row))),
    "pairs of tags": Keys(pairs_of_tags, lambda t: list(pairs_of_tags(t.row))),
    "one or none": Keys(one_or_none, lambda t: [one_or_none(t.row)]),
}


def key_rule(name: str, occurrences: bool = False) -> Callable[[Tuple], Iterable[Any]]:
    """Return the keys of a tuple by definition: a set, or as often as they occur."""
    return KEYS[name].of if occurrences else lambda t: dict.fromkeys(KEYS[name].of(t))


def window(cut: Cut) -> Any:
    return st.sliding(cut.size, cut.advance, cut.kind)


# --- ready-made aggregates


def fold(kind: str, column: str | None, group: Sequence[Tuple], pane: int) -> Any:
    """Compute a ready-made aggregate over a window's tuples in order; nulls count for first and last only."""
    if column is None:
        return len(group)
    values = [(t.timestamp // pane, getattr(t.row, column)) for t in group]
    known = [(at, value) for at, value in values if value is not None]
    if kind == "first":
        return values[0][1]
    if kind == "last":
        return values[-1][1]
    if kind == "count":
        return len(known)
    if not known:
        return None
    if kind in ("min", "max"):
        # NaN is above every other number.
        order = lambda value: (value != value, 0 if value != value else value)  # noqa: E731
        return (min if kind == "min" else max)((value for _, value in known), key=order)
    # Floats are added up pane by pane, each from left to right.
    zero = type(known[0][1])(0)
    panes = [reduce(add, (value for _, value in pane), zero) for _, pane in groupby(known, key=lambda item: item[0])]
    total = reduce(add, panes, zero)
    if kind == "mean":
        return float(total) / len(known)
    return (total + 2**63) % 2**64 - 2**63 if isinstance(total, int) else total


@dataclass(frozen=True)
class Aggregated:
    """An `Aggregate`: `aggregates` are pairs of a kind and a column."""

    cut: Cut
    keys: str
    aggregates: tuple[tuple[str, str | None], ...]
    occurrences: bool = False
    groups: int = 1024
    inputs: int = 1

    def operator(self) -> Any:
        made = {
            f"a{n}": getattr(st, kind)(column) if column else st.count()
            for n, (kind, column) in enumerate(self.aggregates)
        }
        keys = KEYS[self.keys].spec
        return st.Aggregate(
            window=window(self.cut), keys=keys, groups=self.groups, occurrences=self.occurrences, **made
        )

    def expected(self, tuples: Sequence[Tuple]) -> list[Row]:
        pane = math.gcd(self.cut.size, self.cut.advance)

        def row(key: Any, group: list[Tuple]) -> list[Row]:
            parts = key if isinstance(key, tuple) else (key,)
            return [(*parts, *(fold(kind, column, group, pane) for kind, column in self.aggregates))]

        return results(tuples, self.cut, key_rule(self.keys, self.occurrences), on_output=row)


# --- operators with functions of a user


@dataclass(frozen=True)
class Functions:
    """What an operator is told, and the same by definition."""

    told: dict[str, Any]
    on_update: Callable[..., Iterable[Row]] | None = None
    on_output: Callable[..., Iterable[Row]] | None = None
    kinds: tuple[str, ...] = ("multi", "single")
    inputs: int = 1


def _count(w: Any, t: Any) -> None:
    w.count += 1


def _store_and_count(w: Any, t: Any) -> None:
    w.tuples.append(t)
    w.count += 1


def _recount(w: Any) -> None:
    st.purge(w)
    w.count = len(w.tuples)


def _report_count(w: Any) -> Iterable[Row]:
    yield repr(w.key), w.count


def _record(w: Any, t: Any) -> Iterable[Row]:
    if all(earlier.x < t.x for earlier in w.tuples):
        yield repr(w.key), t.x
    w.tuples.append(t)


def _number(w: Any, t: Any) -> Iterable[Row]:
    yield repr(w.key), len(w.tuples)
    st.store(w, t)


def _ends(w: Any) -> Iterable[Row]:
    yield repr(w.key), w.tuples[0].x
    yield repr(w.key), w.tuples[-1].timestamp


def _crowds(w: Any) -> Iterable[Row] | None:
    return [(repr(w.key), len(w.tuples))] if len(w.tuples) > 2 else None


def _sides(ws: Any) -> Iterable[Row]:
    yield repr(ws[0].key), [len(w.tuples) for w in ws], ws[0].right - ws[-1].left


def _ends_of(key: Any, group: list[Tuple]) -> list[Row]:
    return [(repr(key), group[0].row.x), (repr(key), group[-1].timestamp)]


def _numbers_of(key: Any, earlier: list[Tuple], t: Tuple) -> list[Row]:
    return [(repr(key), len(earlier))]


NAMED = "name string, value long"

FUNCTIONS = {
    "count": Functions(
        {"state": "count long", "update": _count, "output": _report_count, "schema": NAMED},
        on_output=lambda key, group: [(repr(key), len(group))],
        kinds=("multi",),
    ),
    "recount": Functions(
        {
            "state": "count long",
            "update": _store_and_count,
            "output": _report_count,
            "slide": _recount,
            "schema": NAMED,
        },
        on_output=lambda key, group: [(repr(key), len(group))],
    ),
    "records": Functions(
        {"update": _record, "schema": NAMED},
        on_update=lambda key, earlier, t: [(repr(key), t.row.x)] * all(e.row.x < t.row.x for e in earlier),
    ),
    "ends": Functions({"output": _ends, "schema": NAMED}, on_output=_ends_of),
    "numbers and ends": Functions(
        {"update": _number, "output": _ends, "schema": NAMED}, on_update=_numbers_of, on_output=_ends_of
    ),
    "crowds": Functions(
        {"output": _crowds, "schema": NAMED},
        on_output=lambda key, group: [(repr(key), len(group))] * (len(group) > 2),
    ),
}


def sides(inputs: int) -> Functions:
    """Return functions that see a window instance per input."""

    def by_input(size: int) -> Callable[..., list[Row]]:
        return lambda key, group: [(repr(key), tuple(sum(t.input == n for t in group) for n in range(inputs)), size)]

    return Functions(
        {"output": _sides, "schema": "name string, counts array<int>, size long"}, on_output=by_input, inputs=inputs
    )


@dataclass(frozen=True)
class Computed:
    """An `Operator` with functions of a user; the name "sides" has two inputs or more."""

    cut: Cut
    keys: str
    functions: str
    occurrences: bool = False
    groups: int = 1024
    inputs: int = 1

    @property
    def chosen(self) -> Functions:
        return sides(self.inputs) if self.functions == "sides" else FUNCTIONS[self.functions]

    def operator(self) -> Any:
        return st.Operator(
            window=window(self.cut),
            keys=KEYS[self.keys].spec,
            inputs=self.inputs,
            groups=self.groups,
            occurrences=self.occurrences,
            **self.chosen.told,
        )

    def expected(self, tuples: Sequence[Tuple]) -> list[Row]:
        chosen = self.chosen
        rules: dict[str, Any] = {}
        if chosen.on_update:
            rules["on_update"] = chosen.on_update
        if chosen.on_output:
            is_sided = self.functions == "sides"
            rules["on_output"] = chosen.on_output(self.cut.size) if is_sided else chosen.on_output
        return results(tuples, self.cut, key_rule(self.keys, self.occurrences), **rules)


# --- joins, forwarder, map

MATCHES: dict[str, Callable[[Any, Any], Any]] = {
    "all": lambda left, right: True,
    "band": lambda left, right: abs(left.x - right.x) <= 2,
    "theta": lambda left, right: left.x < right.x,
    "same tag": lambda left, right: left.tag == right.tag,
}


@dataclass(frozen=True)
class Joined:
    """A `Join`; without keys, each group compares, and one of them stores."""

    cut: Cut | Cutless
    match: str
    keys: str | None = None
    groups: int = 3
    how: str = "inner"
    is_self: bool = False
    inputs: int = 2

    @property
    def is_round_robin(self) -> bool:
        """Whether key groups count tuples to know whose turn it is, for as long as the job runs."""
        return self.keys is None and self.how == "inner" and getattr(self.cut, "kind", "single") == "single"

    def operator(self) -> Any:
        keys = None if self.keys is None else KEYS[self.keys].spec
        when = self.cut._asdict() if isinstance(self.cut, Cutless) else {"window": window(self.cut)}
        return st.Join(
            **when,
            match=MATCHES[self.match],
            keys=keys,
            how=self.how,
            self_join=self.is_self,
            groups=self.groups,
            inputs=[SCHEMA, SCHEMA],
        )

    def expected(self, tuples: Sequence[Tuple]) -> list[Row]:
        keys = None if self.keys is None else key_rule(self.keys)
        return joined(tuples, self.cut, MATCHES[self.match], keys, self.how, self.is_self)


@dataclass(frozen=True)
class Forwarded:
    """The forwarder of two inputs: every tuple once per key, one tick after its own time."""

    copies: int
    inputs: int = 2

    def operator(self) -> Any:
        return st.paper.forwarder(self.copies, COLUMNS)

    @property
    def groups(self) -> int:
        return self.copies

    def expected(self, tuples: Sequence[Tuple]) -> list[Row]:
        return results(
            tuples, Cut(1, 1, "single"), lambda t: range(self.copies), on_update=lambda key, earlier, t: [t.row]
        )


def tagged(t: Any) -> Iterable[Row]:
    for tag in t.tags or []:
        yield tag, t.x


@dataclass(frozen=True)
class Mapped:
    """A `Map`, which drops tuples or makes several of one."""

    inputs: int = 1
    groups: int = 1024

    def operator(self) -> Any:
        return st.Map(tagged, schema="tag string, x long", inputs=self.inputs)

    def expected(self, tuples: Sequence[Tuple]) -> list[Row]:
        return mapped(tuples, tagged)


Query = Aggregated | Computed | Joined | Forwarded | Mapped
