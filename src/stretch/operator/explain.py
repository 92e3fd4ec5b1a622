"""What the compiled engine makes of an operator, as text: types, layouts, panes, and how long compiling took."""

from __future__ import annotations

from time import perf_counter
from typing import Any, Final

from stretch.operator.plan import AnyOperator, Plan, make_plan
from stretch.operator.program import Program, compile_plan
from stretch.operator.spec import Operator, as_inputs
from stretch.schema import Schema
from stretch.windows.layout import KEY_GROUP, KEY_ID, KEY_ID_PAIR, KEY_INT, KEY_INT_PAIR

KEY_FORMS: Final = {
    KEY_INT: "an int",
    KEY_ID: "a text, by its id",
    KEY_ID_PAIR: "a pair of texts, by their ids",
    KEY_INT_PAIR: "a pair of ints",
    KEY_GROUP: "an int that is its own group",
}


class Explanation(str):
    """Text that shows itself as it is read, also where Python shows values."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def explain_operator(operator: AnyOperator, inputs: Any, time: str, resolution: str | int | None) -> Explanation:
    """Compile the functions of an operator over these inputs, and say what came of it."""
    declared = [stream.schema for stream in (operator.inputs if inputs is None else as_inputs(inputs))]
    schemas = [schema if schema is not None else Schema(()) for schema in declared]
    plan = make_plan(operator, schemas, time, resolution)
    if isinstance(plan.operator, Operator) and plan.operator.pairing is not None:
        return Explanation(f"{plan.name}: a join; its rows stay in the shared log, and match is compiled at setup")
    begun = perf_counter()
    program = compile_plan(plan)
    seconds = perf_counter() - begun
    lines = [f"{plan.name}: functions compiled in {seconds:.2f} s (the loop around them: at setup)"]
    lines += [_input(plan, program, number) for number in range(len(plan.streams))]
    if isinstance(plan.operator, Operator):
        lines += _state(plan, plan.operator, program)
    lines.append(f"  rows:    {plan.schema}" + _nullable(program))
    return Explanation("\n".join(lines))


def _input(plan: Plan, program: Program, number: int) -> str:
    stream, columns = plan.streams[number], program.layouts[number].columns
    stored = [f"{column.name} as {column.form.value} ({column.dtype})" for column in columns]
    return f"  input {number}: {stream.time} {stream.time_type}; stored: {', '.join(stored) or 'nothing else'}"


def _state(plan: Plan, operator: Operator, program: Program) -> list[str]:
    shape, timing, boundaries = program.shape, program.timing, plan.boundaries
    assert boundaries is not None
    kept = "one table per window"
    if program.has_panes:
        kept = f"one table per pane of {timing.step}, which windows share"
    state = "ready-made" if operator.reductions is not None else str(operator.state or "none")
    return [
        f"  key:     {KEY_FORMS[shape.key_kind]}, in {shape.key_words} word(s)",
        f"  state:   {state}; an entry has {shape.entry_words} words ({8 * shape.entry_words} bytes)",
        f"  windows: size {boundaries.size}, advance {boundaries.advance}, kind {boundaries.kind!r}; {kept}",
        f"  groups:  {shape.groups} key groups, up to {shape.panes} live tables each",
    ]


def _nullable(program: Program) -> str:
    names = [result.name for result in program.results if result.nullable]
    return f"; may be null: {', '.join(names)}" if names else ""
