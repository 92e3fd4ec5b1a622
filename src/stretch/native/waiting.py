"""How a thread waits for another one: spin a little, yield a little, then park.

What
    A *wait cell* is an int64 of a shared array, zero at the start. `park` blocks on it, `wake_all` wakes everyone who
    does. Its high 32 bits are a *sequence* that every wake advances, its low 32 bits count the parked threads. What
    is waited for lives elsewhere: the cell only says "something changed, look again".

    A wait is always this loop; `wait_round` is its backoff, its stop check and its bound:

        attempt = 0
        while True:
            ticket = load_acquire(cells, index)       # first the ticket,
            if is_there(...):                         # then the look: W2
                break
            status = wait_round(cells, index, ticket, attempt, stop, deadline_ns)
            if status != WAIT_AGAIN:
                return status                         # WAIT_STOPPED or WAIT_TIMED_OUT
            attempt += 1

    and its partner publishes first, then wakes: `store_release(...)`, `wake_all(cells, index)`. Wake once per batch.

Invariants
    W1  Only `park` and `wake_all` change a wait cell. A wake makes (sequence, count) into (sequence + 1, 0); a thread
        about to park makes the count one more, and one less if it gives up in the same sequence.
    W2  No wake-up is lost. All changes of the cell are read-modify-writes of one word, so they have one order. Take a
        wake and a thread that took its ticket, looked in vain, and parks.
          - If its count came after the wake, the sequence differs from the ticket, and it does not park. (Had the
            ticket already been the wake's, its acquire would have shown what was published, and the look succeeded.)
          - If its count came before, the wake saw a count and calls the system. There, comparing the sequence and
            falling asleep is one step for a wake: either the thread sees the new sequence, or it is woken.
        One word is needed for that. With the count in a cell of its own, each side would write one cell and read the
        other, which acquire and release do not order.
    W3  Nobody parked costs a wake one instruction, no system call. A wake zeroes the count, so that of many wakes in
        a row only the first calls the system, even if the woken have not run yet.
    W4  A park ends: by a wake, its timeout, a signal, or a wake meant for an earlier sleeper. So look again after it.
    W5  A thread that takes up its ticket exactly 2**32 wakes later would take it for fresh. Its park still ends (W4).

Who writes what
    sequence: wakers. count: wakers and parkers. Both through compare_exchange only.

Memory order
    The wake's compare_exchange (release side) publishes what was written before it; the waiter's load_acquire of the
    ticket, and `park`'s own, pair with it.

Interleavings
    `park` and `wake_all` have no twins: uncompiled, the same lines run on the twins of the atomics and of the futex,
    so the interleaver tests W2 itself.
"""

from __future__ import annotations

from typing import Final

from stretch.native.atomics import Cells, compare_exchange, load_acquire, load_relaxed
from stretch.native.jit import JIT_ENABLED, kernel
from stretch.native.system import futex_wait, futex_wake, now_ns, sleep_ns, spin_pause, yield_processor

# What `wait_round` returns.
WAIT_AGAIN: Final = 0  # look again
WAIT_STOPPED: Final = 1  # the stop flag is set
WAIT_TIMED_OUT: Final = 2  # the deadline has passed

# Doubling spins of 1 to 32 pauses, about 3 us in all: less than a park and its wake cost. Uncompiled, a spin only
# keeps the GIL busy.
SPIN_ATTEMPTS: Final = 6 if JIT_ENABLED else 1
YIELD_ATTEMPTS: Final = 4
PARK_AT_ONCE: Final = SPIN_ATTEMPTS + YIELD_ATTEMPTS  # start counting attempts here to skip spinning

# Longest sleep of one round. It bounds how late a stop is seen by a thread that nobody wakes.
PARK_NS_MAX: Final = 50_000_000
SLEEP_NS_MIN: Final = 20_000
SLEEP_NS_MAX: Final = 1_000_000

_COUNT_MASK: Final = 2**32 - 1


@kernel
def park(cells: Cells, index: int, expected: int, timeout_ns: int) -> bool:
    """Block until the cell's sequence is no longer that of `expected`, the ticket; tell whether it is so.

    False means that the timeout passed, or nothing at all (W4): look again. Returns at once when a wake came since
    the ticket was taken.
    """
    while True:
        value = load_acquire(cells, index)  # acquire: pairs with the compare_exchange of wake_all
        if (value ^ expected) >> 32 != 0:
            return True
        # Announces this thread to wake_all (W2).
        if compare_exchange(cells, index, value, value + 1):
            break
    futex_wait(cells, index, expected, timeout_ns)
    while True:
        value = load_acquire(cells, index)  # acquire: pairs with the compare_exchange of wake_all
        if (value ^ expected) >> 32 != 0:
            return True  # the wake has zeroed the count
        # Takes the announcement back, unless wake_all comes first.
        if compare_exchange(cells, index, value, value - 1):
            return False


@kernel
def wake_all(cells: Cells, index: int) -> int:
    """Wake every thread that parks on the cell, or is about to; return how many were announced.

    Call it after what they wait for has been published. Lock-free: it repeats only if another wake or park succeeded.
    """
    while True:
        value = load_relaxed(cells, index)
        # Release: publishes to the acquires of the ticket in wait loops and in park; zeroes the count (W1).
        if compare_exchange(cells, index, value, ((value >> 32) + 1) << 32):
            break
    parked = value & _COUNT_MASK
    if parked != 0:
        futex_wake(cells, index)
    return parked


@kernel
def wait_round(cells: Cells, index: int, ticket: int, attempt: int, stop: Cells, deadline_ns: int) -> int:
    """Wait once, longer with each attempt; return WAIT_AGAIN, WAIT_STOPPED or WAIT_TIMED_OUT.

    `stop` is an array whose cell 0 is not zero when everyone shall stop. Whoever sets it wakes the wait cells, or
    the parked see it up to PARK_NS_MAX late.
    """
    if load_acquire(stop, 0) != 0:  # acquire: pairs with the store_release of whoever stops the workers
        return WAIT_STOPPED
    if attempt < SPIN_ATTEMPTS:
        for _ in range(1 << attempt):
            spin_pause()
        return WAIT_AGAIN
    left_ns = deadline_ns - now_ns()
    if left_ns <= 0:
        return WAIT_TIMED_OUT
    if attempt < PARK_AT_ONCE:
        yield_processor()
    else:
        park(cells, index, ticket, min(left_ns, PARK_NS_MAX))
    return WAIT_AGAIN


@kernel
def backoff(attempt: int) -> None:
    """Wait a moment that grows with each attempt, up to SLEEP_NS_MAX: for waits that have no cell to park on.

    For short waits (a try-lock that is held for some instructions). The caller checks its stop flag and its bound.
    """
    if attempt < SPIN_ATTEMPTS:
        for _ in range(1 << attempt):
            spin_pause()
    elif attempt < PARK_AT_ONCE:
        yield_processor()
    else:
        sleep_ns(min(SLEEP_NS_MIN << min(attempt - PARK_AT_ONCE, 16), SLEEP_NS_MAX))


@kernel
def deadline_after(timeout_ns: int) -> int:
    """Return the time `timeout_ns` from now, for `wait_round`."""
    return now_ns() + timeout_ns
