"""Asking for memory before it is used, so that a lookup that the processor cannot foresee finds it in the cache.

A hint: it reads nothing, changes nothing, and may name an element that does not exist. Uncompiled it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy.typing as npt
from llvmlite import ir
from numba import types

from stretch.native.jit import compiled_form_of, instruction

_BIT: Final = ir.IntType(32)
_READ, _EVERY_CACHE, _DATA = _BIT(0), _BIT(3), _BIT(1)


def prefetch(array: npt.NDArray[Any], index: int) -> None:
    """Ask for the cache line of an element of a contiguous array."""


@compiled_form_of(prefetch)
def _prefetch_form(array: Any, index: Any) -> Callable[..., Any]:
    return lambda array, index: _prefetch_instruction(array, index)


@instruction
def _prefetch_instruction(_typing: Any, array: Any, index: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [pointer.type], ir.FunctionType(ir.VoidType(), [pointer.type, _BIT, _BIT, _BIT])
        )
        builder.call(hint, [pointer, _READ, _EVERY_CACHE, _DATA])
        return context.get_dummy_value()

    return types.none(array, types.intp), generate
