"""Schemas as Spark DDL strings, and their columns in Arrow and in Python. A leaf: anyone may import it.

Functions of the user see plain values: ints, floats, bools, text, lists of them, None where a column is null.
A timestamp is an int, the microseconds since 1970 in UTC, so that every engine computes with it alike.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stretch.errors import DefinitionError, InputError, a_kind

_SCALARS: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_ALIASES = {
    "bool": "boolean",
    "tinyint": "byte",
    "smallint": "short",
    "integer": "int",
    "bigint": "long",
    "real": "float",
}
_SUPPORTED = ", ".join(_SCALARS) + ", and array<...> of them"
_QUOTED = r"`[^`]*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""  # in these, commas and brackets mean nothing
_COLUMN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>[^\s`:]+))\s*(?::|\s)\s*(?P<type>[^`'\"]+?)"
    rf"(\s+not\s+null)?(\s+comment\s*({_QUOTED}))?\s*",
    re.IGNORECASE | re.DOTALL,
)
_INT_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}


@dataclass(frozen=True)
class Type:
    """The type of a column: a scalar, or a list of scalars."""

    name: str
    is_list: bool = False

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type that holds it."""
        scalar = _SCALARS[self.name]
        return pa.list_(scalar) if self.is_list else scalar

    @property
    def is_integer(self) -> bool:
        """Tell whether values are whole numbers (timestamps are not meant to be added up)."""
        return self.name in _INT_BITS and not self.is_list

    @property
    def is_float(self) -> bool:
        """Tell whether values are floating point numbers."""
        return self.name in ("float", "double") and not self.is_list

    @property
    def is_timestamp(self) -> bool:
        """Tell whether values are points in time."""
        return self.name.startswith("timestamp") and not self.is_list

    def __str__(self) -> str:
        return f"array<{self.name}>" if self.is_list else self.name

    def coerce(self, value: Any) -> Any:
        """Return `value` as a column or state field of this type holds it; raise TypeError if it cannot."""
        if value is None:
            return None
        if self.is_list:
            if not isinstance(value, (list, tuple, np.ndarray)):
                raise TypeError(f"{value!r} is not a list")
            return [Type(self.name).coerce(item) for item in value]
        value = plain(value)
        if self.name == "boolean" and isinstance(value, bool):
            return value
        if self.name == "string" and isinstance(value, str):
            return value
        if self.is_timestamp and isinstance(value, int) and not isinstance(value, bool):
            return value
        if self.is_float and isinstance(value, (int, float)):
            return pa.scalar(float(value), pa.float32()).as_py() if self.name == "float" else float(value)
        if self.is_integer and isinstance(value, int):
            bits = _INT_BITS[self.name]  # wraps as machine integers do, the same in every engine
            return (int(value) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        raise TypeError(f"{value!r} is {a_kind(value)}, not {'an' if self.name == 'int' else 'a'} {self}")


def plain(value: Any) -> Any:
    """Return a scalar of NumPy, or of whatever else stands for a whole number, as Python's own; others as they are."""
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.str_):
        return str(value)
    if isinstance(value, (int, np.ndarray)) or not hasattr(value, "__index__"):
        return value
    return operator.index(value)


def whole_number(value: Any) -> int | None:
    """Return a whole number of any type as an int; None if it is something else, or a truth value."""
    number = plain(value)
    return int(number) if isinstance(number, int) and not isinstance(number, bool) else None


def zero_of(type_: Type) -> Any:
    """Return the value that a state field of this type starts with."""
    if type_.name == "string" or type_.is_list:
        raise TypeError(f"a state field cannot be {type_}")
    return {"boolean": False, "float": 0.0, "double": 0.0}.get(type_.name, 0)


class Missing(NamedTuple):
    """Why a schema does not have a column, in the words of an error: "the column `predicate`"."""

    predicate: str
    why: str
    do: str


