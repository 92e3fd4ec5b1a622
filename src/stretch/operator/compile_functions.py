"""Operators whose functions the user wrote, compiled: keys, update, output, slide and merge, and a Map's function.

An entry is `key words, held rows (if update makes rows), state words of each input`. What each function sees is what it
sees in the reference engine; what has no compiled form is refused, with the engine that runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numba import types

from stretch.errors import DefinitionError
from stretch.native.jit import specialised, user_function
from stretch.operator import extract as keys_of
from stretch.operator.columns import Layout, Result, not_compiled
from stretch.operator.compile import compile_function
from stretch.operator.compile_instances import Instances, compile_instances
from stretch.operator.compile_keys import Key, compile_key
from stretch.operator.compile_rows import (
    Rows,
    compile_hold,
    compile_release,
    compile_rows,
    compile_write,
    result_columns,
)
from stretch.operator.compile_tuples import Tuples, compile_tuples, compile_values
from stretch.operator.fingerprint import names_used
from stretch.operator.keys import KeyColumns, KeyFunction
from stretch.operator.plan import Plan, Stream
from stretch.operator.spec import Map, Operator, keep, purge, store, where_of
from stretch.windows.held import HELD_WORDS, hold_row
from stretch.windows.kernels import HEAP_FULL

Update = Callable[..., bool]


@dataclass(frozen=True)
class Functions:
    """The compiled functions of an operator, as the kernels of `epochs` call them."""

    update: Update
    """`update(inputs, tables, worker, at, row, time, left, right, number)`; False if memory is out."""
    make: Callable[..., Any]
    """`make(tables, at, left, right)`: what output, slide and merge get."""
    output: Any
    """Yields rows of `w`, for `write(outs, made, index)`; None if there is none."""
    write: Callable[..., None] | None
    slide: Any
    is_empty: Callable[..., bool]
    merge: Any
    held_at: int
    """The word of an entry where its held rows are; -1 if it has none."""
    held_words: int
    release: Callable[..., None]
    """`release(outs, tables, at, index)`: a held row goes into the output."""
    state_words: int


@dataclass(frozen=True)
class Mapped:
    """The compiled function of a Map, for each input: `call(inputs, tables, row, time)` yields rows."""

    calls: tuple[Any, ...]
    writes: tuple[Callable[..., None], ...]


def compile_functions(
    plan: Plan, operator: Operator, layouts: tuple[Layout, ...], key: Key, views: tuple[Tuples, ...]
) -> tuple[Functions, tuple[Result, ...]]:
    """Compile all functions of an operator but its keys."""
    # Whether rows are held decides where the state begins, and only the type of `update` tells; so ask it first.
    without = compile_instances(key, operator.state, len(plan.streams), key.words)
    makers = [_compile_update(plan, operator, without, view) for view in views]
    held = [rows for _, rows in makers if rows is not None]
    instances = without
    if held:
        instances = compile_instances(key, operator.state, len(plan.streams), key.words + HELD_WORDS)
    output, slide = _compile_output(plan, operator, instances), _compile_slide(plan, operator, instances)
    merge = _compile_merge(plan, operator, instances, bool(held))
    results = result_columns(plan.schema, [*held, *([output] if output else [])])
    held_at = key.words if held else -1
    updates = [
        _make_update(compiled, rows, view, instances, held_at, results)
        for (compiled, rows), view in zip(makers, views, strict=True)
    ]
    functions = Functions(
        update=_by_input(updates),
        make=instances.make,
        output=output.function if output else None,
        write=compile_write(output, results) if output else None,
        slide=slide,
        is_empty=instances.is_empty,
        merge=merge,
        held_at=held_at,
        held_words=_held_words(results),
        release=compile_release(results),
        state_words=instances.words + (HELD_WORDS if held else 0),
    )
    return functions, results


def compile_map(plan: Plan, operator: Map, layouts: tuple[Layout, ...]) -> tuple[Mapped, tuple[Result, ...]]:
    """Compile the function of a Map, for each of its inputs."""
    calls, made = [], []
    for stream, layout in zip(plan.streams, layouts, strict=True):
        view = compile_tuples(stream, layout, [(operator.function, 0)])
        compiled = user_function(operator.function)
        kind = compile_function(compiled, operator.function, (view.type,), "function", plan.name)
        rows = compile_rows(compiled, kind, operator.function, "function", plan.schema, plan.name)
        if rows is None:
            raise not_compiled(plan.name, "a function that makes no rows", "it has to yield what leaves the Map")
        made.append(rows)
        calls.append(_make_call(rows, view))
    results = result_columns(plan.schema, made)
    return Mapped(tuple(calls), tuple(compile_write(rows, results) for rows in made)), results


def compile_extract(
    plan: Plan, stream: Stream, layout: Layout, distinct: bool, are_groups: bool
) -> tuple[Key, Callable[..., int], Any]:
    """Compile keys that a function gives, or several columns; return their layout, their extraction, and their type."""
    keys: Any = stream.keys
    groups = plan.group_count
    if isinstance(keys, KeyColumns):
        values = compile_values(stream, layout, keys.names)
        made = values.type if len(keys.names) > 1 else values.type.types[0]
        key = compile_key(made, plan.name)
        take = _itself if len(keys.names) > 1 else _first
        return key, keys_of.make_extract_one(values.build, take, key.put, groups), made
    assert isinstance(keys, KeyFunction)
    function = keys.function
    view = compile_tuples(stream, layout, [(function, 0)])
    compiled = user_function(function)
    made = compile_function(compiled, function, (view.type,), "keys", plan.name)
    is_many = isinstance(made, (types.Generator, types.RangeType))
    given = made.yield_type if isinstance(made, types.Generator) else types.int64 if is_many else made
    key = compile_key(given, plan.name, function)
    if are_groups:
        if not isinstance(given, types.Integer):
            raise DefinitionError(
                f"{plan.name}: keys makes {given}",
                where=where_of(function),
                why="with keys_are_groups the keys are ints",
                do="return ints, or leave keys_are_groups out",
            )
        extract = keys_of.make_extract_groups(view.build, compiled, groups, not is_many, distinct)
        return key, extract, given
    if is_many:
        extract = keys_of.make_extract_function(view.build, compiled, key.put, key.words, groups, distinct)
        return key, extract, given
    return key, keys_of.make_extract_one(view.build, compiled, key.put, groups), given


@specialised
def _itself(made):  # type: ignore[no-untyped-def]
    return made


@specialised
def _first(made):  # type: ignore[no-untyped-def]
    return made[0]


def check_functions(plan: Plan, operator: Operator) -> None:
    """Refuse what has no compiled form."""
    functions = [operator.update, operator.output, operator.slide, operator.merge]
    if operator.update is None and operator.state is None and operator.output is None:
        raise not_compiled(plan.name, "an operator without update", "it keeps tuples in w.tuples")
    kept = {store, purge, keep} & {function for function in functions if callable(function)}
    if "tuples" in names_used(*functions) or kept or operator.update is None:
        raise not_compiled(plan.name, "w.tuples", "compiled window instances have the fields of the state only")


def _compile_update(plan: Plan, operator: Operator, instances: Instances, view: Tuples) -> tuple[Any, Rows | None]:
    function = operator.update
    assert function is not None
    compiled = user_function(function)
    made = compile_function(compiled, function, (instances.type, view.type), "update", plan.name)
    return compiled, compile_rows(compiled, made, function, "update", plan.schema, plan.name)


def _compile_output(plan: Plan, operator: Operator, instances: Instances) -> Rows | None:
    if operator.output is None:
        return None
    compiled = user_function(operator.output)
    made = compile_function(compiled, operator.output, (instances.type,), "output", plan.name)
    return compile_rows(compiled, made, operator.output, "output", plan.schema, plan.name)


def _compile_slide(plan: Plan, operator: Operator, instances: Instances) -> Any:
    """Compile `slide(w)`; rows that it makes are dropped, as in the reference engine."""
    if operator.slide is None:
        return None
    compiled = user_function(operator.slide)
    made = compile_function(compiled, operator.slide, (instances.type,), "slide", plan.name)
    if not isinstance(made, types.Generator):
        return compiled

    @specialised
    def slide(w):  # type: ignore[no-untyped-def]
        for _ in compiled(w):
            pass

    return slide


def _compile_merge(plan: Plan, operator: Operator, instances: Instances, makes_rows: bool) -> Any:
    """Compile `merge(a, b)`, which takes the state of a later pane into that of an earlier one."""
    if operator.merge is None:
        return None
    if makes_rows:
        raise not_compiled(plan.name, "merge beside an update that makes rows", "rows belong to windows, not to panes")
    for role, function in (("update", operator.update), ("merge", operator.merge)):
        if names_used(function) & {"left", "right"}:
            raise not_compiled(plan.name, f"w.left or w.right in {role} beside merge", "panes have other boundaries")
    compiled = user_function(operator.merge)
    compile_function(compiled, operator.merge, (instances.type, instances.type), "merge", plan.name)
    return compiled


def _held_words(results: tuple[Result, ...]) -> int:
    return sum(len(result.arrays()) for result in results)


def _make_update(
    compiled: Any, rows: Rows | None, view: Tuples, instances: Instances, held_at: int, results: tuple[Result, ...]
) -> Update:
    build, make = view.build, instances.make
    if rows is None:

        @specialised
        def update(inputs, tables, worker, at, row, time, left, right):  # type: ignore[no-untyped-def]
            compiled(make(tables, at, left, right), build(inputs, tables, row, time))
            return True

        return update
    yielded, hold, words = rows.function, compile_hold(rows, results), _held_words(results)

    @specialised
    def update_and_hold(inputs, tables, worker, at, row, time, left, right):  # type: ignore[no-untyped-def]
        for made in yielded(make(tables, at, left, right), build(inputs, tables, row, time)):
            place = hold_row(tables, worker, at + held_at, words)
            if place == HEAP_FULL:
                return False
            hold(tables, made, place)
        return True

    return update_and_hold


def _make_call(rows: Rows, view: Tuples) -> Any:
    build, function = view.build, rows.function

    @specialised
    def call(inputs, tables, row, time):  # type: ignore[no-untyped-def]
        return function(build(inputs, tables, row, time))

    return call


def _by_input(updates: list[Callable[..., bool]], place: int = 0) -> Update:
    """Return the update that takes the number of the input as its last argument, and calls that input's own."""
    own = updates[place]

    @specialised
    def last(inputs, tables, worker, at, row, time, left, right, number):  # type: ignore[no-untyped-def]
        return own(inputs, tables, worker, at, row, time, left, right)

    if place + 1 == len(updates):
        return last
    others = _by_input(updates, place + 1)

    @specialised
    def this_or_others(inputs, tables, worker, at, row, time, left, right, number):  # type: ignore[no-untyped-def]
        if number == place:
            return own(inputs, tables, worker, at, row, time, left, right)
        return others(inputs, tables, worker, at, row, time, left, right, number)

    return this_or_others
