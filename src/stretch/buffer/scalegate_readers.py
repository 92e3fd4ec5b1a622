"""What the readers of an ElasticScaleGate call: fetching ready entries in batches, giving them back, waiting.

What
    A reader walks the list up to the first node that is the handle of a source, that one included: all before it is
    ready, and nothing will come before it any more. Entries have positions, counted from 0, the same for all readers.
    A fetched entry stays the reader's (and its row with it) until `release_to` has given it back.

Which nodes are entries depends on the order alone, so it is the same for all readers:
    DATA        an entry; its time is a watermark
    WATERMARK   an entry if its time is beyond the last watermark; so is the dummy of a new source, which promises too
    CONTROL     an entry; before it comes a WATERMARK if its time is beyond the last one
    flush       none

Invariants
    R1  Handles look the same from all nodes: a reader passes only nodes up to the first handle in the list, of a set of
        sources that was there at once. VERSION is read before and after: a new source starts at a handle that stays
        where it is until VERSION has grown. So a reader that has seen a source go on has seen whom it connected.
    R2  A limit that was right stays right, for handles only move on, and a new one is at or after another.
    R3  No node is ever put before one that a reader has passed: sources put nodes after their handles (N2).
    R4  `passed` counts the nodes before BASE, not BASE itself, whose link the reader still has to follow.

Who writes what
    Everything here is the reader's own while it holds its STATE; `passed` and BASE_POSITION are read by others.

Memory order
    HANDLE is loaded with acquire, and so are links: nodes up to a handle are seen linked. `passed` is stored with
    release: what was read in a node stays before it.

Paper: get; the reader's handle.
"""

from __future__ import annotations

from stretch.buffer.layout import CONTROL, DATA, TIME_MIN, WATERMARK
from stretch.buffer.scalegate_layout import (
    ANCHOR,
    BASE,
    BASE_LAST,
    BASE_POSITION,
    CURSOR,
    CURSOR_LAST,
    CURSOR_POSITION,
    FIRST_NUMBER,
    GONE,
    HANDLE,
    IDLE,
    LIMIT_RANK,
    LIMIT_TIME,
    LIMITS,
    NEXT,
    NEXT_NUMBER,
    NOTHING,
    OK,
    OUT,
    RANK,
    READER_CELLS,
    READERS_HIGH,
    REF,
    SOURCE_BITS,
    SOURCE_CELLS,
    SOURCES_HIGH,
    STATE,
    TIME,
    VERSION,
    WAKE_READERS,
    WAKE_SOURCES,
    GateView,
    is_before,
    place_of,
)
from stretch.buffer.scalegate_list import VERSION_ATTEMPTS
from stretch.buffer.scalegate_sources import put_back, take
from stretch.native import (
    WAIT_AGAIN,
    Cells,
    kernel,
    load_acquire,
    load_relaxed,
    store_release,
    wait_round,
    wake_all,
)

# What a node is for a reader that has been told a watermark.
_SKIP = 0  # no entry
_ENTRY = 1
_TELL = 2  # a watermark
_TELL_FIRST = 3  # a watermark, and then the node is an entry


@kernel(inline=True)
def _effect_of(ref: int, time: int, last: int) -> int:
    """Say what a node is; `last` is the last watermark."""
    kind = ref & 3
    if kind == DATA:
        return _ENTRY
    if kind == CONTROL:
        return _TELL_FIRST if time > last else _ENTRY
    return _TELL if kind == WATERMARK and time > last else _SKIP


