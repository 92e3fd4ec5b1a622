"""Joins on any predicate (Paper: J+, Operator "ScaleJoin").

Without `keys`, every tuple is shown to all key groups, each compares it with the tuples that it stores, and one of
them, round robin, stores it: the work is even whatever the data, and each pair is compared once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stretch.errors import DefinitionError
from stretch.operator.keys import KeySpec
from stretch.operator.spec import (
    Mapping,
    Operator,
    as_inputs,
    checked,
    checked_groups,
    checked_name,
    checked_window,
    keep,
    named,
    purge,
)
from stretch.schema import Schema, parse_schema
from stretch.windows.groups import GROUP_COUNT
from stretch.windows.spec import Boundaries, Window

BLOCK_COUNT = 1000  # the paper's number of keys


class Join:
    """Report the pairs of tuples, one from each input, that share a window and for which `match(l, r)` holds.

    - `keys`: compare only tuples that share a key; a pair that shares several is reported once for each.
    - `output(l, r)` and `schema`: the row of a pair; default: all columns of both, `l_`/`r_` before names that clash.
    - `printed_purge`: keep tuples as long as the paper's ScaleJoin does in print, which also joins pairs exactly one
      window size apart (docs/paper-notes.md, 11). Only for windows that move with every step of event time.
    """

    def __init__(
        self,
        *,
        window: Window,
        match: Callable[[Any, Any], Any],
        keys: KeySpec = None,
        inputs: Any = 2,
        output: Callable[[Any, Any], Any] | None = None,
        schema: str | Schema | None = None,
        mapping: Mapping | None = None,
        groups: int | None = None,
        printed_purge: bool = False,
        name: str | None = None,
    ) -> None:
        self.name = checked_name(name, "Join")
        self.window = checked_window(window, self.name)
        self.inputs = as_inputs(inputs)
        self.match = checked(match, "match(l, r)", 2, self.name)
        self.keys = keys
        self.output = checked(output, "output(l, r)", 2, self.name)
        self.schema = None if schema is None else parse_schema(schema, f"{self.name}: the schema")
        self.mapping = mapping
        has_keys = keys is not None or any(stream.has_own_keys for stream in self.inputs)
        self.groups = checked_groups(groups or (GROUP_COUNT if has_keys else BLOCK_COUNT), self.name)
        self.has_keys = has_keys
        self.printed_purge = printed_purge
        self._check()

    def resolve(self, schemas: Sequence[Schema], boundaries: Boundaries) -> Operator:
        """Return the operator that compares the tuples of inputs with these columns."""
        if self.printed_purge and boundaries.advance != 1:
            raise DefinitionError(
                f"{self.name}: printed_purge=True does not fit advance={boundaries.advance}",
                why="the printed rule compares times, and is only defined for windows that move with every step",
                do="leave the advance out of st.sliding, or leave printed_purge out",
            )
        resolved = Operator(
            window=self.window,
            schema=self.schema or _both(*schemas),
            keys=self.keys if self.has_keys else _every(self.groups),
            inputs=self.inputs,
            state=None if self.has_keys else "seen long",
            update=self._update(boundaries),
            slide=keep if self.printed_purge else purge,  # the printed rule drops in `update`
            mapping=self.mapping,
            groups=self.groups,
            keys_are_groups=not self.has_keys,
            name=self.name,
        )
        resolved.makes_rows = "output"
        return resolved

    def __repr__(self) -> str:
        return f"<{self.name} on {getattr(self.match, '__name__', 'match')}>"

    def _update(self, boundaries: Boundaries) -> Callable[[Any, Any], Iterator[Any]]:
        assert self.match is not None
        match = named("match", self.match)
        row = _row if self.output is None else named("output", self.output)
        groups = None if self.has_keys else self.groups
        kept = boundaries.size if self.printed_purge else None

        def update(ws: Any, t: Any) -> Iterator[Any]:
            this, other = ws[t.input], ws[1 - t.input]
            if kept is not None:
                other.tuples[:] = [earlier for earlier in other.tuples if earlier.timestamp + kept >= t.timestamp]
            for earlier in other.tuples:
                pair = (t, earlier) if t.input == 0 else (earlier, t)
                if match(*pair):
                    yield row(*pair)
            if groups is None:
                this.tuples.append(t)
                return
            this.seen += 1
            other.seen += 1
            if this.seen % groups == this.key:
                this.tuples.append(t)

        return update

    def _check(self) -> None:
        if self.match is None:
            raise DefinitionError(
                f"{self.name} has no predicate",
                why="match=None was passed",
                do="pass a function match(l, r) that tells whether two tuples belong together",
            )
        if len(self.inputs) != 2:
            raise DefinitionError(
                f"{self.name} has {len(self.inputs)} input(s)",
                why="a join compares the tuples of two streams",
                do="pass inputs=[left, right]; for a self-join, feed the stream twice",
            )
        if self.output is not None and self.schema is None:
            raise DefinitionError(
                f"{self.name}: output is given and schema is not",
                why="the columns of the rows that output(l, r) makes are not known",
                do='pass schema="..." with their names and types',
            )


def _every(groups: int) -> Callable[[Any], range]:
    """Return the key function that shows every tuple to all groups."""

    def keys(t: Any) -> range:
        del t
        return range(groups)

    return keys


def _row(l: Any, r: Any) -> tuple[Any, ...]:
    return (*l[1:], *r[1:])


def _both(left: Schema, right: Schema) -> Schema:
    """Put the columns of both inputs side by side; names that clash get `l_` and `r_`."""
    clash = set(left.names) & set(right.names)
    renamed = [
        (prefix + name if name in clash else name, type_)
        for prefix, schema in (("l_", left), ("r_", right))
        for name, type_ in schema.columns
    ]
    return Schema(tuple(renamed))
