"""Calls that are not compiled into their caller, and views passed by address.

Numba compiles what a kernel calls into the kernel, again for each caller, and passes a view of twenty arrays as some
two hundred arguments. For code that is compiled anew for every operator that took half a minute. So a view may be put
into a `ViewBox` and handed over as one int, and `outlined` kernels, which take ints only, are compiled once per process
and called by address.

A box keeps its view alive; whoever uses the address keeps the box.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core.ccallback import CFunc

from stretch.native.jit import (
    JIT_ENABLED,
    cache_in_digest_directory,
    compiled_form_of,
    instruction,
    kernel_options,
    specialised,
)
from stretch.native.memory import address_of

_BOX_BYTES: Final = 1 << 14

# Uncompiled, an address stands for the view itself.
_views: dict[int, Any] = {}


class ViewBox:
    """A view in memory, as compiled code holds it."""

    def __init__(self, view: Any) -> None:
        self.view = view
        self._memory = np.zeros(_BOX_BYTES, np.uint8)
        self.address = address_of(self._memory)
        _views[self.address] = view
        if JIT_ENABLED:
            _storer(numba.typeof(view))(view, self.address)

    def __del__(self) -> None:
        if _views is not None:  # while the interpreter goes down it may be gone
            _views.pop(getattr(self, "address", 0), None)


def view_loader(sample: Any) -> Callable[[int], Any]:
    """Make the function that reads a view of the sample's type from the address of its box."""

    def load(address: int) -> Any:
        return _views[address]

    if not JIT_ENABLED:
        return load
    view_type = numba.typeof(sample)

    @instruction
    def load_instruction(_typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], context.get_value_type(view_type).as_pointer())
            return builder.load(pointer)

        return view_type(types.int64), generate

    return load_instruction


def type_key(sample: Any) -> Any:
    """Return what tells views apart that need code of their own; it can be hashed."""
    return numba.typeof(sample) if JIT_ENABLED else type(sample)


def field_loaders(sample: Any) -> Any:
    """Make one loader per field of a boxed named tuple, as attributes of the same names.

    Loading a field where it is used costs a few loads; passing all fields as arguments costs far more.
    """
    return type(sample)(*[_field_loader(sample, index) for index in range(len(sample))])


def _field_loader(sample: Any, index: int) -> Callable[[int], Any]:
    def load(address: int) -> Any:
        return _views[address][index]

    if not JIT_ENABLED:
        return load
    view_type, field_type = numba.typeof(sample), numba.typeof(sample[index])

    @instruction
    def load_instruction(_typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], context.get_value_type(view_type).as_pointer())
            zero = ir.Constant(ir.IntType(32), 0)
            return builder.load(builder.gep(pointer, [zero, ir.Constant(ir.IntType(32), index)]))

        return field_type(types.int64), generate

    # The instruction itself, not a compiled form of `load`: without reference counts functions cannot return arrays.
    return load_instruction


_storers: dict[Any, Callable[[Any, int], None]] = {}


def _storer(view_type: Any) -> Callable[[Any, int], None]:
    """Return the function that writes a view of this type to an address."""
    if view_type not in _storers:

        @instruction
        def store_instruction(_typing: Any, view: Any, address: Any) -> Any:
            def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
                value_type = context.get_value_type(view)
                assert context.get_abi_sizeof(value_type) <= _BOX_BYTES
                builder.store(arguments[0], builder.inttoptr(arguments[1], value_type.as_pointer()))
                return context.get_dummy_value()

            return types.none(view, types.int64), generate

        @specialised
        def store(view, address):  # type: ignore[no-untyped-def]
            store_instruction(view, address)

        _storers[view_type] = store
    return _storers[view_type]


def outlined(function: Callable[..., int]) -> Callable[..., int]:
    """Make a kernel of ints that callers reach by its address; compiled when the first caller is."""
    if not JIT_ENABLED:
        return function
    count = function.__code__.co_argcount
    compiled: list[Any] = []

    def address() -> int:
        if not compiled:
            signature = (tuple([types.int64] * count), types.int64)
            made = CFunc(function, signature, locals={}, options=kernel_options())
            cache_in_digest_directory(made)
            made.compile()
            compiled.append(made)
        return int(compiled[0].address)

    @instruction
    def call_instruction(_typing: Any, arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            whole = ir.IntType(64)
            kind = ir.FunctionType(whole, [whole] * count)
            pointer = builder.inttoptr(ir.Constant(whole, address()), kind.as_pointer())
            parts = [builder.extract_value(values[0], index) for index in range(count)]
            return builder.call(pointer, parts)

        return types.int64(types.UniTuple(types.int64, count)), generate

    def call(*arguments: int) -> int:
        return int(function(*arguments))

    @compiled_form_of(call)
    def call_form(*arguments: Any) -> Callable[..., Any]:
        if count == 1:
            return lambda *arguments: call_instruction((np.int64(arguments[0]),))
        return lambda *arguments: call_instruction(_as_ints(arguments))

    del call_form
    return call


@specialised
def _as_ints(arguments):  # type: ignore[no-untyped-def]
    return arguments