@kernel
def fetch(view: GateView, reader: int, times: Cells, refs: Cells, most: int) -> int:
    """Get up to `most` ready entries; return how many, or GONE.

    The entry at position p goes to `times[p & mask]` and `refs[p & mask]`, `mask` being the length less one: a power of
    two, and at least `most` plus what has not been released. `next_position` says where they end.
    """
    state = reader * READER_CELLS + STATE
    if take(view.readers, state) != OK:
        return GONE
    nodes, ring, readers, base = view.nodes, view.ring, view.readers, reader * READER_CELLS
    mask = times.shape[0] - 1
    node, last, first = readers[base + CURSOR], readers[base + CURSOR_LAST], readers[base + CURSOR_POSITION]
    position, end = first, first + most
    while position < end and (readers[base + LIMITS] != 0 or _find_limit(view, reader, node)):
        # Acquire: pairs with the compare_exchange that linked it. Up to a limit there is always one more.
        following = load_acquire(nodes, place_of(node, ring) + NEXT)
        place = place_of(following, ring)
        time, ref = nodes[place + TIME], nodes[place + REF]
        effect = _effect_of(ref, time, last)
        if effect != _SKIP:
            times[position & mask] = time
            refs[position & mask] = ref if effect == _ENTRY else WATERMARK
            position += 1
            if ref & 3 != CONTROL or effect == _TELL_FIRST:
                last = time
        if effect != _TELL_FIRST:
            node = following
            if time == readers[base + LIMIT_TIME] and _is_limit(view, reader, node):
                readers[base + LIMITS] = 0
    readers[base + CURSOR], readers[base + CURSOR_LAST], readers[base + CURSOR_POSITION] = node, last, position
    put_back(readers, state)
    return position - first


@kernel
def _find_limit(view: GateView, reader: int, node: int) -> bool:
    """Set how far the reader may go; False if that is where it is, at `node`."""
    readers, base, row = view.readers, reader * READER_CELLS, reader * view.width
    for _ in range(VERSION_ATTEMPTS):
        version = load_acquire(view.cells, VERSION)  # acquire: pairs with the fetch_add of who changes members
        count = 0
        for source in range(load_acquire(view.cells, SOURCES_HIGH)):  # as above
            # Acquire: pairs with the store_release of link_filled; all nodes up to the handle are seen linked.
            handle = load_acquire(view.sources, source * SOURCE_CELLS + HANDLE)
            if handle != NOTHING:
                count = _add_limit(view, reader, handle, count)
        if count == 0:  # no source: all that is there is ready
            view.limits[row] = load_acquire(view.cells, ANCHOR)  # pairs with the store_release of remove_sources
            place = place_of(view.limits[row], view.ring)
            readers[base + LIMIT_TIME], readers[base + LIMIT_RANK] = view.nodes[place + TIME], view.nodes[place + RANK]
            count = 1
        readers[base + LIMITS] = count
        if load_acquire(view.cells, VERSION) == version:  # acquire: as above, and after all handles (R1)
            if _is_limit(view, reader, node):
                readers[base + LIMITS] = 0
            return readers[base + LIMITS] != 0
    readers[base + LIMITS] = 0
    return False


@kernel
def _add_limit(view: GateView, reader: int, handle: int, count: int) -> int:
    """Note a handle if it is the first one so far, or at the position of the first one; return how many those are."""
    readers, base, row = view.readers, reader * READER_CELLS, reader * view.width
    # Plain loads: a handle is at or after this reader's base, so its node is in use.
    place = place_of(handle, view.ring)
    time, rank = view.nodes[place + TIME], view.nodes[place + RANK]
    limit_time, limit_rank = readers[base + LIMIT_TIME], readers[base + LIMIT_RANK]
    if count > 0 and is_before(limit_time, limit_rank, time, rank):
        return count
    if count == 0 or is_before(time, rank, limit_time, limit_rank):
        readers[base + LIMIT_TIME], readers[base + LIMIT_RANK] = time, rank
        count = 0
    view.limits[row + count] = handle
    return count + 1


@kernel
def _is_limit(view: GateView, reader: int, node: int) -> bool:
    """Tell whether a node is one of the handles at the reader's limit. The first of them in the list ends a walk."""
    row, found = reader * view.width, False
    for k in range(view.readers[reader * READER_CELLS + LIMITS]):
        found |= view.limits[row + k] == node
    return found


# --- Giving back


@kernel
def release_to(view: GateView, reader: int, position: int) -> int:
    """Give back all entries before `position`, with their rows; return OK or GONE. Once per batch.

    Never goes back, and not beyond what was fetched. Sources that wait for room are woken.
    """
    state = reader * READER_CELLS + STATE
    if take(view.readers, state) != OK:
        return GONE
    has_passed = move_base(view, reader, position)
    put_back(view.readers, state)
    if has_passed:
        wake_all(view.cells, WAKE_SOURCES)
    return OK


