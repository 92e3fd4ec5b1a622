"""Atomic operations on int64 cells of shared arrays.

What
    Functions `(array, index, ...)` on one-dimensional int64 arrays: plain ones, and int64 fields of structured arrays
    (`nodes["next"]`, which is a strided array over the records). The memory order is in the name. Everything that
    threads share and change goes through these; the only other shared accesses are plain ones that an acquire and a
    release around them have ordered.

Invariants
    A1  Every operation is one machine instruction on one aligned 8-byte cell (on aarch64 before 8.1: one short
        load-linked loop). `require_cells` checks what makes that true; drivers call it when they allocate.
    A2  A function does the same and returns the same in all its forms: compiled, called from Python (which runs the
        compiled form, for the other threads may be in kernels), and as the Python twin with `NUMBA_DISABLE_JIT=1`
        (under one lock, since there all other parties are twins too). Values wrap at 64 bits as the machine's do.
    A3  An index counts from the front: a negative one is an error, never a cell from the back. Called from Python
        it is always checked, in kernels with `STRETCH_BOUNDSCHECK=1`.
    A4  Every Python-side operation is a schedule point: it offers the turn *before* it acts.

Memory order
    load_acquire      nothing after it moves before it: what the partner wrote before its release is visible
    store_release     nothing before it moves after it: publishes what was written before
    compare_exchange  both (acquire only when it fails)
    exchange          both
    fetch_add         both
    load_relaxed      orders nothing, but is a real load each time: for statistics, and before a compare_exchange

    None of them is sequentially consistent: a release store followed by an acquire load of *another* cell may be seen
    in the other order (store buffers). Where two threads each announce and then look at the other's cell, use
    read-modify-writes on one common cell instead, as `waiting` does.

    A plain load in a nogil loop is read once and kept in a register (measured: such a loop never ends), so a loop
    that waits for another thread must load atomically.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from numba.core import cgutils, errors, types

from stretch.errors import StretchError
from stretch.native.jit import BOUNDSCHECK, JIT_ENABLED, compiled_form_of, instruction, kernel
from stretch.native.schedule import schedule_point

Cells = npt.NDArray[np.int64]

# Helpers that write LLVM instructions; Numba annotates only some of them.
emit: Final[Any] = cgutils

_CELL_BYTES: Final = 8
_INT64: Final = np.dtype(np.int64)
_twin_lock: Final = threading.Lock()


# --- What Python code calls, and with NUMBA_DISABLE_JIT=1 kernels too (the twins) ---


def load_acquire(array: Cells, index: int) -> int:
    """Return the cell; later accesses stay after it."""
    _enter(array, index)
    if JIT_ENABLED:
        return _load_acquire_entry(array, index)
    with _twin_lock:
        return int(array[index])


def load_relaxed(array: Cells, index: int) -> int:
    """Return the cell, ordering nothing."""
    _enter(array, index)
    if JIT_ENABLED:
        return _load_relaxed_entry(array, index)
    with _twin_lock:
        return int(array[index])


def store_release(array: Cells, index: int, value: int) -> None:
    """Set the cell; earlier accesses stay before it."""
    _enter(array, index)
    if JIT_ENABLED:
        return _store_release_entry(array, index, value)
    with _twin_lock:
        array[index] = _wrap(value)


def exchange(array: Cells, index: int, value: int) -> int:
    """Set the cell and return what it held."""
    _enter(array, index)
    if JIT_ENABLED:
        return _exchange_entry(array, index, value)
    with _twin_lock:
        previous = int(array[index])
        array[index] = _wrap(value)
        return previous


def fetch_add(array: Cells, index: int, value: int) -> int:
    """Add to the cell, wrapping at 64 bits, and return what it held before."""
    _enter(array, index)
    if JIT_ENABLED:
        return _fetch_add_entry(array, index, value)
    with _twin_lock:
        previous = int(array[index])
        array[index] = _wrap(previous + int(value))
        return previous


def compare_exchange(array: Cells, index: int, expected: int, desired: int) -> bool:
    """Set the cell to `desired` if it holds `expected`; return whether it did. Never fails spuriously."""
    _enter(array, index)
    if JIT_ENABLED:
        return _compare_exchange_entry(array, index, expected, desired)
    with _twin_lock:
        if int(array[index]) != _wrap(expected):
            return False
        array[index] = _wrap(desired)
        return True


def require_cells(array: npt.NDArray[Any], name: str) -> None:
    """Raise an error unless atomics work on `array` (A1); drivers call it once per array that threads share."""
    why = _why_no_cells(array)
    if why:
        raise StretchError(
            f"Atomics cannot work on {name}.",
            where=f"an array of dtype {array.dtype}, shape {array.shape}, strides {array.strides}",
            why=f"{why}.",
            do="allocate one-dimensional int64, or a structured dtype with align=True and take an int64 field.",
        )


def _why_no_cells(array: npt.NDArray[Any]) -> str:
    if array.dtype != _INT64:
        return "its elements are not int64 in this machine's byte order"
    if array.ndim != 1:
        return "it does not have exactly one dimension"
    if not array.flags.writeable:
        return "it is read-only"
    if array.strides[0] % _CELL_BYTES or array.ctypes.data % _CELL_BYTES:
        return "its cells are not aligned to 8 bytes, so an access could be torn"
    return ""


def _enter(array: Cells, index: int) -> None:
    """Check the arguments of a call from Python (A3), and be its schedule point (A4)."""
    # The full check is in require_cells; this is its cheap part.
    if array.dtype != _INT64 or array.ndim != 1:
        require_cells(array, "this argument")
    if not 0 <= index < array.shape[0]:
        raise IndexError(f"cell {index} of an array with {array.shape[0]} cells (counted from the front only)")
    schedule_point()


def _wrap(value: int) -> int:
    """Return the signed 64-bit number with the same low 64 bits."""
    return ((int(value) + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


# --- The instructions ---


def cell_pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Emit the address of a cell: no wraparound (A3), strides respected; used by every instruction of `native/`."""
    view = context.make_array(array_type)(context, builder, array)
    return emit.get_item_pointer(context, builder, array_type, view, [index], wraparound=False)


