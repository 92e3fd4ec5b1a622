"""The program: a plan compiled for the engine that runs on threads.

It is made once per job, before anything starts: which columns are stored, how entries are laid out, and the compiled
pieces that workers call: `extract` (keys), `step` (update), `merge` (panes), `write` (rows).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from stretch.operator import extract as keys_of
from stretch.operator import steps
from stretch.operator.columns import Form, Layout, Result, dtype_of, not_compiled
from stretch.operator.compile import compile_keys, compile_output, compile_update, compile_view
from stretch.operator.fingerprint import fingerprint, names_used
from stretch.operator.keys import KeyColumns, KeyFunction, hashtags, pairs, words
from stretch.operator.plan import Plan, Stream
from stretch.operator.reduction import Reduction
from stretch.operator.spec import Operator
from stretch.schema import Type
from stretch.windows.layout import KEY_ID, KEY_ID_PAIR, KEY_INT, KEY_INT_PAIR, Shape, make_shape

# More live panes per key group than this would make the directory larger than the state.
PANES_MAX = 4096


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
    record: Any = np.int64  # the type of entries, where functions of the user see them
    output: Callable[..., Any] | None = None  # the user's; then `write` takes the rows that it yields
    has_panes: bool = False
    workers: dict[Any, Any] = field(default_factory=dict)  # the loops compiled from it, by the types of their station

    @property
    def entry_form(self) -> str:
        """How the entries of tables are laid out, in words."""
        return f"key {self.shape.key_kind}, {self.shape.entry_words} words"


class _Keys(NamedTuple):
    kind: int
    extracts: tuple[Callable[..., int], ...]


# Programs compiled in this process, latest last. An operator that is set up again runs at once.
_programs: dict[Hashable, Program] = {}
_programs_lock = threading.Lock()
PROGRAMS_MAX = 64


def compile_plan(plan: Plan) -> Program:
    """Compile a plan, or say what of it cannot be compiled."""
    operator = plan.operator
    if not isinstance(operator, Operator) or plan.boundaries is None:
        raise not_compiled(plan.name, "a Map", "the compiled engine runs windowed operators")
    timing = _timing(plan, has_panes=operator.reductions is not None)
    with _programs_lock:
        key = _key_of(plan, operator, timing)
        program = _programs.pop(key, None) or _compile(plan, operator, timing)
        _programs[key] = program
        while len(_programs) > PROGRAMS_MAX:
            del _programs[next(iter(_programs))]
    return replace(program, plan=plan, timing=timing)


def _compile(plan: Plan, operator: Operator, timing: Timing) -> Program:
    layouts = tuple(Layout() for _ in plan.streams)
    if operator.reductions is None:
        return _compile_functions(plan, operator, layouts, timing)
    return _compile_aggregate(plan, operator, layouts, _compile_keys(plan, layouts), timing)


def _key_of(plan: Plan, operator: Operator, timing: Timing) -> Hashable:
    """Return all that the compiled code depends on."""
    assert plan.boundaries is not None
    functions = None
    if operator.reductions is None:
        functions = tuple(map(fingerprint, (operator.update, operator.output, operator.slide)))
    streams = tuple((stream.time, stream.schema.columns, _key_of_keys(stream.keys)) for stream in plan.streams)
    panes = (_ring(timing), plan.boundaries.kind if operator.reductions is None else None)
    options = (operator.occurrences, operator.keys_are_groups, operator.state)
    return streams, operator.reductions, functions, plan.schema, plan.group_count, panes, options


def _key_of_keys(keys: Any) -> Hashable:
    return fingerprint(keys.function) if isinstance(keys, KeyFunction) else fingerprint(keys)


def _ring(timing: Timing) -> int:
    """Return how many directory records a group needs: one for each live pane, in a power of two."""
    return 1 << (timing.size // timing.step + 1).bit_length()


def _timing(plan: Plan, has_panes: bool) -> Timing:
    boundaries = plan.boundaries
    assert boundaries is not None
    step = gcd(boundaries.size, boundaries.advance) if has_panes else boundaries.advance
    if boundaries.size // step > PANES_MAX:
        raise not_compiled(
            plan.name,
            f"a window of {boundaries.size // step:,} steps",
            f"tables are kept for each step of a live window, and at most {PANES_MAX:,} of them",
        )
    return Timing(boundaries.size, boundaries.advance, step)


def _compile_aggregate(
    plan: Plan, operator: Operator, layouts: tuple[Layout, ...], keys: _Keys, timing: Timing
) -> Program:
    assert operator.reductions is not None
    key_words = 2 if keys.kind == KEY_INT_PAIR else 1
    key_parts = len(plan.schema) - len(operator.reductions)
    step, merge, write = steps.step_nothing, steps.merge_nothing, steps.write_nothing
    words_of = [_words_of(how, plan.streams[0]) for how in operator.reductions]
    starts = [key_words + sum(len(words) for words in words_of[:index]) for index in range(len(words_of))]
    results, outs = _result_columns(plan, key_parts, operator.reductions)
    for index in reversed(range(len(operator.reductions))):
        how, word, out = operator.reductions[index], starts[index], outs[key_parts + index]
        is_float = how.column is not None and plan.streams[0].schema[how.column].is_float
        step = _compile_step(plan, how, word, layouts[0], is_float, step)
        merge = steps.make_merge(how.kind, word, is_float, merge)
        write = steps.make_write(how.kind, word, out, is_float, write)
    if keys.kind == KEY_ID_PAIR:
        write = steps.make_write_id_pair(0, write)
    else:
        for part in reversed(range(key_parts)):
            write = steps.make_write_key(part, part, write)
    state = [word for words in words_of for word in words]
    shape = make_shape(keys.kind, len(state), _ring(timing), plan.group_count)
    template = ([0] * key_words + state + [0] * shape.entry_words)[: shape.entry_words]
    return Program(plan, layouts, timing, shape, template, keys.extracts, step, merge, write, results, has_panes=True)


def _compile_functions(plan: Plan, operator: Operator, layouts: tuple[Layout, ...], timing: Timing) -> Program:
    """Compile an operator whose functions the user wrote: state in records, one table per window."""
    update, output = _require_functions(plan, operator)
    stream, layout = plan.streams[0], layouts[0]
    made_by = stream.keys.function if isinstance(stream.keys, KeyFunction) else None
    is_plain = isinstance(made_by, (words, pairs, hashtags)) or made_by is None
    view = compile_view(stream, layout, names_used(None if is_plain else made_by, update))
    if is_plain:
        kind, extract = _compile_stream_keys(plan, stream, layout)
    else:
        assert made_by is not None
        keys = compile_keys(made_by, view, plan.name)
        kind = keys.kind
        parts = (view.build, keys.function, keys.to_words, plan.group_count)
        extract = (
            keys_of.make_extract_function(*parts, not operator.occurrences)
            if keys.is_generator
            else keys_of.make_extract_one(*parts)
        )
    assert operator.state is not None
    fields = [("key", *_KEY_FIELDS[kind]), *((name, dtype_of(type_)) for name, type_ in operator.state.columns)]
    packed: Any = np.dtype(fields, align=True)
    key_words = 2 if kind == KEY_INT_PAIR else 1
    state_words = -(-packed.itemsize // 8) - key_words
    shape = make_shape(kind, state_words, _ring(timing), plan.group_count)
    layout_of_record: Any = {
        "names": packed.names,
        "formats": [packed.fields[name][0] for name in packed.names],
        "offsets": [packed.fields[name][1] for name in packed.names],
        "itemsize": 8 * shape.entry_words,
    }
    record: Any = np.dtype(layout_of_record)
    sample = np.zeros(1, record)[0]
    step = steps.make_update(compile_update(update, sample, view, plan.name), view.build, shape.entry_words)
    compiled, is_tuple = compile_output(output, sample, [type_ for _, type_ in plan.schema.columns], plan.name)
    write = steps.write_no_value
    for position in reversed(range(len(plan.schema))):
        write = steps.make_write_value(position, is_tuple, write)
    results = tuple(Result(name, type_, False) for name, type_ in plan.schema.columns)
    template = [0] * shape.entry_words
    return Program(
        plan, layouts, timing, shape, template, (extract,), step, steps.merge_nothing, write, results, record, compiled
    )


# How functions see a key: an id is an int32, which tells text from numbers.
_KEY_FIELDS: dict[int, tuple[Any, ...]] = {
    KEY_INT: (np.int64,),
    KEY_ID: (np.int32,),
    KEY_ID_PAIR: (np.int32, (2,)),
    KEY_INT_PAIR: (np.int64, (2,)),
}


def _require_functions(plan: Plan, operator: Operator) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return update and output, or say what of the operator cannot be compiled."""
    if len(plan.streams) > 1:
        raise not_compiled(plan.name, "an operator with several inputs", "functions over one input are so far")
    if (plan.boundaries is not None and plan.boundaries.kind == "single") or operator.slide is not None:
        raise not_compiled(plan.name, "a sliding instance (kind='single')", "its tuples would have to be kept")
    if operator.state is None or operator.update is None or operator.output is None:
        raise not_compiled(plan.name, "an operator without state, update and output", "kept tuples are not yet")
    if operator.keys_are_groups:
        raise not_compiled(plan.name, "keys_are_groups", "keys are hashed")
    names = names_used(operator.update, operator.output) & {"left", "right", "tuples"}
    if names:
        raise not_compiled(plan.name, f"w.{min(names)}", "compiled functions see the key and the fields of the state")
    return operator.update, operator.output


