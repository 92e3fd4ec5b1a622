"""The plan: an operator bound to the columns of its inputs, which is what every engine runs.

Binding finds the user's mistakes: columns that do not exist, durations that do not fit the time column, mappings
that name no instance. A plan is plain data and functions; it runs nothing.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stretch.duration import duration, ticks_for
from stretch.errors import DefinitionError, ReconfigurationError, a_kind, outside
from stretch.operator.aggregate import Aggregate
from stretch.operator.join import Join
from stretch.operator.keys import bind_keys
from stretch.operator.spec import Map, Mapping, Operator
from stretch.schema import Schema, Type, plain
from stretch.windows.groups import hash_key
from stretch.windows.spec import Boundaries

AnyOperator = Operator | Aggregate | Join | Map

NOBODY = -1
"""Who has the key groups of other shards."""


@dataclass(frozen=True)
class Stream:
    """One input: the time column, the payload, how a tuple looks to functions, and its keys."""

    index: int
    time: str
    time_type: Type
    schema: Schema
    tuple_type: type
    keys: Callable[[Any], Iterable[Hashable]]

    def tuple_of(self, position: tuple[int, ...], values: Iterable[Any]) -> Any:
        """Build the tuple that functions see: `timestamp`, `input`, and the payload by column name."""
        t = self.tuple_type(position[0], *values)
        if self.tuple_type.__dictoffset__:
            t.__dict__["place"] = position
        return t


@dataclass(frozen=True)
class Plan:
    """What an engine needs to know. `boundaries` and `window` functions are None/unused for a `Map`."""

    operator: Operator | Map
    boundaries: Boundaries | None
    streams: tuple[Stream, ...]
    share: tuple[int, int] = (0, 1)
    """Which of how many shards it is: of so many key groups it has every so many-th; the others are nobody's."""

    @property
    def name(self) -> str:
        """The operator's name, for errors and metrics."""
        return self.operator.name

    @property
    def schema(self) -> Schema:
        """The payload of the results."""
        return self.operator.schema

    @property
    def reach(self) -> int:
        """How far after a tuple its last results can lie."""
        return 0 if self.boundaries is None else self.boundaries.size

    @property
    def group_count(self) -> int:
        """How many key groups there are."""
        return self.operator.groups

    def result_schema(self) -> Schema:
        """Return the columns of the results, the time column first."""
        first = self.streams[0]
        return Schema(((first.time, first.time_type), *self.schema.columns))

    def group_of(self, key: Any) -> int:
        """Return the key group that a key belongs to."""
        if isinstance(self.operator, Operator) and self.operator.keys_are_groups:
            return int(key)
        return hash_key(key) % self.group_count

    def mapping_for(self, instances: Sequence[int], mapping: Mapping | None = None) -> tuple[int, ...]:
        """Return the table group -> instance (Paper: f_mu) over these instances."""
        chosen = mapping if mapping is not None else self.operator.mapping
        table = self._table(chosen, instances)
        if len(table) != self.group_count:
            raise ReconfigurationError(
                f"{self.name}: the mapping has {len(table)} entries",
                why=f"there are {self.group_count} key groups, and each needs an instance",
                do="pass one instance per group, or a function mapping(group, parallelism)",
            )
        shard, shards = self.share
        table = [made if group % shards == shard else NOBODY for group, made in enumerate(table)]
        strangers = [made for made in table[shard::shards] if plain(made) not in instances]
        if strangers:
            raise ReconfigurationError(
                f"{self.name}: the mapping names instance {strangers[0]!r}",
                why=f"the instances are {', '.join(map(str, instances))}",
                do="map groups only to those, or ask for a higher parallelism",
            )
        return tuple(int(made) for made in table)

    def _table(self, mapping: Mapping | None, instances: Sequence[int]) -> list[Any]:
        """Return what a mapping says for each group, unchecked."""
        if mapping is None:
            return [instances[group // self.share[1] % len(instances)] for group in range(self.group_count)]
        if callable(mapping):
            try:
                return [mapping(group, len(instances)) for group in range(self.group_count)]
            except Exception as problem:
                raise ReconfigurationError(
                    f"{self.name}: mapping failed",
                    where=outside(problem),
                    why=f"{type(problem).__name__}: {problem}",
                    do="mend it; it is called as mapping(group, parallelism), once for each group",
                ) from problem
        if isinstance(mapping, Iterable) and not isinstance(mapping, (str, bytes)):
            return list(mapping)
        raise ReconfigurationError(
            f"{self.name}: mapping={mapping!r} is not a mapping",
            why=f"it is {a_kind(mapping)}",
            do="pass a list with an instance for each group, or a function mapping(group, parallelism)",
        )


def make_plan(
    operator: AnyOperator, schemas: Sequence[Schema], time: str = "ts", resolution: str | int | None = None
) -> Plan:
    """Bind an operator to the schemas of its inputs, each of which has the time column `time`."""
    check_operator(operator)
    if len(schemas) != len(operator.inputs):
        raise DefinitionError(
            f"{operator.name} got {len(schemas)} input(s)",
            why=f"it is declared with {len(operator.inputs)}",
            do="pass one schema per input",
        )
    time_types = [_time_type(schema, time, operator.name) for schema in schemas]
    if len({type_.is_timestamp for type_ in time_types}) > 1:
        raise DefinitionError(
            f"{operator.name}: the time column {time!r} is a timestamp in one input and a long in another",
            why="times of the inputs are compared with one another",
            do="cast one of them",
        )
    is_timestamp = time_types[0].is_timestamp
    payloads = [schema.payload(time) for schema in schemas]
    boundaries = None
    resolved: Operator | Map
    if isinstance(operator, Map):
        resolved = operator
    else:
        boundaries = operator.window.boundaries(is_timestamp, time, _step(resolution, is_timestamp, time))
        resolved = operator.resolve(payloads, boundaries)
    _check_results(resolved, time)
    streams = tuple(
        _bind_stream(resolved, index, time, time_types[index], payload) for index, payload in enumerate(payloads)
    )
    return Plan(resolved, boundaries, streams)


def check_operator(operator: Any) -> None:
    if not isinstance(operator, (Operator, Aggregate, Join, Map)):
        raise DefinitionError(
            f"{operator!r} is not an operator",
            why=f"it is {a_kind(operator)}",
            do="pass a stretch.Operator, Aggregate, Join or Map",
        )


def _step(resolution: str | int | None, is_timestamp: bool, time: str) -> int:
    """Return the smallest step of event time (Paper: delta)."""
    if resolution is None:
        return 1
    step = ticks_for(duration(resolution, "resolution"), is_timestamp, "resolution", time)
    if step < 1:
        raise DefinitionError(
            f"resolution={resolution!r} is not a step of event time",
            why="event time has to go on with each step",
            do="pass a positive resolution, or leave it out",
        )
    return step


def _check_results(operator: Operator | Map, time: str) -> None:
    names = [time, *operator.schema.names]
    twice = [name for place, name in enumerate(names) if name in names[:place]]
    if twice:
        raise DefinitionError(
            f"{operator.name}: the results would have two columns called {twice[0]!r}",
            why=f"their columns are {', '.join(names)}; the first is the time, which every result has",
            do="rename one of them, or leave it out",
        )


def _time_type(schema: Schema, time: str, operator: str) -> Type:
    if time not in schema:
        missing = schema.missing(time)
        raise DefinitionError(
            f"{operator}: the time column {time!r} {missing.predicate}",
            why=missing.why,
            do="cast the column to timestamp or long"
            if time in dict(schema.unsupported)
            else 'name the column with time="..."',
        )
    type_ = schema[time]
    if not (type_.is_timestamp or (type_.name in ("long", "int") and not type_.is_list)):
        raise DefinitionError(
            f"{operator}: the time column {time!r} is {type_}",
            why="event time is a timestamp, or a whole number of the column's own units",
            do="cast the column to timestamp or long",
        )
    return Type("long") if type_.is_integer else type_


def _bind_stream(operator: Operator | Map, index: int, time: str, time_type: Type, payload: Schema) -> Stream:
    if "timestamp" in payload:
        raise DefinitionError(
            f"{operator.name}: a column of the input is called 'timestamp' and is not the time column",
            why="t.timestamp is the event time of a tuple",
            do='rename the column, or pass time="timestamp"',
        )
    # Names that are no identifiers become unreachable for functions, which is all that they can be.
    base = namedtuple("tuple_", ["timestamp", *payload.names], rename=True)  # type: ignore[misc]
    body: dict[str, Any] = {"input": index}
    if isinstance(operator, Map) or operator.pairing is None:
        body["__slots__"] = ()
    if time != "timestamp":
        body[time] = property(lambda t: t.timestamp, doc="event time")
    if "input" in payload:
        del body["input"]

    def no_column(t: Any, name: str) -> Any:
        missing = payload.missing(name)
        raise AttributeError(f"the column {name!r} {missing.predicate}; {missing.why}")

    body["__getattr__"] = no_column
    tuple_type = type("Tuple", (base,), body)
    if isinstance(operator, Map):
        return Stream(index, time, time_type, payload, tuple_type, lambda t: ())
    keys = bind_keys(operator.keys_of(index), payload, operator.name)
    return Stream(index, time, time_type, payload, tuple_type, keys)
