"""How long a thread runs before the system gives its core to another one that wants it.

Where there are more workers than cores, all of them have to have run before an epoch can switch. With the system's
usual turns of about 3 ms, 32 workers on 2 cores need some 40 ms for that; with short turns it is a few (measured:
docs/performance.md). Linux lets a thread choose since 6.12; elsewhere nothing changes.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from typing import Final

TURN_NS: Final = 200_000

_NUMBERS: Final = {"x86_64": 314, "aarch64": 274}  # of sched_setattr, by machine
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQII")  # size, policy, flags, nice, priority, runtime = turn, ...


def take_short_turns() -> bool:
    """Ask for turns of TURN_NS for the calling thread; tell whether the system took note."""
    number = _NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return False
    size = _ATTRIBUTES.size
    attributes = ctypes.create_string_buffer(_ATTRIBUTES.pack(size, 0, 0, 0, 0, TURN_NS, 0, 0, 0, 0), size)
    try:
        return bool(ctypes.CDLL(None).syscall(number, 0, attributes, 0) == 0)
    except (AttributeError, OSError):  # a C library without syscall
        return False