def _words_of(how: Reduction, stream: Stream) -> list[int]:
    return steps.initial_words(how.kind, how.column is not None and stream.schema[how.column].is_float)


def _compile_step(plan: Plan, how: Reduction, word: int, layout: Layout, is_float: bool, following: Any) -> Any:
    valid = None if how.column is None else layout.position(how.column, Form.VALID, np.uint8)
    if how.kind == "count":
        return steps.make_count(word, 0, valid, following)
    assert how.column is not None and valid is not None
    type_ = plan.streams[0].schema[how.column]
    if type_.name == "string":
        if how.kind in ("min", "max"):
            raise not_compiled(plan.name, f"{how.kind} of text", "texts are compared as ids, which have no order")
        column = layout.position(how.column, Form.ID, np.int32)
    else:
        column = layout.position(how.column, Form.VALUE, dtype_of(type_))
    make = steps.make_keep if how.kind in ("first", "last") else steps.make_accumulate
    return make(how.kind, word, 0, column, valid, is_float, following)


def _result_columns(
    plan: Plan, key_parts: int, reductions: tuple[Reduction, ...]
) -> tuple[tuple[Result, ...], list[int]]:
    """Return the result columns, and where the arrays of each begin."""
    results, outs, position = [], [], 0
    for index, (name, type_) in enumerate(plan.schema.columns):
        nullable = index >= key_parts and reductions[index - key_parts].kind != "count"
        results.append(Result(name, type_, nullable))
        outs.append(position)
        position += 2 if nullable else 1
    return tuple(results), outs


