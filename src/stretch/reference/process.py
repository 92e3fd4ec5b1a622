"""What one instance does with one tuple: expire windows, then update them (Paper: Algorithm "processSN").

The SN and VSN engines share this code; they differ in which store it works on, which groups an instance owns, and
what happens before it (queues, control tuples, the epoch switch).

Results leave in the order `(right boundary, key group, index)`. An instance that has processed watermark W makes no
further result at or before W, so that results are watermarks for what comes after (Paper: Lemma "deliveringoutputs").
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stretch.buffer.api import Entry, EntryKind, Position
from stretch.errors import FunctionError, StretchError, a_kind, outside
from stretch.operator.keys import as_key
from stretch.operator.plan import Plan
from stretch.operator.spec import InnerError, Map, Operator, Placed, keep, purge, store
from stretch.reference.scheduler import Steps, Turn
from stretch.reference.store import WindowSet, WindowStore
from stretch.schema import whole_number
from stretch.windows.groups import hash_key
from stretch.windows.spec import Boundaries

NO_ROWS = (str, bytes, dict, set, frozenset)
"""What can be gone through, and yet is not rows in an order."""

Owns = Callable[[int], bool]
Emit = Callable[[Entry], None]


@dataclass
class Counts:
    """What the instances of an operator did."""

    tuples_with_keys: int = 0
    tuples_handled: int = 0  # once for every instance that owns a key of the tuple
    results: int = 0

    @property
    def duplicates_avoided(self) -> int:
        """Copies that shared-nothing parallelism makes and sharing does not."""
        return self.tuples_handled - self.tuples_with_keys


class Processor:
    """The processing of one instance over a store, for the groups that it owns at the moment."""

    def __init__(self, plan: Plan, windows: WindowStore, counts: Counts, emit: Emit) -> None:
        self.plan = plan
        self.windows = windows
        self.counts = counts
        self._emit = emit
        self._last: tuple[int, int, int] = (0, -1, -1)  # timestamp, group and index of the last result
        self._placed: list[Placed] = []  # rows of the windows that expire now, which say themselves where they stand

    def process(self, entry: Entry, owns: Owns) -> Steps:
        """Handle a tuple or watermark: first what it lets expire, then the tuple itself."""
        if isinstance(self.plan.operator, Map):
            if entry.kind is EntryKind.DATA:
                self._map(entry, self.plan.operator, owns)
            return
        yield from self.expire(entry.timestamp, owns)
        if entry.kind is EntryKind.DATA:
            yield from self.handle_input_tuple(entry, owns)

    def progress(self, entry: Entry) -> Position:
        """Return the bound of this instance's results once `entry` is processed."""
        if isinstance(self.plan.operator, Map):
            return entry.position
        return (entry.timestamp + 1,)

    def expire(self, watermark: int, owns: Owns) -> Steps:
        """Report and slide or remove all owned windows that end at or before the watermark."""
        boundaries = self._boundaries
        while (left := self.windows.earliest_left(owns)) is not None and boundaries.is_expired(left, watermark):
            for windows in self.windows.at(left, owns):
                self.forward_and_shift(windows, watermark)
                yield Turn.RAN
            self._forward_placed(boundaries.right(left))

    def forward_and_shift(self, windows: WindowSet, watermark: int) -> None:
        """Report a set of instances and slide or remove it (Paper: forwardAndShift)."""
        operator = self._operator
        right = self._boundaries.right(windows.left)
        rows = windows.held
        windows.held = []
        if operator.output is not None:
            for made in self._call(operator.output, "output", windows.key, right, windows.view):
                rows.append(self._made(made, "output", windows.key, right))
        for row in rows:
            if isinstance(row, Placed):
                self._placed.append(row)
            else:
                self._result(right, windows.group, row)
        if self._boundaries.kind == "multi" or not self._slide(windows, watermark):
            self.windows.remove(windows)

    def handle_input_tuple(self, entry: Entry, owns: Owns) -> Steps:
        """Update the instances that the tuple falls into (Paper: handleInputTuple)."""
        stream = self.plan.streams[entry.input]
        t = stream.tuple_of(entry.position, entry.payload)
        keys = self._owned_keys(entry.input, t, owns)
        boundaries = self._boundaries
        left = boundaries.earliest_left(entry.timestamp)
        latest = left if boundaries.kind == "single" else boundaries.latest_left(entry.timestamp)
        while keys and left <= latest:
            for key in keys:
                self._update(self.windows.check_and_create(key, left), t)
                yield Turn.RAN
            left += boundaries.advance

    def keys_of(self, index: int, t: Any) -> Iterable[Hashable]:
        """Return the keys of a tuple: each once, or as often as it occurs (Paper: f_MK gives a set)."""
        stream = self.plan.streams[index]
        with _blame("keys", None, t.timestamp, self.plan.operator):
            keys = [as_key(key) for key in stream.keys(t)]
            for key in keys:
                if self._operator.keys_are_groups:
                    _check_group(key, self.plan)
                else:
                    hash_key(key)  # says so if this cannot be a key
        return keys if self._operator.occurrences else dict.fromkeys(keys)

    def _owned_keys(self, index: int, t: Any, owns: Owns) -> list[Hashable]:
        """Return the keys of a tuple that this instance owns, and count."""
        keys = list(self.keys_of(index, t))
        owned = [owns(self.plan.group_of(key)) for key in keys]
        self.counts.tuples_handled += any(owned)
        self.counts.tuples_with_keys += bool(owned) and owned[0]
        return [key for key, is_owned in zip(keys, owned, strict=True) if is_owned]

    @property
    def _operator(self) -> Operator:
        assert isinstance(self.plan.operator, Operator)
        return self.plan.operator

    @property
    def _boundaries(self) -> Boundaries:
        assert self.plan.boundaries is not None
        return self.plan.boundaries

    def _update(self, windows: WindowSet, t: Any) -> None:
        update = self._operator.update
        if update is None:
            store(windows.instances[t.input if len(windows.instances) > 1 else 0], t)
            return
        for row in self._call(update, "update", windows.key, t.timestamp, windows.view, t):
            windows.held.append(self._made(row, self._operator.makes_rows, windows.key, t.timestamp))

    def _slide(self, windows: WindowSet, watermark: int) -> bool:
        """Advance a set by one step; False if nothing is left in it (Paper: f_S and shift).

        Where nobody looks at the steps between (no output, no slide of one's own), it goes to the first that is not
        expired.
        """
        operator, boundaries = self._operator, self._boundaries
        is_plain = operator.slide is None or operator.slide is purge
        left = windows.left + boundaries.advance
        if operator.output is None and (is_plain or operator.slide is keep):
            left = max(left, boundaries.earliest_left(watermark))
        elif operator.next_left is not None:
            following = operator.next_left(windows.view, left)
            open_left = boundaries.earliest_left(watermark)
            left = max(left, open_left if following is None else min(following, open_left))
        self.windows.shift(windows, left)
        if is_plain:
            for instance in windows.instances:
                purge(instance)
        elif operator.slide is not None:
            list(self._call(operator.slide, "slide", windows.key, left, windows.view))
        return not windows.is_empty()

    def _map(self, entry: Entry, operator: Map, owns: Owns) -> None:
        if not owns(hash_key(entry.position) % self.plan.group_count):
            return
        t = self.plan.streams[entry.input].tuple_of(entry.position, entry.payload)
        rows = self._call(operator.function, "function", None, entry.timestamp, t)
        for index, row in enumerate(rows):
            payload = self._row(row, "function", None, entry.timestamp)
            self.counts.results += 1
            self._emit(Entry((*entry.position, index), EntryKind.DATA, payload))

    def _result(self, timestamp: int, group: int, row: tuple[Any, ...]) -> None:
        last_timestamp, last_group, index = self._last
        index = index + 1 if (timestamp, group) == (last_timestamp, last_group) else 0
        self._last = (timestamp, group, index)
        self.counts.results += 1
        self._emit(Entry((timestamp, group, index), EntryKind.DATA, row))

    def _forward_placed(self, timestamp: int) -> None:
        """Forward the rows that say where they stand, in that order."""
        for place, row in sorted(self._placed, key=lambda placed: placed.place):
            self.counts.results += 1
            self._emit(Entry((timestamp, *place), EntryKind.DATA, row))
        self._placed = []

    def _made(self, made: Any, role: str, key: Any, timestamp: int) -> tuple[Any, ...]:
        """Check a row that a function made, which may say where it stands."""
        if isinstance(made, Placed):
            return Placed(made.place, self._row(made.row, role, key, timestamp))
        return self._row(made, role, key, timestamp)

    def _call(self, function: Callable[..., Any], role: str, key: Any, timestamp: int, *args: Any) -> Iterator[Any]:
        """Call a function of the user and go through the rows that it yields or returns; a tuple is one row."""
        with _blame(role, key, timestamp, self.plan.operator):
            made = function(*args)
            if made is None:
                return iter(())
            if isinstance(made, tuple):
                return iter((made,))
            if isinstance(made, Iterable) and not isinstance(made, NO_ROWS):
                return iter(list(made))
            raise FunctionError(
                f"{self.plan.name}: {role} returned {made!r}",
                why=f"{a_kind(made)} is neither a row, which is a tuple, nor a list or generator of rows",
                do="yield rows, each a tuple with one value per column of the schema",
            )

    def _row(self, made: Any, role: str, key: Any, timestamp: int) -> tuple[Any, ...]:
        """Check a row against the schema and return it as the schema's types hold it."""
        schema = self.plan.schema
        row = made if isinstance(made, tuple) else (made,)
        where = _where(role, key, timestamp, self.plan.operator)
        if len(row) != len(schema):
            raise FunctionError(
                f"{self.plan.name}: {role} yielded {len(row)} value(s)",
                where=where,
                why=f"the schema has {len(schema)} column(s): {schema}",
                do=f"make {role} yield a tuple with one value per column, or correct the schema",
            )
        try:
            return tuple(type_.coerce(value) for (_, type_), value in zip(schema.columns, row, strict=True))
        except TypeError as problem:
            raise FunctionError(
                f"{self.plan.name}: {role} yielded {row!r}",
                where=where,
                why=f"the schema is {schema}, and {problem}",
                do=f"make {role} yield values of those types, or correct the schema",
            ) from problem


