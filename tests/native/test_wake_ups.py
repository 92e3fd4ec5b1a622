"""No order of turns loses a wake-up: `park` and `wake_all` under the interleaver, and faults that it must find.

Uncompiled only (`test_modes.py` runs it so): there `park` and `wake_all` are Python on the twins of atomics and futex.
With `strict_parks` a run in which everybody is parked is an error, so a lost wake-up cannot hide behind a timeout.
"""

from __future__ import annotations

import numpy as np
import pytest

from stretch.native import (
    PARK_AT_ONCE,
    WAIT_AGAIN,
    WAIT_STOPPED,
    Interleaver,
    InterleavingError,
    compare_exchange,
    deadline_after,
    fetch_add,
    load_acquire,
    load_relaxed,
    park,
    store_release,
    wait_round,
    waiting,
    wake_all,
)
from stretch.native.jit import JIT_ENABLED
from stretch.native.system import futex_wait, futex_wake

if JIT_ENABLED:
    pytest.skip("explored uncompiled: test_modes.py runs this file so", allow_module_level=True)

WAKE, STOP, ITEMS = 0, 1, 2
LONG_NS = 10**12
SEEDS = range(200)


def consume(cells, park=park, look_first=False):
    """Wait for all items, one after the other."""
    for wanted in range(1, 5):
        while True:
            if look_first and load_acquire(cells, ITEMS) >= wanted:  # the fault: the ticket is taken too late
                break
            ticket = load_acquire(cells, WAKE)  # pairs with wake
            if not look_first and load_acquire(cells, ITEMS) >= wanted:  # pairs with the fetch_add of produce
                break
            park(cells, WAKE, ticket, LONG_NS)


def produce(cells, items=2, wake=wake_all, wake_first=False):
    for _ in range(items):
        if wake_first:  # the fault: it wakes before there is anything to see
            wake(cells, WAKE)
        fetch_add(cells, ITEMS, 1)  # publishes an item to consume
        if not wake_first:
            wake(cells, WAKE)


WELL = "well"


def how_it_ends(seed, consumer, producer):
    cells = np.zeros(3, np.int64)
    consumers, producers = [lambda: consumer(cells)] * 2, [lambda: producer(cells)] * 2
    try:
        Interleaver(seed, strict_parks=True).run(consumers + producers)
    except InterleavingError as error:
        return str(error)
    announced = cells[WAKE] % 2**32
    return WELL if announced == 0 else f"{announced} still announced"


def seeds_that_fail(consumer=consume, producer=produce):
    return [seed for seed in SEEDS if how_it_ends(seed, consumer, producer) != WELL]


def test_no_wake_up_is_lost():
    assert seeds_that_fail() == []


def test_finds_a_ticket_taken_after_the_look():
    def consume_wrongly(cells):
        consume(cells, look_first=True)

    seeds = seeds_that_fail(consumer=consume_wrongly)
    assert seeds
    text = how_it_ends(seeds[0], consume_wrongly, produce)
    assert text == how_it_ends(seeds[0], consume_wrongly, produce)
    lines = text.splitlines()
    assert lines[0] == (
        "The workers cannot go on: every worker is parked and nobody is left to wake one: a wake-up was lost"
    )
    assert any(line.startswith("  worker 0 (") and f") is parked at {__file__}:" in line for line in lines)
    assert lines[-3].endswith(f" of seed {seeds[0]}")


def test_finds_a_wake_before_the_publication():
    assert seeds_that_fail(producer=lambda cells: produce(cells, wake_first=True))


def wake_only_the_announced(cells, index):
    """Leave the sequence alone when nobody is parked: those about to park miss it."""
    if load_relaxed(cells, index) % 2**32 != 0:
        wake_all(cells, index)


def wake_without_system_call(cells, index):
    fetch_add(cells, index, 1 << 32)


def park_without_announcement(cells, index, expected, timeout_ns):
    futex_wait(cells, index, expected, timeout_ns)


def wake_in_two_steps(cells, index):
    """Advance the sequence and zero the count by two instructions: a count in between is lost."""
    value = fetch_add(cells, index, 1 << 32)
    store_release(cells, index, ((value >> 32) + 1) << 32)
    if value % 2**32 != 0:
        futex_wake(cells, index)


def park_without_comparison(cells, index, expected, timeout_ns):
    """Announce blindly, and sleep on the sequence of that moment rather than on the ticket's."""
    announced = fetch_add(cells, index, 1)
    futex_wait(cells, index, announced, timeout_ns)


@pytest.mark.parametrize("wake", [wake_only_the_announced, wake_without_system_call, wake_in_two_steps])
def test_finds_a_broken_wake(wake):
    assert seeds_that_fail(producer=lambda cells: produce(cells, wake=wake))


@pytest.mark.parametrize("broken_park", [park_without_announcement, park_without_comparison])
def test_finds_a_broken_park(broken_park):
    assert seeds_that_fail(consumer=lambda cells: consume(cells, park=broken_park))


def test_timeouts_take_the_announcement_back():
    """Parks that time out, in all orders with wakes: the count is exact at the end, and never negative."""

    def park_shortly(cells):
        for _ in range(5):
            ticket = load_acquire(cells, WAKE)  # pairs with wake_all
            park(cells, WAKE, ticket, 3_000)
            assert 0 <= load_acquire(cells, WAKE) % 2**32 <= 2  # as above

    def wake_often(cells):
        for _ in range(5):
            assert wake_all(cells, WAKE) <= 2

    for seed in SEEDS:
        cells = np.zeros(3, np.int64)
        workers = [lambda cells=cells: park_shortly(cells)] * 2 + [lambda cells=cells: wake_often(cells)]
        Interleaver(seed).run(workers)
        assert cells[WAKE] == 5 << 32


def test_only_a_wake_of_the_announced_calls_the_system(monkeypatch):
    calls = []
    monkeypatch.setattr(waiting, "futex_wake", lambda cells, index: calls.append(index))
    cells = np.zeros(3, np.int64)
    assert wake_all(cells, WAKE) == 0
    assert calls == []
    assert compare_exchange(cells, WAKE, 1 << 32, (1 << 32) + 2)  # two announced, as park does
    assert wake_all(cells, WAKE) == 2
    assert wake_all(cells, WAKE) == 0
    assert calls == [WAKE]


@pytest.mark.parametrize("first_attempt", [0, PARK_AT_ONCE])
def test_wait_loop_ends_by_item_or_stop(first_attempt):
    def wait_for_item(cells):
        attempt = first_attempt
        while True:
            ticket = load_acquire(cells, WAKE)  # pairs with wake_all
            if load_acquire(cells, ITEMS) > 0:  # pairs with the fetch_add of produce
                return WAIT_AGAIN
            status = wait_round(cells, WAKE, ticket, attempt, cells[STOP : STOP + 1], deadline_after(LONG_NS))
            if status != WAIT_AGAIN:
                return status
            attempt += 1

    def stop(cells):
        store_release(cells, STOP, 1)  # pairs with the load_acquire of wait_round
        wake_all(cells, WAKE)

    statuses = set()
    for seed in range(60):
        cells = np.zeros(3, np.int64)
        enders = [lambda cells=cells: produce(cells, items=1), lambda cells=cells: stop(cells)]
        waiters = [lambda cells=cells: wait_for_item(cells)] * 2
        statuses.update(Interleaver(seed, strict_parks=True).run(waiters + enders)[:2])
    assert statuses == {WAIT_AGAIN, WAIT_STOPPED}
