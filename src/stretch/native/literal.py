"""Ints that the compiler does not know: what is called with a literal is compiled anew for this very number."""

from __future__ import annotations

from stretch.native.jit import kernel


@kernel(inline=True)
def not_literal(number: int) -> int:
    """Return the same int, as any other of its type."""
    return number + 0
