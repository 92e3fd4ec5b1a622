"""Whatever is called in whatever order, a ReadyLog delivers what the reference buffer delivers."""

from __future__ import annotations

import heapq

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from stretch.buffer import ready_log_kernels as kernels
from stretch.buffer.api import BEFORE_ALL, BOTTOM, Entry, EntryKind
from stretch.buffer.ready_log import ReadyLog, Source
from stretch.buffer.ready_log_buffer import ReadyLogBuffer
from stretch.buffer.rows import Column
from stretch.reference.buffer import ReferenceBuffer

# --- Entry by entry, against the reference buffer: watermarks included


class Reference(ReferenceBuffer):
    """The reference buffer; watermarks are those of tuples and WATERMARK entries, not of control tuples."""

    told = None

    def _merge(self):
        while self._pending and self._is_ready(self._pending[0][0]):
            self._ready.append(heapq.heappop(self._pending)[0])
            if self._ready[-1].kind is EntryKind.DATA:
                self.told = self._ready[-1].timestamp
        reached = min(self._bounds.values(), default=BOTTOM)
        if reached and (self.told is None or reached[0] > self.told):
            self.told = reached[0]
            self._ready.append(Entry((reached[0], BEFORE_ALL), EntryKind.WATERMARK))


calls = some.lists(
    some.tuples(
        some.sampled_from(["row", "row", "row", "advance", "control", "get", "add", "remove", "readers"]),
        some.integers(0, 3),
        some.integers(0, 3),
    ),
    max_size=60,
)


