"""An ElasticScaleGate as a `TupleBuffer`: entry by entry, with payloads of any kind.

For contracts and tests, and for operators that run uncompiled; kernels call `scalegate_kernels` on `gate.view`
themselves. Entries stay in a table here, one place per node; through the gate travel their places.

Invariants
    E1  The entry of a node is replaced only when the node is free, and readers take theirs out before they give it
        back. What a reader got last it gives back with the next one, for readers that start from it.
    E2  The tables of names change under `_lock`, which is never held while waiting for room. It is made of atomics, so
        that the interleaver can run this class, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from stretch.buffer import scalegate_kernels as kernels
from stretch.buffer.api import BEFORE_ALL, BOTTOM, Entry, EntryKind, Member, Position
from stretch.buffer.layout import INDEX_SHIFT, TIME_MIN, WATERMARK
from stretch.buffer.scalegate_kernels import FULL, GONE, LATE, OK, allocate_gate
from stretch.buffer.scalegate_layout import (
    LAST_RANK,
    LAST_TIME,
    MARK,
    NEXT_NUMBER,
    NODE_CELLS,
    SOURCE_CELLS,
    WAKE_READERS,
    WAKE_SOURCES,
    name_of,
    place_of,
)
from stretch.native import (
    WAIT_AGAIN,
    Cells,
    backoff,
    compare_exchange,
    deadline_after,
    store_release,
    wake_all,
)

_MEMBERS: Final = 64
_FOR_EVER: Final = 10**9  # seconds


class ElasticScaleGate:
    """A `TupleBuffer` on a skip list (Paper: ESG); see `stretch.buffer.api` for the contracts.

    `capacity` is the number of nodes per source, a power of two, at least 8. `timeout` bounds how long `add` waits for
    room; then it raises TimeoutError.
    """

    def __init__(
        self,
        sources: Iterable[Member],
        readers: Iterable[Member],
        bound: Position = BOTTOM,
        *,
        capacity: int = 1024,
        max_members: int = _MEMBERS,
        timeout: float = _FOR_EVER,
        spread: int = 3,
    ) -> None:
        self.view = allocate_gate([None] * max_members, max_members, capacity=max(capacity, 8), spread=spread)
        self._timeout = timeout
        self._max_members = max_members
        self._lock_cell = np.zeros(1, np.int64)
        self._entries: list[Entry | None] = [None] * (max_members * self.view.ring)  # by place of the node
        self._bounds: dict[int, Position] = {}  # by slot of a source
        self._sources: dict[Member, int] = {}
        self._readers = {reader: slot for slot, reader in enumerate(dict.fromkeys(readers))}
        self._times, self._refs = np.zeros((max_members, 4), np.int64), np.zeros((max_members, 4), np.int64)
        kernels.open_readers(self.view, _slots(self._readers.values()))
        self.add_sources(sources, bound)

    @property
    def sources(self) -> frozenset[Member]:
        """The sources connected now."""
        return frozenset(self._sources)

    @property
    def readers(self) -> frozenset[Member]:
        """The readers connected now."""
        return frozenset(self._readers)

    def bound(self, source: Member) -> Position:
        """Return what `source` has promised so far."""
        return self._bounds[self._sources[source]]

    def pending(self, source: Member) -> int:
        """Count the nodes of `source` that some reader holds."""
        return kernels.pending_of(self.view, self._sources[source])

    def add(self, entry: Entry, source: Member) -> None:
        slot = self._sources[source]
        if entry.position <= self._bounds[slot]:
            raise ValueError(f"source {source} went back from {self._bounds[slot]} to {entry.position}")
        self._wait_for_room(slot, source)
        number = int(self.view.sources[slot * SOURCE_CELLS + NEXT_NUMBER])  # its own, while it is a source
        index = place_of(name_of(slot, number), self.view.ring) // NODE_CELLS
        self._entries[index] = entry
        ref = index << INDEX_SHIFT | (entry.input & 63) << 2 | entry.kind
        time, rank = _place_in_order(entry.position, BEFORE_ALL)
        self._require(kernels.add(self.view, slot, time, rank, ref), source)
        self._bounds[slot] = entry.position

    def advance(self, bound: Position, source: Member) -> None:
        slot = self._sources[source]
        if bound <= self._bounds[slot]:
            return
        time, rank = _place_in_order(bound, MARK)
        deadline_ns = deadline_after(int(self._timeout * 1e9))
        while (status := kernels.advance_to(self.view, slot, time, rank)) == FULL:
            if kernels.wait_for_room(self.view, slot, 1, deadline_ns) != WAIT_AGAIN:
                raise TimeoutError(f"no room for the bound {bound} of source {source}")
        self._require(status, source)
        self._bounds[slot] = bound

    def get(self, reader: Member) -> Entry | None:
        slot = self._readers.get(reader)
        if slot is None or kernels.fetch(self.view, slot, self._times[slot], self._refs[slot], 1) <= 0:
            return None
        position = kernels.next_position(self.view, slot) - 1
        at = position & (self._times.shape[1] - 1)
        time, ref = int(self._times[slot, at]), int(self._refs[slot, at])
        entry: Entry | None = Entry((time, BEFORE_ALL), EntryKind.WATERMARK)
        if ref & 3 != WATERMARK:
            entry = self._entries[ref >> INDEX_SHIFT]
        kernels.release_to(self.view, slot, position)  # all but this one (E1)
        return entry

    def add_readers(self, readers: Iterable[Member], reader: Member, *, from_last: bool = False) -> bool:
        with self._lock():
            caller = self._readers[reader]
            missing = sorted(set(readers) - self._readers.keys(), key=repr)
            free = sorted(set(range(self._max_members)) - set(self._readers.values()))
            slots = dict(zip(missing, free, strict=False))
            if len(slots) < len(missing):
                raise ValueError(f"{self._max_members} readers are the most")
            start = kernels.next_position(self.view, caller) - (1 if from_last else 0)
            count = kernels.add_readers(self.view, caller, _slots(slots.values()), start)
            if count == LATE:
                raise ValueError(f"reader {reader} has got nothing yet")
            if count > 0:
                self._readers = {**self._readers, **slots}
            return count > 0

    def remove_readers(self, readers: Iterable[Member]) -> bool:
        with self._lock():
            leaving = set(readers) & self._readers.keys()
            count = kernels.remove_readers(self.view, _slots(self._readers[reader] for reader in leaving))
            self._readers = {reader: slot for reader, slot in self._readers.items() if reader not in leaving}
            return count > 0

    def add_sources(self, sources: Iterable[Member], bound: Position) -> bool:
        time, rank = _place_in_order(bound, MARK)
        with self._lock():
            missing = sorted(set(sources) - self._sources.keys(), key=repr)
            slots = dict(zip(missing, self._slots_for(len(missing), time, rank), strict=True))
            self._bounds.update((slot, bound) for slot in slots.values())
            count = kernels.add_sources_at(self.view, -1, _slots(slots.values()), time, rank)
            self._sources = {**self._sources, **slots}
            return count > 0

    def remove_sources(self, sources: Iterable[Member]) -> bool:
        with self._lock():
            leaving = set(sources) & self._sources.keys()
            count = kernels.remove_sources(self.view, _slots(self._sources[source] for source in leaving))
            self._sources = {source: slot for source, slot in self._sources.items() if source not in leaving}
            return count > 0

    def close(self) -> None:
        """Stop everyone who waits."""
        store_release(self.view.stop, 0, 1)  # pairs with the load_acquire of wait_round
        wake_all(self.view.cells, WAKE_READERS)
        wake_all(self.view.cells, WAKE_SOURCES)

    def _wait_for_room(self, slot: int, source: Member) -> None:
        """Wait until the next node of a source is free, before its entry is replaced."""
        deadline_ns = deadline_after(int(self._timeout * 1e9))
        while (room := kernels.room_for(self.view, slot, 1)) < 1:
            self._require(room if room == GONE else OK, source)
            if kernels.wait_for_room(self.view, slot, 1, deadline_ns) != WAIT_AGAIN:
                raise TimeoutError(f"no room for an entry of source {source}")

    def _require(self, status: int, source: Member) -> None:
        if status != OK:
            why = "is not a source any more" if status == GONE else "added before what others may have read"
            raise ValueError(f"source {source} {why}")

    def _slots_for(self, count: int, time: int, rank: int) -> list[int]:
        """Return free slots for new sources, if possible such that were left before the bound.

        A source starts after what its slot added last (M3 of scalegate_members).
        """
        taken = set(self._sources.values())
        last = self.view.sources.reshape(-1, SOURCE_CELLS)[:, [LAST_TIME, LAST_RANK]].tolist()
        free = [slot for slot in range(self._max_members) if slot not in taken and self._has_room(slot)]
        free.sort(key=lambda slot: (last[slot] > [time, rank], slot))
        if len(free) < count:
            raise ValueError(f"{self._max_members} sources are the most, and readers must have read what they left")
        return free[:count]

    def _has_room(self, slot: int) -> bool:
        return self.view.ring - kernels.pending_of(self.view, slot) >= 2

    @contextmanager
    def _lock(self) -> Iterator[None]:
        attempt = 0
        while not compare_exchange(self._lock_cell, 0, 0, 1):  # acquire: pairs with the store_release below
            backoff(attempt)
            attempt += 1
        try:
            yield
        finally:
            store_release(self._lock_cell, 0, 0)  # pairs with the compare_exchange above


def _slots(numbers: Iterable[int]) -> Cells:
    return np.fromiter(numbers, np.int64)


def _place_in_order(position: Position, rank: int) -> tuple[int, int]:
    """Return time and rank of a position; `rank` is that of one without."""
    if not position:
        return TIME_MIN, MARK
    return position[0], position[1] if len(position) > 1 else rank
