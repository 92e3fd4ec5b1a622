"""An ElasticScaleGate under real threads: few nodes, many readers, members coming and going all the time."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from stretch.buffer.layout import NO_BOUND
from stretch.buffer.scalegate_kernels import (
    FULL,
    GONE,
    OK,
    add_many,
    add_readers,
    add_sources,
    advance,
    allocate_gate,
    bound_of,
    fetch,
    is_reader,
    is_source,
    next_position,
    open_readers,
    position_of,
    release_to,
    remove_readers,
    remove_sources,
    wait_for_entries,
    wait_for_room,
)
from stretch.native import deadline_after, kernel, load_acquire, store_release
from stretch.native.jit import JIT_ENABLED

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="uncompiled threads take turns under the GIL")

SOURCES, READERS = 4, 8
FIRST_GUEST = 2  # sources and readers from this slot on come and go
END = 2**60
LEDGER = 1 << 14  # more than readers can be apart
ROUND_NS = 100_000_000
MOST = 16

# What can go wrong.
OUT_OF_ORDER, LOST_OR_REPEATED, DIFFERENT, REFUSED, WRONG_START = 1, 2, 3, 4, 5


@kernel
def draw(dice, limit):
    """Return a random number below `limit`."""
    value = dice[0]
    value ^= value << 13
    value ^= (value >> 7) & ((1 << 57) - 1)
    value ^= value << 17
    dice[0] = value
    return (value & ((1 << 62) - 1)) % limit


@kernel
def insist_on_advancing(view, source, bound):
    status = advance(view, source, bound)
    while status == FULL:
        wait_for_room(view, source, 1, deadline_after(ROUND_NS))
        status = advance(view, source, bound)
    return status


@kernel
def add_batch(view, source, counts, batch, dice):
    """Add some entries; return OK or what is wrong."""
    times, ranks, refs = batch[0], batch[1], batch[2]
    now, rank = position_of(view, source)
    now = max(now, 0)
    rank = max(rank, 0)
    count = 1 + draw(dice, MOST)
    for k in range(count):
        step = max(draw(dice, 4) - 1, 0)
        rank = draw(dice, 3) if step > 0 else rank + draw(dice, 2)
        now += step
        times[k], ranks[k], refs[k] = now, rank, (counts[source] + k) << 10 | source << 8
    done = 0
    while done < count:
        added = add_many(view, source, times, ranks, refs, done, count)
        if added == GONE:
            return GONE
        if added == FULL:
            wait_for_room(view, source, count - done, deadline_after(ROUND_NS))
        elif added <= 0:
            return REFUSED
        else:
            done += added
            # load_acquire of who compares counts in the end; numbers are this thread's own until then
            store_release(counts, source, counts[source] + added)
    if draw(dice, 4) == 0:
        return insist_on_advancing(view, source, 2 * (now + draw(dice, 3)))
    return OK


@kernel
def invite_source(view, host, busy, guests, dice):
    """Add or remove one of the sources that come and go."""
    guest = FIRST_GUEST + draw(dice, SOURCES - FIRST_GUEST)
    guests[0] = guest
    if is_source(view, guest):
        remove_sources(view, guests)
    elif load_acquire(busy, guest) == 0 and add_sources(view, host, guests, bound_of(view, host)) == 1:
        store_release(busy, guest, 1)  # its thread waits for this


@kernel
def run_host_source(view, source, counts, busy, halt, batch, guests, dice):
    """Add entries until halted, with guests; return OK or what is wrong."""
    while load_acquire(halt, 0) == 0:
        status = add_batch(view, source, counts, batch, dice)
        if status != OK:
            return status
        if draw(dice, 16) == 0:
            invite_source(view, source, busy, guests, dice)
    return OK


@kernel
def run_guest_source(view, source, counts, batch, dice):
    """Add entries until removed; return GONE or what is wrong."""
    while True:
        status = add_batch(view, source, counts, batch, dice)
        if status != OK:
            return status


@kernel
def check_entry(position, when, ref, last, numbers, ledger):
    """Compare an entry with what came before, and with what others got at this position."""
    if when < last:
        return OUT_OF_ORDER
    if ref & 3 == 0:
        source, number = (ref >> 8) & 3, ref >> 10
        if numbers[source] >= 0 and number != numbers[source]:
            return LOST_OR_REPEATED
        numbers[source] = number + 1
    at = (position % LEDGER) * 4
    # The first at a position writes; load_acquire and store_release pair with each other.
    if load_acquire(ledger, at) == position + 1:
        return OK if load_acquire(ledger, at + 1) == when and load_acquire(ledger, at + 2) == ref else DIFFERENT
    store_release(ledger, at + 1, when)
    store_release(ledger, at + 2, ref)
    store_release(ledger, at, position + 1)
    return OK


@kernel
def invite_reader(view, host, position, busy, starts, guests, dice):
    """Add or remove one of the readers that come and go; they start with an entry of the host's last batch."""
    guest = FIRST_GUEST + draw(dice, READERS - FIRST_GUEST)
    guests[0] = guest
    if is_reader(view, guest):
        remove_readers(view, guests)
    elif load_acquire(busy, guest) == 0:
        status = add_readers(view, host, guests, position)
        if status < 0:
            return WRONG_START
        if status == 1:
            starts[guest] = position
            store_release(busy, guest, 1)  # its thread waits for this
    return OK


