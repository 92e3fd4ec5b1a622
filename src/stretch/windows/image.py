"""Window state as two arrays, and back: which tables there are, and their words, back to back.

What
    `list_tables` says which tables are live; `spans_of` where their words are: the entries and the index of each,
    without the room between them. `gather` and `scatter` copy spans from and to the heap piece by piece, so that state
    of any size passes through a buffer of a few megabytes. `place_tables` lays tables out anew: blocks one after
    another, free lists empty. So an image does not depend on who owned a group, nor on what the heap went through.

Who may call
    One thread, while no worker touches a table: the engine is drained, or has not begun.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.native.jit import kernel
from stretch.native.memory import address_of, copy_bytes
from stretch.windows.layout import (
    BLOCK,
    CLASS,
    COUNT,
    DIRECTORY_WORDS,
    HEAP_END,
    LIVE_WORDS,
    NO_TABLE,
    TAG,
    Shape,
    Tables,
)

Longs = npt.NDArray[np.int64]

# A line of `list_tables`.
LISTED_GROUP, LISTED_TAG, LISTED_CLASS, LISTED_COUNT = range(4)


class Spans(NamedTuple):
    """Runs of words of the heap, in order; `place` is (span, word in it) where copying goes on."""

    starts: Longs
    lengths: Longs
    place: Longs

    @property
    def words(self) -> int:
        """How many words they have."""
        return int(self.lengths.sum())


def list_tables(tables: Tables, shape: Shape) -> Longs:
    """Return a line (group, tag, class, count) for each live table."""
    records = _records(tables, shape)
    live = np.flatnonzero(records[:, TAG] != NO_TABLE)
    return np.column_stack((live // shape.panes, *(records[live, field] for field in (TAG, CLASS, COUNT))))


def spans_of(tables: Tables, shape: Shape, listed: Longs) -> Spans:
    """Return where the words of the listed tables are: entries, then index, for each."""
    blocks = _records(tables, shape)[_places(shape, listed), BLOCK]
    words = 1 << listed[:, LISTED_CLASS]
    index_words = words >> shape.index_shift
    starts = np.column_stack((blocks, blocks + words - index_words)).reshape(-1)
    lengths = np.column_stack((listed[:, LISTED_COUNT] * shape.entry_words, index_words)).reshape(-1)
    return Spans(starts, lengths, np.zeros(2, np.int64))


def place_tables(tables: Tables, shape: Shape, listed: Longs) -> bool:
    """Give listed tables blocks in a heap that has none yet, for `scatter` to fill; False if it is too small."""
    ends = np.cumsum(1 << listed[:, LISTED_CLASS])
    end = int(ends[-1]) if len(ends) else 0
    if end > len(tables.heap):
        return False
    records = _records(tables, shape)
    places = _places(shape, listed)
    records[places, TAG] = listed[:, LISTED_TAG]
    records[places, CLASS] = listed[:, LISTED_CLASS]
    records[places, COUNT] = listed[:, LISTED_COUNT]
    records[places, BLOCK] = ends - (1 << listed[:, LISTED_CLASS])
    tables.cells[HEAP_END] = tables.free[0, LIVE_WORDS] = end
    return True


def _records(tables: Tables, shape: Shape) -> Longs:
    return tables.directory.reshape(-1, DIRECTORY_WORDS)[: shape.groups * shape.panes]


def _places(shape: Shape, listed: Longs) -> Longs:
    """Return the directory records of listed tables, as `record_of` has them."""
    places: Longs = listed[:, LISTED_GROUP] * shape.panes + (listed[:, LISTED_TAG] & (shape.panes - 1))
    return places


def gather(heap: Longs, spans: Spans, piece: Longs) -> int:
    """Copy what comes next of the spans into `piece`; return how many words, 0 at the end."""
    return _copy(address_of(heap), address_of(piece), len(piece), spans.starts, spans.lengths, spans.place, True)


def scatter(heap: Longs, spans: Spans, piece: Longs) -> int:
    """Copy `piece` to what comes next of the spans; return how many words."""
    return _copy(address_of(heap), address_of(piece), len(piece), spans.starts, spans.lengths, spans.place, False)


@kernel
def _copy(heap: int, piece: int, room: int, starts: Longs, lengths: Longs, place: Longs, is_out: bool) -> int:
    span, done = place[0], place[1]
    copied = 0
    while span < len(starts) and copied < room:
        words = min(lengths[span] - done, room - copied)
        at, other = heap + 8 * (starts[span] + done), piece + 8 * copied
        if is_out:
            copy_bytes(other, at, 8 * words)
        else:
            copy_bytes(at, other, 8 * words)
        copied += words
        done += words
        if done == lengths[span]:
            span += 1
            done = 0
    place[0], place[1] = span, done
    return copied
