"""What kernels call on an ElasticScaleGate, in one place.

    view = allocate_gate(ranks, max_readers, capacity=...)      # a GateView: hand it to kernels
    count = fetch(view, reader, times, refs, most)              # entries go to [p & mask] of the reader's own arrays
    release_to(view, reader, position)                          # what was fetched before it is read

Sources and readers are slot numbers. `ref = index << 8 | input << 2 | kind`, as everywhere; the gate looks at the kind
only, and hands the rest on. Rows stay where they are: those of a source are in use from `oldest_index` on.
Counts that cannot be are FULL (-1: no room now), GONE (-3: not a member) or LATE (-4: before what the source added).
Waits return WAIT_AGAIN (0: look again), WAIT_STOPPED or WAIT_TIMED_OUT of `native.waiting`.

How it differs from a ReadyLog: each reader walks the list itself, so it fetches into arrays of its own instead of
reading a log; add_readers and add_sources name the caller, whose handle is copied; and room is per source, one node
for each entry or promise.
"""

from stretch.buffer.rows import FULL
from stretch.buffer.scalegate_layout import GONE, LATE, OK, GateView, allocate_gate
from stretch.buffer.scalegate_members import (
    add_readers,
    add_sources,
    add_sources_at,
    remove_readers,
    remove_sources,
    wait_to_enter,
)
from stretch.buffer.scalegate_readers import (
    fetch,
    is_reader,
    next_position,
    open_readers,
    position,
    release_to,
    unread_of,
    wait_for_entries,
)
from stretch.buffer.scalegate_sources import (
    add,
    add_many,
    advance,
    advance_to,
    bound_of,
    is_source,
    oldest_index,
    pending_of,
    position_of,
    room_for,
    wait_for_room,
)

__all__ = [
    "FULL",
    "GONE",
    "LATE",
    "OK",
    "GateView",
    "add",
    "add_many",
    "add_readers",
    "add_sources",
    "add_sources_at",
    "advance",
    "advance_to",
    "allocate_gate",
    "bound_of",
    "fetch",
    "is_reader",
    "is_source",
    "next_position",
    "oldest_index",
    "open_readers",
    "pending_of",
    "position",
    "position_of",
    "release_to",
    "remove_readers",
    "remove_sources",
    "room_for",
    "unread_of",
    "wait_for_entries",
    "wait_for_room",
    "wait_to_enter",
]
