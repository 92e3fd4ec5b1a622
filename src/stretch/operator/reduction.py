"""Reductions: the ready-made functions of aggregates (Paper: f_R and f_A).

The value of an aggregate is defined over the tuples of a window in total order. Sums of floating point numbers are
defined pane by pane (a pane is the greatest common divisor of size and advance), left to right, so that an engine
may compute windows from panes and still give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from stretch.errors import DefinitionError
from stretch.schema import Schema, Type

Values = list[tuple[int, Any]]
"""What an aggregate folds: (pane, value) of each tuple, in order."""


@dataclass(frozen=True)
class Reduction:
    """A ready-made aggregate of one column; `count()` has none."""

    kind: str
    column: str | None = None

    def result_type(self, schema: Schema, operator: str) -> Type:
        """Return the type of the result, or say why the column cannot be aggregated so."""
        if self.column is None:
            return Type("long")
        if self.column not in schema:
            missing = schema.missing(self.column)
            raise DefinitionError(
                f"{operator}: {self.kind}({self.column!r}) names a column that {missing.predicate}",
                why=missing.why,
                do=missing.do,
            )
        type_ = schema[self.column]
        is_number = type_.is_integer or type_.is_float
        if type_.is_list or (self.kind in ("sum", "mean") and not is_number):
            raise DefinitionError(
                f"{operator}: {self.kind}({self.column!r}) cannot be computed",
                why=f"the column is {type_}",
                do="name a column of numbers" if self.kind in ("sum", "mean") else "name a scalar column",
            )
        if self.kind == "count":
            return Type("long")
        if self.kind == "mean":
            return Type("double")
        if self.kind == "sum":
            return Type("long") if type_.is_integer else Type("double")
        return type_

    def value(self, t: Any) -> Any:
        """Return what a tuple contributes."""
        return None if self.column is None else getattr(t, self.column)

    def fold(self, values: Values) -> Any:
        """Compute the result; nulls do not count, except for first and last, as in Spark."""
        if self.kind == "count":
            return len(values) if self.column is None else sum(value is not None for _, value in values)
        if self.kind in ("first", "last"):
            return values[0 if self.kind == "first" else -1][1]
        known = [(pane, value) for pane, value in values if value is not None]
        if not known:
            return None
        return _FOLDS[self.kind](known)


def _sum(known: Values) -> Any:
    total = 0 if isinstance(known[0][1], int) else 0.0
    for _, pane in groupby(known, key=lambda item: item[0]):
        subtotal = 0 if isinstance(total, int) else 0.0
        for _, value in pane:
            subtotal += value
        total += subtotal
    return total


def _order(item: tuple[int, Any]) -> tuple[bool, Any]:
    """Order values as Spark does: NaN is above every other number."""
    value = item[1]
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


_FOLDS: dict[str, Callable[[Values], Any]] = {
    "sum": _sum,
    "mean": lambda known: float(_sum(known)) / len(known),
    "min": lambda known: min(known, key=_order)[1],
    "max": lambda known: max(known, key=_order)[1],
}
