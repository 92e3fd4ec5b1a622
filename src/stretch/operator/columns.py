"""Which columns an operator's compiled code reads and writes, and how they are laid out in the row store.

The same text takes different forms: a key is an interned id, words are a list of ids. What nobody reads is not stored.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from stretch.errors import DefinitionError
from stretch.schema import Type

_DTYPES: dict[str, Any] = {
    "boolean": np.bool_,
    "byte": np.int8,
    "short": np.int16,
    "int": np.int32,
    "long": np.int64,
    "float": np.float32,
    "double": np.float64,
    "timestamp": np.int64,
    "timestamp_ntz": np.int64,
}


class Form(Enum):
    """How a column of the input appears in the row store."""

    VALUE = "value"  # an array of its own type
    VALID = "valid"  # one byte: 0 where the column is null
    ID = "id"  # an interned text, int32
    IDS = "ids"  # a list of interned texts, int32
    WORDS = "words"  # the same, from splitting a text
    HASHTAGS = "hashtags"  # the same, from the hashtags of a text
    VALUES = "values"  # a list of numbers
    NUMBER = "number"  # which row of its source it is, int64
    MARK = "mark"  # one byte, 0 at first, for workers to write


LISTS = frozenset({Form.IDS, Form.WORDS, Form.HASHTAGS, Form.VALUES})


class Column(NamedTuple):
    """One stored column: the input column that it comes from, its form, and the type of its values."""

    name: str
    form: Form
    dtype: Any
    distinct: bool = False  # a list without repetitions

    @property
    def is_list(self) -> bool:
        """Tell whether a row has any number of values."""
        return self.form in LISTS


class Layout:
    """The stored columns of one input, as they are asked for; a position is where kernels find the arrays."""

    def __init__(self) -> None:
        self.columns: list[Column] = []

    def position(self, name: str, form: Form, dtype: Any, distinct: bool = False) -> int:
        """Ask for a column; return its position."""
        column = Column(name, form, np.dtype(dtype), distinct)
        if column not in self.columns:
            self.columns.append(column)
        return self.columns.index(column)


class Result(NamedTuple):
    """One column of the results: text leaves as ids; `nullable` ones have a column of validity bytes behind them."""

    name: str
    type: Type
    nullable: bool

    @property
    def dtype(self) -> Any:
        """The type of the array that workers write."""
        return np.int32 if self.type.name == "string" else dtype_of(self.type)

    def arrays(self) -> list[tuple[str, Any]]:
        """Return the names and types of the arrays that hold it."""
        valid = [(f"{self.name}:valid", np.uint8)] if self.nullable else []
        return [(self.name, self.dtype), *valid]


def dtype_of(type_: Type) -> Any:
    """Return the NumPy type of a scalar column's values."""
    return _DTYPES[type_.name]


def not_compiled(operator: str, what: str, why: str) -> DefinitionError:
    """Build the error for what the compiled engine does not do (yet), before anything starts."""
    return DefinitionError(
        f"{operator}: {what} cannot be compiled",
        why=why,
        do='pass engine="python" to stretch.setup, which runs any function as it is, on threads',
    )