@kernel
def run_reader(view, reader, numbers, ledger, busy, starts, guests, arrays, dice):
    """Read and check until the end (OK) or until removed (GONE)."""
    times, refs = arrays[0], arrays[1]
    mask = times.shape[0] - 1
    position, last = next_position(view, reader), -END
    while True:
        count = fetch(view, reader, times, refs, 1 + draw(dice, MOST))
        if count == GONE:
            return GONE
        if count == 0:
            release_to(view, reader, position)
            wait_for_entries(view, reader, deadline_after(ROUND_NS))
            continue
        for at in range(position, position + count):
            when, ref = times[at & mask], refs[at & mask]
            status = check_entry(at, when, ref, last, numbers, ledger)
            if status != OK:
                return status
            last = when
            if when == END:
                release_to(view, reader, at + 1)
                return OK
        if reader < FIRST_GUEST and draw(dice, 8) == 0:
            start = position + draw(dice, count + 1)
            release_to(view, reader, position + draw(dice, start - position + 1))
            if invite_reader(view, reader, start, busy, starts, guests, dice) != OK:
                return WRONG_START
        position += count
        release_to(view, reader, position - draw(dice, 2))


class Party:
    """The threads, and what they share."""

    def __init__(self, ring: int, seed: int) -> None:
        self.view = allocate_gate([None] * SOURCES, READERS, capacity=ring, spread=1)
        hosts = np.arange(FIRST_GUEST)
        open_readers(self.view, hosts)
        add_sources(self.view, -1, hosts, NO_BOUND)
        self.random = np.random.default_rng(seed)
        self.counts = np.zeros(SOURCES, np.int64)
        self.halt = np.zeros(1, np.int64)
        self.busy_sources, self.busy_readers = np.zeros(SOURCES, np.int64), np.zeros(READERS, np.int64)
        self.starts = np.zeros(READERS, np.int64)
        self.ledger = np.zeros(LEDGER * 4, np.int64)
        self.numbers = np.zeros((READERS, SOURCES), np.int64)
        self.is_over = False
        self.visits = 0
        self.wrong: list[str] = []

    def dice(self):
        return self.random.integers(1, 2**62, 1)

    def host_source(self, source: int, dice) -> None:
        batch, guests = np.zeros((3, MOST), np.int64), np.zeros(1, np.int64)
        status = run_host_source(self.view, source, self.counts, self.busy_sources, self.halt, batch, guests, dice)
        self.report(status, OK, f"source {source}")
        remove_sources(self.view, np.arange(FIRST_GUEST, SOURCES))
        self.report(insist_on_advancing(self.view, source, 2 * END), OK, f"the end of source {source}")

    def guest_source(self, source: int, dice) -> None:
        while self.wait_for(self.busy_sources, source):
            status = run_guest_source(self.view, source, self.counts, np.zeros((3, MOST), np.int64), dice)
            self.report(status, GONE, f"source {source}")
            self.visits += 1
            store_release(self.busy_sources, source, 0)  # pairs with the load_acquire of invite_source

    def read(self, reader: int, dice, expected: int) -> None:
        arrays, guests = np.zeros((2, 4 * MOST), np.int64), np.zeros(1, np.int64)
        arguments = (self.numbers[reader], self.ledger, self.busy_readers, self.starts, guests, arrays, dice)
        status = run_reader(self.view, reader, *arguments)
        self.report(status, OK if status == OK else expected, f"reader {reader}")

    def guest_reader(self, reader: int, dice) -> None:
        while self.wait_for(self.busy_readers, reader):
            self.numbers[reader] = -1
            self.read(reader, dice, GONE)
            self.visits += 1
            if not self.is_over:
                store_release(self.busy_readers, reader, 0)  # pairs with the load_acquire of invite_reader
            time.sleep(0.001)

    def wait_for(self, busy, slot: int) -> bool:
        while load_acquire(busy, slot) == 0:
            if self.is_over:
                return False
            time.sleep(0.0005)
        return not self.is_over

    def report(self, status: int, expected: int, who: str) -> None:
        if status != expected:
            self.wrong.append(f"{who}: {status}")
            self.is_over = True
            store_release(self.halt, 0, 1)  # pairs with the load_acquire of run_host_source
            store_release(self.view.stop, 0, 1)  # pairs with the load_acquire of wait_round

    def run(self, seconds: float) -> None:
        hosts: list[tuple[object, ...]] = [(self.host_source, slot, self.dice()) for slot in range(FIRST_GUEST)]
        hosts += [(self.read, slot, self.dice(), OK) for slot in range(FIRST_GUEST)]
        guests: list[tuple[object, ...]] = [
            (self.guest_source, slot, self.dice()) for slot in range(FIRST_GUEST, SOURCES)
        ]
        guests += [(self.guest_reader, slot, self.dice()) for slot in range(FIRST_GUEST, READERS)]
        threads = [threading.Thread(target=each[0], args=each[1:], daemon=True) for each in hosts + guests]
        for thread in threads:
            thread.start()
        threads[0].join(seconds)
        store_release(self.halt, 0, 1)  # pairs with the load_acquire of run_host_source
        for thread in threads[: len(hosts)]:
            thread.join(20)
        self.is_over = True
        for thread in threads[len(hosts) :]:
            thread.join(20)
        assert not self.wrong
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"


def play(ring: int, seconds: float, seed: int) -> Party:
    party = Party(ring, seed)
    party.run(seconds)
    assert (party.numbers[:FIRST_GUEST] == party.counts).all(), "the first readers have got everything"
    assert party.visits > 10 * seconds
    return party


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Compile everything before time counts."""
    Party(16, 0).run(0.1)


@pytest.mark.parametrize("ring", [4, 16])
def test_members_come_and_go(ring):
    play(ring, 2, seed=ring)


@pytest.mark.stress
@pytest.mark.parametrize("ring", [4, 8, 16, 64])
@pytest.mark.parametrize("seed", range(3))
def test_members_come_and_go_for_long(ring, seed):
    play(ring, 20, seed)
