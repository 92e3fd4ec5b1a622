"""The generalised operator as a user declares it (Paper: O+, with WA, WS, I, f_MK, WT, S, f_mu, f_U, f_O and f_S)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from stretch.errors import DefinitionError, a_kind
from stretch.operator.frames import OnFrames
from stretch.operator.keys import KeySpec, checked_keys
from stretch.operator.reduction import Reduction
from stretch.schema import Schema, parse_schema, whole_number, zero_of
from stretch.windows.groups import GROUP_COUNT
from stretch.windows.spec import Boundaries, Window

Mapping = Sequence[int] | Callable[[int, int], int]
"""Group -> instance (Paper: f_mu): a table, or a function of (group, parallelism)."""


@dataclass(frozen=True)
class Input:
    """One logical input stream: its columns, and its keys where they differ from the operator's."""

    schema: Schema | None
    keys: KeySpec = None
    has_own_keys: bool = False


def input(schema: str | Schema | None = None, keys: Any = ...) -> Input:
    """Declare an input, for example `st.input("x int, y float", keys="x")`."""
    parsed = None if schema is None else parse_schema(schema, "the input's schema")
    return Input(parsed, None if keys is ... else keys, keys is not ...)


def as_inputs(inputs: Any) -> tuple[Input, ...]:
    """Read `inputs=`: a number, a schema, an `Input`, or a list of those."""
    if isinstance(inputs, int) and not isinstance(inputs, bool) and inputs >= 1:
        return (Input(None),) * inputs
    if isinstance(inputs, (str, Schema)):
        return (input(inputs),)
    if isinstance(inputs, Input):
        return (inputs,)
    if isinstance(inputs, Sequence) and inputs and all(isinstance(item, (str, Schema, Input)) for item in inputs):
        return tuple(item if isinstance(item, Input) else input(item) for item in inputs)
    raise DefinitionError(
        f"inputs={inputs!r} does not declare inputs",
        why="it is neither a number, a schema, nor a list of schemas",
        do='pass for example inputs=2, inputs="user string, text string", or a list of such schemas',
    )


class Operator(OnFrames):
    """A windowed stateful operator over any number of keys per tuple (Paper: O+).

    With one input, functions get the window instance `w`; with several, the tuple of one instance per input, and
    `t.input` tells which one a tuple came from.

    - `keys`: see `stretch.operator.keys`. A key twice in one tuple counts once, unless `occurrences=True`.
    - `state`: fields of a window instance, all starting at zero: `"count long, total double"`.
    - `update(w, t)`: a tuple fell into `w`; default: keep it in `w.tuples`. May yield rows.
    - `output(w)`: `w` has expired; default: nothing. May yield rows. A row is a tuple; functions yield rows, or
      return one row, a list of rows or None.
    - `slide(w)`: `w` (kind "single") has moved; default: drop the tuples that it left behind.
    - `schema`: the columns of the rows, as Spark DDL, without the time. That is the window's right boundary.
    - `mapping`: which instance has which key group; default: round robin.
    - `groups`: how many key groups; with `keys_are_groups` the keys are ints and their own groups.

    A window instance has `key`, `left`, `right`, `tuples` and the fields of `state`.
    """

    def __init__(
        self,
        *,
        window: Window,
        schema: str | Schema,
        keys: KeySpec = None,
        inputs: Any = 1,
        state: str | Schema | None = None,
        update: Callable[..., Any] | None = None,
        output: Callable[..., Any] | None = None,
        slide: Callable[..., Any] | None = None,
        mapping: Mapping | None = None,
        groups: int = GROUP_COUNT,
        keys_are_groups: bool = False,
        occurrences: bool = False,
        name: str | None = None,
    ) -> None:
        self.name = checked_name(name, type(self).__name__)
        self.window = checked_window(window, self.name)
        self.inputs = as_inputs(inputs)
        self.keys = keys
        self.state = _parse_state(state, self.name)
        self.update = checked(update, "update(w, t)", 2, self.name)
        self.output = checked(output, "output(w)", 1, self.name)
        self.slide = checked(slide, "slide(w)", 1, self.name)
        self.schema = parse_schema(schema, f"{self.name}: the schema")
        self.mapping = mapping
        self.groups = checked_groups(groups, self.name)
        self.keys_are_groups = keys_are_groups
        self.occurrences = occurrences
        self.reductions: tuple[Reduction, ...] | None = None  # set where the functions are ready-made ones
        self.pairing: Any = None  # set where the functions are those of a join
        self.next_left: Callable[[Any, int], int | None] | None = None  # the next window to report, if not every one
        self.makes_rows = "update"  # which function of the user made the rows that update yields, for errors
        self._check_functions()

    def resolve(self, schemas: Sequence[Schema], boundaries: Boundaries) -> Operator:
        """Return the operator that runs on these inputs; ready-made operators fill in their functions here."""
        del schemas, boundaries
        return self

    def keys_of(self, index: int) -> KeySpec:
        """Return where input `index` gets its keys from."""
        stream = self.inputs[index]
        return stream.keys if stream.has_own_keys else self.keys

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.inputs)} input(s) -> {self.schema}>"

    def _check_functions(self) -> None:
        for index in range(len(self.inputs)):
            keys = checked_keys(self.keys_of(index), self.name)
            if callable(keys):
                checked(keys, "keys(t)", 1, self.name)
        if self.window.kind == "single" and self.state and self.update and not self.slide:
            raise DefinitionError(
                f"{self.name}: the state ({self.state}) of a sliding instance is never taken back",
                why="kind='single' keeps one instance per key that slides, and there is no slide function",
                do="pass slide=..., or kind='multi' in the window, or leave update out and use w.tuples",
            )
        if not (self.update or self.output or self.slide):
            raise DefinitionError(
                f"{self.name} has no function of its own",
                why="the defaults keep all tuples of a window and report nothing",
                do="pass update=, output= or slide= (most operators need update and output)",
            )