@instruction
def _load_acquire_instruction(_typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = cell_pointer(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(pointer, "acquire", _CELL_BYTES)

    return types.int64(array, types.intp), generate


@instruction
def _load_relaxed_instruction(_typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = cell_pointer(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(pointer, "monotonic", _CELL_BYTES)

    return types.int64(array, types.intp), generate


@instruction
def _store_release_instruction(_typing: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = cell_pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], pointer, "release", _CELL_BYTES)
        return context.get_dummy_value()

    return types.none(array, types.intp, types.int64), generate


@instruction
def _exchange_instruction(_typing: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = cell_pointer(context, builder, signature.args[0], *arguments[:2])
        return builder.atomic_rmw("xchg", pointer, arguments[2], "acq_rel")

    return types.int64(array, types.intp, types.int64), generate


@instruction
def _fetch_add_instruction(_typing: Any, array: Any, index: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = cell_pointer(context, builder, signature.args[0], *arguments[:2])
        return builder.atomic_rmw("add", pointer, arguments[2], "acq_rel")

    return types.int64(array, types.intp, types.int64), generate


@instruction
def _compare_exchange_instruction(_typing: Any, array: Any, index: Any, expected: Any, desired: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = cell_pointer(context, builder, signature.args[0], *arguments[:2])
        pair = builder.cmpxchg(pointer, *arguments[2:], ordering="acq_rel", failordering="acquire")
        return builder.extract_value(pair, 1)

    return types.bool_(array, types.intp, types.int64, types.int64), generate


# --- What kernels call under the public names ---


@kernel(inline=True)
def checked(array: Cells, index: int) -> int:
    """Return the index; in builds that check, raise IndexError for one outside of the array (A3)."""
    if BOUNDSCHECK and (index < 0 or index >= array.shape[0]):
        raise IndexError("an atomic's index is outside of its array (cells are counted from the front only)")
    return index


def require_cell_types(array: Any, *integers: Any) -> None:
    """Refuse, while a kernel is compiled, arguments that atomics cannot work on (A1)."""
    is_cells = isinstance(array, types.Array) and array.dtype == types.int64 and array.ndim == 1
    if is_cells and array.mutable and array.aligned and all(isinstance(each, types.Integer) for each in integers):
        return
    given = ", ".join(str(each) for each in (array, *integers))
    raise errors.TypingError(
        "An atomic in a kernel got arguments it cannot work on.\n"
        f"  where: ({given})\n"
        "  why:   it takes a writable, aligned, one-dimensional int64 array, then integers.\n"
        "  do:    allocate int64, or a structured dtype with align=True and take an int64 field."
    )


@compiled_form_of(load_acquire)
def _load_acquire_form(array: Any, index: Any) -> Callable[..., Any]:
    require_cell_types(array, index)
    return lambda array, index: _load_acquire_instruction(array, checked(array, index))


@compiled_form_of(load_relaxed)
def _load_relaxed_form(array: Any, index: Any) -> Callable[..., Any]:
    require_cell_types(array, index)
    return lambda array, index: _load_relaxed_instruction(array, checked(array, index))


@compiled_form_of(store_release)
def _store_release_form(array: Any, index: Any, value: Any) -> Callable[..., Any]:
    require_cell_types(array, index, value)
    return lambda array, index, value: _store_release_instruction(array, checked(array, index), value)


@compiled_form_of(exchange)
def _exchange_form(array: Any, index: Any, value: Any) -> Callable[..., Any]:
    require_cell_types(array, index, value)
    return lambda array, index, value: _exchange_instruction(array, checked(array, index), value)


@compiled_form_of(fetch_add)
def _fetch_add_form(array: Any, index: Any, value: Any) -> Callable[..., Any]:
    require_cell_types(array, index, value)
    return lambda array, index, value: _fetch_add_instruction(array, checked(array, index), value)


@compiled_form_of(compare_exchange)
def _compare_exchange_form(array: Any, index: Any, expected: Any, desired: Any) -> Callable[..., Any]:
    require_cell_types(array, index, expected, desired)
    return lambda array, index, expected, desired: _compare_exchange_instruction(
        array, checked(array, index), expected, desired
    )


# --- What Python code runs when kernels are compiled: one instruction, under the GIL (see `kernel`) ---


@kernel(nogil=False)
def _load_acquire_entry(array: Cells, index: int) -> int:
    return load_acquire(array, index)


@kernel(nogil=False)
def _load_relaxed_entry(array: Cells, index: int) -> int:
    return load_relaxed(array, index)


@kernel(nogil=False)
def _store_release_entry(array: Cells, index: int, value: int) -> None:
    store_release(array, index, value)


@kernel(nogil=False)
def _exchange_entry(array: Cells, index: int, value: int) -> int:
    return exchange(array, index, value)


@kernel(nogil=False)
def _fetch_add_entry(array: Cells, index: int, value: int) -> int:
    return fetch_add(array, index, value)


@kernel(nogil=False)
def _compare_exchange_entry(array: Cells, index: int, expected: int, desired: int) -> bool:
    return compare_exchange(array, index, expected, desired)
