"""Interleavings of the ElasticScaleGate: tiny rings, members coming and going, every order of turns from a seed.

The kernels run uncompiled. Compiled, this file runs itself in a process without compilation.
"""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from stretch.buffer import scalegate_kernels as gate
from stretch.buffer import scalegate_list, scalegate_readers, scalegate_sources
from stretch.buffer.layout import NO_BOUND
from stretch.buffer.scalegate_layout import (
    BASE,
    CELLS,
    HANDLE,
    NEXT_NUMBER,
    OUT,
    RANK,
    READER_CELLS,
    SOURCE_CELLS,
    TIME,
    VERSION,
    is_before,
    name_of,
    place_of,
)
from stretch.native import Interleaver, InterleavingError, deadline_after, load_acquire, store_release
from stretch.native.jit import JIT_ENABLED
from stretch.native.system import sleep_ns
from tests.native.modes import ROOT, run_python

SEEDS = range(int(os.environ.get("INTERLEAVING_SEEDS", "150")))
END = 1_000
LONG_NS = 10**12
DATA, WATERMARK = 0, 1
uncompiled = pytest.mark.skipif(JIT_ENABLED, reason="kernels take turns only when they are not compiled")


def slots(*numbers):
    return np.array(numbers, np.int64)


class Run:
    """A gate, what was added to it, and what its readers got; every disagreement is an error at once."""

    def __init__(self, seed, *, ring, members=2):
        self.random = random.Random(seed)
        # Who looks at all slots in turn shall come upon new members before and after old ones.
        chosen = self.random.choice(((0, 1, 2, 3), (3, 2, 1, 0), (1, 2, 3, 0)))
        self.members, self.others = chosen[:members], chosen[members:]  # slots of sources and readers alike
        self.view = gate.allocate_gate([None] * 4, 4, capacity=ring, spread=1)
        gate.open_readers(self.view, slots(*self.members))
        assert gate.add_sources(self.view, -1, slots(*self.members), NO_BOUND) == len(self.members)
        self.added = {}  # ref -> (time, rank, source, number)
        self.got = {}  # position -> (time, ref)
        self.seen = {}  # reader -> positions
        self.is_over = False
        self.count = 0

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
        time = max(time, 0)
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
                entries.append((time, rank, self.new_ref(source)))
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

    def latest(self, source):
        """Return the time that a source has reached."""
        return max(gate.position_of(self.view, source)[0], 0)

    def new_ref(self, source):
        """Return the ref of a new entry."""
        self.count += 1
        return (self.count * 4 + source) << 8

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


