"""What a waiting thread asks of the machine and the operating system: the time, a pause, sleep, a futex.

What
    Each function is plain Python with a compiled form. The compiled forms call the C library by symbol, not through a
    pointer taken by ctypes: a pointer is a constant of one process, so Numba refuses to cache code that holds one,
    while symbols are resolved again when cached code is loaded. They run without the GIL.

Invariants
    S1  None of them touches a Python object in compiled form, and none blocks longer than the time it was given.
    S2  Under an interleaver each is a waiting point, time is virtual, and a futex parks the worker in the interleaver.
    S3  `now_ns` is one clock for compiled code and Python, so their timestamps can be compared.

Systems
    Linux on x86-64 and aarch64 has the futex. Elsewhere (and with `STRETCH_NO_FUTEX=1`) a wait sleeps in short
    slices and looks at the cell between them. Windows has none of these symbols: there only `NUMBA_DISABLE_JIT=1`
    works.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir
from numba.core import types

from stretch.errors import StretchError
from stretch.native.atomics import Cells, cell_pointer, emit, load_acquire, require_cell_types
from stretch.native.jit import FUTEX_DISABLED, JIT_ENABLED, compiled_form_of, instruction, kernel
from stretch.native.schedule import current_interleaver, waiting_point

_SYSCALL_FUTEX: Final = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 0)
HAS_FUTEX: Final = sys.platform == "linux" and bool(_SYSCALL_FUTEX) and not FUTEX_DISABLED
_FUTEX_WAIT_PRIVATE: Final = 0 | 128  # private: the cells are never shared between processes
_FUTEX_WAKE_PRIVATE: Final = 1 | 128
_EVERYBODY: Final = 2**31 - 1

# The clock behind time.monotonic_ns (S3): on macOS that one does not count sleep, unlike CLOCK_MONOTONIC there.
_CLOCK: Final = getattr(time, "CLOCK_UPTIME_RAW", getattr(time, "CLOCK_MONOTONIC", 0))

_PAUSE: Final = {"x86_64": "llvm.x86.sse2.pause", "AMD64": "llvm.x86.sse2.pause"}.get(platform.machine())

# Slices of a wait without futex: short ones first, for a wake-up that comes at once, then a cap that costs 1 % of a
# core per waiting thread.
_SLICE_NS_MIN: Final = 50_000
_SLICE_NS_MAX: Final = 1_000_000

_int32: Final = ir.IntType(32)
_int64: Final = ir.IntType(64)
_address: Final = ir.IntType(8).as_pointer()
_time_pair: Final = ir.ArrayType(_int64, 2)  # struct timespec: seconds, nanoseconds

if JIT_ENABLED and sys.platform == "win32":
    raise StretchError(
        "stretch cannot compile its waits on Windows.",
        where=f"Python {platform.python_version()} on {platform.platform()}",
        why="they call clock_gettime, nanosleep and sched_yield, which Windows does not have.",
        do="run it under WSL, or uncompiled with NUMBA_DISABLE_JIT=1.",
    )


# --- What Python code calls ---


def now_ns() -> int:
    """Return the monotonic clock; virtual time under an interleaver."""
    interleaver = current_interleaver()
    return time.monotonic_ns() if interleaver is None else interleaver.now_ns


def spin_pause() -> None:
    """Tell the core that this is a spin loop: some tens of cycles of rest."""
    _yield_twin()


def yield_processor() -> None:
    """Let another runnable thread have this core."""
    _yield_twin()


def sleep_ns(duration_ns: int) -> None:
    """Sleep; a signal may end it early."""
    interleaver = current_interleaver()
    if interleaver is not None:
        interleaver.park(None, duration_ns)
    else:
        time.sleep(max(duration_ns, 0) / 1e9)


def futex_wait(cells: Cells, index: int, sequence: int, timeout_ns: int) -> None:
    """Block while the high 32 bits of the cell equal those of `sequence`: until a wake, the timeout, or no reason.

    The comparison and falling asleep are one step for `futex_wake`. Only `waiting.park` calls this.
    """
    interleaver = current_interleaver()
    if interleaver is None:
        _wait_by_sleeping(cells, index, sequence, timeout_ns)
    elif (int(cells[index]) ^ sequence) >> 32 == 0:
        interleaver.park(_key(cells, index), timeout_ns)


def futex_wake(cells: Cells, index: int) -> None:
    """Wake all threads that block on the cell."""
    interleaver = current_interleaver()
    if interleaver is not None:
        interleaver.unpark(_key(cells, index))


def _yield_twin() -> None:
    if current_interleaver() is not None:
        waiting_point()
    else:
        time.sleep(0)  # gives the GIL away, without which the thread that is waited for stands still


def _key(cells: Cells, index: int) -> int:
    """Return the cell's address: views of the same memory are the same futex."""
    return int(cells.ctypes.data + index * cells.strides[0])


@kernel
def _wait_by_sleeping(cells: Cells, index: int, sequence: int, timeout_ns: int) -> None:
    """Look at the cell between short sleeps: the wait of systems without futex, and of uncompiled threads."""
    deadline_ns = now_ns() + timeout_ns
    slice_ns = _SLICE_NS_MIN
    # acquire: pairs with the release of the wake that changed the cell
    while (load_acquire(cells, index) ^ sequence) >> 32 == 0:
        left_ns = deadline_ns - now_ns()
        if left_ns <= 0:
            return
        sleep_ns(min(slice_ns, left_ns))
        slice_ns = min(2 * slice_ns, _SLICE_NS_MAX)