@kernel
def move_base(view: GateView, reader: int, position: int) -> bool:
    """Move what the reader has released to a position; tell whether it passed any nodes. STATE is held."""
    nodes, ring, readers, base = view.nodes, view.ring, view.readers, reader * READER_CELLS
    start = node = readers[base + BASE]
    last, here = readers[base + BASE_LAST], readers[base + BASE_POSITION]
    end, cursor = readers[base + CURSOR_POSITION], readers[base + CURSOR]
    while here < min(position, end) or (here == end and position >= end and node != cursor):
        following = load_acquire(nodes, place_of(node, ring) + NEXT)  # seen before, by fetch
        place = place_of(following, ring)
        time, ref = nodes[place + TIME], nodes[place + REF]
        effect = _effect_of(ref, time, last)
        if effect != _SKIP:
            here += 1
            if ref & 3 != CONTROL or effect == _TELL_FIRST:
                last = time
        if effect != _TELL_FIRST:
            # Release: pairs with the load_acquire of first_held; what was read in the node stays before it (R4).
            store_release(
                view.passed,
                reader * view.width + (node & ((1 << SOURCE_BITS) - 1)),
                (node >> SOURCE_BITS) + 1,
            )
            node = following
    readers[base + BASE], readers[base + BASE_LAST] = node, last
    store_release(readers, base + BASE_POSITION, here)  # pairs with the load_acquire of position
    return node != start


# --- Looking and waiting


@kernel
def position(view: GateView, reader: int) -> int:
    """Return what the reader has released: its entries before this position may be gone."""
    # Acquire: pairs with the store_release of release_to.
    return load_acquire(view.readers, reader * READER_CELLS + BASE_POSITION)


@kernel
def next_position(view: GateView, reader: int) -> int:
    """Return the position of what the reader fetches next. For the reader itself."""
    return view.readers[reader * READER_CELLS + CURSOR_POSITION]


@kernel
def is_reader(view: GateView, reader: int) -> bool:
    """Tell whether the reader is connected."""
    return load_acquire(view.readers, reader * READER_CELLS + STATE) != OUT  # pairs with the stores of members


@kernel
def unread_of(view: GateView, reader: int) -> int:
    """Return how many nodes the reader has not released: entries and promises, ready or not."""
    count = 0
    for source in range(load_acquire(view.cells, SOURCES_HIGH)):  # acquire: pairs with who changes members
        # Both: statistics.
        added = load_relaxed(view.sources, source * SOURCE_CELLS + NEXT_NUMBER)
        count += max(added - load_relaxed(view.passed, reader * view.width + source), 0)
    return count


@kernel
def wait_for_entries(view: GateView, reader: int, deadline_ns: int) -> int:
    """Wait until `fetch` may find something; return a wait status. WAIT_AGAIN, too, when the reader is gone.

    Release what has been read before waiting: others may wait for that room.
    """
    attempt = 0
    while True:
        ticket = load_acquire(view.cells, WAKE_READERS)  # acquire: pairs with the wake_all of sources
        if _has_more(view, reader):
            return WAIT_AGAIN
        status = wait_round(view.cells, WAKE_READERS, ticket, attempt, view.stop, deadline_ns)
        if status != WAIT_AGAIN:
            return status
        attempt += 1


@kernel
def _has_more(view: GateView, reader: int) -> bool:
    """Tell whether the reader may go on, or is gone."""
    base = reader * READER_CELLS
    if take(view.readers, base + STATE) != OK:
        return True
    has_more = view.readers[base + LIMITS] != 0 or _find_limit(view, reader, view.readers[base + CURSOR])
    put_back(view.readers, base + STATE)
    return has_more


# --- The first readers


@kernel
def open_readers(view: GateView, readers: Cells) -> None:
    """Connect readers at the beginning; for a gate that nobody else uses yet."""
    for k in range(readers.shape[0]):
        base = readers[k] * READER_CELLS
        view.readers[base + CURSOR] = view.readers[base + BASE] = view.cells[ANCHOR]
        view.readers[base + CURSOR_LAST] = view.readers[base + BASE_LAST] = TIME_MIN
        for column in range(view.width):
            # Plain would do, as everywhere here: nobody else uses the gate yet.
            store_release(view.passed, readers[k] * view.width + column, FIRST_NUMBER)
        store_release(view.readers, base + STATE, IDLE)  # as above
        store_release(view.cells, READERS_HIGH, max(load_relaxed(view.cells, READERS_HIGH), readers[k] + 1))  # as above
