"""The tuple buffer's interface and what travels through it (Paper: TB, table "API of TB").

Order
    Every entry has a *position* `(timestamp, *order)`, compared as Python compares tuples. A source adds entries of
    growing positions. For tuples from outside the order is `(source, sequence)`; results of an operator carry
    `(key group, index)`, so that the order of equal timestamps does not depend on which instance made them.
Bound
    What a source promises: nothing it adds later comes before its bound. Adding an entry moves the bound to the
    entry's position; `advance` moves it without one (a heartbeat, or an instance's progress).
Ready
    An entry is ready when the bound of every source has reached its position (Paper: Definition "ready", made a
    total order, see docs/paper-notes.md, 6).
Watermarks
    Tuples are watermarks themselves. When bounds move beyond the last ready tuple without one, the buffer delivers a
    WATERMARK entry: one stream of non-decreasing watermarks, the same for every reader.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

Position = tuple[int, ...]

BOTTOM: Position = ()
"""The bound of a source that has promised nothing yet."""

BEFORE_ALL = -1
"""As the second part of a position: before every source and key group at that timestamp."""


Member = Hashable
"""The name of a source or reader; unique within a buffer."""


class EntryKind(IntEnum):
    """What an entry of a buffer is."""

    DATA = 0
    WATERMARK = 1
    CONTROL = 2


class Entry(NamedTuple):
    """What a reader gets: a tuple, a watermark, or a control tuple.

    `payload` is the tuple's values (DATA) or the next epoch (CONTROL); `input` is the logical stream it came from.
    """

    position: Position
    kind: EntryKind
    payload: Any = None
    input: int = 0

    @property
    def timestamp(self) -> int:
        """Event time of the entry (Paper: tau)."""
        return self.position[0]


class TupleBuffer(Protocol):
    """Merge the entries of sources into one order that every reader sees (Paper: TB).

    Each call takes effect at once; of several callers that change the same
    set at the same time exactly one gets `True`.
    """

    def add(self, entry: Entry, source: Member) -> None:
        """Add an entry; called by `source` only, with a position beyond its bound (Paper: add)."""

    def advance(self, bound: Position, source: Member) -> None:
        """Promise that `source` adds nothing before `bound`; bounds never move back."""

    def get(self, reader: Member) -> Entry | None:
        """Return the next ready entry of `reader`, or None; None too while it is not a reader (Paper: get)."""

    def add_readers(self, readers: Iterable[Member], reader: Member, *, from_last: bool = False) -> bool:
        """Add those of `readers` that are not readers yet; called by `reader` (Paper: addReaders).

        They read first what `reader` will get next, or with `from_last` the entry that it got last: the tuple that
        triggers a reconfiguration is processed by the new instances too. True if this call added any.
        """

    def remove_readers(self, readers: Iterable[Member]) -> bool:
        """Remove those of `readers` that are readers; True if this call removed any (Paper: removeReaders)."""

    def add_sources(self, sources: Iterable[Member], bound: Position) -> bool:
        """Add those of `sources` that are not sources yet, each with `bound` (Paper: addSources, Lemma "addissafe").

        Called by a source, with a bound that its own has reached. True if this call added any.
        """

    def remove_sources(self, sources: Iterable[Member]) -> bool:
        """Remove those of `sources` that are sources; what they added is still delivered (Paper: removeSources).

        True if this call removed any.
        """
