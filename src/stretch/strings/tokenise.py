"""Words, hashtags and hashes of UTF-8 text.

What
    Functions over the bytes of an Arrow text column. Words and hashtags are *runs* of bytes of one class: of bytes
    that are not blanks, or of letters, digits and underscores after a `#`. `run_bits` classifies 64 bytes at a time,
    one bit each; where two neighbouring bits differ, a run begins or ends. What is a word or a hashtag is defined in
    `stretch.operator.keys`, the hash in `stretch.windows.groups.hash_key`: the same comes out here for every text.
    Blanks, letters, digits and signs are ASCII, and no byte of a longer UTF-8 character looks like one, so that bytes
    can be looked at one by one.

    Positions are uint64, because an index that may be negative costs an addition and a selection at every access.

Invariants
    T1  Nothing outside of the buffer is read: near the end, what is read begins earlier, and is shifted.
    T2  Results are the same compiled and with `NUMBA_DISABLE_JIT=1`. Additions and multiplications wrap at 64 bits;
        NumPy's numbers warn of it, so callers wrap themselves in `np.errstate(over="ignore")`.

Measured (500 k tweets of 12 words and 86 bytes, one thread, ns a tweet)
    Finding the words: 29. LLVM makes `run_bits` 512-bit code, and its branches do not depend on single bytes. Word
    by word, with eight bytes at a time in a 64-bit number: 110, half of it for branches that were predicted wrongly.
    Hashing the words found: 47.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from stretch.native.jit import JIT_ENABLED, kernel

# Single numbers in kernels: NumPy's or Python's, compiled the same.
Word = Any  # 64 bits without a sign
Long = Any  # with one

Bytes = npt.NDArray[np.uint8]
# Element i is the eight bytes from byte i on. A record, for Numba takes every plain array of uint64 for an aligned one.
EIGHT_BYTES: Final = np.dtype([("eight", np.uint64)], align=False)
Text = npt.NDArray[np.void]

NULL_HASH: Final = 0xE220A8397B1DCDAF  # hash_key(None)

_0: Final = np.uint64(0)
_1: Final = np.uint64(1)
_2: Final = np.uint64(2)
_3: Final = np.uint64(3)
_4: Final = np.uint64(4)
_8: Final = np.uint64(8)
_27: Final = np.uint64(27)
_30: Final = np.uint64(30)
_31: Final = np.uint64(31)
_56: Final = np.uint64(56)
_64: Final = np.uint64(64)

# hash_key's numbers.
_STEP: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)

_PAIRS: Final = np.uint64(0x5555555555555555)
_FOURS: Final = np.uint64(0x3333333333333333)
_EIGHTS: Final = np.uint64(0x0F0F0F0F0F0F0F0F)
_ONES: Final = np.uint64(0x0101010101010101)

_SPACE: Final = np.uint8(ord(" "))
_TAB: Final = np.uint8(ord("\t"))
_RETURN: Final = np.uint8(ord("\r"))  # the last of \t \n \v \f \r, which follow one another
_A: Final = np.uint8(ord("a"))
_Z: Final = np.uint8(ord("z"))
_ZERO: Final = np.uint8(ord("0"))
_NINE: Final = np.uint8(ord("9"))
_UNDERSCORE: Final = np.uint8(ord("_"))
_TO_SMALL: Final = np.uint8(0x20)  # makes capitals small letters, and nothing else a letter
SIGN: Final = np.uint8(ord("#"))


def views_of(data: Any, size: int) -> tuple[Bytes, Text]:
    """View the first `size` bytes of a buffer as bytes and as a `Text`; a longer copy if they are fewer than 64."""
    if size < 64:
        data = (bytes(memoryview(data)[:size]) if data is not None else b"").ljust(64, b"\0")
    single = np.frombuffer(data, np.uint8, max(size, 64))
    text = np.ndarray((len(single) - 7,), EIGHT_BYTES, data, strides=(1,))
    for view in (single, text):
        view.flags.writeable = False  # one type, whatever the buffer: kernels compile once
    return single, text


@kernel(inline=True)
def mix(word: Word) -> Word:
    """Scramble 64 bits as `hash_key` does."""
    word = (word ^ (word >> _30)) * _FIRST
    word = (word ^ (word >> _27)) * _SECOND
    return word ^ (word >> _31)


@kernel(inline=True)
def eight_bytes(text: Text, at: Word, stop: Word) -> Word:
    """Return the bytes from `at` on, up to eight and up to `stop`: the first one lowest, zeros above the last one."""
    base = min(at, np.uint64(len(text) - 1))  # T1
    word = text[base]["eight"] >> ((at - base) << _3)
    rest = stop - at
    return word & ((_1 << (rest << _3)) - _1) if rest < _8 else word


@kernel(inline=True)
def hash_text(text: Text, start: Word, stop: Word) -> tuple[Word, Word, Word]:
    """Return `hash_key` of a text, and its first and second eight bytes (zeros where it is shorter)."""
    hashed = stop - start
    first = second = _0
    at = start
    while at < stop:
        word = eight_bytes(text, at, stop)
        hashed = mix((hashed ^ word) + _STEP)
        if at == start:
            first = word
        elif at - start == _8:
            second = word
        at += _8
    return mix(hashed), first, second


@kernel(inline=True)
def run_bits(single: Bytes, at: Word, stop: Word, tags: bool) -> Word:
    """Return a bit for each of the 64 bytes from `at` on, lowest first: 1 in a run, 0 outside and from `stop` on."""
    bits = _0
    base = min(at, np.uint64(len(single) - 64))  # T1
    # 64 times whatever is left: only then LLVM makes a few wide instructions of the loop.
    count = 64 if JIT_ENABLED else min(64, int(stop - base))
    if tags:
        for k in range(count):
            byte = single[base + np.uint64(k)]
            small = byte | _TO_SMALL
            letter = (small >= _A) & (small <= _Z)
            digit = (byte >= _ZERO) & (byte <= _NINE)
            bits |= np.uint64(letter | digit | (byte == _UNDERSCORE)) << np.uint64(k)
    else:
        for k in range(count):
            byte = single[base + np.uint64(k)]
            bits |= np.uint64((byte != _SPACE) & ((byte < _TAB) | (byte > _RETURN))) << np.uint64(k)
    bits >>= at - base
    rest = stop - at
    return bits if rest >= _64 else bits & ((_1 << rest) - _1)


@kernel(inline=True)
def lowest_bit(bits: Word) -> Word:
    """Return the number of the lowest bit that is 1; there must be one."""
    # The count of the zeros below it. LLVM knows this way to count and uses the machine's instruction.
    below = (bits ^ (bits & (bits - _1))) - _1
    pairs = below - ((below >> _1) & _PAIRS)
    fours = (pairs & _FOURS) + ((pairs >> _2) & _FOURS)
    return (((fours + (fours >> _4)) & _EIGHTS) * _ONES) >> _56