# --- What kernels call under the same names ---


def _call(builder: Any, name: str, result: Any, arguments: list[Any], *, variadic_after: int | None = None) -> Any:
    """Emit a call of a C function by symbol."""
    fixed = arguments if variadic_after is None else arguments[:variadic_after]
    function_type = ir.FunctionType(result, [each.type for each in fixed], var_arg=variadic_after is not None)
    return builder.call(emit.get_or_insert_function(builder.module, function_type, name), arguments)


def _stored_duration(builder: Any, duration_ns: Any) -> Any:
    """Emit a struct timespec on the stack, and return its address; negative durations become zero."""
    zero, second = _int64(0), _int64(1_000_000_000)
    duration = builder.select(builder.icmp_signed("<", duration_ns, zero), zero, duration_ns)
    pair = builder.insert_value(ir.Constant(_time_pair, ir.Undefined), builder.sdiv(duration, second), 0)
    pair = builder.insert_value(pair, builder.srem(duration, second), 1)
    slot = emit.alloca_once(builder, _time_pair)
    builder.store(pair, slot)
    return builder.bitcast(slot, _address)


@instruction
def _clock_instruction(_typing: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        slot = emit.alloca_once(builder, _time_pair)
        _call(builder, "clock_gettime", _int32, [_int32(_CLOCK), builder.bitcast(slot, _address)])
        pair = builder.load(slot)
        seconds = builder.mul(builder.extract_value(pair, 0), _int64(1_000_000_000))
        return builder.add(seconds, builder.extract_value(pair, 1))

    return types.int64(), generate


@instruction
def _pause_instruction(_typing: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        if _PAUSE is not None:
            _call(builder, _PAUSE, ir.VoidType(), [])
        elif platform.machine() in ("aarch64", "arm64"):
            _call(builder, "llvm.aarch64.hint", ir.VoidType(), [_int32(1)])  # hint 1 is `yield`
        return context.get_dummy_value()

    return types.none(), generate


@instruction
def _yield_instruction(_typing: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        _call(builder, "sched_yield", _int32, [])
        return context.get_dummy_value()

    return types.none(), generate


@instruction
def _sleep_instruction(_typing: Any, duration_ns: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        _call(builder, "nanosleep", _int32, [_stored_duration(builder, arguments[0]), _address(None)])
        return context.get_dummy_value()

    return types.none(types.int64), generate


def _sequence_address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """Emit the address of the cell's high half: the futex word (both systems with a futex are little-endian)."""
    cell = cell_pointer(context, builder, array_type, array, index)
    return builder.gep(builder.bitcast(cell, _address), [_int64(4)])


def _futex(builder: Any, address: Any, operation: int, value: Any, timeout: Any) -> None:
    arguments = [
        _int64(_SYSCALL_FUTEX),
        address,
        _int64(operation),
        value,
        timeout,
        _address(None),
        _int64(0),
    ]
    _call(builder, "syscall", _int64, arguments, variadic_after=1)


@instruction
def _futex_wait_instruction(_typing: Any, cells: Any, index: Any, sequence: Any, timeout_ns: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _sequence_address(context, builder, signature.args[0], *arguments[:2])
        expected = builder.lshr(arguments[2], _int64(32))
        timeout = _stored_duration(builder, arguments[3])
        _futex(builder, address, _FUTEX_WAIT_PRIVATE, expected, timeout)
        return context.get_dummy_value()

    return types.none(cells, types.intp, types.int64, types.int64), generate


@instruction
def _futex_wake_instruction(_typing: Any, cells: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _sequence_address(context, builder, signature.args[0], *arguments)
        _futex(builder, address, _FUTEX_WAKE_PRIVATE, _int64(_EVERYBODY), _address(None))
        return context.get_dummy_value()

    return types.none(cells, types.intp), generate


@compiled_form_of(now_ns)
def _now_form() -> Callable[..., Any]:
    return lambda: _clock_instruction()


@compiled_form_of(spin_pause)
def _spin_pause_form() -> Callable[..., Any]:
    return lambda: _pause_instruction()


@compiled_form_of(yield_processor)
def _yield_processor_form() -> Callable[..., Any]:
    return lambda: _yield_instruction()


@compiled_form_of(sleep_ns)
def _sleep_form(duration_ns: Any) -> Callable[..., Any]:
    return lambda duration_ns: _sleep_instruction(duration_ns)


@compiled_form_of(futex_wait)
def _futex_wait_form(cells: Any, index: Any, sequence: Any, timeout_ns: Any) -> Callable[..., Any]:
    require_cell_types(cells, index, sequence, timeout_ns)
    if HAS_FUTEX:
        return lambda cells, index, sequence, timeout_ns: _futex_wait_instruction(cells, index, sequence, timeout_ns)
    return lambda cells, index, sequence, timeout_ns: _wait_by_sleeping(cells, index, sequence, timeout_ns)


@compiled_form_of(futex_wake)
def _futex_wake_form(cells: Any, index: Any) -> Callable[..., Any]:
    require_cell_types(cells, index)
    if HAS_FUTEX:
        return lambda cells, index: _futex_wake_instruction(cells, index)
    return lambda cells, index: None
