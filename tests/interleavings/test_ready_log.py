"""No order of turns makes a ReadyLog lose, repeat or reorder an entry, or leave somebody parked for ever.

Uncompiled only (`make test-nojit` runs it so): kernels are plain Python there, and each atomic is a schedule point.
With `strict_parks` a run in which everybody is parked is an error, so nothing can hide behind the timeout of a wait.
The faults at the end are what the runs must find.
"""

from __future__ import annotations

import numpy as np
import pytest

from stretch.buffer import ready_log_kernels as kernels
from stretch.buffer import ready_log_merge, ready_log_readers, ready_log_sources
from stretch.buffer.layout import BOUND, CONTROL, DATA, MERGE, SOURCE_CELLS, WATERMARK, source_at
from stretch.buffer.ready_log import ReadyLog, Source
from stretch.buffer.rows import FULL, Column
from stretch.native import (
    WAIT_AGAIN,
    Interleaver,
    InterleavingError,
    compare_exchange,
    deadline_after,
    load_acquire,
    store_release,
    waiting,
)
from stretch.native.jit import JIT_ENABLED
from stretch.native.memory import address_of

if JIT_ENABLED:
    pytest.skip("explored uncompiled: make test-nojit runs this file", allow_module_level=True)

SEEDS = range(60)
FAULT_SEEDS = range(3000)
LONG_NS = 10**12
END = 1000  # the time that all sources promise at last


def make(sources, readers, connected=None, capacity=4, staging=4):
    log = ReadyLog([[Column("number", np.int64)]], sources, readers, capacity=capacity, staging=staging)
    log.add_sources(range(len(sources)) if connected is None else connected)
    log.add_readers([0])
    return log


def number_of(source, k):
    return 100 * source + k


def add_batches(log, source, times, close=True):
    """An external source: arrays, admitted piece by piece, then a promise."""
    times = np.array(times, np.int64)
    numbers = number_of(source, np.arange(len(times)))
    addresses = np.array([address_of(numbers), 0])
    deadline = deadline_after(LONG_NS)
    done = kernels.admit_all(log.view, source, 0, len(times), address_of(times), addresses, deadline)
    assert done == len(times)
    if close:
        kernels.advance(log.view, source, 2 * END)


def add_rows(log, source, times_and_ranks, close=True):
    """A worker: rows one by one, and promises of whole times."""
    view, staging = log.view, log.staging(source)
    for k, (time, rank) in enumerate(times_and_ranks):
        kernels.advance(view, source, 2 * time)
        while (row := kernels.reserve_rows(view, source, 1)) == FULL:
            assert kernels.wait_for_rows(view, source, 1, deadline_after(LONG_NS)) == WAIT_AGAIN
        at = row & (log.staging_capacity - 1)
        staging.times[at], staging.ranks[at], staging.columns[0][at] = time, rank, number_of(source, k)
        kernels.publish_rows(view, source, 1)
    if close:
        kernels.advance(view, source, 2 * END)


def read(log, reader, position=0, until=END, on_entry=None):
    """Read and release, entry by entry, to the watermark at the end; return the entries."""
    view, seen = log.view, []
    while True:
        kernels.release_to(view, reader, position)
        assert kernels.wait_for_entries(view, position, deadline_after(LONG_NS)) == WAIT_AGAIN
        last = kernels.ready_end(view)
        while position < last:
            at = position & (log.capacity - 1)
            time, ref = int(view.times[at]), int(view.refs[at])
            if on_entry is not None:
                on_entry(position, time, ref)
            seen.append((position, time, ref & 3, int(log.columns()[0][ref >> 8]) if ref & 3 == DATA else ref >> 8))
            position += 1
            if time >= until:
                kernels.release_to(view, reader, position)
                return seen


def rows(seen):
    return [(time, what) for _, time, kind, what in seen if kind == DATA]


def assert_consistent(seen):
    """Positions follow one another, and watermarks do not go back."""
    positions = [position for position, *_ in seen]
    assert positions == list(range(positions[0], positions[0] + len(seen)))
    times = [time for _, time, _, _ in seen]
    assert times == sorted(times)


# --- Scenarios: each runs one seed and asserts what has to hold


def two_sources_two_readers(seed):
    log = make([Source(0, 0), Source(0, 1)], 2)
    log.add_readers([1])
    mine, yours = [1, 2, 2, 5, 6], [2, 2, 3, 5, 9, 9]
    done = Interleaver(seed, strict_parks=True).run(
        [
            lambda: add_batches(log, 0, mine),
            lambda: add_batches(log, 1, yours),
            lambda: read(log, 0),
            lambda: read(log, 1),
        ]
    )
    expected = [(time, 0, k) for k, time in enumerate(mine)] + [(time, 1, k) for k, time in enumerate(yours)]
    assert rows(done[2]) == [(time, number_of(source, k)) for time, source, k in sorted(expected)]
    assert_consistent(done[2])
    assert done[2] == done[3]


