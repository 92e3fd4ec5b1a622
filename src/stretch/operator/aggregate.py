"""Aggregates with ready-made functions (Paper: A+, and A when each tuple has one key)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stretch.errors import DefinitionError, a_kind
from stretch.operator.frames import OnFrames
from stretch.operator.keys import KeySpec, checked_keys, key_columns
from stretch.operator.reduction import Reduction
from stretch.operator.spec import Mapping, Operator, as_inputs, checked_groups, checked_name, checked_window
from stretch.schema import Schema
from stretch.windows.groups import GROUP_COUNT
from stretch.windows.spec import Boundaries, Window


class Aggregate(OnFrames):
    """Aggregate the tuples of each window and key with ready-made functions (Paper: A+).

    Rows carry the key columns and one column per aggregate; a list column as `keys` gives a tuple several keys.

    >>> st.Aggregate(window=st.tumbling("1 hour"), keys="hashtags", key_name="hashtag",
    ...              longest=st.max("chars"), tweets=st.count())
    <Aggregate by 'hashtags': longest=max(chars), tweets=count()>
    """

    def __init__(
        self,
        *,
        window: Window,
        keys: KeySpec = None,
        key_name: str | None = None,
        inputs: Any = 1,
        mapping: Mapping | None = None,
        groups: int = GROUP_COUNT,
        occurrences: bool = False,
        name: str | None = None,
        **aggregates: Reduction,
    ) -> None:
        own = {"keys": keys, "key_name": key_name, "inputs": inputs, "mapping": mapping, "groups": groups}
        _check_names({**own, "occurrences": occurrences, "name": name})
        self.name = checked_name(name, "Aggregate")
        self.window = checked_window(window, self.name)
        self.inputs = as_inputs(inputs)
        self.keys = checked_keys(keys, self.name)
        self.key_name = key_name
        self.mapping = mapping
        self.groups = checked_groups(groups, self.name)
        self.occurrences = occurrences
        self.aggregates = aggregates
        self._check_aggregates()

    def resolve(self, schemas: Sequence[Schema], boundaries: Boundaries) -> Operator:
        """Return the operator that computes the aggregates over an input with these columns."""
        schema = schemas[0]
        keys = key_columns(self.keys, schema, self.key_name, self.name)
        results = tuple((name, how.result_type(schema, self.name)) for name, how in self.aggregates.items())
        clash = sorted({name for name, _ in keys} & self.aggregates.keys())
        if clash:
            raise DefinitionError(
                f"{self.name}: {clash[0]!r} is both a key column and an aggregate",
                why="the result would have two columns of that name",
                do="rename the aggregate, or the key with key_name=...",
            )
        resolved = Operator(
            window=self.window,
            schema=Schema(keys + results),
            keys=self.keys,
            inputs=self.inputs,
            output=_fold_all(tuple(self.aggregates.values()), len(keys), math.gcd(boundaries.size, boundaries.advance)),
            mapping=self.mapping,
            groups=self.groups,
            occurrences=self.occurrences,
            name=self.name,
        )
        resolved.reductions = tuple(self.aggregates.values())
        return resolved

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={how.kind}({how.column or ''})" for name, how in self.aggregates.items())
        return f"<{self.name} by {self.keys!r}: {listed}>"

    def _check_aggregates(self) -> None:
        if not self.aggregates:
            raise DefinitionError(
                f"{self.name} aggregates nothing",
                why="no aggregate was passed",
                do='pass at least one, for example tweets=st.count() or longest=st.max("chars")',
            )
        for name, how in self.aggregates.items():
            if not isinstance(how, Reduction):
                raise DefinitionError(
                    f"{self.name}: {name}={how!r} is not an aggregate",
                    why=f"it is {a_kind(how)}",
                    do="pass st.count(), st.sum(...), st.min(...), st.max(...), st.mean(...), st.first(...) or "
                    "st.last(...)",
                )
        if len(self.inputs) != 1:
            raise DefinitionError(
                f"{self.name} has {len(self.inputs)} inputs",
                why="an aggregate reads one stream",
                do="use several sources of one input, stretch.Join, or stretch.Operator",
            )
        if self.window.advance is None:
            raise DefinitionError(
                f"{self.name}: the window has no advance",
                why="it would report a result for every step of event time",
                do="pass st.sliding(size, advance) or st.tumbling(size)",
            )


def _check_names(settings: dict[str, Any]) -> None:
    """Refuse an aggregate whose name is that of a setting, where it would be taken for one."""
    for name, value in settings.items():
        if isinstance(value, Reduction):
            raise DefinitionError(
                f"Aggregate: an aggregate cannot be called {name!r}",
                why=f"{name}= is a setting of Aggregate itself",
                do=f"choose another name, for example {name}_=...",
            )


def _fold_all(reductions: tuple[Reduction, ...], parts: int, pane_size: int) -> Callable[[Any], Iterator[Any]]:
    """Return the output function that folds the stored tuples of a window; `parts` is how many columns a key has."""

    def output(w: Any) -> Iterator[Any]:
        key = w.key if parts > 1 else (w.key,)[:parts]
        panes = [t.timestamp // pane_size for t in w.tuples]
        yield (
            *key,
            *(how.fold([(pane, how.value(t)) for pane, t in zip(panes, w.tuples, strict=True)]) for how in reductions),
        )

    return output


def count(column: str | None = None) -> Reduction:
    """Count tuples, or the values of a column that are not null."""
    return Reduction("count", column)


def sum(column: str) -> Reduction:
    """Add up a column; long for integers (wraps at 64 bits), double otherwise."""
    return Reduction("sum", column)


def min(column: str) -> Reduction:
    """Find the smallest value of a column."""
    return Reduction("min", column)


def max(column: str) -> Reduction:
    """Find the largest value of a column."""
    return Reduction("max", column)


def mean(column: str) -> Reduction:
    """Compute the arithmetic mean of a column, as a double."""
    return Reduction("mean", column)


def first(column: str) -> Reduction:
    """Take a column of the window's first tuple in event time."""
    return Reduction("first", column)


def last(column: str) -> Reduction:
    """Take a column of the window's last tuple in event time."""
    return Reduction("last", column)
