"""Real threads without the GIL: what the atomics promise holds between cores."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from stretch.native import (
    backoff,
    compare_exchange,
    exchange,
    fetch_add,
    kernel,
    load_acquire,
    load_relaxed,
    store_release,
)
from stretch.native.jit import JIT_ENABLED
from tests.native.modes import run_python

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="uncompiled threads take turns under the GIL")

PAYLOAD = 8  # words


def run_threads(function, arguments):
    """Call `function` with each tuple of arguments, all at once; return the results."""
    results = [None] * len(arguments)

    def call(position):
        results[position] = function(*arguments[position])

    threads = [threading.Thread(target=call, args=(position,), daemon=True) for position in range(len(arguments))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a thread hangs"
    return results


@kernel
def add_often(cells, count):
    for _ in range(count):
        fetch_add(cells, 1, 1)  # pairs with itself in the other threads


@pytest.mark.parametrize("cells", [np.zeros(3, np.int64), np.zeros(9, np.int64)[::3]], ids=["plain", "strided"])
def test_fetch_add_loses_nothing(cells):
    run_threads(add_often, [(cells, 250_000)] * 4)
    assert cells.tolist() == [0, 1_000_000, 0]


def test_python_and_kernels_add_to_one_cell():
    cells = np.zeros(3, np.int64)

    def add_from_python(cells, count):
        for _ in range(count):
            fetch_add(cells, 1, 1)

    arguments = [(add_often, cells, 500_000)] * 2 + [(add_from_python, cells, 20_000)] * 2
    run_threads(lambda function, *rest: function(*rest), arguments)
    assert cells[1] == 1_040_000


@kernel
def add_under_lock(lock, count, times):
    for _ in range(times):
        attempt = 0
        # pairs with the store_release below: what the last owner wrote is visible
        while load_relaxed(lock, 0) != 0 or not compare_exchange(lock, 0, 0, 1):
            backoff(attempt)
            attempt += 1
        count[0] += 1  # a plain cell: only the lock protects it
        store_release(lock, 0, 0)


def test_compare_exchange_excludes():
    lock, count = np.zeros(1, np.int64), np.zeros(1, np.int64)
    run_threads(add_under_lock, [(lock, count, 50_000)] * 4)
    assert count[0] == 200_000


@kernel
def send(payload, turn, rounds):
    for number in range(1, rounds + 1):
        attempt = 0
        while load_acquire(turn, 0) != 0:  # pairs with the release of the receiver: it has read everything
            backoff(attempt)
            attempt += 1
        for word in range(len(payload)):
            payload[word] = number * 1_000 + word
        store_release(turn, 0, number)  # publishes the payload


@kernel
def receive(payload, turn, rounds):
    wrong = 0
    for number in range(1, rounds + 1):
        attempt = 0
        while load_acquire(turn, 0) != number:  # pairs with the release of the sender
            backoff(attempt)
            attempt += 1
        for word in range(len(payload)):
            wrong += payload[word] != number * 1_000 + word
        store_release(turn, 0, 0)
    return wrong


def test_release_publishes_to_acquire():
    payload, turn = np.zeros(PAYLOAD, np.int64), np.zeros(1, np.int64)
    results = run_threads(
        lambda function: function(payload, turn, 30_000),
        [(send,), (receive,)],
    )
    assert results[1] == 0


@kernel
def take_all(cells, rounds):
    taken = 0
    for _ in range(rounds):
        fetch_add(cells, 0, 1)  # pairs with the exchange of the other threads
        taken += exchange(cells, 0, 0)
    return taken


def test_exchange_takes_each_once():
    cells = np.zeros(1, np.int64)
    assert sum(run_threads(take_all, [(cells, 200_000)] * 4)) + cells[0] == 800_000


SPINNERS = """
import os, threading, time
import numpy as np
from stretch.native import kernel, load_acquire

@kernel
def spin_on_plain_load(cells):
    rounds = 0
    while cells[0] == 0:
        rounds += 1
    return rounds

@kernel
def spin_on_acquire(cells):
    rounds = 0
    while load_acquire(cells, 0) == 0:
        rounds += 1
    return rounds

spin_on_plain_load(np.ones(1, np.int64))
spin_on_acquire(np.ones(1, np.int64))
for spin in (spin_on_acquire, spin_on_plain_load):
    cells = np.zeros(1, np.int64)
    thread = threading.Thread(target=spin, args=(cells,), daemon=True)
    thread.start()
    time.sleep(0.1)
    cells[0] = 1
    thread.join(0.5 if spin is spin_on_plain_load else 20)
    print(spin.__name__, "hangs" if thread.is_alive() else "ends", flush=True)
os._exit(0)
"""


def test_reminder_that_a_loop_on_a_plain_load_hangs():
    """Not a promise but the reason for load_acquire; if the second line changes, Numba has changed."""
    assert run_python("-c", SPINNERS).splitlines() == ["spin_on_acquire ends", "spin_on_plain_load hangs"]
