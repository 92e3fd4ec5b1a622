"""Key groups: the unit in which keys are dealt to instances (DESIGN D5).

A key's group is `hash(key) % groups`; the mapping (Paper: f_mu) is a table group -> instance. The hash is our own,
because Python's differs from process to process and the order of results must not. Ints and text hash alike in
every engine: 64-bit arithmetic that wraps, text in UTF-8 taken eight bytes at a time.
"""

from __future__ import annotations

from collections.abc import Hashable

from stretch.errors import FunctionError

GROUP_COUNT = 1024

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15  # 2**64 / golden ratio: spreads consecutive ints
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def _mix(word: int) -> int:
    """Scramble 64 bits so that each input bit reaches each output bit."""
    word = ((word ^ (word >> 30)) * _FIRST) & _MASK
    word = ((word ^ (word >> 27)) * _SECOND) & _MASK
    return word ^ (word >> 31)


def hash_key(key: Hashable) -> int:
    """Hash a key (an int, text, None, or a tuple of them) to 64 bits, the same in every process and engine."""
    if key is None:
        return _mix(_STEP)
    if isinstance(key, int):  # bool included
        return _mix((key + _STEP) & _MASK)
    if isinstance(key, str):
        data = key.encode("utf-8", "surrogatepass")
        word = len(data)
        for start in range(0, len(data), 8):
            word = _mix((word ^ int.from_bytes(data[start : start + 8], "little")) + _STEP & _MASK)
        return _mix(word)
    if isinstance(key, tuple):
        word = len(key)
        for part in key:
            word = _mix((word * _STEP ^ hash_key(part)) & _MASK)
        return word
    raise FunctionError(
        f"{key!r} cannot be a key",
        why=f"it is a {type(key).__name__}; keys are ints, text, None, or tuples of them",
        do="make `keys` return ints or text; round or format floats first",
    )
