"""Interleavings of the ElasticScaleGate: tiny rings, members coming and going, every order of turns from a seed.

The kernels run uncompiled. Compiled, this file runs itself in a process without compilation.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from stretch.buffer import scalegate_kernels as gate
from stretch.buffer.layout import NO_BOUND
from stretch.buffer.scalegate_layout import NEXT_NUMBER, SOURCE_CELLS
from stretch.native import Interleaver, deadline_after
from stretch.native.jit import JIT_ENABLED
from stretch.native.system import sleep_ns

SEEDS = range(150)
END = 1_000
LONG_NS = 10**12
DATA, WATERMARK = 0, 1
uncompiled = pytest.mark.skipif(JIT_ENABLED, reason="kernels take turns only when they are not compiled")


def slots(*numbers):
    return np.array(numbers, np.int64)


class Run:
    """A gate, what was added to it, and what its readers got; every disagreement is an error at once."""

    def __init__(self, seed, *, ring):
        self.random = random.Random(seed)
        # Who looks at all slots in turn shall come upon new members before and after old ones.
        chosen = self.random.choice(((0, 1, 2, 3), (3, 2, 1, 0), (1, 2, 3, 0)))
        self.members, self.others = chosen[:2], chosen[2:]  # slots of sources and readers alike
        self.view = gate.allocate_gate([None] * 4, 4, capacity=ring, spread=1)
        gate.open_readers(self.view, slots(*self.members))
        assert gate.add_sources(self.view, -1, slots(*self.members), NO_BOUND) == len(self.members)
        self.added = {}  # ref -> (time, rank, source, number)
        self.got = {}  # position -> (time, ref)
        self.seen = {}  # reader -> positions

    # --- Programs of threads

    def sources(self, *steps):
        """Return the programs of the sources that are there from the beginning."""
        pairs = zip(self.members, steps, strict=True)
        return [lambda source=source, count=count: self.add_some(source, count) for source, count in pairs]

    def readers(self, *sizes):
        """Return the programs of the readers that are there from the beginning, with the sizes of their batches."""
        pairs = zip(self.members, sizes, strict=True)
        return [lambda reader=reader, most=most: self.read_all(reader, most) for reader, most in pairs]

    def add_some(self, source, steps, *, end=True):
        """Add entries and promises of growing positions; stop when removed."""
        view, choose = self.view, self.random
        time, rank = gate.position_of(view, source)
        time, number = max(time, 0), 0
        for _ in range(steps):
            action = choose.random()
            if action < 0.25:
                time += choose.randrange(1, 4)
                rank = -2
                status = self.insist(source, lambda time=time: gate.advance(view, source, 2 * time))
                if status == gate.GONE:
                    return
                continue
            count = 1 if action < 0.5 else choose.randrange(2, 5)
            entries = []
            for _ in range(count):
                step = choose.choice((0, 0, 1, 2))
                rank = max(rank, 0) + choose.randrange(2) if step == 0 else choose.randrange(3)
                time += step
                ref = (source * 1_000 + number + int(view.sources[source * SOURCE_CELLS + NEXT_NUMBER]) * 10_000) << 8
                number += 1
                entries.append((time, rank, ref))
            if not self.add_all(source, entries):
                return
        if end:
            self.insist(source, lambda: gate.advance(view, source, 2 * END))

    def add_all(self, source, entries):
        """Add entries as fast as there is room; False when the source was removed meanwhile."""
        times, ranks, refs = (np.array(column, np.int64) for column in zip(*entries, strict=True))
        done = 0
        while done < len(entries):
            if len(entries) == 1:
                one = self.insist(source, lambda: gate.add(self.view, source, *entries[0]))
                count = 1 if one == gate.OK else one
            else:
                first = done
                count = self.insist(
                    source, lambda first=first: gate.add_many(self.view, source, times, ranks, refs, first, len(times))
                )
            if count == gate.GONE:
                return False
            for time, rank, ref in entries[done : done + count]:
                assert ref not in self.added
                self.added[ref] = (time, rank, source)
            done += count
        return True

    def insist(self, source, call):
        """Repeat a call until there is room."""
        while (status := call()) == gate.FULL:
            assert gate.wait_for_room(self.view, source, 1, deadline_after(LONG_NS)) == 0
        assert status != gate.LATE
        return status

    def read_all(self, reader, most, after_batch=lambda position: None):
        """Read until the end, or until removed."""
        view = self.view
        times, refs = np.zeros(16, np.int64), np.zeros(16, np.int64)
        seen = self.seen.setdefault(reader, [])
        position = gate.next_position(view, reader)
        while True:
            count = gate.fetch(view, reader, times, refs, most)
            if count == gate.GONE:
                return
            for at in range(position, position + count):
                entry = (int(times[at & 15]), int(refs[at & 15]))
                assert self.got.setdefault(at, entry) == entry, f"reader {reader} differs at {at}"
                seen.append(at)
                if entry == (END, WATERMARK):
                    gate.release_to(view, reader, at + 1)
                    return
            position += count
            after_batch(position)
            # What was got last may stay, unless the reader is about to wait.
            gate.release_to(view, reader, position - (self.random.randrange(2) if count else 0))
            if count == 0:
                assert gate.wait_for_entries(view, reader, deadline_after(LONG_NS)) == 0

    def wait_until(self, is_so):
        while not is_so():
            sleep_ns(20_000)

    # --- What has to hold in the end

    def check(self):
        """One sorted sequence, the same for all: each entry once, a watermark only where it says something new."""
        assert sorted(self.got) == list(range(len(self.got)))
        entries = [self.got[position] for position in range(len(self.got))]
        data = [ref for _, ref in entries if ref & 3 == DATA]
        assert sorted(data) == sorted(self.added)
        order = [self.added[ref][:2] for ref in data]
        assert order == sorted(order)
        assert all(self.added[ref][0] == time for time, ref in entries if ref & 3 == DATA)
        for source in range(4):
            own = [ref for ref in data if self.added[ref][2] == source]
            assert own == [ref for ref in self.added if self.added[ref][2] == source]
        for (before, _), (time, ref) in itertools.pairwise(entries):
            assert time > before if ref & 3 == WATERMARK else time >= before
        for reader, positions in self.seen.items():
            assert reader in self.others or positions == list(range(len(self.got)))


def two_and_two(seed):
    """Two sources and two readers."""
    run = Run(seed, ring=4)
    play(seed, [*run.sources(5, 5), *run.readers(3, 1)])
    run.check()


def readers_come_and_go(seed):
    """Both readers try to add two more, from different positions; one succeeds; one of the two is removed again."""
    run = Run(seed, ring=8)
    staying, leaving = run.others
    guests = slots(staying, leaving)
    told, over = [], []

    def invite(reader):
        def after_batch(position):
            if position >= 2 and reader not in over:
                over.append(reader)
                start = position - 1 if reader == run.members[0] else position  # of the last entry, or of the next one
                told.append((gate.add_readers(run.view, reader, guests, start), start))

        return after_batch

    def guest(reader):
        run.wait_until(lambda: gate.is_reader(run.view, reader))
        run.read_all(reader, 2)

    def remove():
        run.wait_until(lambda: len(run.seen.get(leaving, [])) >= 2 and len(told) >= 2)
        assert gate.remove_readers(run.view, slots(leaving)) == 1

    reading = [lambda reader=reader: run.read_all(reader, 2, invite(reader)) for reader in run.members]
    play(seed, [*run.sources(4, 4), *reading, lambda: guest(staying), lambda: guest(leaving), remove])
    run.check()
    assert sorted(count for count, _ in told) == [0, 2]
    start = max(told)[1]
    assert run.seen[staying] == list(range(start, len(run.got)))
    assert run.seen[leaving] == list(range(start, start + len(run.seen[leaving])))


def sources_come_and_go(seed):
    """A source adds another one with its own bound; that one is removed in the middle of a call, and comes back."""
    run = Run(seed, ring=8)
    host, guest, rounds = run.members[0], run.others[0], 2
    entered, left = [], []

    def add_and_invite():
        for _ in range(rounds):
            run.add_some(host, 2, end=False)
            while (count := gate.add_sources(run.view, host, slots(guest), gate.bound_of(run.view, host))) == gate.FULL:
                run.add_some(host, 1, end=False)  # what the guest left may wait for this very source
                gate.wait_to_enter(run.view, slots(guest), deadline_after(1_000_000))
            assert count == 1
            entered.append(guest)
            run.add_some(host, 2, end=False)
            run.wait_until(lambda: len(left) == 2 * len(entered))
        run.add_some(host, 0)

    def be_guest():
        for number in range(rounds):
            run.wait_until(lambda number=number: len(entered) > number)
            run.add_some(guest, 3, end=False)
            left.append("itself")

    def remove():
        for number in range(rounds):
            run.wait_until(lambda number=number: len(entered) > number)
            sleep_ns(run.random.randrange(200_000))
            assert gate.remove_sources(run.view, slots(guest)) == 1
            left.append("by another")

    play(seed, [add_and_invite, be_guest, remove, run.sources(4, 4)[1], *run.readers(2, 4)])
    run.check()


def everyone_leaves(seed):
    """All sources are removed; readers get all that was added, and go on when one comes back."""
    run = Run(seed, ring=8)
    first, second = run.members

    def leave(source):
        run.add_some(source, 3, end=False)
        gate.remove_sources(run.view, slots(source))
        if source == first:
            run.wait_until(lambda: not gate.is_source(run.view, second))
            while gate.add_sources(run.view, -1, slots(first), 2) == gate.FULL:
                assert gate.wait_to_enter(run.view, slots(first), deadline_after(LONG_NS)) == 0
            run.add_some(first, 3)

    play(seed, [lambda: leave(first), lambda: leave(second), *run.readers(1, 4)])
    run.check()


def play(seed, programs):
    Interleaver(seed, max_steps=60_000, strict_parks=True).run(programs)


SCENES = {each.__name__: each for each in (two_and_two, readers_come_and_go, sources_come_and_go, everyone_leaves)}


@uncompiled
@pytest.mark.parametrize("name", SCENES)
def test_interleavings(name):
    for seed in SEEDS:
        SCENES[name](seed)


@uncompiled
@pytest.mark.stress
@pytest.mark.parametrize("name", SCENES)
def test_many_interleavings(name):
    for seed in range(1_000, 4_000):
        SCENES[name](seed)
