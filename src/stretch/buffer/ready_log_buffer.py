"""A ReadyLog as a `TupleBuffer`: entry by entry, with payloads of any kind.

For contracts and tests, and for operators that run uncompiled. Entries stay in Python; through the log travel their
numbers. Not fast: each call is a kernel call, and one lock guards the tables here (never held while waiting for room).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

import numpy as np

from stretch.buffer import ready_log_kernels as kernels
from stretch.buffer.api import BEFORE_ALL, BOTTOM, Entry, EntryKind, Member, Position
from stretch.buffer.layout import DATA, INDEX_SHIFT, NO_BOUND, WATERMARK
from stretch.buffer.ready_log import FOR_EVER, ReadyLog, Source
from stretch.buffer.rows import FULL, Column
from stretch.native import WAIT_AGAIN, deadline_after

_MEMBERS: Final = 64


class ReadyLogBuffer:
    """A `TupleBuffer` on a `ReadyLog`; see `stretch.buffer.api` for the contracts.

    `timeout` bounds how long `add` waits for room; then it raises TimeoutError.
    """

    def __init__(
        self,
        sources: Iterable[Member],
        readers: Iterable[Member],
        bound: Position = BOTTOM,
        *,
        capacity: int = 1024,
        staging: int = 1024,
        max_members: int = _MEMBERS,
        timeout: float = FOR_EVER,
    ) -> None:
        self.log = ReadyLog(
            [[Column("number", np.int64)]], [Source()] * max_members, max_members, capacity=capacity, staging=staging
        )
        self._stagings = [self.log.staging(slot) for slot in range(max_members)]
        self._numbers = self.log.columns()[0]
        self._timeout = timeout
        self._lock = threading.Lock()
        self._entries: dict[int, Entry] = {}  # by number; what all readers have released is forgotten
        self._count = 0
        self._forgotten = 0  # position before which entries are forgotten
        self._bounds: dict[int, Position] = {}  # by slot of a source
        self._positions: dict[int, int] = {}  # by slot of a reader: what it gets next
        self._sources: dict[Member, int] = {}
        self._readers: dict[Member, int] = {}
        self._add_sources(sources, bound)
        self._add_readers(readers, 0)

    def add(self, entry: Entry, source: Member) -> None:
        slot = self._sources[source]
        if entry.position <= self._bounds[slot]:
            raise ValueError(f"source {source} went back from {self._bounds[slot]} to {entry.position}")
        with self._lock:
            self._count += 1
            number = self._count
            self._entries[number] = entry
        stage = self._stage_control if entry.kind is EntryKind.CONTROL else self._stage_row
        deadline_ns = deadline_after(int(self._timeout * 1e9))
        while stage(slot, entry, number) == FULL:
            if kernels.wait_for_rows(self.log.view, slot, 1, deadline_ns) != WAIT_AGAIN:
                del self._entries[number]
                raise TimeoutError(f"no room for {entry.position} of source {source}")
        self._bounds[slot] = entry.position
        kernels.advance(self.log.view, slot, 2 * entry.timestamp)

    def advance(self, bound: Position, source: Member) -> None:
        slot = self._sources[source]
        if bound > self._bounds[slot]:
            self._bounds[slot] = bound
            kernels.advance(self.log.view, slot, _whole_time(bound))

    def get(self, reader: Member) -> Entry | None:
        slot = self._readers.get(reader)
        if slot is None:
            return None
        view, position = self.log.view, self._positions[slot]
        if kernels.ready_end(view) <= position:
            kernels.try_merge(view)
            if kernels.ready_end(view) <= position:
                return None
        at = position & (self.log.capacity - 1)
        time, ref = int(view.times[at]), int(view.refs[at])
        self._positions[slot] = position + 1
        if ref & 3 == WATERMARK:
            entry = Entry((time, BEFORE_ALL), EntryKind.WATERMARK)
        else:
            entry = self._entries[self._number_of(ref)]
        self._release(slot, position)  # keeps the entry itself, for readers that start from the last one
        return entry

    def add_readers(self, readers: Iterable[Member], reader: Member, *, from_last: bool = False) -> bool:
        start = self._positions[self._readers[reader]] - (1 if from_last else 0)
        if start < 0:
            raise ValueError(f"reader {reader} has got nothing yet")
        return self._add_readers(readers, start)

    def remove_readers(self, readers: Iterable[Member]) -> bool:
        with self._lock:
            slots = [slot for reader in set(readers) if (slot := self._readers.pop(reader, None)) is not None]
            return self.log.remove_readers(slots) > 0

    def add_sources(self, sources: Iterable[Member], bound: Position) -> bool:
        return self._add_sources(sources, bound)

    def remove_sources(self, sources: Iterable[Member]) -> bool:
        with self._lock:
            slots = [slot for source in set(sources) if (slot := self._sources.pop(source, None)) is not None]
        return self.log.remove_sources(slots) > 0

    def close(self) -> None:
        """Stop everyone who waits."""
        self.log.close()

    def _add_sources(self, sources: Iterable[Member], bound: Position) -> bool:
        with self._lock:
            missing = sorted(set(sources) - self._sources.keys(), key=repr)
            for source in missing:
                slot = self._free_source()
                self._sources[source], self._bounds[slot] = slot, bound
            slots = [self._sources[source] for source in missing]
            return self.log.add_sources(slots, _whole_time(bound)) > 0

    def _add_readers(self, readers: Iterable[Member], start: int) -> bool:
        with self._lock:
            missing = sorted(set(readers) - self._readers.keys(), key=repr)
            for reader in missing:
                slot = min(set(range(self.log.max_readers)) - set(self._readers.values()))
                self._readers[reader], self._positions[slot] = slot, start
            return self.log.add_readers([self._readers[reader] for reader in missing], start) > 0

    def _free_source(self) -> int:
        """Return the slot after the last one taken, so that a member that comes back comes after what it left."""
        last = next(reversed(self._bounds), -1)
        for step in range(1, self.log.max_sources + 1):
            slot = (last + step) % self.log.max_sources
            if slot not in self._sources.values() and kernels.is_drained(self.log.view, slot):
                self._bounds.pop(slot, None)
                return slot
        raise ValueError(f"{self.log.max_sources} sources are the most")

    def _stage_row(self, slot: int, entry: Entry, number: int) -> int:
        view, staging = self.log.view, self._stagings[slot]
        row = kernels.reserve_rows(view, slot, 1)
        if row != FULL:
            at = row & (self.log.staging_capacity - 1)
            staging.times[at], staging.ranks[at] = entry.timestamp, _rank(entry.position)
            staging.columns[0][at] = number
            kernels.publish_rows(view, slot, 1)
        return row

    def _stage_control(self, slot: int, entry: Entry, number: int) -> int:
        return kernels.stage_control(self.log.view, slot, entry.timestamp, number)

    def _number_of(self, ref: int) -> int:
        index = ref >> INDEX_SHIFT
        return int(self._numbers[index]) if ref & 3 == DATA else index

    def _release(self, slot: int, position: int) -> None:
        """Release, and forget the entries that no reader can get any more, before they are overwritten."""
        view, mask = self.log.view, self.log.capacity - 1
        with self._lock:
            others = [self._held_by(each) for each in self._readers.values() if each != slot]
            until = min([position, *others])
            while self._forgotten < until:
                ref = int(view.refs[self._forgotten & mask])
                if ref & 3 != WATERMARK:
                    self._entries.pop(self._number_of(ref), None)
                self._forgotten += 1
            kernels.release_to(view, slot, position)

    def _held_by(self, slot: int) -> int:
        return kernels.position(self.log.view, slot)


def _rank(position: Position) -> int:
    return position[1] if len(position) > 1 else BEFORE_ALL


def _whole_time(bound: Position) -> int:
    return 2 * bound[0] if bound else NO_BOUND
