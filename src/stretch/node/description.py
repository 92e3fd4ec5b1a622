"""What an operator's state depends on, in words, so that a log is only read by an operator that it fits.

A description is plain data. Two operators whose descriptions agree can go on with each other's state: functions of the
user may change (what they do from then on is the user's business), what they work on may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stretch.node.rows import Shape
from stretch.operator.keys import KeyColumns, KeyFunction, hashtags, pairs, words
from stretch.operator.plan import Plan, Stream
from stretch.operator.spec import Operator

Description = dict[str, Any]


def describe(plan: Plan, shapes: Sequence[Shape], entry: str) -> Description:
    """Describe what the state of a plan consists of; `entry` is how its entries are laid out."""
    operator = plan.operator
    assert isinstance(operator, Operator) and plan.boundaries is not None
    bounds = plan.boundaries
    state = operator.reductions if operator.reductions is not None else operator.state
    first = plan.streams[0]
    return {
        "the window": f"size {bounds.size}, advance {bounds.advance}, {bounds.kind}",
        "the type of event time": str(first.time_type),
        "the keys": [_keys(stream) for stream in plan.streams],
        "the form of an entry": entry,
        "the state": [f"{how.kind}({how.column or ''})" for how in state] if isinstance(state, tuple) else str(state),
        "the number of key groups": plan.group_count,
        "the share of the key groups": f"{plan.share[0]} of {plan.share[1]}",
        "occurrences": operator.occurrences,
        "the source column": shapes[0].source,
    }


def columns_of(shapes: Sequence[Shape]) -> list[dict[str, str]]:
    """Return the columns of each input that a log holds, with their types."""
    return [{name: str(shape.stream.schema[name]) for name in shape.kept} for shape in shapes]


def difference(then: Description, now: Description) -> str | None:
    """Say what differs between the operator that wrote a log and the one that reads it; None if nothing does."""
    for what in [*now, *(set(then) - set(now))]:
        if then.get(what) != now.get(what):
            return f"{what} was {then.get(what)}, and is {now.get(what)}"
    return None


def missing_columns(then: Sequence[dict[str, str]], now: Sequence[dict[str, str]]) -> str | None:
    """Say what the operator reads and the log does not hold; None if nothing."""
    for number, (stored, read) in enumerate(zip(then, now, strict=True)):
        for name, type_ in read.items():
            if stored.get(name) != type_:
                found = f"as {stored[name]}" if name in stored else f"not; it has {', '.join(stored) or 'none'}"
                return f"the operator reads column {name!r} of input {number} as {type_}, and the log holds it {found}"
    return None


def _keys(stream: Stream) -> str:
    keys = stream.keys
    if isinstance(keys, KeyColumns):
        return f"columns {list(keys.names)}"
    made_by = keys.function if isinstance(keys, KeyFunction) else None
    return repr(made_by) if isinstance(made_by, (words, pairs, hashtags)) else "a function"