class Pair:
    """The same calls on both buffers.

    Tuples and heartbeats have even times. Control entries have odd ones of their own, or follow a tuple: those of two
    sources at one time have no order, and whether one waits for a heartbeat at its time is nobody's business.
    """

    def __init__(self):
        self.buffers = (Reference([0, 1], ["a"]), ReadyLogBuffer([0, 1], ["a"], capacity=64, staging=32, timeout=0))
        self.bounds = {0: (0,), 1: (0,)}
        for source in self.bounds:
            self._both("advance", (0,), source)
        self.sequence = 0
        self.controls = {}  # time -> source

    def row(self, source, gap):
        self._add(source, (self._even_time(source, gap), source, self.sequence + 1), EntryKind.DATA)

    def control(self, source, gap):
        bound = self.bounds[source]
        if gap == 0 and len(bound) == 3 and bound[1] == source:
            self._add(source, (*bound, self.sequence + 1), EntryKind.CONTROL)
        time = self._even_time(source, gap) + 1
        if self.controls.setdefault(time, source) == source and gap:
            self._add(source, (time, BEFORE_ALL, self.sequence + 1), EntryKind.CONTROL)

    def _even_time(self, source, gap):
        return -(-self.bounds[source][0] // 2) * 2 + 2 * gap

    def _add(self, source, position, kind):
        if sum(each == source for _, each in self.buffers[0].waiting()) > 24:
            return  # this source is far ahead
        if position < self.bounds[source]:
            return  # it was added with the bound of a later source
        self.sequence += 1
        self.bounds[source] = position
        self._both("add", Entry(position, kind, self.sequence), source)

    def advance(self, source, gap):
        bound = (self._even_time(source, gap),)
        self.bounds[source] = max(bound, self.bounds[source])
        self._both("advance", bound, source)

    def add(self, source, _gap):
        if self.bounds and source not in self.bounds:
            self.bounds[source] = min(self.bounds.values())
            self._both("add_sources", [source], self.bounds[source])

    def remove(self, source, _gap):
        if len(self.bounds) > 1:
            self._both("remove_sources", [source])
            self.bounds.pop(source, None)

    def readers(self, which, kind):
        name = "bcd"[which - 1]
        if kind == 0:
            self._both("remove_readers", [name])
        else:
            is_from_last = kind == 2 and self.buffers[0]._read["a"] > 0
            self._both("add_readers", [name], "a", from_last=is_from_last)

    def get(self, reader, count):
        for _ in range(count):
            self._both("get", "abcd"[reader])

    def _both(self, name, *arguments, **options):
        expected, found = (getattr(buffer, name)(*arguments, **options) for buffer in self.buffers)
        assert found == expected, f"{name}{arguments}"


@given(calls=calls)
def test_like_the_reference_buffer_call_by_call(calls):
    pair = Pair()
    for name, source, gap in calls:
        if name == "readers" and source == 0:
            continue
        if source in pair.bounds or name not in ("row", "advance", "control", "remove"):
            getattr(pair, name)(source, gap)
        for reader in range(4):  # there is room for few entries: everybody reads on
            pair.get(reader, 3)
    for source in list(pair.bounds):
        pair._both("advance", (1000,), source)
    for reader in range(4):
        pair.get(reader, 50)


# --- Batches, several inputs, lists

COLUMNS = [[Column("x", np.float64), Column("words", np.int32, is_list=True)], [Column("n", np.int16)], []]
SLOTS = [Source(0, 0), Source(1, 1), Source(0, 2), Source(2, 3), Source(1, None)]

steps = some.lists(
    some.tuples(
        some.sampled_from(["batch", "batch", "batch", "advance", "control", "read", "read", "remove", "ranked"]),
        some.integers(0, len(SLOTS) - 1),
        some.lists(some.integers(0, 2), min_size=1, max_size=5),
    ),
    max_size=50,
)


class Batches:
    """Feeds a small log, notes what it was given, and reads it back by two readers of different pace."""

    def __init__(self):
        sizes = {"capacity": 8, "staging": 8, "items": 16, "staging_items": 16}
        self.log = ReadyLog(COLUMNS, SLOTS, 2, **sizes)
        self.log.add_sources(range(len(SLOTS)))
        self.log.add_readers([0, 1])
        self.times = dict.fromkeys(range(len(SLOTS)), 0)
        self.given = []  # (time, rank, sequence, what)
        self.seen = [[], []]
        self.positions = [0, 0]

    def note(self, source, time, rank, what):
        self.given.append((time, rank, len(self.given), what))
        self.times[source] = time

    def batch(self, source, gaps):
        if SLOTS[source].rank is None:
            self.ranked(source, gaps)
            return
        of_input = SLOTS[source].input
        times = self.times[source] + np.cumsum(gaps)
        numbers = len(self.given) + np.arange(len(times))
        lists = [list(range(number % 5)) for number in numbers]
        offsets = np.cumsum([0, *map(len, lists)])
        columns = [[numbers / 2, (offsets, np.concatenate([*lists, [0]]))], [numbers], []][of_input]
        done = self.log.add_batch(source, times, columns, timeout=0)
        assert 0 <= done <= len(times)
        for time, number, words in zip(times[:done].tolist(), numbers.tolist(), lists, strict=False):
            self.note(source, time, SLOTS[source].rank, [(number / 2, words), (number,), ()][of_input])

    def ranked(self, _source, gaps):
        """Add rows as a worker does, with a rank each, and promise their time."""
        view, source = self.log.view, 4
        first = kernels.reserve_rows(view, source, len(gaps))
        if source not in self.times or first < 0:
            return
        staging = self.log.staging(source)
        time = self.times[source] + gaps[0]
        for k, rank in enumerate(sorted(gaps)):
            at = (first + k) & (self.log.staging_capacity - 1)
            staging.times[at], staging.ranks[at], staging.columns[0][at] = time, 4 + rank, len(self.given)
            self.note(source, time, 4 + rank, (len(self.given),))
        kernels.publish_rows(view, source, len(gaps))
        # As a worker that is done with that time: equal ranks never come again.
        self.times[source] += gaps[0] + 1
        kernels.advance(view, source, 2 * self.times[source])

    def advance(self, source, gaps):
        self.times[source] += sum(gaps)
        kernels.advance(self.log.view, source, 2 * self.times[source])

    def control(self, source, gaps):
        """Control entries of several sources at one time have no order, so only those that follow a tuple are sent."""
        epoch = len(self.given)
        bound = kernels.bound_of(self.log.view, source)
        time = max(self.times[source], bound >> 1)
        rank = SLOTS[source].rank if bound == 2 * time + 1 else BEFORE_ALL
        is_known = rank is not None and rank != BEFORE_ALL
        if is_known and kernels.stage_control(self.log.view, source, time, epoch) == 0:
            self.note(source, time, rank, f"epoch {epoch}")

    def remove(self, source, _gaps):
        if len(self.times) > 1:
            assert self.log.remove_sources([source]) == 1
            del self.times[source]

    def read(self, source, gaps):
        for reader in (0, 1):
            self.read_some(reader, sum(gaps) if reader else 99)

    def read_some(self, reader, count):
        view = self.log.view
        first = self.positions[reader]
        last = min(kernels.ready_end(view), first + count)
        for position in range(first, last):
            at = position & (self.log.capacity - 1)
            self.seen[reader].append(self.entry(int(view.times[at]), int(view.refs[at])))
        self.positions[reader] = last
        kernels.release_to(view, reader, last)

    def entry(self, time, ref):
        index, of_input, kind = ref >> 8, (ref >> 2) & 63, ref & 3
        if kind != EntryKind.DATA:
            return time, "watermark" if kind == EntryKind.WATERMARK else f"epoch {index}"
        columns = self.log.columns(of_input)
        if of_input == 0:
            x, (starts, lengths, items) = columns
            return time, (float(x[index]), items[starts[index] : starts[index] + lengths[index]].tolist())
        return time, tuple(int(column[index]) for column in columns)


@given(steps=steps)
def test_batches_come_out_sorted_and_once(steps):
    batches = Batches()
    for name, source, gaps in steps:
        if source in batches.times or name in ("read", "ranked"):
            getattr(batches, name)(source, gaps)
    batches.log.remove_sources(batches.times)
    for _ in range(len(batches.given) + 10):
        for reader in (0, 1):
            batches.read_some(reader, 99)
    expected = [(time, what) for time, _, _, what in sorted(batches.given, key=lambda each: each[:3])]
    assert batches.seen[0] == batches.seen[1]
    assert [entry for entry in batches.seen[0] if entry[1] != "watermark"] == expected
    times = [time for time, _ in batches.seen[0]]
    assert times == sorted(times)
