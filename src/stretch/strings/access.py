"""Who may be inside of a dictionary: any number that look up and add, or one that moves things.

What
    Sources and decoders are *inside* for a piece of work of bounded size. A sweep *closes* the dictionary: nobody
    comes in any more, those inside finish their piece, and then it is alone. Then it opens again.

Invariants
    A1  INSIDE is the number of threads inside, plus CLOSED while one thread closes or has closed. All changes are
        read-modify-writes of this one cell, so they have one order: a thread came in before the closing, and is
        counted and waited for, or it sees CLOSED and stays out.
    A2  At most one thread closes: the one whose compare_exchange set CLOSED.
    A3  Every wait ends: nobody inside waits for anything, a piece is bounded, a sweep is too. The deadline is for
        defects only. Closing keeps newcomers out, so those inside get fewer until none is left.

Who writes what
    INSIDE: everyone, by read-modify-write. OPENED, EMPTIED: wait cells, written by `stretch.native.waiting`.

Memory order
    `leave` releases and `close` acquires: the one that is alone sees what all others have written. `open_again`
    releases and `enter` acquires: those who come in see what it has moved.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stretch.native.atomics import Cells, compare_exchange, fetch_add, load_acquire
from stretch.native.jit import kernel
from stretch.native.waiting import WAIT_AGAIN, WAIT_STOPPED, deadline_after, wait_round, wake_all
from stretch.strings.layout import CLOSED, DONE, EMPTIED, INSIDE, OPENED, STOPPED, TIMED_OUT, DictionaryView
from stretch.strings.tokenise import Long

WAIT_NS_MAX: Final = 60_000_000_000

# What functions get as int64, for Numba would compile them once for each constant.
_0: Final[Long] = np.int64(0)
_ONE: Final[Long] = np.int64(1)
_CLOSED: Final[Long] = np.int64(CLOSED)
_OPENED: Final[Long] = np.int64(OPENED)
_EMPTIED: Final[Long] = np.int64(EMPTIED)


@kernel
def enter(view: DictionaryView) -> int:
    """Come in, when nobody has closed; return DONE, STOPPED or TIMED_OUT. Leave soon, and wait for nothing inside."""
    return _add_when_open(view.control, view.stop, _ONE)


@kernel
def leave(view: DictionaryView) -> None:
    """Go out again."""
    # Releases what was done inside; pairs with the load_acquire of `close`.
    if fetch_add(view.control, INSIDE, -1) == CLOSED + 1:
        wake_all(view.control, _EMPTIED)


@kernel
def close(view: DictionaryView) -> int:
    """Keep everyone out and wait until all have left; return DONE, or STOPPED or TIMED_OUT, and then it is open."""
    control = view.control
    status = _add_when_open(control, view.stop, _CLOSED)
    deadline_ns = deadline_after(WAIT_NS_MAX)
    attempt = _0
    while status == DONE:
        ticket = load_acquire(control, EMPTIED)  # acquire: pairs with wake_all in `leave`
        if load_acquire(control, INSIDE) == CLOSED:  # acquire: pairs with the fetch_add of `leave`
            return DONE
        status = _status_of(wait_round(control, _EMPTIED, ticket, attempt, view.stop, deadline_ns))
        attempt += 1
        if status != DONE:
            open_again(view)
    return status


@kernel
def open_again(view: DictionaryView) -> None:
    """Let everyone in again."""
    # Releases what was moved; pairs with the compare_exchange of those who come in.
    fetch_add(view.control, INSIDE, -CLOSED)
    wake_all(view.control, _OPENED)


@kernel
def _add_when_open(control: Cells, stop: Cells, value: int) -> int:
    deadline_ns = deadline_after(WAIT_NS_MAX)
    attempt = _0
    while True:
        ticket = load_acquire(control, OPENED)  # acquire: pairs with wake_all in `open_again`
        found = load_acquire(control, INSIDE)  # acquire: pairs with the fetch_add of `open_again`
        if found < CLOSED:
            # Acquires what `open_again` has released (A1).
            if compare_exchange(control, INSIDE, found, found + value):
                return DONE
            continue
        status = _status_of(wait_round(control, _OPENED, ticket, attempt, stop, deadline_ns))
        if status != DONE:
            return status
        attempt += 1


@kernel(inline=True)
def _status_of(waited: int) -> int:
    if waited == WAIT_AGAIN:
        return DONE
    return STOPPED if waited == WAIT_STOPPED else TIMED_OUT