def _check_group(key: Any, plan: Plan) -> None:
    group = whole_number(key)
    if group is not None and 0 <= group < plan.group_count:
        return
    raise FunctionError(
        f"{plan.name}: keys returned {key!r}",
        why=f"with keys_are_groups the keys are the ints from 0 to {plan.group_count - 1}",
        do="return such ints, pass a larger groups=..., or leave keys_are_groups out",
    )


def _where(role: str, key: Any, timestamp: int, operator: Operator | Map) -> str:
    is_block = isinstance(operator, Operator) and operator.keys_are_groups and operator.makes_rows == "output"
    # A join without keys has blocks instead; without keys there is one, ().
    of_key = "" if key in (None, ()) or is_block else f" for key {key!r}"
    return f"{role}{of_key} at timestamp {timestamp}"


@contextmanager
def _blame(role: str, key: Any, timestamp: int, operator: Operator | Map) -> Generator[None, None, None]:
    """Turn what a function of the user raises into an error that names function, key and timestamp."""
    problem: BaseException
    try:
        yield
        return
    except FunctionError as error:
        if error.where is None:
            error.locate(_where(role, key, timestamp, operator))
        raise
    except StretchError:
        raise
    except InnerError as inner:
        assert inner.__cause__ is not None
        role, problem = inner.role, inner.__cause__
    except Exception as error:
        problem = error
    raise FunctionError(
        f"{operator.name}: {role} failed",
        where=f"{_where(role, key, timestamp, operator)}, {outside(problem)}",
        why=f"{type(problem).__name__}: {problem}",
        do=f"mend {role}; it can be called and stepped through on its own, as a plain Python function",
    ) from problem