def store(w: Any, t: Any) -> None:
    """Keep the tuple in the window instance of its input: the default `update`."""
    w.tuples.append(t)


def purge(w: Any) -> None:
    """Drop the tuples that the window has left behind: the default `slide`."""
    w.tuples[:] = [t for t in w.tuples if t.timestamp >= w.left]


def keep(w: Any) -> None:
    """Drop nothing: the `slide` of functions that drop tuples themselves."""


class Placed(NamedTuple):
    """A row that says where it stands among the rows of its time, whichever instance makes it."""

    place: tuple[int, ...]
    row: Any


def place_of(t: Any) -> tuple[int, ...]:
    """Return the position of a tuple in the total order; the tuples of joins know it."""
    place: tuple[int, ...] = t.__dict__["place"]
    return place


class InnerError(Exception):
    """A function of the user failed that another function, one of ours, had called; the cause says how."""

    def __init__(self, role: str) -> None:
        super().__init__(role)
        self.role = role


def named(role: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` such that an error of its own is told from one of its caller."""

    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as problem:
            raise InnerError(role) from problem

    return call


class Map(OnFrames):
    """A stateless operator: `function(t)` yields any number of rows, each with the tuple's timestamp (Paper: M)."""

    def __init__(
        self, function: Callable[[Any], Any], *, schema: str | Schema, inputs: Any = 1, name: str | None = None
    ) -> None:
        self.name = checked_name(name, "Map")
        given = checked(function, "function(t)", 1, self.name)
        if given is None:
            raise DefinitionError(
                f"{self.name} has no function", why="None was passed", do="pass a function that yields rows"
            )
        self.function = given
        self.schema = parse_schema(schema, f"{self.name}: the schema")
        self.inputs = as_inputs(inputs)
        self.groups = GROUP_COUNT
        self.mapping: Mapping | None = None

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.inputs)} input(s) -> {self.schema}>"


def where_of(function: Callable[..., Any] | None) -> str | None:
    """Return `name (file:line)` of a function, for error texts."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    return f"{getattr(function, '__name__', '?')} ({code.co_filename}:{code.co_firstlineno})"


def checked(function: Callable[..., Any] | None, form: str, arity: int, operator: str) -> Callable[..., Any] | None:
    """Check that a user's function can be called as `form` says, before anything runs."""
    if function is None:
        return None
    if not callable(function):
        raise DefinitionError(
            f"{operator}: {form.split('(')[0]}={function!r} is not a function",
            why=f"it is {a_kind(function)}",
            do=f"pass a function of the form {form}",
        )
    try:
        inspect.signature(function).bind(*[None] * arity)
    except TypeError as problem:
        raise DefinitionError(
            f"{operator}: {form.split('(')[0]} cannot be called as {form}",
            where=where_of(function),
            why=str(problem),
            do=f"give it the form {form}",
        ) from None
    except ValueError:  # builtins without a signature
        pass
    return function


def checked_name(name: Any, otherwise: str) -> str:
    if name is None or isinstance(name, str):
        return name or otherwise
    raise DefinitionError(
        f"{otherwise}: name={name!r} is not a name",
        why=f"it is {a_kind(name)}, and name= is what errors call the operator",
        do="pass text, or leave it out",
    )


def checked_window(window: Any, operator: str) -> Window:
    if isinstance(window, Window):
        return window
    raise DefinitionError(
        f"{operator}: window={window!r} is not a window",
        why=f"it is {a_kind(window)}",
        do='pass st.sliding("1 hour", "30 minutes") or st.tumbling("1 hour")',
    )


def checked_groups(groups: Any, operator: str) -> int:
    count = whole_number(groups)
    if count is not None and 1 <= count <= 1 << 16:
        return count
    raise DefinitionError(
        f"{operator}: groups={groups!r} is not a possible number of key groups",
        why="groups are dealt to instances, in tables of up to 65,536 entries",
        do=f"pass a number from 1 to 65,536, or leave it out ({GROUP_COUNT})",
    )


def _parse_state(state: str | Schema | None, operator: str) -> Schema | None:
    if state is None:
        return None
    schema = parse_schema(state, f"{operator}: the state")
    for name, type_ in schema.columns:
        try:
            zero_of(type_)
        except TypeError:
            raise DefinitionError(
                f"{operator}: the state field {name!r} is {type_}",
                why="state fields have a fixed size and start at zero",
                do="use boolean, byte, short, int, long, float, double or timestamp; text is kept by w.tuples",
            ) from None
        if name in ("key", "left", "right", "tuples", "held"):
            raise DefinitionError(
                f"{operator}: a state field cannot be called {name!r}",
                why=f"w.{name} already means something else",
                do="choose another name",
            )
    return schema
