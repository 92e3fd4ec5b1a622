"""Memory by address: reserving it, copying it, and single values of it, for kernels that do not know the types.

What
    `reserve` asks the system for anonymous memory of which only the pages that are touched exist; `give_back` undoes
    the touching. `copy_bytes` copies a
    run of bytes; `read_int*` and `write_int*` access one value at an address. Kernels that move columns work on
    (address, width) pairs, so that they are compiled once for all schemas.

Invariants
    M1  An address is valid as long as somebody holds the array that it was taken from: nothing here keeps it alive.
    M2  A function does the same compiled, called from Python, and as the twin with `NUMBA_DISABLE_JIT=1`.
    M3  Nothing is checked and nothing is atomic: the caller has checked the bounds, and an acquire and a release of
        other cells order the accesses. Addresses need not be aligned.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from stretch.errors import StretchError
from stretch.native.atomics import emit
from stretch.native.jit import compiled_form_of, instruction

# Not every Python names the flag; other systems do not count memory that nobody has touched.
_NORESERVE: Final = 0x4000 if sys.platform == "linux" else 0

_HUGE_FROM: Final = 1 << 22


def reserve(size: int) -> npt.NDArray[np.uint8]:
    """Return `size` bytes of zeroed memory, aligned to a page; pages exist once they are touched.

    It is given back when the last array that refers to it is gone.
    """
    try:
        block = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    except (OSError, OverflowError) as error:
        raise StretchError(
            f"The system does not give {size / 2**20:,.0f} MB of address space.",
            why=f"{error}.",
            do="ask for smaller buffers, or raise the limit of this process (ulimit -v, vm.overcommit_memory).",
        ) from error
    ask_for_huge_pages(block)
    return np.frombuffer(block, np.uint8)[:size]


def ask_for_huge_pages(block: mmap.mmap) -> None:
    """Ask for pages of megabytes where the system has them: random access misses the TLB far less often."""
    if len(block) >= _HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without them
            block.madvise(mmap.MADV_HUGEPAGE)


def address_of(array: npt.NDArray[Any]) -> int:
    """Return the address of an array's first byte (M1)."""
    return int(array.ctypes.data)


# --- What Python code calls, and with NUMBA_DISABLE_JIT=1 kernels too (the twins) ---


def copy_bytes(to_address: int, from_address: int, count: int) -> None:
    """Copy `count` bytes between places that do not overlap."""
    ctypes.memmove(int(to_address), int(from_address), int(count))


def give_back(address: int, size: int) -> None:
    """Give the whole pages of a part of reserved memory back to the system; they read as zero from then on."""
    first, end = _whole_pages(int(address), int(size))
    if end > first and hasattr(mmap, "MADV_DONTNEED"):
        ctypes.CDLL(None).madvise(ctypes.c_void_p(first), ctypes.c_size_t(end - first), mmap.MADV_DONTNEED)


def _whole_pages(address: int, size: int) -> tuple[int, int]:
    """Return where the first whole page begins, and where the last one ends."""
    page = mmap.PAGESIZE
    return -(-address // page) * page, (address + size) // page * page


def read_int8(address: int) -> int:
    """Return the signed byte at an address."""
    return ctypes.c_int8.from_address(int(address)).value


def read_int16(address: int) -> int:
    """Return the int16 at an address."""
    return ctypes.c_int16.from_address(int(address)).value


def read_int32(address: int) -> int:
    """Return the int32 at an address."""
    return ctypes.c_int32.from_address(int(address)).value


def read_int64(address: int) -> int:
    """Return the int64 at an address."""
    return ctypes.c_int64.from_address(int(address)).value


def write_int8(address: int, value: int) -> None:
    """Set the byte at an address."""
    ctypes.c_int8.from_address(int(address)).value = int(value)


def write_int16(address: int, value: int) -> None:
    """Set the int16 at an address."""
    ctypes.c_int16.from_address(int(address)).value = int(value)


def write_int32(address: int, value: int) -> None:
    """Set the int32 at an address."""
    ctypes.c_int32.from_address(int(address)).value = int(value)


def write_int64(address: int, value: int) -> None:
    """Set the int64 at an address."""
    ctypes.c_int64.from_address(int(address)).value = int(value)


# --- What kernels call under the same names ---


@instruction
def _copy_instruction(_typing: Any, to_address: Any, from_address: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        target, origin = (builder.inttoptr(each, byte) for each in arguments[:2])
        emit.raw_memcpy(builder, target, origin, arguments[2], 1)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64, types.int64), generate


@instruction
def _give_back_instruction(_typing: Any, address: Any, size: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        whole, advice = ir.IntType(64), ir.IntType(32)
        byte, page = ir.IntType(8).as_pointer(), mmap.PAGESIZE
        end = builder.and_(builder.add(*arguments), whole(-page))
        first = builder.and_(builder.add(arguments[0], whole(page - 1)), whole(-page))
        size = builder.sub(end, first)
        with builder.if_then(builder.icmp_signed(">", size, whole(0))):
            kind = ir.FunctionType(advice, [byte, whole, advice])
            function = emit.get_or_insert_function(builder.module, kind, "madvise")
            builder.call(function, [builder.inttoptr(first, byte), size, advice(mmap.MADV_DONTNEED)])
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), generate


def _reader(bits: int) -> Any:
    """Make the instruction that reads a signed integer of `bits` bits."""

    def read(_typing: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            value = builder.load(pointer, align=1)
            return value if bits == 64 else builder.sext(value, ir.IntType(64))

        return types.int64(types.int64), generate

    return instruction(read)


def _writer(bits: int) -> Any:
    """Make the instruction that writes the low `bits` bits of an integer."""

    def write(_typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            low = arguments[1] if bits == 64 else builder.trunc(arguments[1], ir.IntType(bits))
            builder.store(low, pointer, align=1)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64), generate

    return instruction(write)


_read8, _read16, _read32, _read64 = (_reader(bits) for bits in (8, 16, 32, 64))
_write8, _write16, _write32, _write64 = (_writer(bits) for bits in (8, 16, 32, 64))


@compiled_form_of(copy_bytes)
def _copy_form(to_address: Any, from_address: Any, count: Any) -> Callable[..., Any]:
    return lambda to_address, from_address, count: _copy_instruction(to_address, from_address, count)


@compiled_form_of(give_back)
def _give_back_form(address: Any, size: Any) -> Callable[..., Any]:
    return lambda address, size: _give_back_instruction(address, size)


@compiled_form_of(read_int8)
def _read8_form(address: Any) -> Callable[..., Any]:
    return lambda address: _read8(address)


@compiled_form_of(read_int16)
def _read16_form(address: Any) -> Callable[..., Any]:
    return lambda address: _read16(address)


@compiled_form_of(read_int32)
def _read32_form(address: Any) -> Callable[..., Any]:
    return lambda address: _read32(address)


@compiled_form_of(read_int64)
def _read64_form(address: Any) -> Callable[..., Any]:
    return lambda address: _read64(address)


@compiled_form_of(write_int8)
def _write8_form(address: Any, value: Any) -> Callable[..., Any]:
    return lambda address, value: _write8(address, value)


@compiled_form_of(write_int16)
def _write16_form(address: Any, value: Any) -> Callable[..., Any]:
    return lambda address, value: _write16(address, value)


@compiled_form_of(write_int32)
def _write32_form(address: Any, value: Any) -> Callable[..., Any]:
    return lambda address, value: _write32(address, value)


@compiled_form_of(write_int64)
def _write64_form(address: Any, value: Any) -> Callable[..., Any]:
    return lambda address, value: _write64(address, value)
