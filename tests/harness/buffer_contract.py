"""The contract of a tuple buffer (Paper: table "API of TB"): what every implementation has to pass.

A test module makes it run for an implementation:

    class TestReferenceBuffer(BufferContract):
        make = staticmethod(ReferenceBuffer)

`make(sources, readers, bound=BOTTOM)` returns a buffer. With `is_concurrent = True`, calls come from many threads too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from stretch.buffer.api import BEFORE_ALL, Entry, EntryKind, Position

REFUSED = (AssertionError, KeyError, ValueError)
"""How a buffer answers a call that its contract rules out; none may let it pass."""


def at(timestamp: int, source: int = 0, sequence: int = 0) -> Entry:
    """Return a tuple that says where it stands."""
    return Entry((timestamp, source, sequence), EntryKind.DATA, f"{timestamp} of {source}")


def drain(buffer: Any, reader: Hashable) -> list[Entry]:
    """Get all that is ready."""
    found = []
    while (entry := buffer.get(reader)) is not None:
        found.append(entry)
    return found


def tuples(buffer: Any, reader: Hashable) -> list[Position]:
    """Get all that is ready, and return the positions of the tuples."""
    return [entry.position for entry in drain(buffer, reader) if entry.kind is EntryKind.DATA]


def watermarks(buffer: Any, reader: Hashable) -> list[int]:
    """Get all that is ready, and return every timestamp that is a watermark: all but those of control tuples."""
    return [entry.timestamp for entry in drain(buffer, reader) if entry.kind is not EntryKind.CONTROL]


class OrderContract:
    """add, advance, get: one sorted stream of ready tuples and non-decreasing watermarks, the same for every reader."""

    make: Callable[..., Any]

    def test_a_tuple_of_the_only_source_is_ready_at_once(self):
        buffer = self.make([0], ["a"])
        buffer.add(at(5), 0)
        assert buffer.get("a") == at(5)
        assert buffer.get("a") is None

    def test_a_tuple_waits_until_every_source_has_reached_it(self):
        buffer = self.make([0, 1], ["a"])
        buffer.add(at(5, 0), 0)
        assert buffer.get("a") is None
        buffer.add(at(4, 1), 1)
        assert tuples(buffer, "a") == [(4, 1, 0)]
        buffer.add(at(6, 1, 1), 1)
        assert tuples(buffer, "a") == [(5, 0, 0)]

    def test_at_equal_times_a_later_source_waits_for_an_earlier_one_to_pass(self):
        buffer = self.make([0, 1], ["a"])
        buffer.add(at(5, 1), 1)
        buffer.add(at(5, 0), 0)
        assert tuples(buffer, "a") == [(5, 0, 0)], "source 0 may have more at time 5"
        buffer.add(at(5, 0, 1), 0)
        assert tuples(buffer, "a") == [(5, 0, 1)]
        buffer.advance((6,), 0)
        assert tuples(buffer, "a") == [(5, 1, 0)]

    def test_at_equal_times_an_earlier_source_waits_for_a_later_one_to_arrive(self):
        buffer = self.make([0, 1], ["a"])
        buffer.add(at(5, 0), 0)
        buffer.advance((5,), 1)
        assert tuples(buffer, "a") == [], "(5,) does not promise to be beyond source 0"
        buffer.add(at(5, 1), 1)
        assert tuples(buffer, "a") == [(5, 0, 0)]

    def test_every_reader_gets_every_entry_once_and_in_the_same_order(self):
        buffer = self.make([0, 1], ["a", "b"])
        for entry in (at(1, 0), at(3, 0, 1), at(3, 0, 2)):
            buffer.add(entry, 0)
        early = drain(buffer, "a")
        for entry in (at(2, 1), at(4, 1, 1), at(9, 1, 2)):
            buffer.add(entry, 1)
        seen = early + drain(buffer, "a")
        assert seen == drain(buffer, "b")
        assert [e.position for e in seen if e.kind is EntryKind.DATA] == [(1, 0, 0), (2, 1, 0), (3, 0, 1), (3, 0, 2)]

    def test_negative_times_are_times_like_others(self):
        buffer = self.make([0, 1], ["a"])
        buffer.add(at(-7, 0), 0)
        buffer.add(at(-9, 1), 1)
        assert tuples(buffer, "a") == [(-9, 1, 0)]

    def test_a_source_does_not_go_back(self):
        buffer = self.make([0], ["a"])
        buffer.add(at(5, 0, 1), 0)
        for entry in (at(4, 0, 2), at(5, 0, 1), at(5, 0, 0)):
            with pytest.raises(REFUSED):
                buffer.add(entry, 0)
        buffer.advance((4,), 0)
        buffer.add(at(5, 0, 2), 0)
        assert tuples(buffer, "a") == [(5, 0, 1), (5, 0, 2)]

    def test_only_sources_add(self):
        buffer = self.make([0], ["a"])
        with pytest.raises(REFUSED):
            buffer.add(at(5, 1), 1)
        assert buffer.get("a") is None

    def test_only_readers_get(self):
        buffer = self.make([0], ["a"])
        buffer.add(at(5), 0)
        assert buffer.get("b") is None

    def test_progress_without_a_tuple_is_a_watermark(self):
        buffer = self.make([0, 1], ["a"])
        buffer.advance((5,), 0)
        assert watermarks(buffer, "a") == []
        buffer.advance((3,), 1)
        assert watermarks(buffer, "a") == [3]
        buffer.add(at(4, 1), 1)
        assert watermarks(buffer, "a") == [4]
        buffer.advance((9,), 1)
        assert watermarks(buffer, "a") == [5]

    def test_watermarks_are_not_repeated(self):
        buffer = self.make([0], ["a"])
        buffer.add(at(5), 0)
        buffer.advance((5,), 0)
        buffer.advance((7,), 0)
        buffer.advance((7,), 0)
        buffer.add(at(7, 0, 1), 0)
        assert watermarks(buffer, "a") == [5, 7, 7]

    def test_a_control_tuple_takes_no_watermark_away(self):
        buffer = self.make([0], ["a"])
        buffer.add(Entry((5, BEFORE_ALL, 1), EntryKind.CONTROL, "change"), 0)
        assert watermarks(buffer, "a") == [5], "the source has reached 5, and readers have to hear of it"

    def test_tuples_after_a_watermark_are_not_before_it(self):
        buffer = self.make([0, 1], ["a"])
        buffer.advance((5,), 0)
        buffer.advance((5,), 1)
        buffer.add(at(5, 1), 1)
        buffer.add(at(5, 0), 0)
        buffer.advance((6,), 0)
        buffer.advance((6,), 1)
        positions = [entry.position for entry in drain(buffer, "a")]
        assert positions == sorted(positions)


class ReaderContract:
    """addReaders and removeReaders: who adds them, from where they read, and who is told so."""

    make: Callable[..., Any]

    def filled(self) -> Any:
        """Return a buffer of four tuples of which reader a has got two."""
        buffer = self.make([0], ["a"])
        for sequence in range(4):
            buffer.add(at(sequence, 0, sequence), 0)
        assert [buffer.get("a").timestamp for _ in range(2)] == [0, 1]
        return buffer

    def test_new_readers_start_with_what_the_caller_gets_next(self):
        buffer = self.filled()
        assert buffer.add_readers(["b", "c"], "a")
        assert tuples(buffer, "b") == tuples(buffer, "c") == tuples(buffer, "a") == [(2, 0, 2), (3, 0, 3)]

    def test_new_readers_may_start_with_what_the_caller_got_last(self):
        buffer = self.filled()
        assert buffer.add_readers(["b"], "a", from_last=True)
        assert tuples(buffer, "b") == [(1, 0, 1), (2, 0, 2), (3, 0, 3)]
        assert tuples(buffer, "a") == [(2, 0, 2), (3, 0, 3)]

    def test_from_last_needs_a_last_entry(self):
        buffer = self.make([0], ["a"])
        buffer.add(at(0), 0)
        with pytest.raises(REFUSED):
            buffer.add_readers(["b"], "a", from_last=True)

    def test_only_a_reader_adds_readers(self):
        with pytest.raises(REFUSED):
            self.filled().add_readers(["b"], "stranger")

    def test_of_several_callers_that_add_the_same_readers_one_is_told_true(self):
        buffer = self.filled()
        buffer.add_readers(["b"], "a")
        assert [buffer.add_readers(["c", "d"], caller) for caller in ("a", "b")] == [True, False]
        assert tuples(buffer, "c") == [(2, 0, 2), (3, 0, 3)]

    def test_readers_that_exist_stay_where_they_are(self):
        buffer = self.filled()
        buffer.add_readers(["b"], "a")
        assert len(drain(buffer, "b")) == 2
        assert buffer.add_readers(["b", "c"], "a"), "c is new"
        assert not buffer.add_readers(["b", "c"], "a")
        assert drain(buffer, "b") == []
        assert tuples(buffer, "c") == [(2, 0, 2), (3, 0, 3)]

    def test_removed_readers_get_nothing_until_they_are_added_again(self):
        buffer = self.filled()
        buffer.add_readers(["b"], "a")
        assert buffer.remove_readers(["b"])
        assert buffer.get("b") is None
        buffer.get("a")
        assert buffer.add_readers(["b"], "a")
        assert tuples(buffer, "b") == [(3, 0, 3)]

    def test_of_several_callers_that_remove_the_same_readers_one_is_told_true(self):
        buffer = self.filled()
        buffer.add_readers(["b", "c"], "a")
        assert [buffer.remove_readers(["b", "c"]) for _ in range(3)] == [True, False, False]
        assert tuples(buffer, "a") == [(2, 0, 2), (3, 0, 3)]


class SourceContract:
    """addSources and removeSources: what new ones promise, and what becomes of the tuples of those that leave."""

    make: Callable[..., Any]

    def test_a_new_source_holds_back_what_is_beyond_its_bound(self):
        buffer = self.make([0], ["a"])
        buffer.add(at(5), 0)
        assert buffer.add_sources([1], (6,))
        buffer.add(at(6, 0, 1), 0)
        buffer.add(at(9, 0, 2), 0)
        assert tuples(buffer, "a") == [(5, 0, 0)]
        buffer.add(at(7, 1), 1)
        assert tuples(buffer, "a") == [(6, 0, 1), (7, 1, 0)]

    def test_a_new_source_adds_nothing_before_its_bound(self):
        buffer = self.make([0], ["a"])
        buffer.add(at(5), 0)
        buffer.add_sources([1], (6,))
        with pytest.raises(REFUSED):
            buffer.add(at(5, 1), 1)
        buffer.add(at(6, 1), 1)

    def test_a_new_source_does_not_take_a_watermark_back(self):
        buffer = self.make([0], ["a"])
        buffer.advance((8,), 0)
        buffer.add_sources([1], (8,))
        buffer.add(at(9, 1), 1)
        buffer.add(at(9, 0), 0)
        seen = watermarks(buffer, "a")
        assert seen == sorted(seen)
        assert seen[0] == 8

    def test_of_several_callers_that_add_the_same_sources_one_is_told_true(self):
        buffer = self.make([0, 1], ["a"])
        assert [buffer.add_sources([2, 3], bound) for bound in ((4,), (9,))] == [True, False]
        for source in (0, 1):
            buffer.advance((20,), source)
        assert watermarks(buffer, "a") == [4], "the bound is the winner's"

    def test_sources_that_exist_keep_their_bound(self):
        buffer = self.make([0], ["a"])
        buffer.add(at(5), 0)
        assert buffer.add_sources([0, 1], (3,)), "1 is new"
        assert not buffer.add_sources([0, 1], (3,))
        with pytest.raises(REFUSED):
            buffer.add(at(4, 0, 1), 0)

    def test_what_a_removed_source_added_is_still_delivered(self):
        buffer = self.make([0, 1], ["a"])
        buffer.add(at(5, 1), 1)
        buffer.add(at(9, 1, 1), 1)
        assert buffer.remove_sources([1])
        assert tuples(buffer, "a") == []
        buffer.add(at(7, 0), 0)
        assert tuples(buffer, "a") == [(5, 1, 0), (7, 0, 0)]
        buffer.advance((10,), 0)
        assert tuples(buffer, "a") == [(9, 1, 1)]

    def test_a_removed_source_holds_nobody_back(self):
        buffer = self.make([0, 1], ["a"])
        buffer.add(at(5, 0), 0)
        assert buffer.get("a") is None
        buffer.remove_sources([1])
        assert tuples(buffer, "a") == [(5, 0, 0)]

    def test_when_all_sources_are_removed_all_that_was_added_is_delivered(self):
        buffer = self.make([0, 1, 2], ["a"])
        buffer.add(at(5, 0), 0)
        buffer.add(at(9, 1), 1)
        buffer.add(at(7, 0, 1), 0)
        assert buffer.remove_sources([0, 1, 2])
        assert tuples(buffer, "a") == [(5, 0, 0), (7, 0, 1), (9, 1, 0)]

    def test_of_several_callers_that_remove_the_same_sources_one_is_told_true(self):
        buffer = self.make([0, 1, 2], ["a"])
        assert [buffer.remove_sources([1, 2]) for _ in range(3)] == [True, False, False]

    def test_a_source_may_come_back(self):
        buffer = self.make([0, 1], ["a"])
        buffer.add(at(5, 1), 1)
        buffer.remove_sources([1])
        buffer.add(at(8, 0), 0)
        assert buffer.add_sources([1], (8, 0, 0))
        buffer.add(at(9, 1, 1), 1)
        buffer.advance((10,), 0)
        assert tuples(buffer, "a") == [(5, 1, 0), (8, 0, 0), (9, 1, 1)]


class RandomContract:
    """Whatever is called in whatever order: one sorted stream, nothing lost, nothing twice."""

    make: Callable[..., Any]
    is_concurrent = False

    # Several buffers inherit it, on purpose.
    @settings(suppress_health_check=[HealthCheck.differing_executors])
    @given(calls=some.lists(some.tuples(some.integers(0, 3), some.integers(0, 3), some.integers(0, 8)), max_size=40))
    def test_readers_get_all_tuples_sorted_and_once(self, calls):
        buffer = self.make([0, 1], ["a"])
        bounds: dict[int, Position] = {0: (0,), 1: (0,)}
        added, seen = [], []
        for sequence, (source, action, gap) in enumerate(calls):
            timestamp = bounds.get(source, (0,))[0] + gap
            if source not in bounds and bounds:
                bounds[source] = min(bounds.values())
                assert buffer.add_sources([source], bounds[source])
            elif action == 3 and len(bounds) > 1:
                assert buffer.remove_sources([source])
                del bounds[source]
            elif action == 2 and gap:
                bounds[source] = (timestamp,)
                buffer.advance((timestamp,), source)
            else:
                position = (timestamp, source, sequence)
                bounds[source] = position if position > bounds[source] else (timestamp + 1, source, sequence)
                buffer.add(at(*bounds[source]), source)
                added.append(bounds[source])
            if action == 1:
                seen += drain(buffer, "a")
        buffer.remove_sources(list(bounds))
        seen += drain(buffer, "a")
        assert [entry.position for entry in seen if entry.kind is EntryKind.DATA] == sorted(added)
        assert [entry.timestamp for entry in seen] == sorted(entry.timestamp for entry in seen)

    def test_of_concurrent_calls_one_is_told_true(self):
        if not self.is_concurrent:
            pytest.skip("this buffer is for one thread")
        callers = list(range(8))
        for _ in range(50):
            buffer = self.make(callers, callers)
            for calls in (
                [lambda n=n, buffer=buffer: buffer.add_readers(["x", "y"], n) for n in callers],
                [lambda buffer=buffer: buffer.remove_readers(["x", "y"])] * len(callers),
                [lambda buffer=buffer: buffer.add_sources(["x", "y"], (0,))] * len(callers),
                [lambda buffer=buffer: buffer.remove_sources(["x", "y"])] * len(callers),
            ):
                assert at_once(calls).count(True) == 1


def at_once(calls: list[Callable[[], bool]]) -> list[bool]:
    """Make each call in a thread of its own, all from one starting line."""
    line, told = threading.Barrier(len(calls)), [False] * len(calls)

    def go(n: int) -> None:
        line.wait()
        told[n] = calls[n]()

    threads = [threading.Thread(target=go, args=(n,)) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


class BufferContract(OrderContract, ReaderContract, SourceContract, RandomContract):
    """The whole contract."""
