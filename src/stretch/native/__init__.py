"""Everything that knows the machine: compiling, atomics, time, waiting, and replayable interleavings.

The lowest layer: it knows nothing of tuples, windows or operators, and only it imports llvmlite and numba.extending.
`jit` spells Numba's options, `atomics` the operations on shared cells, `system` the calls of the operating system,
`waiting` how a thread waits for another, `schedule` how uncompiled threads take turns that a seed replays.
"""

from stretch.native.atomics import (
    Cells,
    compare_exchange,
    exchange,
    fetch_add,
    load_acquire,
    load_relaxed,
    require_cells,
    store_release,
)
from stretch.native.jit import is_compiled, kernel, specialised, user_function
from stretch.native.schedule import Interleaver, InterleavingError, schedule_point
from stretch.native.system import now_ns, sleep_ns, spin_pause, yield_processor
from stretch.native.waiting import (
    PARK_AT_ONCE,
    WAIT_AGAIN,
    WAIT_STOPPED,
    WAIT_TIMED_OUT,
    backoff,
    deadline_after,
    park,
    wait_round,
    wake_all,
)

__all__ = [
    "PARK_AT_ONCE",
    "WAIT_AGAIN",
    "WAIT_STOPPED",
    "WAIT_TIMED_OUT",
    "Cells",
    "Interleaver",
    "InterleavingError",
    "backoff",
    "compare_exchange",
    "deadline_after",
    "exchange",
    "fetch_add",
    "is_compiled",
    "kernel",
    "load_acquire",
    "load_relaxed",
    "now_ns",
    "park",
    "require_cells",
    "schedule_point",
    "sleep_ns",
    "specialised",
    "spin_pause",
    "store_release",
    "user_function",
    "wait_round",
    "wake_all",
    "yield_processor",
]