@dataclass(frozen=True)
class Schema:
    """Named and typed columns, in order; and, for errors, the columns that there were and that it does not have."""

    columns: tuple[tuple[str, Type], ...]
    unsupported: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    time: str | None = field(default=None, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.columns)

    def __getitem__(self, name: str) -> Type:
        return dict(self.columns)[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __len__(self) -> int:
        return len(self.columns)

    def __str__(self) -> str:
        return ", ".join(f"{name} {type_}" for name, type_ in self.columns)

    def payload(self, time: str) -> Schema:
        """Return the schema without its time column."""
        return Schema(tuple(column for column in self.columns if column[0] != time), self.unsupported, time)

    def missing(self, name: str) -> Missing:
        """Explain why there is no column of this name."""
        found = dict(self.unsupported).get(name)
        if found is not None:
            return Missing(f"is {found}", "that type is not supported", f"cast the column to one of {_SUPPORTED}")
        if name == self.time:
            why = "results have it already, as the right boundary of their window; functions read it as t.timestamp"
            return Missing("is the time column", why, "name another column, or add a copy of it under another name")
        why = f"the input's columns are {', '.join(self.names) or 'none'}"
        return Missing("does not exist", why, "name one of them, or add the column to the input first")

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema."""
        return pa.schema([(name, type_.arrow) for name, type_ in self.columns])


def parse_schema(ddl: str | Schema, what: str = "the schema") -> Schema:
    """Read a Spark DDL string such as "user string, hashtags array<string>, chars int"."""
    if isinstance(ddl, Schema):
        return ddl
    if not isinstance(ddl, str) or not ddl.strip():
        raise DefinitionError(
            f"{what} {ddl!r} is not a Spark DDL string",
            why="it names no column",
            do='write for example "user string, hashtags array<string>, chars int"',
        )
    columns = [_parse_column(part, ddl, what) for part in _parts(ddl)]
    names = [name for name, _ in columns]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DefinitionError(
            f"{what} {ddl!r} names the column {twice[0]!r} twice",
            why="functions reach columns by name",
            do="give every column a name of its own",
        )
    return Schema(tuple(columns))


def _parts(ddl: str) -> list[str]:
    """Split at the commas that stand between columns, not at those within a type, a name or a comment."""
    parts, depth = [""], 0
    for token in re.findall(rf"{_QUOTED}|.", ddl, re.DOTALL):
        depth += (token in "<(") - (token in ">)")
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _parse_column(part: str, ddl: str, what: str) -> tuple[str, Type]:
    match = _COLUMN.fullmatch(part)
    if match is None:
        raise DefinitionError(
            f"{what} {ddl!r} is not a Spark DDL string",
            why=f"{part.strip()!r} is not a name and a type",
            do='write for example "user string, hashtags array<string>, chars int"',
        )
    column = match["quoted"] or match["name"]
    written = re.sub(r"\s", "", match["type"].lower())
    scalar = re.fullmatch(r"array<(\w+)>", written)
    name = scalar[1] if scalar else written
    name = _ALIASES.get(name, name)
    if name not in _SCALARS:
        raise DefinitionError(
            f"{what} {ddl!r} has the column {column!r} of type {match['type'].strip()!r}",
            why="that type is not supported",
            do=f"use one of {_SUPPORTED}",
        )
    return column, Type(name, scalar is not None)


def schema_of(arrow: pa.Schema) -> Schema:
    """Return the schema of Arrow data; columns of types that we do not know are left out."""
    types = [(column.name, _type_of(column.type)) for column in arrow]
    unknown = [(column.name, str(column.type)) for column in arrow if _type_of(column.type) is None]
    return Schema(tuple((name, type_) for name, type_ in types if type_ is not None), tuple(unknown))


def _type_of(arrow: pa.DataType) -> Type | None:
    if pa.types.is_dictionary(arrow):
        return _type_of(arrow.value_type)
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        item = _type_of(arrow.value_type)
        return None if item is None or item.is_list else Type(item.name, True)
    if pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow):
        return Type("string")
    if pa.types.is_timestamp(arrow):
        return Type("timestamp" if arrow.tz else "timestamp_ntz")
    for name, known in _SCALARS.items():
        if arrow == known:
            return Type(name)
    return None


def fits(found: Type, declared: Type) -> bool:
    """Tell whether a column of type `found` may be read as `declared`; ints are checked value by value."""
    if found.is_list != declared.is_list:
        return False
    if found == declared or (found.is_timestamp and declared.is_timestamp):
        return True
    left, right = Type(found.name), Type(declared.name)
    if left.is_integer and right.is_integer:
        return True
    return (left.is_float or found.name in ("byte", "short", "int")) and declared.name == "double"


def read_column(batch: pa.RecordBatch, name: str, declared: Type, where: str) -> pa.Array:
    """Return a column of a batch in the declared type, or say why that cannot be."""
    index = batch.schema.get_field_index(name)
    if index < 0:
        raise InputError(
            f"the batch has no column {name!r}",
            where=where,
            why=f"its columns are {', '.join(batch.schema.names) or 'none'}",
            do=f"add the column {name!r} ({declared}), or declare the input differently",
        )
    found = _type_of(batch.schema.field(index).type)
    if found is None or not fits(found, declared):
        raise InputError(
            f"column {name!r} of the batch is {batch.schema.field(index).type}",
            where=where,
            why=f"it was declared as {declared}, and cannot be read so without loss",
            do=f"cast the column to {declared}, or declare the input differently",
        )
    try:
        return batch.column(index).cast(declared.arrow)
    except pa.ArrowInvalid as problem:
        do = f"declare the column wider than {declared}, or filter such values out"
        if found.name.startswith("timestamp"):
            do = 'round it to microseconds first: column.cast(pyarrow.timestamp("us"), safe=False)'
        raise InputError(
            f"column {name!r} of the batch does not fit {declared}", where=where, why=str(problem), do=do
        ) from problem


def to_python(column: pa.Array, type_: Type) -> list[Any]:
    """Return a column's values as functions see them (timestamps as ints)."""
    if type_.name.startswith("timestamp"):
        column = column.cast(pa.list_(pa.int64()) if type_.is_list else pa.int64())
    return list(column.to_pylist())


def to_arrow(values: Sequence[Any], arrow: pa.DataType) -> pa.Array:
    """Return values as functions make them (timestamps as ints) as an Arrow column."""
    if pa.types.is_timestamp(arrow):
        return pa.array(values, pa.int64()).cast(arrow)
    if pa.types.is_list(arrow) and pa.types.is_timestamp(arrow.value_type):
        return pa.array(values, pa.list_(pa.int64())).cast(arrow)
    return pa.array(values, arrow)


def rows_to_table(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Build an Arrow table from rows."""
    rows = list(rows)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [to_arrow(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)
