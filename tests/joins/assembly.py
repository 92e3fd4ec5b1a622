"""What kernels were compiled to."""

from __future__ import annotations

import re

import llvmlite.binding as llvm

from stretch.native.jit import JIT_ENABLED


def has_wide_vectors():
    return JIT_ENABLED and bool(llvm.get_host_cpu_features().get("avx512f"))


def vector_loops(kernel, register):
    """Return the loops of a compiled kernel, without loops within, that use such registers."""
    found = []
    for text in kernel.inspect_asm().values():
        lines, labels = text.splitlines(), {}
        for number, line in enumerate(lines):
            if label := re.match(r"(\.L\w+):", line):
                labels[label[1]] = number
            jump = re.match(r"\s+j\w+\s+(\.L\w+)", line)
            if jump and jump[1] in labels:
                body = lines[labels[jump[1]] : number]
                if not any(":" in each for each in body[1:]):
                    found.append("\n".join(body))
    return [loop for loop in found if register in loop]
