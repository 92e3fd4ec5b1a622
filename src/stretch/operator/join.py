"""Joins on any predicate: what a user declares (Paper: J+, Operator "ScaleJoin").

When two tuples meet is in `meeting`, what the reference engine does with them in `pairing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

from stretch.duration import duration
from stretch.errors import DefinitionError
from stretch.operator import pairing as how_to
from stretch.operator.bands import bind_match
from stretch.operator.frames import OnFrames
from stretch.operator.keys import KeySpec, bind_keys
from stretch.operator.meeting import Interval, Meeting, meeting_of
from stretch.operator.pairing import How, Pairing
from stretch.operator.spec import (
    Mapping,
    Operator,
    as_inputs,
    checked,
    checked_groups,
    checked_name,
    checked_window,
    keep,
    purge,
)
from stretch.schema import Schema, parse_schema
from stretch.windows.groups import GROUP_COUNT
from stretch.windows.spec import Boundaries, Window, sliding

BLOCK_COUNT = 1000  # the paper's number of keys


class Join(OnFrames):
    """Report the pairs of tuples, one from each input, that meet and for which `match(l, r)` holds.

    - `window`: tuples meet that share a window; or `before`, `after`: a right tuple meets a left one if it is at most
      so much before or after it, both ends included.
    - `match`: any function of both tuples, or bands such as `st.band("x", "a", 10)`, combined by `&`.
    - `keys`: only tuples that share a key meet. A pair that shares several is reported once.
    - `how`: "inner", or "left", "right", "full": tuples of that side that met nobody are reported too, with nulls, once
      nobody can come any more.
    - `output(l, r)` and `schema`: the row of a pair; default: all columns of both, `l_`/`r_` before names that clash.
    - `self_join`: both inputs are the same stream, fed twice; a row does not meet itself.
    - `index`: False compares all pairs even where bands or keys would find them faster.
    - `printed_purge`: keep tuples as long as the paper's ScaleJoin does in print, which also joins pairs exactly one
      window size apart (docs/paper-notes.md, 11). Only for windows that move with every step of event time.

    Results are in the order of the later tuples of the pairs, and for the same later one of the earlier ones.
    """

    def __init__(
        self,
        *,
        match: Callable[[Any, Any], Any] | None = None,
        window: Window | None = None,
        before: str | int | None = None,
        after: str | int | None = None,
        keys: KeySpec = None,
        how: How = "inner",
        inputs: Any = 2,
        output: Callable[[Any, Any], Any] | None = None,
        schema: str | Schema | None = None,
        self_join: bool = False,
        index: bool = True,
        mapping: Mapping | None = None,
        groups: int | None = None,
        printed_purge: bool = False,
        name: str | None = None,
    ) -> None:
        self.name = checked_name(name, "Join")
        self.window = _window_or_interval(window, before, after, self.name)
        self.inputs = as_inputs(inputs)
        self.match = checked(match, "match(l, r)", 2, self.name)
        self.keys = keys
        self.how = how
        self.output = checked(output, "output(l, r)", 2, self.name)
        self.schema = None if schema is None else parse_schema(schema, f"{self.name}: the schema")
        self.is_self_join = self_join
        self.index = index
        self.mapping = mapping
        has_keys = keys is not None or any(stream.has_own_keys for stream in self.inputs)
        self.groups = checked_groups(groups or (GROUP_COUNT if has_keys else BLOCK_COUNT), self.name)
        self.has_keys = has_keys
        self.printed_purge = printed_purge
        self._check()

    def resolve(self, schemas: Sequence[Schema], boundaries: Boundaries) -> Operator:
        """Return the operator that compares the tuples of inputs with these columns."""
        self._check_resolved(schemas, boundaries)
        pairing = Pairing(
            meeting=self._meeting(schemas, boundaries),
            match=None if self.match is None else bind_match(self.match, schemas[0], schemas[1], self.name),
            output=self.output,
            keys=self._bound_keys(schemas) if self.has_keys else None,
            how=self.how,
            is_self_join=self.is_self_join,
            widths=(len(schemas[0]), len(schemas[1])),
        )
        resolved = self._operator(pairing, self.schema or _both(*schemas), boundaries)
        resolved.makes_rows = "output"
        resolved.pairing = pairing
        return resolved

    def __repr__(self) -> str:
        return f"<{self.name} on {getattr(self.match, '__name__', self.match or 'keys')}>"

    def _operator(self, pairing: Pairing, schema: Schema, boundaries: Boundaries) -> Operator:
        window = self.window if isinstance(self.window, Window) else sliding(boundaries.size)
        common: dict[str, Any] = {
            "window": window,
            "schema": schema,
            "inputs": self.inputs,
            "mapping": self.mapping,
            "groups": self.groups,
            "name": self.name,
        }
        if self.how != "inner":
            common["inputs"] = len(self.inputs)  # keys of inputs are compared within the one key
            one = Operator(
                **common,
                keys=how_to.every(1),
                update=how_to.compare_and_mark(pairing),
                output=how_to.report_alone(pairing),
                slide=how_to.slide_all,
                keys_are_groups=True,
            )
            one.next_left = how_to.next_alone(pairing, boundaries.size)
            return one
        slide = keep if self.printed_purge else purge  # the printed rule drops in `update`
        if self.has_keys:
            return Operator(**common, keys=self.keys, update=how_to.compare_keys(pairing), slide=slide)
        return Operator(
            **common,
            keys=how_to.every(self.groups),
            state="seen long",
            update=how_to.compare_all(pairing, self.groups),
            slide=slide,
            keys_are_groups=True,
        )

    def _meeting(self, schemas: Sequence[Schema], boundaries: Boundaries) -> Meeting:
        if isinstance(self.window, Window):
            return meeting_of(boundaries, None, self.printed_purge)
        is_timestamp = self.window.before.unit == "microseconds"
        return meeting_of(boundaries, self.window.ticks(is_timestamp, schemas[0].time or ""), self.printed_purge)

    def _bound_keys(self, schemas: Sequence[Schema]) -> tuple[Any, ...]:
        specs = [stream.keys if stream.has_own_keys else self.keys for stream in self.inputs]
        return tuple(bind_keys(spec, schema, self.name) for spec, schema in zip(specs, schemas, strict=True))

    def _check(self) -> None:
        if self.match is None and not self.has_keys:
            raise DefinitionError(
                f"{self.name} has no predicate",
                why="neither match= nor keys= says which tuples belong together",
                do="pass a function match(l, r) that tells whether two tuples belong together, or keys=",
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
        if self.how not in get_args(How):
            raise DefinitionError(
                f"{self.name}: how={self.how!r} does not exist",
                why=f"joins are {', '.join(map(repr, get_args(How)))}",
                do="pass one of them, or leave it out",
            )
        if self.printed_purge and isinstance(self.window, Interval):
            raise DefinitionError(
                f"{self.name}: printed_purge=True does not fit before= and after=",
                why="the printed rule is one for windows, and the interval says exactly who meets",
                do="leave printed_purge out, and pass longer lengths if the ends have to belong",
            )
        if self.how != "inner" and (self.output is not None or self.printed_purge):
            raise DefinitionError(
                f"{self.name}: how={self.how!r} goes with neither output= nor printed_purge=",
                why="a row of one tuple alone has its columns and nulls, and is reported when its windows have ended",
                do="leave them out; make other rows of the results in a Map behind the join",
            )

    def _check_resolved(self, schemas: Sequence[Schema], boundaries: Boundaries) -> None:
        if self.printed_purge and boundaries.advance != 1:
            raise DefinitionError(
                f"{self.name}: printed_purge=True does not fit advance={boundaries.advance}",
                why="the printed rule compares times, and is only defined for windows that move with every step",
                do="leave the advance out of st.sliding, or leave printed_purge out",
            )
        if self.how != "inner" and boundaries.kind == "multi" and boundaries.advance < boundaries.size:
            raise DefinitionError(
                f"{self.name}: how={self.how!r} does not fit windows of kind 'multi' that overlap",
                why="a tuple falls into several windows, and may meet nobody in some of them",
                do="leave the advance out of st.sliding, or pass kind='single'",
            )
        if self.is_self_join and schemas[0].columns != schemas[1].columns:
            raise DefinitionError(
                f"{self.name}: self_join=True, and the inputs have different columns",
                why=f"the left one has {schemas[0]}, the right one {schemas[1]}",
                do="feed the same stream to both inputs, or leave self_join out",
            )


def _window_or_interval(
    window: Window | None, before: str | int | None, after: str | int | None, operator: str
) -> Window | Interval:
    """Read the one of both that is given."""
    if before is None and after is None:
        return checked_window(window, operator)
    if window is not None or before is None or after is None:
        raise DefinitionError(
            f"{operator}: it is not clear which tuples meet",
            why="there are either windows, or lengths of time before and after; and of those both",
            do='pass window=st.sliding("1 minute"), or before="10 seconds" and after="0 seconds"',
        )
    interval = Interval(duration(before, "before"), duration(after, "after"))
    if interval.before.unit != interval.after.unit:
        raise DefinitionError(
            f"{operator}: before={interval.before.written} and after={interval.after.written} are in different units",
            why="one is text (for timestamp columns), the other an int (for long columns)",
            do="write both as text or both as ints",
        )
    return interval


def _both(left: Schema, right: Schema) -> Schema:
    """Put the columns of both inputs side by side; names that clash get `l_` and `r_`."""
    clash = set(left.names) & set(right.names)
    renamed = [
        (prefix + name if name in clash else name, type_)
        for prefix, schema in (("l_", left), ("r_", right))
        for name, type_ in schema.columns
    ]
    return Schema(tuple(renamed))
