"""Where a tuple's keys come from (Paper: f_MK, and f_SK as its special case of one key).

`keys` of an operator is a column name (a scalar column gives one key, a list column one per element), several scalar
column names (one key made of all), None (one key for everything), or a function of the tuple. A function returns one
key (an int of up to 64 bits, text or a tuple of them) or yields any number of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any

from stretch.errors import DefinitionError, FunctionError
from stretch.schema import Schema, Type, plain

KeySpec = str | Sequence[str] | Callable[[Any], Any] | None

# Blanks and word characters are ASCII ones, as in Java, DuckDB and Rust regular expressions, in every engine.
_WORD = re.compile(r"[^ \t\n\r\v\f]+")
_HASHTAG = re.compile(r"#([A-Za-z0-9_]+)")


@dataclass(frozen=True)
class words:  # noqa: N801 - reads as a function in `keys=st.words("text")`
    """Keys: the words of a text column, split at blanks."""

    column: str

    def __call__(self, t: Any) -> list[str]:
        return _WORD.findall(getattr(t, self.column) or "")


@dataclass(frozen=True)
class pairs:  # noqa: N801
    """Keys: pairs of words of a text column, up to `distance` words apart; None for all pairs."""

    column: str
    distance: int | None = None

    def __call__(self, t: Any) -> Iterator[tuple[str, str]]:
        found = _WORD.findall(getattr(t, self.column) or "")
        reach = len(found) if self.distance is None else self.distance
        for i in range(len(found)):
            for j in range(i + 1, min(len(found), i + 1 + reach)):
                yield found[i], found[j]


@dataclass(frozen=True)
class hashtags:  # noqa: N801
    """Keys: the hashtags of a text column, without the sign."""

    column: str

    def __call__(self, t: Any) -> list[str]:
        return _HASHTAG.findall(getattr(t, self.column) or "")


@dataclass(frozen=True)
class KeyColumns:
    """Keys read from columns: one scalar or list column, or several scalar columns that make one key."""

    names: tuple[str, ...]
    is_list: bool

    def __call__(self, t: Any) -> Iterable[Hashable]:
        if self.is_list:
            return getattr(t, self.names[0]) or ()
        if len(self.names) == 1:
            return (getattr(t, self.names[0]),)
        return (tuple(getattr(t, name) for name in self.names),)


@dataclass(frozen=True)
class KeyFunction:
    """Keys made by a function of the user."""

    function: Callable[[Any], Any]

    def __call__(self, t: Any) -> Iterable[Hashable]:
        made = self.function(t)
        is_one = not isinstance(made, Iterable) or isinstance(made, (str, bytes, tuple))
        return (made,) if is_one else made


def as_key(made: Any) -> Hashable:
    """Return a key as engines hold it: numbers of NumPy as ints, which have to fit into 64 bits."""
    if isinstance(made, tuple):
        parts = [as_key(part) for part in made]
        return made if all(map(is_, parts, made)) else tuple(parts)
    key: Hashable = plain(made)
    if isinstance(key, int) and not -(1 << 63) <= key < 1 << 63:
        raise FunctionError(
            f"{key} cannot be a key",
            why="it has more than 64 bits",
            do="make `keys` return smaller numbers, or text",
        )
    return key


def checked_keys(keys: Any, operator: str) -> KeySpec:
    """Check that `keys` says where keys come from."""
    is_names = isinstance(keys, Sequence) and all(isinstance(name, str) for name in keys)
    if keys is None or callable(keys) or is_names:
        return keys  # type: ignore[no-any-return]
    raise DefinitionError(
        f"{operator}: keys={keys!r} does not say where keys come from",
        why="it is neither a column name, a list of column names, nor a function",
        do='pass for example keys="user", keys=["user", "country"], or a function of the tuple',
    )


def bind_keys(keys: KeySpec, schema: Schema, operator: str) -> KeyColumns | KeyFunction:
    """Resolve `keys` against an input's columns."""
    if callable(keys):
        if isinstance(keys, (words, pairs, hashtags)):
            _check_key_column(keys.column, schema, operator, Type("string"))
        return KeyFunction(keys)
    names = () if keys is None else (keys,) if isinstance(keys, str) else tuple(keys)
    for name in names:
        _check_key_column(name, schema, operator)
    lists = [name for name in names if schema[name].is_list]
    if lists and len(names) > 1:
        raise DefinitionError(
            f"{operator}: keys={list(names)!r} mixes a list column with others",
            why=f"{lists[0]!r} gives several keys per tuple, so their combination is not clear",
            do="pass a function that yields the keys you mean, for example `for tag in t.tags: yield tag, t.user`",
        )
    return KeyColumns(names, bool(lists))


def _check_key_column(name: str, schema: Schema, operator: str, needed: Type | None = None) -> None:
    if name not in schema:
        missing = schema.missing(name)
        raise DefinitionError(
            f"{operator}: the key column {name!r} {missing.predicate}", why=missing.why, do=missing.do
        )
    if needed is not None and schema[name] != needed:
        raise DefinitionError(
            f"{operator}: the column {name!r} is {schema[name]}",
            why=f"keys are made from {needed} here",
            do=f"name a {needed} column, or pass a function as keys",
        )
    if schema[name].is_float or schema[name].name in ("float", "double"):
        raise DefinitionError(
            f"{operator}: the key column {name!r} is {schema[name]}",
            why="floating point numbers that look equal need not be, and NaN equals nothing",
            do="round the column to an int or format it as text first",
        )


def key_columns(keys: KeySpec, schema: Schema, key_name: str | None, operator: str) -> tuple[tuple[str, Type], ...]:
    """Return the names and types under which an Aggregate reports its keys."""
    bind_keys(keys, schema, operator)
    columns: tuple[tuple[str, Type], ...]
    if isinstance(keys, pairs):
        columns = (("first", Type("string")), ("second", Type("string")))
    elif isinstance(keys, (words, hashtags)):
        columns = ((type(keys).__name__.removesuffix("s"), Type("string")),)
    elif callable(keys):
        raise DefinitionError(
            f"{operator}: keys is a function, and an Aggregate cannot tell the type of its keys",
            why="the result needs a name and a type for the key column",
            do="pass a column name as keys, or use stretch.Operator with a schema of its own",
        )
    else:
        names = () if keys is None else (keys,) if isinstance(keys, str) else tuple(keys)
        columns = tuple((name, Type(schema[name].name)) for name in names)
    if key_name is None:
        return columns
    if len(columns) != 1:
        raise DefinitionError(
            f"{operator}: key_name={key_name!r} does not fit keys={keys!r}",
            why="only a single key column can be renamed",
            do="leave key_name out",
        )
    return ((key_name, columns[0][1]),)
