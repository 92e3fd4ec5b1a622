"""The program: a plan compiled for the engine that runs on threads.

It is made once per job, before anything starts: which columns are stored, how entries are laid out, and the compiled
pieces that workers call: `extract` (keys), `step` (update), `merge` (panes), `write` (rows).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, NamedTuple, cast

import numpy as np

from stretch.native.jit import specialised
from stretch.native.text import TEXT
from stretch.operator import extract as keys_of
from stretch.operator import steps
from stretch.operator.columns import Form, Layout, Result, dtype_of, not_compiled
from stretch.operator.compile_functions import (
    Functions,
    Mapped,
    check_functions,
    compile_extract,
    compile_functions,
    compile_map,
)
from stretch.operator.compile_keys import NOTHING, PAIR_OF_TEXTS, Key, compile_key, int_key, narrow_key
from stretch.operator.compile_tuples import compile_tuples
from stretch.operator.fingerprint import fingerprint
from stretch.operator.keys import KeyFunction, hashtags, pairs, words
from stretch.operator.plan import Plan, Stream
from stretch.operator.reduction import Reduction
from stretch.operator.spec import Map, Operator
from stretch.schema import Type
from stretch.windows.layout import KEY_ID_PAIR, KEY_INT, Shape, make_shape

# More live panes per key group than this would make the directory larger than the state.
PANES_MAX = 4096
RING_MIN = 16
EVER = 1 << 60  # the step of what has no windows: one table for all times


class Timing(NamedTuple):
    """Which tables a tuple is written to, and a window read from. Data, so that windows of any size share code.

    With panes, a tuple goes to the one table of its pane and a window is read from all of its panes; without, a tuple
    goes to the tables of all its windows and a window is read from its own.
    """

    size: int
    advance: int
    step: int  # how far apart tables begin: a pane, or the advance


@dataclass(frozen=True)
class Program:
    """The compiled form of a plan."""

    plan: Plan
    layouts: tuple[Layout, ...]
    timing: Timing
    shape: Shape
    template: list[int]
    extracts: tuple[Callable[..., int], ...]
    step: Callable[..., None]
    merge: Callable[..., None]
    write: Callable[..., None]
    results: tuple[Result, ...]
    has_panes: bool = False
    is_single: bool = False  # one instance per key, which slides from table to table
    functions: Functions | None = None  # where the user wrote them; then `step` and `write` do nothing
    mapped: Mapped | None = None
    key_type: Any = None  # of what functions see as w.key
    workers: dict[Any, Any] = field(default_factory=dict)  # the loops compiled from it, by the types of their station

    @property
    def entry_form(self) -> str:
        """How the entries of tables are laid out, in words."""
        return f"key {self.shape.key_kind}, {self.shape.entry_words} words"


# Programs compiled in this process, latest last. An operator that is set up again runs at once.
_programs: dict[Hashable, Program] = {}
_programs_lock = threading.Lock()
PROGRAMS_MAX = 64


def compile_plan(plan: Plan) -> Program:
    """Compile a plan, or say what of it cannot be compiled."""
    timing = _timing(plan)
    with _programs_lock:
        key = _key_of(plan, timing)
        program = _programs.pop(key, None) or _compile(plan, timing)
        _programs[key] = program
        while len(_programs) > PROGRAMS_MAX:
            del _programs[next(iter(_programs))]
    return replace(program, plan=plan, timing=timing)


def _compile(plan: Plan, timing: Timing) -> Program:
    layouts, operator = tuple(Layout() for _ in plan.streams), plan.operator
    if isinstance(operator, Map):
        return _compile_map(plan, operator, layouts, timing)
    if operator.reductions is None:
        return _compile_functions(plan, operator, layouts, timing)
    return _compile_aggregate(plan, operator, layouts, timing)


def _key_of(plan: Plan, timing: Timing) -> Hashable:
    """Return all that the compiled code depends on."""
    operator = plan.operator
    streams = tuple((stream.time, stream.schema.columns, _key_of_keys(stream.keys)) for stream in plan.streams)
    if isinstance(operator, Map):
        columns = tuple(each[:2] for each in streams)
        return columns, fingerprint(operator.function), plan.schema, plan.group_count
    functions = None
    if operator.reductions is None:
        functions = tuple(map(fingerprint, (operator.update, operator.output, operator.slide, operator.merge)))
    assert plan.boundaries is not None
    options = (operator.occurrences, operator.keys_are_groups, operator.state, plan.boundaries.kind)
    return streams, operator.reductions, functions, plan.schema, plan.group_count, _ring(plan, timing), options


def _key_of_keys(keys: Any) -> Hashable:
    return fingerprint(keys.function) if isinstance(keys, KeyFunction) else fingerprint(keys)


def _ring(plan: Plan, timing: Timing) -> int:
    """Return how many directory records a group needs: one for each live table, in a power of two.

    A few more than needed cost less than code of their own for each number.
    """
    if _is_single(plan):
        return RING_MIN
    return max(RING_MIN, 1 << (timing.size // timing.step + 1).bit_length())


def _is_single(plan: Plan) -> bool:
    """Tell whether instances slide; ready-made functions and `merge` make windows from panes instead."""
    operator, boundaries = plan.operator, plan.boundaries
    has_panes = isinstance(operator, Operator) and (operator.reductions is not None or operator.merge is not None)
    return boundaries is not None and boundaries.kind == "single" and not has_panes


def _timing(plan: Plan) -> Timing:
    operator, boundaries = plan.operator, plan.boundaries
    if isinstance(operator, Map) or boundaries is None:
        return Timing(0, 1, EVER)
    has_panes = operator.reductions is not None or operator.merge is not None
    step = gcd(boundaries.size, boundaries.advance) if has_panes else boundaries.advance
    if boundaries.size // step > PANES_MAX and not _is_single(plan):
        raise not_compiled(
            plan.name,
            f"a window of {boundaries.size // step:,} steps",
            f"tables are kept for each step of a live window, and at most {PANES_MAX:,} of them",
        )
    return Timing(boundaries.size, boundaries.advance, step)


def _compile_aggregate(plan: Plan, operator: Operator, layouts: tuple[Layout, ...], timing: Timing) -> Program:
    assert operator.reductions is not None
    key, extracts = _compile_keys(plan, layouts)
    key_words = key.words
    key_parts = len(plan.schema) - len(operator.reductions)
    step, merge, write = steps.step_nothing, steps.merge_nothing, steps.write_nothing
    words_of = [_words_of(how, plan.streams[0]) for how in operator.reductions]
    starts = [key_words + sum(len(words) for words in words_of[:index]) for index in range(len(words_of))]
    results, outs = _result_columns(plan, key, operator.reductions)
    for index in reversed(range(len(operator.reductions))):
        how, word, out = operator.reductions[index], starts[index], outs[key_parts + index]
        type_ = None if how.column is None else plan.streams[0].schema[how.column]
        is_float = type_ is not None and type_.is_float
        step = _compile_step(plan, how, word, layouts[0], is_float, step)
        merge = steps.make_merge(how.kind, word, is_float, type_ == Type("string"), merge)
        write = steps.make_write(how.kind, word, out, is_float, write)
    write = _write_key(key, outs, write)
    state = [word for words in words_of for word in words]
    shape = make_shape(key.kind, key.words, len(state), _ring(plan, timing), plan.group_count)
    template = ([0] * key_words + state + [0] * shape.entry_words)[: shape.entry_words]
    steps_of = step, merge, write
    return Program(
        plan, layouts, timing, shape, template, extracts, *steps_of, results, has_panes=True, key_type=key.type
    )


def _write_key(key: Key, outs: list[int], write: Any) -> Any:
    if key.kind == KEY_ID_PAIR:
        return steps.make_write_id_pair(0, write)
    for part, out in reversed(list(zip(key.parts, outs, strict=False))):
        if not part.is_nullable:
            write = steps.make_write_key(part.word, out, write)
        elif key.kind == KEY_INT:
            write = steps.make_write_narrow_key(part.word, out, write)
        else:
            write = steps.make_write_key_or_none(part.word, out, key.words - 1, 1 << part.bit, write)
    return write


def _compile_functions(plan: Plan, operator: Operator, layouts: tuple[Layout, ...], timing: Timing) -> Program:
    """Compile an operator whose functions the user wrote: one table per window, or per pane to merge."""
    check_functions(plan, operator)
    key, extracts = _compile_keys(plan, layouts)
    if operator.slide is not None and any(part.kind == TEXT for part in key.parts):
        raise not_compiled(plan.name, "a text as key beside slide", "instances that slide may outlive the key's text")
    views = tuple(
        compile_tuples(stream, layout, [(cast("Any", operator.update), 1)])
        for stream, layout in zip(plan.streams, layouts, strict=True)
    )
    functions, results = compile_functions(plan, operator, layouts, key, views)
    shape = make_shape(key.kind, key.words, functions.state_words, _ring(plan, timing), plan.group_count)
    return Program(
        plan,
        layouts,
        timing,
        shape,
        [0] * shape.entry_words,
        extracts,
        steps.step_nothing,
        _merge_of(functions) if functions.merge is not None else steps.merge_nothing,
        steps.write_nothing,
        results,
        has_panes=functions.merge is not None,
        is_single=_is_single(plan),
        functions=functions,
        key_type=key.type,
    )


def _compile_map(plan: Plan, operator: Map, layouts: tuple[Layout, ...], timing: Timing) -> Program:
    mapped, results = compile_map(plan, operator, layouts)
    shape = make_shape(KEY_INT, 1, 0, 1, plan.group_count)
    extracts = tuple(keys_of.make_extract_tuple(plan.group_count) for _ in plan.streams)
    nothing = steps.step_nothing, steps.merge_nothing, steps.write_nothing
    template = [0] * shape.entry_words
    return Program(plan, layouts, timing, shape, template, extracts, *nothing, results, has_panes=True, mapped=mapped)


def _merge_of(functions: Functions) -> Callable[..., None]:
    merge, make = functions.merge, functions.make

    @specialised
    def merge_entries(tables, at, other):  # type: ignore[no-untyped-def]
        merge(make(tables, at, 0, 0), make(tables, other, 0, 0))

    return merge_entries


def _words_of(how: Reduction, stream: Stream) -> list[int]:
    type_ = None if how.column is None else stream.schema[how.column]
    return steps.initial_words(how.kind, type_ is not None and type_.is_float, type_ == Type("string"))


def _compile_step(plan: Plan, how: Reduction, word: int, layout: Layout, is_float: bool, following: Any) -> Any:
    valid = None if how.column is None else layout.position(how.column, Form.VALID, np.uint8)
    if how.kind == "count":
        return steps.make_count(word, 0, valid, following)
    assert how.column is not None and valid is not None
    type_ = plan.streams[0].schema[how.column]
    if type_.name == "string":
        column = layout.position(how.column, Form.ID, np.int32)
        if how.kind in ("min", "max"):
            return steps.make_keep_extreme(how.kind == "min", word, 0, column, following)
    else:
        column = layout.position(how.column, Form.VALUE, dtype_of(type_))
    if how.kind == "mean" and not is_float:
        return steps.make_accumulate_wide(word, 0, column, valid, following)
    make = steps.make_keep if how.kind in ("first", "last") else steps.make_accumulate
    return make(how.kind, word, 0, column, valid, is_float, following)


def _result_columns(plan: Plan, key: Key, reductions: tuple[Reduction, ...]) -> tuple[tuple[Result, ...], list[int]]:
    """Return the result columns, and where the arrays of each begin."""
    results, outs, position = [], [], 0
    nullable = [part.is_nullable for part in key.parts] + [how.kind != "count" for how in reductions]
    for (name, type_), may_be_null in zip(plan.schema.columns, nullable, strict=True):
        results.append(Result(name, type_, may_be_null))
        outs.append(position)
        position += 2 if may_be_null else 1
    return tuple(results), outs


def _compile_keys(plan: Plan, layouts: tuple[Layout, ...]) -> tuple[Key, tuple[Callable[..., int], ...]]:
    keys, extracts = [], []
    for stream, layout in zip(plan.streams, layouts, strict=True):
        key, extract = _compile_stream_keys(plan, stream, layout)
        keys.append(key)
        extracts.append(extract)
    if len({(key.kind, key.type) for key in keys}) > 1:
        raise not_compiled(plan.name, "keys of different types", "all inputs have to give keys of the same type")
    return keys[0], tuple(extracts)


def _compile_stream_keys(plan: Plan, stream: Stream, layout: Layout) -> tuple[Key, Callable[..., int]]:
    operator = plan.operator
    assert isinstance(operator, Operator)
    source, groups, distinct = stream.index, plan.group_count, not operator.occurrences
    keys: Any = stream.keys
    if isinstance(keys, KeyFunction):
        made: Any = keys.function
        if isinstance(made, (words, hashtags)):
            form = Form.WORDS if isinstance(made, words) else Form.HASHTAGS
            column = layout.position(made.column, form, np.int32, distinct)
            return compile_key(TEXT, plan.name), keys_of.make_extract_ids(source, column, groups)
        if isinstance(made, pairs):
            column = layout.position(made.column, Form.WORDS, np.int32)
            extract = keys_of.make_extract_pairs(source, column, made.distance, groups, distinct)
            return compile_key(PAIR_OF_TEXTS, plan.name), extract
    elif not keys.names:
        return compile_key(NOTHING, plan.name), keys_of.make_extract_nothing(groups)
    elif len(keys.names) == 1:
        name = keys.names[0]
        found = _compile_key_column(source, name, stream.schema[name], layout, groups, distinct, plan.name)
        if found is not None:
            return found
    key, extract, _ = compile_extract(plan, stream, layout, distinct, operator.keys_are_groups)
    return key, extract


def _compile_key_column(
    source: int, name: str, type_: Type, layout: Layout, groups: int, distinct: bool, operator: str
) -> tuple[Key, Callable[..., int]] | None:
    """Return the layout of a key column's keys and their extraction; None where they take more than a word."""
    is_narrow, is_boolean = type_.name in ("boolean", "byte", "short", "int"), type_.name == "boolean"
    if type_.name == "string":
        if type_.is_list:
            column = layout.position(name, Form.IDS, np.int32, distinct)
            return compile_key(TEXT, operator), keys_of.make_extract_ids(source, column, groups)
        column = layout.position(name, Form.ID, np.int32)
        return compile_key(TEXT, operator), keys_of.make_extract_id(source, column, groups)
    if type_.is_list:
        column = layout.position(name, Form.KEYS if is_narrow else Form.VALUES, np.int64)
        extract = keys_of.make_extract_ints(source, column, groups, distinct, is_narrow)
        return narrow_key(is_boolean) if is_narrow else int_key(operator), extract
    if not is_narrow:
        return None
    column = layout.position(name, Form.VALUE, dtype_of(type_))
    valid = layout.position(name, Form.VALID, np.uint8)
    return narrow_key(is_boolean), keys_of.make_extract_int(source, column, valid, groups)