def a_source_invites_often(seed):
    """One source adds another one with its own bound and goes on at once; the other adds something, and leaves."""
    run = Run(seed, ring=8, members=1)
    host, guest, rounds = run.members[0], run.others[0], 8
    entered, left = [], []

    def add_and_invite():
        for _ in range(rounds):
            run.add_all(host, [(run.latest(host) + 1, 0, run.new_ref(host))])
            bound = gate.bound_of(run.view, host)
            while gate.add_sources(run.view, host, slots(guest), bound) == gate.FULL:
                gate.wait_to_enter(run.view, slots(guest), deadline_after(1_000_000))
            entered.append(bound // 2)
            run.add_all(host, [(run.latest(host) + 2, 0, run.new_ref(host))])
            run.wait_until(lambda: len(left) == len(entered))
        run.add_some(host, 0)

    def be_guest():
        for number in range(rounds):
            run.wait_until(lambda number=number: len(entered) > number)
            run.add_all(guest, [(entered[number] + 1, 0, run.new_ref(guest))])
            assert gate.remove_sources(run.view, slots(guest)) == 1
            left.append(number)

    play(seed, [add_and_invite, be_guest, *run.readers(3)])
    run.check()


def a_reader_invites_often(seed):
    """One reader adds another one from where it is and goes on at once; the other gets an entry, and leaves."""
    run = Run(seed, ring=4, members=1)
    (host,), guest, entered, left = run.members, run.others[0], [], []

    def invite(position):
        if len(left) == len(entered) and gate.position(run.view, host) < position:
            assert gate.add_readers(run.view, host, slots(guest), position - 1) == 1
            entered.append(position - 1)

    def be_guest():
        while True:
            run.wait_until(lambda: len(entered) > len(left) or run.is_over)
            if len(entered) == len(left):
                return
            times, refs = np.zeros(16, np.int64), np.zeros(16, np.int64)
            assert gate.fetch(run.view, guest, times, refs, 1) == 1
            at = entered[-1]
            assert (times[at & 15], refs[at & 15]) == run.got[at]
            gate.remove_readers(run.view, slots(guest))
            left.append(at)

    def read():
        run.read_all(host, 2, invite)
        run.is_over = True

    play(seed, [*run.sources(10), read, be_guest])
    run.check()


def play(seed, programs):
    Interleaver(seed, max_steps=60_000, strict_parks=True).run(programs)


SCENES = {
    scene.__name__: scene
    for scene in (
        two_and_two,
        readers_come_and_go,
        sources_come_and_go,
        everyone_leaves,
        a_source_invites_often,
        a_reader_invites_often,
    )
}


@uncompiled
@pytest.mark.parametrize("name", SCENES)
def test_interleavings(name):
    for seed in SEEDS:
        SCENES[name](seed)


def ignore_version(array, index):
    """Look at a cell, but never see that members change."""
    return 0 if index == VERSION and len(array) == CELLS else load_acquire(array, index)


def link_anyway(array, index, _expected, desired):
    """Link without comparing: what another source has linked meanwhile is lost."""
    store_release(array, index, desired)
    return True


def publish_first(view, source, count):
    """Move the handle before the nodes are linked."""
    cell = source * SOURCE_CELLS
    last = name_of(source, view.sources[cell + NEXT_NUMBER] + count - 1)
    store_release(view.sources, cell + HANDLE, last)
    LINK_FILLED(view, source, count)


def follow_names_of_old(view, _node, goal, time, rank):
    """Follow shortcuts without asking whether they still lead to the node that was meant."""
    place = place_of(goal, view.ring)
    return not is_before(time, rank, load_acquire(view.nodes, place + TIME), load_acquire(view.nodes, place + RANK))


def give_back_the_base(view, reader, position):
    """Give back the node, too, whose link leads on."""
    has_passed = MOVE_BASE(view, reader, position)
    node = view.readers[reader * READER_CELLS + BASE]
    store_release(view.passed, reader * view.width + (node & 255), (node >> 8) + 1)
    return has_passed


def look_only(cells, state):
    """Begin a call without keeping changes of members out."""
    return gate.GONE if load_acquire(cells, state) == OUT else gate.OK


LINK_FILLED, MOVE_BASE = scalegate_list.link_filled, scalegate_readers.move_base

# A deliberate fault: the scene that finds it, and what stands in for what.
FAULTS = {
    "readers ignore members": (a_source_invites_often, scalegate_readers, "load_acquire", ignore_version),
    "sources ignore members": (readers_come_and_go, scalegate_list, "load_acquire", ignore_version),
    "links do not compare": (two_and_two, scalegate_list, "compare_exchange", link_anyway),
    "the handle is first": (two_and_two, scalegate_sources, "link_filled", publish_first),
    "shortcuts lead back": (two_and_two, scalegate_list, "_leads_on", follow_names_of_old),
    "the base is given back": (sources_come_and_go, scalegate_readers, "move_base", give_back_the_base),
    "states are not taken": (readers_come_and_go, scalegate_readers, "take", look_only),
    "nobody wakes readers": (two_and_two, scalegate_sources, "wake_all", lambda _cells, _index: 0),
}


@uncompiled
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_replayed(name):
    scene, module, attribute, replacement = FAULTS[name]
    with mock.patch.object(module, attribute, replacement):
        assert any(failure_of(scene, seed) for seed in range(500)), "no seed finds it"


def failure_of(scene, seed):
    """Return how a scene fails, or None; twice the same way."""
    told = []
    for _ in range(2):
        try:
            scene(seed)
        except (InterleavingError, AssertionError) as error:
            told.append(error)
        if not told:
            return None
    assert len(told) == 2
    assert str(told[0]) == str(told[1])
    return told[0]


@uncompiled
@pytest.mark.stress
@pytest.mark.parametrize("name", SCENES)
def test_many_interleavings(name):
    for seed in range(1_000, 4_000):
        SCENES[name](seed)


@pytest.mark.skipif(not JIT_ENABLED, reason="runs here, uncompiled, already")
def test_uncompiled():
    """Run this file in a process without compilation, with fewer seeds."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not stress"]
    path = str(Path(__file__).relative_to(ROOT))
    output = run_python("-m", "pytest", *options, path, NUMBA_DISABLE_JIT="1", INTERLEAVING_SEEDS="60")
    assert " passed" in output
