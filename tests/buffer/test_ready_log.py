"""ReadyLog: flow control in entries and in time, waiting, control entries between pieces, and what it refuses."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from stretch.buffer import ready_log_kernels as kernels
from stretch.buffer.api import EntryKind
from stretch.buffer.layout import LIMIT_MIN
from stretch.buffer.ready_log import ReadyLog, Source
from stretch.buffer.ready_log_buffer import ReadyLogBuffer
from stretch.buffer.rows import FULL, TOO_LONG, Column
from stretch.errors import StretchError
from stretch.native import WAIT_AGAIN, WAIT_STOPPED, WAIT_TIMED_OUT, deadline_after
from tests.harness.buffer_contract import at, tuples

NUMBER = [Column("number", np.int64)]
ONE = (Source(0, 0),)
MILLISECOND = 1_000_000


def make(columns=NUMBER, sources=ONE, readers=1, **sizes):
    log = ReadyLog([columns], sources, readers, **sizes)
    log.add_sources(range(len(sources)))
    log.add_readers(range(readers))
    return log


def add(log, count, first=0, source=0, timeout=0):
    numbers = first + np.arange(count)
    return log.add_batch(source, numbers, [numbers], timeout=timeout)


def entries(log, first=0):
    """Return (time, kind, index) of all entries from a position on."""
    found = []
    for position in range(first, kernels.ready_end(log.view)):
        at = position & (log.capacity - 1)
        ref = int(log.view.refs[at])
        found.append((int(log.view.times[at]), EntryKind(ref & 3), ref >> 8))
    return found


# --- Room


def test_never_holds_more_than_its_capacity():
    log = make(capacity=64, staging=128)
    assert add(log, 1000) == 64, "the log is full, and pending entries count wherever they are"
    assert kernels.ready_end(log.view) == 64
    kernels.release_to(log.view, 0, 10)
    assert add(log, 1000, 64) == 10
    assert [entry[0] for entry in entries(log, 10)] == list(range(10, 74))


def test_a_source_whose_rows_are_not_ready_fills_its_staging_only():
    log = make(sources=[Source(0, 0), Source(0, 1)], staging=32)
    assert add(log, 1000) == 31, "a control entry still comes in"
    assert kernels.stage_control(log.view, 0, 40, 1) == 0
    assert kernels.stage_control(log.view, 0, 40, 2) == FULL
    assert kernels.ready_end(log.view) == 0
    assert log.remove_sources([1]) == 1
    assert [kind for _, kind, _ in entries(log)] == [EntryKind.DATA] * 31 + [EntryKind.CONTROL, EntryKind.WATERMARK]


def test_the_slowest_reader_sets_the_pace():
    log = make(readers=3, target_ns=4 * MILLISECOND)
    for reader, ns in enumerate((100.0, 20_000.0, 50.0)):
        kernels.report_speed(log.view, reader, ns)
    assert kernels.room_for(log.view, 0) == 200, "4 ms at 20 us each"
    kernels.report_speed(log.view, 1, 1e9)
    assert kernels.room_for(log.view, 0) == LIMIT_MIN
    assert add(log, 1000) == LIMIT_MIN
    assert log.remove_readers([1]) == 1
    assert kernels.room_for(log.view, 0) == log.staging_capacity - 1


def test_what_waits_for_another_source_is_no_work_for_readers():
    """One thread may feed several sources in turns, however slow the readers are."""
    log = make(sources=[Source(0, 0), Source(0, 1)], staging=64)
    kernels.report_speed(log.view, 0, 1e9)
    assert [add(log, 1, time) for time in range(50)] == [1] * 50
    assert kernels.ready_end(log.view) == 0


def test_all_readers_have_to_release():
    log = make(readers=2, capacity=64)
    assert add(log, 64) == 64
    kernels.release_to(log.view, 0, 64)
    assert add(log, 1, 64) == 0
    kernels.release_to(log.view, 1, 5)
    assert add(log, 10, 64) == 5


def test_a_large_batch_is_admitted_piece_by_piece_with_control_entries_in_between():
    log = make(capacity=64)
    assert add(log, 500) == 64
    assert kernels.stage_control(log.view, 0, 64, 7) == 0
    kernels.release_to(log.view, 0, 60)
    assert add(log, 436, 64) == 60 or add(log, 1, 64 + 60) == 1
    kinds = [kind for _, kind, _ in entries(log, 60)]
    assert kinds[:6] == [EntryKind.DATA] * 4 + [EntryKind.CONTROL, EntryKind.DATA]


# --- Waiting


def test_adding_times_out():
    log = make(capacity=64)
    started = time.monotonic()
    assert add(log, 100, timeout=0.05) == 64
    assert time.monotonic() - started >= 0.05
    assert kernels.wait_for_room(log.view, 0, 1, deadline_after(MILLISECOND)) == WAIT_TIMED_OUT
    assert kernels.wait_for_rows(log.view, 0, 1, deadline_after(MILLISECOND)) == WAIT_TIMED_OUT
    assert kernels.wait_for_entries(log.view, 64, deadline_after(MILLISECOND)) == WAIT_TIMED_OUT
    assert kernels.wait_for_entries(log.view, 63, deadline_after(0)) == WAIT_AGAIN


def in_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    return thread, results


def test_adding_goes_on_as_soon_as_there_is_room():
    log = make(capacity=64)
    thread, results = in_thread(lambda: add(log, 200, timeout=60))
    position = 0
    while position < 200:
        assert kernels.wait_for_entries(log.view, position, deadline_after(10**10)) == WAIT_AGAIN
        position = kernels.ready_end(log.view)
        kernels.release_to(log.view, 0, position)
    thread.join(10)
    assert results == [200]


@pytest.mark.parametrize("wait", ["room", "rows", "entries"])
def test_a_stop_ends_every_wait(wait):
    log = make(capacity=64)
    add(log, 64)
    late = deadline_after(60 * 10**9)
    thread, results = in_thread(
        {
            "room": lambda: kernels.wait_for_room(log.view, 0, 1, late),
            "rows": lambda: kernels.wait_for_rows(log.view, 0, 1, late),
            "entries": lambda: kernels.wait_for_entries(log.view, 64, late),
        }[wait]
    )
    time.sleep(0.02)
    log.close()
    thread.join(10)
    assert results == [WAIT_STOPPED]


# --- Order


def test_rows_of_one_input_are_contiguous_and_sorted():
    log = make([Column("time", np.int64)], [Source(0, 0), Source(0, 1), Source(0, 2)])
    for source in range(3):
        times = np.arange(source, 3000, 3)
        assert log.add_batch(source, times, [times]) == 1000
        kernels.advance(log.view, source, 2 * 3000)
    assert log.columns()[0][:3000].tolist() == list(range(3000))
    assert entries(log)[2999:] == [(2999, EntryKind.DATA, 2999), (3000, EntryKind.WATERMARK, 0)]


def test_inputs_have_rows_of_their_own():
    log = ReadyLog([NUMBER, [Column("x", np.float32)], []], [Source(0, 0), Source(1, 1), Source(2, 2)], 1)
    log.add_sources(range(3))
    log.add_readers([0])
    log.add_batch(0, [1, 4], [[10, 40]])
    log.add_batch(1, [2, 4], [[0.5, 1.5]])
    log.add_batch(2, [3, 4], [])
    refs = [int(ref) for ref in log.view.refs[: kernels.ready_end(log.view)]]
    assert [(ref >> 8, ref >> 2 & 63) for ref in refs] == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert log.columns(0)[0][:2].tolist() == [10, 40]
    assert log.columns(1)[0][:2].tolist() == [0.5, 0], "that of time 4 waits for input 0 to pass"


def test_control_entries_come_right_after_what_the_source_added():
    log = make()
    add(log, 3)
    kernels.stage_control(log.view, 0, 2, 11)
    kernels.stage_control(log.view, 0, 5, 12)
    kernels.advance(log.view, 0, 2 * 5)
    assert entries(log)[2:] == [
        (2, EntryKind.DATA, 2),
        (2, EntryKind.CONTROL, 11),
        (5, EntryKind.CONTROL, 12),
        (5, EntryKind.WATERMARK, 0),
    ]


def test_more_control_entries_than_its_ring_holds_have_to_wait():
    log = make(sources=[Source(0, 0), Source(0, 1)])
    staged = 0
    while kernels.stage_control(log.view, 0, staged, staged) != FULL:
        staged += 1
    assert staged == 64
    log.remove_sources([1])
    assert [index for _, kind, index in entries(log) if kind == EntryKind.CONTROL] == list(range(64))
    assert kernels.stage_control(log.view, 0, 64, 64) == 0


# --- Members


def test_of_several_callers_one_changes_the_members():
    log = make(readers=4)
    log.remove_readers([1, 2, 3])
    add(log, 5)
    assert [log.add_readers([1, 2], 3) for _ in range(3)] == [2, 0, 0]
    assert log.add_readers([2, 3], 4) == 1
    assert [kernels.position(log.view, reader) for reader in range(4)] == [0, 3, 3, 4]
    assert kernels.is_reader(log.view, 2)
    assert [log.remove_readers([1, 2]) for _ in range(2)] == [2, 0]
    assert not kernels.is_reader(log.view, 2)
    assert [log.remove_sources([0]) for _ in range(2)] == [1, 0]
    assert [log.add_sources([0], 20) for _ in range(2)] == [1, 0]
    assert kernels.is_source(log.view, 0)
    assert kernels.bound_of(log.view, 0) == 20


def test_slots_that_do_not_exist_are_an_error():
    log = make()
    for change in (log.add_readers, log.remove_readers, log.add_sources, log.remove_sources):
        for slot in (-1, 1):
            with pytest.raises(IndexError, match="of 1"):
                change([slot])


# --- Lists


LISTS = [Column("words", np.int32, is_list=True)]


def add_lists(log, lists, first=0, timeout=0):
    offsets = np.cumsum([0, *map(len, lists)])
    return log.add_batch(0, first + np.arange(len(lists)), [(offsets, np.concatenate([*lists, []]))], timeout=timeout)


def test_lists_wait_for_room_for_their_items():
    log = make(LISTS, capacity=64, staging=64, items=16, staging_items=16)
    assert add_lists(log, [[1] * 5] * 20) == 6, "three in the log, three in the staging"
    assert kernels.ready_end(log.view) == 3
    kernels.release_to(log.view, 0, 3)
    assert kernels.ready_end(log.view) == 6
    assert add_lists(log, [[2] * 8], 6) == 1
    assert kernels.ready_end(log.view) == 6
    kernels.release_to(log.view, 0, 6)
    assert kernels.ready_end(log.view) == 7
    starts, lengths, items = log.columns()[0]
    assert items[starts[6] : starts[6] + lengths[6]].tolist() == [2] * 8


def test_a_list_that_never_fits_is_told_apart():
    log = make(LISTS, items=32, staging_items=16)
    assert add_lists(log, [[1] * 3, [2] * 9]) == 1
    assert add_lists(log, [[2] * 9], 1) == TOO_LONG
    assert kernels.reserve_items(log.view, 0, 0, 1, 9) == TOO_LONG


# --- Refusals, and the adapter


@pytest.mark.parametrize(
    ("arguments", "sizes", "why"),
    [
        (([NUMBER], [Source()], 1), {"capacity": 48}, "powers of two"),
        (([NUMBER], [Source()], 1), {"staging": 1}, "powers of two"),
        (([NUMBER], [Source()], 1), {"items": 8, "staging_items": 16}, "never fit into the log"),
        (([NUMBER], [Source(1)], 1), {}, "those that exist"),
        (([], [], 1), {}, "inputs"),
        (([NUMBER], [], 1), {}, "0 sources"),
        (([NUMBER], [Source(0, 3), Source(0, 3)], 1), {}, "different"),
    ],
)
def test_refuses_what_cannot_work(arguments, sizes, why):
    with pytest.raises(StretchError, match=why):
        ReadyLog(*arguments, **sizes)


def test_the_adapter_forgets_what_everybody_has_read():
    buffer = ReadyLogBuffer([0], ["a", "b"], capacity=64, staging=16)
    for k in range(200):
        buffer.add(at(k, 0, k), 0)
        assert buffer.get("a") == at(k, 0, k)
        if k % 50 == 49:
            assert len(tuples(buffer, "b")) == 50
    assert len(buffer._entries) < 60


def test_the_adapter_says_when_it_has_no_room():
    buffer = ReadyLogBuffer([0], ["a"], capacity=64, staging=16, timeout=0.01)
    for k in range(64):
        buffer.add(at(k, 0, k), 0)
    with pytest.raises(TimeoutError, match="no room"):
        buffer.add(at(64, 0, 64), 0)
    assert len(tuples(buffer, "a")) == 64
