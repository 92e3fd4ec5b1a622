"""Control queues: one per source, so that control tuples travel in band (Paper: Algorithm "addSTRETCH").

A source puts what its queue holds into the buffer right before its next tuple, with that tuple's timestamp, or with
its next heartbeat. Every source announces every epoch; readers take the first and ignore the rest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from stretch.buffer.api import BEFORE_ALL, Entry, EntryKind, Member, Position
from stretch.reference.buffer import ReferenceBuffer


class ControlQueues:
    """What sources call instead of the buffer itself."""

    def __init__(self, buffer: ReferenceBuffer) -> None:
        self.buffer = buffer
        self._queues: dict[Member, deque[Any]] = {source: deque() for source in buffer.sources}
        self._unannounced: list[Any] = []  # no source has put these into the buffer yet
        self._count = 0

    @property
    def is_waiting(self) -> bool:
        """Tell whether something waits for the next tuple or heartbeat of any source."""
        return bool(self._unannounced)

    def announce(self, message: Any) -> None:
        """Have every source deliver `message` in a control tuple."""
        self._unannounced.append(message)
        for queue in self._queues.values():
            queue.append(message)

    def add(self, entry: Entry, source: Member) -> None:
        """Add a tuple, after the control tuples that wait for it (Paper: addSTRETCH)."""
        self._send(entry.timestamp, source)
        self.buffer.add(entry, source)

    def advance(self, bound: Position, source: Member) -> None:
        """Advance the bound of a source, after the control tuples that wait; heartbeats carry them too."""
        if bound > self.buffer.bound(source):
            self._send(bound[0], source)
            self.buffer.advance(bound, source)

    def add_sources(self, sources: Iterable[Member], bound: Position) -> bool:
        """Add sources to the buffer; they announce what nobody has announced yet."""
        sources = list(sources)
        for source in sources:
            self._queues.setdefault(source, deque(self._unannounced))
        return self.buffer.add_sources(sources, bound)

    def remove_sources(self, sources: Iterable[Member]) -> bool:
        """Remove sources from the buffer, with their queues."""
        sources = list(sources)
        for source in sources:
            self._queues.pop(source, None)
        return self.buffer.remove_sources(sources)

    def _send(self, timestamp: int, source: Member) -> None:
        queue = self._queues[source]
        while queue:
            message = queue.popleft()
            bound = self.buffer.bound(source)
            self._count += 1
            # Just after what the source has added, and before everything that it can still add.
            has_added = len(bound) > 1 and bound[0] == timestamp
            position = (*bound, self._count) if has_added else (timestamp, BEFORE_ALL, self._count)
            self.buffer.add(Entry(position, EntryKind.CONTROL, message), source)
            if message in self._unannounced:
                self._unannounced.remove(message)
