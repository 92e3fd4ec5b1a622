"""What a function of a user is made of, so that equal ones are compiled once per process.

Two functions with the same fingerprint do the same: the same code, over equal values of everything that compiling
freezes: defaults, closure, and the globals that the code names.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable
from typing import Any


def names_used(*functions: Callable[..., Any] | None) -> set[str]:
    """Return every attribute and global name in the functions' code, nested functions included."""
    names: set[str] = set()
    pending = [getattr(function, "__code__", None) for function in functions if function is not None]
    while pending:
        code = pending.pop()
        if code is not None:
            names |= set(code.co_names)
            pending += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return names


def fingerprint(value: Any, within: tuple[Any, ...] = ()) -> Hashable:
    """Return a hashable stand-in for a value that compiled code has frozen."""
    if isinstance(value, types.FunctionType) and value not in within:
        within = (*within, value)
        frozen = [fingerprint(default, within) for default in value.__defaults__ or ()]
        frozen += [fingerprint(cell.cell_contents, within) for cell in value.__closure__ or ()]
        known = value.__globals__
        frozen += [(name, fingerprint(known[name], within)) for name in sorted(names_used(value)) if name in known]
        return value.__code__, tuple(frozen)
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value