def _compile_keys(plan: Plan, layouts: tuple[Layout, ...]) -> _Keys:
    kinds, extracts = [], []
    for stream, layout in zip(plan.streams, layouts, strict=True):
        kind, extract = _compile_stream_keys(plan, stream, layout)
        kinds.append(kind)
        extracts.append(extract)
    if len(set(kinds)) > 1:
        raise not_compiled(plan.name, "keys of different types", "all inputs have to give keys of the same type")
    return _Keys(kinds[0], tuple(extracts))


def _compile_stream_keys(plan: Plan, stream: Stream, layout: Layout) -> tuple[int, Callable[..., int]]:
    operator = plan.operator
    assert isinstance(operator, Operator)
    source, groups, distinct = stream.index, plan.group_count, not operator.occurrences
    keys = stream.keys
    if isinstance(keys, KeyFunction):
        made = keys.function
        if isinstance(made, (words, hashtags)):
            form = Form.WORDS if isinstance(made, words) else Form.HASHTAGS
            column = layout.position(made.column, form, np.int32, distinct)
            return KEY_ID, keys_of.make_extract_ids(source, column, groups)
        if isinstance(made, pairs):
            column = layout.position(made.column, Form.WORDS, np.int32)
            return KEY_ID_PAIR, keys_of.make_extract_pairs(source, column, made.distance, groups, distinct)
        raise not_compiled(plan.name, "a function as the keys of an Aggregate", "its result has no name and type")
    assert isinstance(keys, KeyColumns)
    types = [stream.schema[name] for name in keys.names]
    if not types:
        return KEY_INT, keys_of.make_extract_nothing(groups)
    if len(types) > 1:
        raise not_compiled(plan.name, f"the composite key {list(keys.names)}", "only single key columns are so far")
    return _compile_key_column(source, keys.names[0], types[0], layout, groups, distinct)


def _compile_key_column(
    source: int, name: str, type_: Type, layout: Layout, groups: int, distinct: bool
) -> tuple[int, Callable[..., int]]:
    if type_.name == "string":
        if type_.is_list:
            column = layout.position(name, Form.IDS, np.int32, distinct)
            return KEY_ID, keys_of.make_extract_ids(source, column, groups)
        return KEY_ID, keys_of.make_extract_id(source, layout.position(name, Form.ID, np.int32), groups)
    if type_.is_list:
        column = layout.position(name, Form.VALUES, dtype_of(type_))
        return KEY_INT, keys_of.make_extract_ints(source, column, groups, distinct)
    return KEY_INT, keys_of.make_extract_int(source, layout.position(name, Form.VALUE, dtype_of(type_)), groups)
