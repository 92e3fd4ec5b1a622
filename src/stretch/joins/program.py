"""A join compiled: which columns are stored, how rows are compared, and how the row of a pair is written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stretch.joins.match import compile_time, parts_of
from stretch.joins.scan import Scan, make_scan
from stretch.joins.station import Timing
from stretch.native.jit import specialised
from stretch.operator.bands import All, Match, Predicate, Same
from stretch.operator.columns import LISTS, Form, Layout, Result, dtype_of, not_compiled
from stretch.operator.compile import compile_pair_output, compile_view
from stretch.operator.fingerprint import fingerprint, names_used
from stretch.operator.keys import KeyColumns
from stretch.operator.pairing import Pairing
from stretch.operator.plan import Plan
from stretch.operator.spec import Operator
from stretch.operator.steps import make_write_value, write_no_value

NO_COLUMN = -1

TIME = "time"  # the last column that workers write: the time of the result

Write = Callable[..., None]


@dataclass(frozen=True)
class JoinProgram:
    """The compiled form of a plan with a join."""

    plan: Plan
    layouts: tuple[Layout, ...]
    times: tuple[int, ...]
    """Of each input the column with the times of its rows."""
    scans: tuple[Scan, Scan]
    results: tuple[Result, ...]
    numbers: tuple[int, ...] = ()
    """In self-joins, of each input the column with the numbers of its rows,"""
    marks: tuple[int, ...] = ()
    """in outer ones that with the marks of those that have met somebody."""
    copies: tuple[tuple[int, int], ...] = ()
    """Of which columns results consist, as (input, column), NO_COLUMN saying that the row is there; or, if the user's
    `output` makes them,"""
    write: Write | None = None
    """how: `write(inputs, outs, left place, right place, index)`."""
    workers: dict[Any, Any] = field(default_factory=dict)

    @property
    def pairing(self) -> Pairing:
        """The join."""
        pairing: Pairing = _pairing_of(self.plan)
        return pairing

    @property
    def timing(self) -> Timing:
        """When tuples meet, as workers take it."""
        meeting = self.pairing.meeting
        bounds = meeting.boundaries
        pairing = self.pairing
        return Timing(
            left_reach=meeting.before,
            right_reach=meeting.after,
            size=bounds.size,
            advance=bounds.advance,
            is_printed=int(meeting.is_printed),
            is_self_join=int(pairing.is_self_join),
            keeps_left=int(pairing.keeps_alone[0]),
            keeps_right=int(pairing.keeps_alone[1]),
        )

    @property
    def entry_form(self) -> str:
        """What state consists of, in words: rows, whose columns are described elsewhere, and when they meet."""
        meeting = self.pairing.meeting
        return f"rows that meet {meeting.before} before and {meeting.after} after, how={self.pairing.how}"

    @property
    def kept_ticks(self) -> tuple[int, int]:
        """How long rows of each input are looked back at."""
        meeting = self.pairing.meeting
        return meeting.after + 1, meeting.before + 1


_programs: dict[Hashable, JoinProgram] = {}
_programs_lock = threading.Lock()
PROGRAMS_MAX = 64


def compile_join(plan: Plan) -> JoinProgram:
    """Compile a plan with a join, or say what of it cannot be compiled."""
    with _programs_lock:
        key = _key_of(plan)
        program = _programs.pop(key, None) or _compile(plan)
        _programs[key] = program
        while len(_programs) > PROGRAMS_MAX:
            del _programs[next(iter(_programs))]
    return replace(program, plan=plan)


def is_join(plan: Plan) -> bool:
    """Tell whether a plan is one of a join."""
    return isinstance(plan.operator, Operator) and plan.operator.pairing is not None


def _pairing_of(plan: Plan) -> Pairing:
    assert isinstance(plan.operator, Operator) and isinstance(plan.operator.pairing, Pairing)
    return plan.operator.pairing


def _key_of(plan: Plan) -> Hashable:
    """Return all that the compiled code depends on."""
    pairing = _pairing_of(plan)
    functions = tuple(fingerprint(part) for part in (*parts_of(pairing.match), pairing.output))
    streams = tuple((stream.time, stream.schema.columns) for stream in plan.streams)
    return streams, functions, pairing.keys, plan.schema, pairing.how, pairing.is_self_join


def _compile(plan: Plan) -> JoinProgram:
    pairing = _pairing_of(plan)
    _check(plan, pairing)
    layouts = tuple(Layout() for _ in plan.streams)
    times = tuple(
        layout.position(stream.time, Form.VALUE, np.int64) for stream, layout in zip(plan.streams, layouts, strict=True)
    )
    scans = make_scan(_with_keys(plan, pairing), plan.streams, layouts, plan.name)
    if pairing.is_self_join:
        numbers = [
            layout.position(s.time, Form.NUMBER, np.int64) for s, layout in zip(plan.streams, layouts, strict=True)
        ]
    else:
        numbers = []
    if pairing.how == "inner":
        marks = []
    else:
        marks = [layout.position(s.time, Form.MARK, np.uint8) for s, layout in zip(plan.streams, layouts, strict=True)]
    if pairing.output is None:
        copies, results = _results_of_both(plan, pairing, layouts)
        program = JoinProgram(plan, layouts, times, scans, results, tuple(numbers), tuple(marks), copies)
    else:
        results = tuple(Result(name, type_, False) for name, type_ in plan.schema.columns)
        write = _make_write(plan, pairing.output, layouts)
        program = JoinProgram(plan, layouts, times, scans, results, tuple(numbers), tuple(marks), write=write)
    for stream, layout in zip(plan.streams, layouts, strict=True):
        lists = sorted(column.name for column in layout.columns if column.form in LISTS)
        if lists:
            what = f"a join that reads the list column {lists[0]!r} of input {stream.index}"
            raise not_compiled(plan.name, what, "only scalar ones are so far")
    return program


def _check(plan: Plan, pairing: Pairing) -> None:
    bounds = pairing.meeting.boundaries
    if bounds.kind == "multi" and bounds.advance < bounds.size:
        raise not_compiled(
            plan.name, "a join over windows of kind 'multi' that overlap", "a pair would be reported for each of them"
        )


def _with_keys(plan: Plan, pairing: Pairing) -> Match | None:
    """Return what has to hold for a pair: that the keys are the same, and the predicate."""
    if pairing.keys is None:
        return pairing.match
    columns = []
    for keys in pairing.keys:
        if not isinstance(keys, KeyColumns) or keys.is_list:
            what = (
                "a join with several keys per tuple" if isinstance(keys, KeyColumns) else "a join with a keys function"
            )
            raise not_compiled(plan.name, what, "keys are scalar columns so far")
        columns.append(keys.names)
    if len(columns[0]) != len(columns[1]):
        raise not_compiled(
            plan.name, f"a join of {len(columns[0])} with {len(columns[1])} key columns", "they never meet"
        )
    for left, right in zip(*columns, strict=True):
        types = plan.streams[0].schema[left], plan.streams[1].schema[right]
        if (types[0].name == "string") != (types[1].name == "string"):
            raise not_compiled(plan.name, f"a join of the keys {left!r} and {right!r}", "text never equals a number")
    same = tuple(Same(left, right) for left, right in zip(*columns, strict=True))
    return All((*same, *parts_of(pairing.match)))


def _results_of_both(
    plan: Plan, pairing: Pairing, layouts: tuple[Layout, ...]
) -> tuple[tuple[tuple[int, int], ...], tuple[Result, ...]]:
    """Return the columns of both tuples; null where they are null, unless a function of the user reads them."""
    functions = [part for part in parts_of(pairing.match) if not isinstance(part, Predicate)]
    read = names_used(*functions)
    copies: list[tuple[int, int]] = []
    results = []
    names = iter(plan.schema.names)
    for stream, layout in zip(plan.streams, layouts, strict=True):
        for name, type_ in stream.schema.columns:
            result_name = next(names)
            if type_.is_list:
                what = f"the list column {name!r} in the results"
                raise not_compiled(plan.name, what, "results have no lists so far")
            if type_.name == "string":
                copies.append((stream.index, layout.position(name, Form.ID, np.int32)))
                results.append(Result(result_name, type_, False))
                continue
            copies.append((stream.index, layout.position(name, Form.VALUE, dtype_of(type_))))
            is_nullable = name not in read or pairing.how != "inner"
            if name not in read:
                copies.append((stream.index, layout.position(name, Form.VALID, np.uint8)))
            elif is_nullable:
                copies.append((stream.index, NO_COLUMN))
            results.append(Result(result_name, type_, is_nullable))
    return tuple(copies), tuple(results)


def _make_write(plan: Plan, output: Any, layouts: tuple[Layout, ...]) -> Write:
    """Compile the writing of the row that the user's `output(l, r)` makes."""
    used = names_used(output)
    views = [compile_view(stream, layout, used) for stream, layout in zip(plan.streams, layouts, strict=True)]
    types = [type_ for _, type_ in plan.schema.columns]
    compiled, is_tuple = compile_pair_output(output, views[0], views[1], types, plan.name)
    write_values = write_no_value
    for position in reversed(range(len(types))):
        write_values = make_write_value(position, is_tuple, write_values)
    build_left, build_right = views[0].build, views[1].build
    left_time, right_time = (
        compile_time(stream, layout, used) for stream, layout in zip(plan.streams, layouts, strict=True)
    )

    @specialised
    def write(inputs, outs, left, right, index):  # type: ignore[no-untyped-def]
        l = build_left(inputs, left, left_time(inputs, left))
        r = build_right(inputs, right, right_time(inputs, right))
        write_values(outs, compiled(l, r), index)

    return write
