"""Bits: which of 16 bytes are set, and where the first one of a word is.

Compiled, each is one or two instructions which no loop over bytes becomes. Twins in
Python do the same (see `memory`, M2, M3).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import types

from stretch.native.jit import compiled_form_of, instruction, kernel


def nonzero_bytes(address: int) -> int:
    """Return the 16 bytes at an address as bits, 1 where a byte is not 0, the first byte lowest."""
    block = (ctypes.c_uint8 * 16).from_address(int(address))
    return sum(1 << k for k in range(16) if block[k])


def first_bit(word: int) -> int:
    """Return the number of the lowest bit of a word that is set; the word is not 0."""
    return (int(word) & -int(word)).bit_length() - 1


@kernel(inline=True)
def first_bits(count: int) -> int:
    """Return a word in which the lowest `count` bits are set; all, if it has fewer."""
    return (1 << count) - 1 if count < 64 else -1


@instruction
def _nonzero_instruction(_typing: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(ir.IntType(8), 16)
        value = builder.load(builder.inttoptr(arguments[0], vector.as_pointer()), align=1)
        zero = ir.Constant(vector, [ir.Constant(ir.IntType(8), 0)] * 16)
        bits = builder.bitcast(builder.icmp_unsigned("!=", value, zero), ir.IntType(16))
        return builder.zext(bits, ir.IntType(64))

    return types.int64(types.int64), generate


@instruction
def _first_instruction(_typing: Any, word: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


@compiled_form_of(nonzero_bytes)
def _nonzero_form(address: Any) -> Callable[..., Any]:
    return lambda address: _nonzero_instruction(address)


@compiled_form_of(first_bit)
def _first_form(word: Any) -> Callable[..., Any]:
    return lambda word: _first_instruction(word)
