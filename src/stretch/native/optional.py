"""A value that may be None, of which it is known that it is not."""

from __future__ import annotations

from typing import Any

from numba.core import types

from stretch.native.jit import instruction


@instruction
def without_none(_typing: Any, value: Any) -> Any:
    """Return the value, unchecked; what cannot be None is returned as it is."""
    kind = value.type if isinstance(value, types.Optional) else value

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if isinstance(value, types.Optional):
            return context.make_helper(builder, value, value=values[0]).data
        return values[0]

    return kind(value), generate
