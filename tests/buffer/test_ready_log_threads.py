"""Real threads on compiled kernels and hardly any room: same order for everybody, nothing lost, nothing twice."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from stretch.buffer import ready_log_kernels as kernels
from stretch.buffer.ready_log import ReadyLog, Source
from stretch.buffer.rows import FULL, Column
from stretch.native import WAIT_AGAIN, deadline_after, is_compiled, kernel, load_acquire, store_release
from stretch.native.memory import address_of

EXTERNAL, WORKERS, READERS = 2, 2, 8
COLUMNS = [Column("number", np.int64), Column("list", np.int32, is_list=True)]
SECOND = 1_000_000_000
LATE = -1

pytestmark = pytest.mark.skipif(not is_compiled(kernels.admit), reason="uncompiled threads do not run at once")


@kernel
def add_batches(view, source, times_address, addresses, count, batch, last_time):
    """Add `count` rows in batches of `batch`; say at last that nothing more comes."""
    done = 0
    while done < count:
        until = min(count, done + batch)
        if kernels.admit_all(view, source, done, until, times_address, addresses, deadline_after(60 * SECOND)) < 0:
            return LATE
        done = until
    kernels.advance(view, source, 2 * last_time)
    return done


@kernel
def add_rows(view, source, times, numbers, ranks, staged_numbers, lists, last_time):
    """Add rows as a worker does: up to three are reserved at once, time by time."""
    done = 0
    mask = view.staged_times.shape[1] - 1
    while done < len(times):
        wanted = min(3, len(times) - done)
        first = kernels.reserve_rows(view, source, wanted)
        if first == FULL:
            if kernels.wait_for_rows(view, source, wanted, deadline_after(60 * SECOND)) != WAIT_AGAIN:
                return LATE
            continue
        written = 0
        while written < wanted:
            row = (first + written) & mask
            length = numbers[done + written] % 4
            start = kernels.reserve_items(view, source, 1, first + written, length)
            if start == FULL:
                break
            for k in range(length):
                lists[start + k] = numbers[done + written] + k
            view.staged_times[source, row] = times[done + written]
            view.staged_ranks[source, row] = ranks[done + written]
            staged_numbers[row] = numbers[done + written]
            written += 1
        kernels.publish_rows(view, source, written)
        done += written
        deadline = deadline_after(60 * SECOND)
        if written < wanted and kernels.wait_for_rows(view, source, 1, deadline) != WAIT_AGAIN:
            return LATE
        kernels.advance(view, source, 2 * times[min(done, len(times) - 1)])
    kernels.advance(view, source, 2 * last_time)
    return done


@kernel
def read(view, numbers, starts, lengths, items, reader, seen, count, first, most, last_time, invited):
    """Read from position `first`, at most `most` entries; note (position, time, number); return the next position.

    Entry by entry now and then, `invited` is connected at the entry that is processed.
    """
    position, mask = first, view.times.shape[0] - 1
    while position - first < most:
        if kernels.wait_for_entries(view, position, deadline_after(60 * SECOND)) != WAIT_AGAIN:
            return LATE
        end = min(kernels.ready_end(view), first + most)
        while position < end:
            time, ref = view.times[position & mask], view.refs[position & mask]
            seen[count[0], 0] = position
            seen[count[0], 1] = time
            row = ref >> 8
            seen[count[0], 2] = numbers[row] if ref & 3 == 0 else -1
            if ref & 3 == 0:
                for k in range(lengths[row]):
                    if items[starts[row] + k] != numbers[row] + k or lengths[row] != numbers[row] % 4:
                        seen[count[0], 2] = -99
            count[0] += 1
            if invited.shape[0] > 0 and position % 37 == 5:
                kernels.add_readers(view, invited, position)
            position += 1
            if time >= last_time:
                kernels.release_to(view, reader, position)
                return position
        kernels.release_to(view, reader, position)
    return position


@kernel
def read_in_turns(view, numbers, starts, lengths, items, reader, seen, count, most, last_time, done):
    """Read when invited, some entries, then leave, again and again."""
    myself = seen[seen.shape[0] - 1, :1]
    myself[0] = reader
    while load_acquire(done, 0) == 0:  # pairs with the store of the main thread
        if not kernels.is_reader(view, reader):
            kernels.wait_for_entries(view, kernels.ready_end(view), deadline_after(1_000_000))
            continue
        first = kernels.position(view, reader)
        nobody = myself[:0]
        position = read(view, numbers, starts, lengths, items, reader, seen, count, first, most, last_time, nobody)
        if position == LATE:
            return LATE
        kernels.remove_readers(view, myself)
        if seen[count[0] - 1, 1] >= last_time or count[0] + most > seen.shape[0] - 1:
            return 0
    return 0


class Stress:
    """Sources 0, 1 hand over arrays, 2, 3 write rows with ranks; readers 0, 1 stay, the others come and go."""

    def __init__(self, rows, seed, **sizes):
        random = np.random.default_rng(seed)
        self.rows = rows
        slots = [Source(0, 0), Source(0, 1)] + [Source(0, None)] * WORKERS
        self.log = ReadyLog([COLUMNS], slots, READERS, **sizes)
        self.log.add_sources(range(len(slots)))
        self.log.add_readers([0, 1])
        self.times = [np.cumsum(random.integers(0, 3, rows)) for _ in slots]
        self.numbers = [np.arange(rows) + rows * source for source in range(len(slots))]
        self.last_time = 10 * rows
        self.ranks = [np.full(rows, source) for source in range(len(slots))]
        self.seen = [np.full((12 * rows, 3), -1, np.int64) for _ in range(READERS)]
        self.counts = [np.zeros(1, np.int64) for _ in range(READERS)]
        self.done = np.zeros(1, np.int64)
        self.results = {}

    def run(self):
        threads = [threading.Thread(target=self._add, args=(source,)) for source in range(EXTERNAL + WORKERS)]
        readers = [threading.Thread(target=self._read, args=(reader,)) for reader in range(READERS)]
        for thread in readers + threads:
            thread.start()
        for thread in threads + readers[:2]:
            thread.join()
        store_release(self.done, 0, 1)  # pairs with the load of read_in_turns
        self.log.close()
        for thread in readers:
            thread.join()

    def _add(self, source):
        view, times, numbers = self.log.view, self.times[source], self.numbers[source]
        if source < EXTERNAL:
            lengths = numbers % 4
            offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
            items = np.concatenate([np.arange(n, n + n % 4) for n in numbers]).astype(np.int32)
            addresses = np.array([address_of(numbers), 0, address_of(offsets), address_of(items)])
            times_address = address_of(times)
            result = add_batches(view, source, times_address, addresses, self.rows, 50, self.last_time)
        else:
            columns = self.log.staging(source).columns
            ranks = self.ranks[source]
            result = add_rows(view, source, times, numbers, ranks, columns[0], columns[1].items, self.last_time)
        self.results["source", source] = result

    def _read(self, reader):
        numbers, lists = self.log.columns()
        arrays = (self.log.view, numbers, lists.starts, lists.lengths, lists.items, reader, self.seen[reader])
        if reader < 2:
            invited = np.arange(2 + reader, READERS, 2)
            most = len(self.seen[reader])
            result = read(*arrays, self.counts[reader], 0, most, self.last_time, invited)
        else:
            result = read_in_turns(*arrays, self.counts[reader], 5 + reader, self.last_time, self.done)
        self.results["reader", reader] = result

    def check(self):
        assert all(self.results["source", source] == self.rows for source in range(EXTERNAL + WORKERS))
        first, second = (self.seen[reader][: self.counts[reader][0]] for reader in (0, 1))
        assert np.array_equal(first, second)
        assert np.array_equal(first[:, 0], np.arange(len(first)))
        assert (np.diff(first[:, 1]) >= 0).all()
        rows = first[first[:, 2] != -1]
        assert not (rows[:, 2] < -1).any(), "a list does not belong to its row"
        times, ranks, numbers = (np.concatenate(each) for each in (self.times, self.ranks, self.numbers))
        order = np.lexsort((numbers, ranks, times))
        assert np.array_equal(rows[:, 2], numbers[order])
        assert np.array_equal(rows[:, 1], times[order])
        visits = 0
        for reader in range(2, READERS):
            seen = self.seen[reader][: self.counts[reader][0]]
            assert np.array_equal(seen, first[seen[:, 0]]), f"reader {reader} saw something else"
            visits += np.count_nonzero(np.diff(seen[:, 0]) != 1)
        assert visits > READERS, "readers came and went"


def test_a_little_of_everything():
    stress = Stress(2_000, 1, capacity=16, staging=8, staging_items=16, items=32)
    stress.run()
    stress.check()


@pytest.mark.stress
@pytest.mark.timeout(900)
@pytest.mark.parametrize("capacity", [8, 16, 64, 1024])
@pytest.mark.parametrize("seed", range(3))
def test_everything_for_long(capacity, seed):
    stress = Stress(50_000, seed, capacity=capacity, staging=8, staging_items=16, items=32)
    stress.run()
    stress.check()