def workers_with_ranks(seed):
    log = make([Source(), Source(), Source()], 1)
    given = [[(1, 0), (1, 3), (4, 0)], [(1, 1), (1, 4), (4, 1)], [(2, 2), (3, 2), (3, 5)]]
    done = Interleaver(seed, strict_parks=True).run(
        [lambda s=source: add_rows(log, s, given[s]) for source in range(3)] + [lambda: read(log, 0)]
    )
    expected = sorted((time, rank, number_of(s, k)) for s in range(3) for k, (time, rank) in enumerate(given[s]))
    assert rows(done[3]) == [(time, number) for time, _, number in expected]
    assert_consistent(done[3])


def control_entries(seed):
    """Each source sends the same epoch in band; it comes after what it had added and before what it adds then."""
    log = make([Source(0, 0), Source(0, 1)], 1)

    def add(source):
        add_batches(log, source, [1, 3], close=False)
        while kernels.stage_control(log.view, source, 5, 7) == FULL:
            assert kernels.wait_for_rows(log.view, source, 1, deadline_after(LONG_NS)) == WAIT_AGAIN
        add_batches(log, source, [5, 6])

    seen = Interleaver(seed, strict_parks=True).run([lambda: add(0), lambda: add(1), lambda: read(log, 0)])[2]
    controls = [(time, what) for _, time, kind, what in seen if kind == CONTROL]
    assert controls == [(5, 7), (5, 7)]
    assert [time for time, _ in rows(seen)] == [1, 1, 3, 3, 5, 5, 6, 6]
    kinds = [kind for _, time, kind, _ in seen if time == 5 and kind != WATERMARK]
    assert kinds == [CONTROL, CONTROL, DATA, DATA]
    assert_consistent(seen)


def a_reader_joins_at_the_trigger(seed):
    """Two readers both connect two more at the same entry; one is told so, and all see the same from there."""
    log = make([Source(0, 0), Source(0, 1)], 4, capacity=4)
    log.add_readers([1])
    told, started = [], {}

    def join(position, time, _ref):
        if time == 3 and position not in started:
            told.append(kernels.add_readers(log.view, np.array([2, 3]), position))
            started.setdefault("at", position)

    def read_when_connected(reader):
        while not kernels.is_reader(log.view, reader):
            kernels.try_merge(log.view)
        return read(log, reader, kernels.position(log.view, reader))

    def once():
        done = [False]

        def on_entry(position, time, ref):
            if time >= 3 and not done[0]:
                done[0] = True
                join(position, 3, ref)

        return on_entry

    seen = Interleaver(seed, strict_parks=True).run(
        [
            lambda: add_batches(log, 0, [1, 2, 3, 4]),
            lambda: add_batches(log, 1, [2, 3, 5]),
            lambda: read(log, 0, on_entry=once()),
            lambda: read(log, 1, on_entry=once()),
            lambda: read_when_connected(2),
            lambda: read_when_connected(3),
        ]
    )[2:]
    assert sorted(told) == [0, 2]
    assert seen[0] == seen[1]
    assert seen[2] == seen[3] == [entry for entry in seen[0] if entry[0] >= started["at"]]
    assert seen[2][0][1] == 3


def sources_come_and_go(seed):
    """Source 0 connects 2 with the bound that it has reached; 1 is removed by 0 when both are done with time 4."""
    log = make([Source(), Source(), Source()], 1, connected=[0, 1], capacity=8)
    ready = np.zeros(1, np.int64)

    def first():
        add_rows(log, 0, [(1, 0), (4, 0)], close=False)
        kernels.advance(log.view, 0, 2 * 5)
        assert kernels.add_sources(log.view, np.array([2]), kernels.bound_of(log.view, 0)) == 1
        store_release(ready, 0, 1)  # pairs with third
        add_rows(log, 0, [(6, 0), (8, 0)])

    def second():
        add_rows(log, 1, [(2, 1), (4, 1)], close=False)
        assert kernels.remove_sources(log.view, np.array([1])) == 1

    def third():
        while load_acquire(ready, 0) == 0:  # pairs with first
            kernels.try_merge(log.view)
        add_rows(log, 2, [(5, 2), (7, 2)])

    seen = Interleaver(seed, strict_parks=True).run([first, second, third, lambda: read(log, 0)])[3]
    assert [time for time, _ in rows(seen)] == [1, 2, 4, 4, 5, 6, 7, 8]
    assert_consistent(seen)


