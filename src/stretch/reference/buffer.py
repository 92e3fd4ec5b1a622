"""The tuple buffer in plain Python: a list of ready entries, and a heap of those that are not ready yet."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from stretch.buffer.api import BEFORE_ALL, BOTTOM, Entry, EntryKind, Member, Position

ENTRIES_KEPT = 4096


class ReferenceBuffer:
    """A `TupleBuffer` that merges on `add`; see `stretch.buffer.api` for the contracts.

    Invariant: `_ready` is sorted by position, and nothing that is added later sorts before its end.
    """

    def __init__(self, sources: Iterable[Member], readers: Iterable[Member], bound: Position = BOTTOM) -> None:
        self._bounds: dict[Member, Position] = dict.fromkeys(sources, bound)
        self._pending: list[tuple[Entry, Member]] = []  # heap by position, which is unique
        self._ready: list[Entry] = []
        self._watermark: int | None = None  # the latest time in _ready; control tuples do not count
        self._read: dict[Member, int] = dict.fromkeys(readers, 0)  # reader -> index into _ready of what it gets next

    @property
    def sources(self) -> frozenset[Member]:
        """The sources connected now."""
        return frozenset(self._bounds)

    @property
    def readers(self) -> frozenset[Member]:
        """The readers connected now."""
        return frozenset(self._read)

    def bound(self, source: Member) -> Position:
        """Return what `source` has promised so far."""
        return self._bounds[source]

    def waiting(self) -> list[tuple[Entry, Member]]:
        """Return what is not ready yet, with who added it."""
        return list(self._pending)

    def unread(self, reader: Member) -> int:
        """Count the ready entries that `reader` has not got yet."""
        return len(self._ready) - self._read[reader]

    def add(self, entry: Entry, source: Member) -> None:
        assert entry.position > self._bounds[source], f"source {source} went back to {entry.position}"
        heapq.heappush(self._pending, (entry, source))
        self._bounds[source] = entry.position
        self._merge()

    def advance(self, bound: Position, source: Member) -> None:
        if bound > self._bounds[source]:
            self._bounds[source] = bound
            self._merge()

    def get(self, reader: Member) -> Entry | None:
        index = self._read.get(reader)
        if index is None or index == len(self._ready):
            return None
        entry = self._ready[index]
        self._read[reader] = index + 1
        if index > ENTRIES_KEPT:
            self._forget()
        return entry

    def add_readers(self, readers: Iterable[Member], reader: Member, *, from_last: bool = False) -> bool:
        missing = set(readers) - self._read.keys()
        start = self._read[reader] - (1 if from_last else 0)
        assert start >= 0, f"reader {reader} has got nothing yet"
        self._read.update(dict.fromkeys(missing, start))
        return bool(missing)

    def remove_readers(self, readers: Iterable[Member]) -> bool:
        present = set(readers) & self._read.keys()
        for reader in present:
            del self._read[reader]
        return bool(present)

    def add_sources(self, sources: Iterable[Member], bound: Position) -> bool:
        missing = set(sources) - self._bounds.keys()
        self._bounds.update(dict.fromkeys(missing, bound))
        return bool(missing)

    def remove_sources(self, sources: Iterable[Member]) -> bool:
        present = set(sources) & self._bounds.keys()
        for source in present:
            del self._bounds[source]
        if present:
            self._merge()
        return bool(present)

    def _forget(self) -> None:
        """Drop what all readers have got; joining ones may begin at the last entry that another has got."""
        done = min(self._read.values()) - 1
        if done > ENTRIES_KEPT:
            del self._ready[:done]
            self._read = {reader: index - done for reader, index in self._read.items()}

    def _is_ready(self, entry: Entry) -> bool:
        """Tell whether every source has reached the entry (Paper: Definition "ready")."""
        return all(bound >= entry.position for bound in self._bounds.values())

    def _merge(self) -> None:
        """Move what has become ready to the end of `_ready`, and a watermark if bounds went further than that."""
        while self._pending and self._is_ready(self._pending[0][0]):
            self._deliver(heapq.heappop(self._pending)[0])
        reached = min(self._bounds.values(), default=BOTTOM)
        if reached and (self._watermark is None or reached[0] > self._watermark):
            # After the control tuple that it may have come with (docs/paper-notes.md, 20).
            self._deliver(Entry((*reached, BEFORE_ALL), EntryKind.WATERMARK))

    def _deliver(self, entry: Entry) -> None:
        self._ready.append(entry)
        if entry.kind is not EntryKind.CONTROL:
            self._watermark = entry.timestamp
