"""Hashing of keys in kernels: the same numbers as `stretch.windows.groups.hash_key`, as signed 64-bit words.

Compiled, arithmetic wraps and shifts are logical, on unsigned words; the twins mask Python's ints to the same effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from stretch.native.jit import compiled_form_of, kernel

STEP: Final = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: spreads consecutive ints
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
_SPREAD: Final = 0xD6E8FEB86659FD93  # tried: words 1 to 2**52 apart hardly clash, STEP's do at 2**40
_MASK: Final = (1 << 64) - 1


def mix(word: int) -> int:
    """Scramble 64 bits so that each input bit reaches each output bit."""
    word &= _MASK
    word = ((word ^ (word >> 30)) * _FIRST) & _MASK
    word = ((word ^ (word >> 27)) * _SECOND) & _MASK
    return _signed(word ^ (word >> 31))


def hash_int(key: int) -> int:
    """Hash an int key."""
    return mix(int(key) + STEP)


def hash_next(code: int, part: int) -> int:
    """Add the hash of the next part to that of a composite key, which begins with the number of its parts."""
    return mix((int(code) * STEP & _MASK) ^ (int(part) & _MASK))


def scatter(word: int) -> int:
    """Spread a word over the upper half of another: enough to choose a slot, and a fifth of what `mix` costs."""
    word &= _MASK
    return _signed((word ^ (word >> 32)) * _SPREAD & _MASK)


def group_of(code: int, groups: int) -> int:
    """Return the key group of a hash."""
    return (int(code) & _MASK) % int(groups)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


_STEP = np.uint64(STEP)
_SPREAD_WORD = np.uint64(_SPREAD)
_FIRST_WORD = np.uint64(_FIRST)
_SECOND_WORD = np.uint64(_SECOND)
_mix: Any = mix  # for forms, whose ints are NumPy's
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


@compiled_form_of(mix)
def _mix_form(word: Any) -> Callable[..., Any]:
    def form(word):  # type: ignore[no-untyped-def]
        bits = np.uint64(word)
        bits = (bits ^ (bits >> _30)) * _FIRST_WORD
        bits = (bits ^ (bits >> _27)) * _SECOND_WORD
        return np.int64(bits ^ (bits >> _31))

    return form


@compiled_form_of(hash_int)
def _hash_int_form(key: Any) -> Callable[..., Any]:
    return lambda key: _mix(np.int64(np.uint64(np.int64(key)) + _STEP))


@compiled_form_of(hash_next)
def _hash_next_form(code: Any, part: Any) -> Callable[..., Any]:
    return lambda code, part: _mix(np.int64(np.uint64(code) * _STEP ^ np.uint64(part)))


@compiled_form_of(scatter)
def _scatter_form(word: Any) -> Callable[..., Any]:
    return lambda word: np.int64((np.uint64(word) ^ (np.uint64(word) >> _32)) * _SPREAD_WORD)


@compiled_form_of(group_of)
def _group_of_form(code: Any, groups: Any) -> Callable[..., Any]:
    return lambda code, groups: np.int64(np.uint64(code) % np.uint64(groups))


@kernel(inline=True)
def with_hash(number: int, code: int) -> int:
    """Return an int32 below the upper half of a hash, so that who has the number need not look up its hash."""
    return (code & ~0xFFFFFFFF) | number