def heartbeats_only(seed):
    """Watermarks reach readers although nobody adds a row, in a log with hardly any room."""
    log = make([Source(0, 0), Source(0, 1)], 1, capacity=2, staging=2)

    def beat(source):
        for time in (1, 2, 3, END):
            kernels.advance(log.view, source, 2 * time)

    seen = Interleaver(seed, strict_parks=True).run([lambda: beat(0), lambda: beat(1), lambda: read(log, 0)])[2]
    assert {kind for _, _, kind, _ in seen} == {WATERMARK}
    assert_consistent(seen)


def heartbeats_of_one(seed):
    """The last merge of all may find no room, and its thread never comes back."""
    log = make([Source(0, 0)], 1, capacity=2, staging=2)
    work = [lambda: [kernels.advance(log.view, 0, 2 * time) for time in (1, 2, END)], lambda: read(log, 0)]
    assert_consistent(Interleaver(seed, strict_parks=True).run(work)[1])


SCENARIOS = [
    two_sources_two_readers,
    workers_with_ranks,
    control_entries,
    a_reader_joins_at_the_trigger,
    sources_come_and_go,
    heartbeats_only,
    heartbeats_of_one,
]


@pytest.fixture
def no_second_chance(monkeypatch):
    """Park at once, and try to merge only where the argument in `ready_log_merge` needs it.

    Otherwise who waits looks again some times, which hides what is stranded.
    """
    monkeypatch.setattr(waiting, "SPIN_ATTEMPTS", 0)
    monkeypatch.setattr(waiting, "PARK_AT_ONCE", 0)
    for module in (ready_log_readers, ready_log_sources):
        monkeypatch.setattr(module, "PARK_AT_ONCE", LONG_NS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_no_order_of_turns_breaks_it(scenario):
    for seed in SEEDS:
        scenario(seed)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nothing_is_stranded(scenario, no_second_chance):
    for seed in SEEDS:
        scenario(seed)


def seeds_that_fail(*scenarios):
    failed = []
    for seed in FAULT_SEEDS:
        for scenario in scenarios:
            try:
                scenario(seed)
            except (AssertionError, InterleavingError):
                failed.append(seed)
        if failed:
            break
    return failed


# --- Faults


def leave_without_request(view):
    kernels.try_merge(view)


def let_go_without_looking(view):
    ready_log_merge._merge_round(view)
    store_release(view.cells, MERGE, load_acquire(view.cells, MERGE) - 1)


def counts_before_bounds(view):
    """Read what is staged first, and promises second."""
    look = ready_log_merge._look_at_sources
    merging = view.merging
    LOOK(view)
    ends = [int(merging[source_at(s) + 1]) for s in range(merging[4])]
    bounds = [load_acquire(view.sources, s * SOURCE_CELLS + BOUND) for s in range(merging[4])]
    for source, (end, bound) in enumerate(zip(ends, bounds, strict=True)):
        merging[source_at(source) + 1] = end
        merging[source_at(source) + 8] = bound >> 1
    del look


LOOK = ready_log_merge._look_at_sources


def release_without_starved(view, reader, position):
    store_release(view.readers, reader * 16, position)
    kernels.slowest_position(view)
    ready_log_readers.wake_all(view.cells, ready_log_readers.WAKE_SOURCES)


def unlock_without_version(view, changes):
    store_release(view.cells, ready_log_readers.MEMBERS, 0)


def lock_nobody(view):
    compare_exchange(view.cells, ready_log_readers.MEMBERS, 0, 1)


FAULTS = {
    "a request that finds the lock taken is forgotten": (
        [(ready_log_sources, "request_merge", leave_without_request)],
        [two_sources_two_readers, heartbeats_only],
    ),
    "the lock is let go without a look at requests": (
        [(ready_log_merge, "merge_and_let_go", let_go_without_looking)],
        [two_sources_two_readers, heartbeats_only],
    ),
    "counts are read before bounds": (
        [(ready_log_merge, "_look_at_sources", counts_before_bounds)],
        [two_sources_two_readers, workers_with_ranks],
    ),
    "members change without a version": (
        [(ready_log_readers, "_unlock_members", unlock_without_version)],
        [a_reader_joins_at_the_trigger, sources_come_and_go],
    ),
    "members change without a lock": (
        [(ready_log_readers, "_lock_members", lock_nobody)],
        [a_reader_joins_at_the_trigger],
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_finds(fault, monkeypatch, no_second_chance):
    patches, scenarios = FAULTS[fault]
    for module, name, wrong in patches:
        monkeypatch.setattr(module, name, wrong)
    assert seeds_that_fail(*scenarios)


def test_finds_a_release_that_forgets_who_is_starved(monkeypatch, no_second_chance):
    monkeypatch.setattr(kernels, "release_to", release_without_starved)
    assert seeds_that_fail(heartbeats_of_one)
