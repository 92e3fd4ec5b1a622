"""How the members of an ElasticScaleGate come and go, while all others go on.

What
    One change at a time: who makes it holds MEMBERS. It holds the STATE of the members concerned, too, so that none is
    in the middle of a call. That is all that ever waits for another thread; adding and getting do not.

    New reader      gets a copy of the caller's handle, moved on to the position it starts from.
    New source      gets a dummy tuple, put after the handle of the source that the change holds: the caller, or that
                    which is first in the list. Its position is the bound that the new one promises.
    Leaving reader  holds its nodes no more.
    Leaving source  gets a flush tuple after its last node; then its handle goes, so readers pass what it added as soon
                    as the others have reached it. The flush tuple of the last one goes to the end of the list and is
                    the ANCHOR: while there is no source, readers go up to it, and there new sources start.

Invariants
    M1  Of several callers that add (or remove) the same members at once exactly one is told more than 0: each looks and
        changes under MEMBERS.
    M2  A new member is complete before VERSION grows, and what it was copied from is held until after that. Who looks
        at all members looks at VERSION before and after (R1 of scalegate_readers, first_held of scalegate_list).
    M3  A source that comes back starts at or after the flush tuple that it left (L1 of scalegate_layout).

Memory order
    STATE: put back with release, taken with acquire, so who changes a member sees all that its last call wrote.

Paper: addReaders, removeReaders, addSources, removeSources; "Concurrent calls to the API methods".
"""

from __future__ import annotations

from stretch.buffer.layout import RANK_VARIES
from stretch.buffer.rows import FULL
from stretch.buffer.scalegate_layout import (
    ANCHOR,
    BASE,
    BASE_LAST,
    BASE_POSITION,
    CURSOR,
    CURSOR_LAST,
    CURSOR_POSITION,
    DUMMY,
    FINGER,
    FLUSH,
    GONE,
    HANDLE,
    IDLE,
    LAST_RANK,
    LAST_TIME,
    LATE,
    LIMITS,
    MARK,
    MEMBERS,
    NEVER,
    NOTHING,
    OK,
    OUT,
    RANK,
    READER_CELLS,
    READERS_HIGH,
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
from stretch.buffer.scalegate_list import fill_next, find_place, link_filled, room_of
from stretch.buffer.scalegate_readers import move_base
from stretch.buffer.scalegate_sources import is_source, pending_of, position_of, put_back, take
from stretch.native import (
    WAIT_AGAIN,
    Cells,
    backoff,
    compare_exchange,
    fetch_add,
    kernel,
    load_acquire,
    load_relaxed,
    store_release,
    wait_round,
    wake_all,
)

_ANYBODY = -1  # as the caller of add_sources: not a source, or not known
_PIN_ATTEMPTS = 100

# --- Readers


@kernel
def add_readers(view: GateView, caller: int, readers: Cells, start: int) -> int:
    """Connect those of `readers` that are not; they start at position `start`. Return how many, GONE or LATE.

    The caller is a reader and has not released `start` yet (position(view, caller) <= start <= next_position): for
    the paper's addReaders `start` is what the caller reads next, or the entry that triggers the switch.
    """
    if _count_out(view.readers, readers, READER_CELLS) == 0:
        return 0
    _lock_members(view)
    count = _count_out(view.readers, readers, READER_CELLS)
    if count > 0:
        state = caller * READER_CELLS + STATE
        if take(view.readers, state) != OK:
            count = GONE
        else:
            base = caller * READER_CELLS
            if view.readers[base + BASE_POSITION] <= start <= view.readers[base + CURSOR_POSITION]:
                _connect_readers(view, caller, readers, start)
            else:
                count = LATE
            put_back(view.readers, state)
    _unlock_members(view)
    return count


@kernel
def remove_readers(view: GateView, readers: Cells) -> int:
    """Disconnect those of `readers` that are connected; they hold back nobody any more. Return how many."""
    if _count_out(view.readers, readers, READER_CELLS) == readers.shape[0]:
        return 0
    _lock_members(view)
    count = 0
    for k in range(readers.shape[0]):
        state = readers[k] * READER_CELLS + STATE
        if take(view.readers, state) == OK:
            for column in range(view.width):
                # Pairs with the load_acquire of first_held.
                store_release(view.passed, readers[k] * view.width + column, NEVER)
            store_release(view.readers, state, OUT)  # pairs with the compare_exchange of take
            count += 1
    if count > 0:
        fetch_add(view.cells, VERSION, 1)  # pairs with the load_acquire of who looks at members (M2)
    _unlock_members(view)
    if count > 0:
        wake_all(view.cells, WAKE_SOURCES)
        wake_all(view.cells, WAKE_READERS)
    return count


@kernel
def _connect_readers(view: GateView, caller: int, readers: Cells, start: int) -> None:
    """Copy the caller's record to new readers, and move them on to a position."""
    cells, old = view.readers, caller * READER_CELLS
    for k in range(readers.shape[0]):
        base, row = readers[k] * READER_CELLS, readers[k] * view.width
        # Changed only under MEMBERS, from OUT.
        if load_relaxed(cells, base + STATE) != OUT:
            continue
        for cell in range(STATE):
            store_release(cells, base + cell, cells[old + cell])  # pairs with the compare_exchange of take
        for column in range(view.width):
            # The caller's own row does not change while it is held. Pairs with the load_acquire of first_held.
            store_release(view.passed, row + column, load_relaxed(view.passed, caller * view.width + column))
        move_base(view, readers[k], start)
        cells[base + CURSOR], cells[base + CURSOR_LAST] = cells[base + BASE], cells[base + BASE_LAST]
        cells[base + CURSOR_POSITION], cells[base + LIMITS] = start, 0
        _raise_to(view, READERS_HIGH, readers[k] + 1)
        store_release(cells, base + STATE, IDLE)  # pairs with the compare_exchange of take
    fetch_add(view.cells, VERSION, 1)  # pairs with the load_acquire of who looks at members (M2)


# --- Sources


@kernel
def add_sources(view: GateView, caller: int, sources: Cells, bound: int) -> int:
    """Connect those of `sources` that are not, each with `bound`; return how many, or FULL.

    The caller is a source that has reached the bound, best exactly (`bound_of`), so that it can lend its own handle.
    With -1, or if it is further on, that of the source which is first in the list is used, after the end of a call
    that may be going on. FULL: too few nodes of a source that comes back are free; `wait_to_enter`, after going on to
    where it left, for its entries may be waiting for the caller.
    """
    return _add_sources(view, caller, sources, bound >> 1, MARK, bound & 1)


@kernel
def add_sources_at(view: GateView, caller: int, sources: Cells, time: int, rank: int) -> int:
    """Connect sources as `add_sources` does, with a position as their bound."""
    return _add_sources(view, caller, sources, time, rank, 0)


@kernel
def remove_sources(view: GateView, sources: Cells) -> int:
    """Disconnect those of `sources` that are connected; they hold back nobody any more. Return how many.

    What they added is still delivered. All of `sources` are different.
    """
    if _count_out(view.sources, sources, SOURCE_CELLS) == sources.shape[0]:
        return 0
    _lock_members(view)
    count = 0
    for k in range(sources.shape[0]):
        count += take(view.sources, sources[k] * SOURCE_CELLS + STATE) == OK
    left = _count_sources(view) - count
    flushed = 0
    for k in range(sources.shape[0]):
        # Changed only under MEMBERS, but for IDLE and BUSY; and those that are in are held now.
        if load_relaxed(view.sources, sources[k] * SOURCE_CELLS + STATE) != OUT:
            flushed += 1
            _flush(view, sources[k], left == 0 and flushed == count)
            store_release(view.sources, sources[k] * SOURCE_CELLS + STATE, OUT)  # pairs with that of take
    if count > 0:
        fetch_add(view.cells, VERSION, 1)  # pairs with the load_acquire of who looks at members (M2)
    _unlock_members(view)
    if count > 0:
        wake_all(view.cells, WAKE_READERS)
        wake_all(view.cells, WAKE_SOURCES)
    return count


@kernel
def wait_to_enter(view: GateView, sources: Cells, deadline_ns: int) -> int:
    """Wait until `add_sources` has nodes for all of `sources` that are not connected; return a wait status."""
    attempt = 0
    while True:
        ticket = load_acquire(view.cells, WAKE_SOURCES)  # acquire: pairs with the wake_all of release_to
        short = 0
        for k in range(sources.shape[0]):
            short += not is_source(view, sources[k]) and view.ring - pending_of(view, sources[k]) < 2
        if short == 0:
            return WAIT_AGAIN
        status = wait_round(view.cells, WAKE_SOURCES, ticket, attempt, view.stop, deadline_ns)
        if status != WAIT_AGAIN:
            return status
        attempt += 1


@kernel
def _add_sources(view: GateView, caller: int, sources: Cells, time: int, rank: int, is_odd: int) -> int:
    if _count_out(view.sources, sources, SOURCE_CELLS) == 0:
        return 0
    _lock_members(view)
    count = _count_out(view.sources, sources, SOURCE_CELLS)
    for k in range(sources.shape[0]):
        is_out = load_relaxed(view.sources, sources[k] * SOURCE_CELLS + STATE) == OUT  # changed under MEMBERS only
        if is_out and room_of(view, sources[k], 2) < 2:
            count = FULL
            break
    if count > 0:
        pinned = _pin(view, caller, time, rank)
        start = load_relaxed(view.cells, ANCHOR)  # changed only under MEMBERS
        if pinned >= 0:
            start = load_relaxed(view.sources, pinned * SOURCE_CELLS + HANDLE)  # its own, and it is held
        for k in range(sources.shape[0]):
            # As above.
            if load_relaxed(view.sources, sources[k] * SOURCE_CELLS + STATE) == OUT:
                own = view.ranks[sources[k]]
                _enter(view, sources[k], start, time, own if is_odd and own != RANK_VARIES else rank)
        fetch_add(view.cells, VERSION, 1)  # pairs with the load_acquire of who looks at members (M2)
        if pinned >= 0:
            put_back(view.sources, pinned * SOURCE_CELLS + STATE)
    _unlock_members(view)
    return count


@kernel
def _enter(view: GateView, source: int, start: int, time: int, rank: int) -> None:
    """Put the dummy tuple of a new source into the list, at or after `start`, and make it a source."""
    base = source * SOURCE_CELLS
    place = place_of(start, view.ring)
    if is_before(time, rank, view.nodes[place + TIME], view.nodes[place + RANK]):
        time, rank = view.nodes[place + TIME], view.nodes[place + RANK]
    if is_before(time, rank, view.sources[base + LAST_TIME], view.sources[base + LAST_RANK]):
        time, rank = view.sources[base + LAST_TIME], view.sources[base + LAST_RANK]
    view.sources[base + FINGER] = start
    fill_next(view, source, time, rank, DUMMY)
    link_filled(view, source, 1)
    _raise_to(view, SOURCES_HIGH, source + 1)
    store_release(view.sources, base + STATE, IDLE)  # pairs with the compare_exchange of take


@kernel
def _flush(view: GateView, source: int, is_last: bool) -> None:
    """Put the flush tuple of a leaving source into the list, and take its handle away. STATE is held."""
    base = source * SOURCE_CELLS
    time, rank = view.sources[base + LAST_TIME], view.sources[base + LAST_RANK]
    if is_last:
        end, _ = find_place(view, source, view.sources[base + FINGER], NEVER, NEVER)
        place = place_of(end, view.ring)
        time, rank = view.nodes[place + TIME], view.nodes[place + RANK]
    fill_next(view, source, time, rank, FLUSH)  # L2: there is room
    link_filled(view, source, 1)
    if is_last:
        # Before the handle goes: pairs with the load_acquire of _find_limit.
        store_release(view.cells, ANCHOR, view.sources[base + FINGER])
    store_release(view.sources, base + HANDLE, NOTHING)  # pairs with the load_acquire of _find_limit


@kernel
def _pin(view: GateView, caller: int, time: int, rank: int) -> int:
    """Hold a source that has not gone beyond a position: the caller if possible, else the first in the list.

    -1 if there is no source. If all are beyond, it is the first of them.
    """
    if caller >= 0 and take(view.sources, caller * SOURCE_CELLS + STATE) == OK:
        if not _is_beyond(view, caller, time, rank):
            return caller
        put_back(view.sources, caller * SOURCE_CELLS + STATE)
    for attempt in range(_PIN_ATTEMPTS):
        source = _first_source(view)
        if source < 0:
            return _ANYBODY
        take(view.sources, source * SOURCE_CELLS + STATE)
        is_good = not _is_beyond(view, source, time, rank) or _first_source(view) == source
        if is_good or attempt == _PIN_ATTEMPTS - 1:
            return source
        put_back(view.sources, source * SOURCE_CELLS + STATE)
    return _ANYBODY


@kernel
def _is_beyond(view: GateView, source: int, time: int, rank: int) -> bool:
    """Tell whether a source has gone beyond a position."""
    own_time, own_rank = position_of(view, source)
    return is_before(time, rank, own_time, own_rank)


@kernel
def _first_source(view: GateView) -> int:
    """Return the source with the first position; -1 if there is none. Sources do not come or go meanwhile."""
    found, first_time, first_rank = -1, NEVER, NEVER
    for source in range(load_relaxed(view.cells, SOURCES_HIGH)):  # changed only under MEMBERS
        # Acquire: pairs with the stores of members.
        if load_acquire(view.sources, source * SOURCE_CELLS + STATE) != OUT:
            time, rank = position_of(view, source)
            if is_before(time, rank, first_time, first_rank):
                found, first_time, first_rank = source, time, rank
    return found


# --- The lock


@kernel
def _count_out(cells: Cells, members: Cells, size: int) -> int:
    """Count those of some members that are not connected."""
    count = 0
    for k in range(members.shape[0]):
        count += load_acquire(cells, members[k] * size + STATE) == OUT  # acquire: pairs with the stores of members
    return count


@kernel
def _count_sources(view: GateView) -> int:
    """Count the sources. They do not come or go meanwhile."""
    count = 0
    for source in range(load_relaxed(view.cells, SOURCES_HIGH)):  # changed only under MEMBERS
        # Acquire: pairs with the stores of members.
        count += load_acquire(view.sources, source * SOURCE_CELLS + STATE) != OUT
    return count


@kernel
def _lock_members(view: GateView) -> None:
    """Take the lock of the members. Who holds it waits for calls in progress at most."""
    attempt = 0
    # Acquire: pairs with the store_release of _unlock_members.
    while not compare_exchange(view.cells, MEMBERS, 0, 1):
        backoff(attempt)
        attempt += 1


@kernel(inline=True)
def _unlock_members(view: GateView) -> None:
    """Let go of the lock."""
    store_release(view.cells, MEMBERS, 0)  # pairs with the compare_exchange of _lock_members


@kernel(inline=True)
def _raise_to(view: GateView, cell: int, value: int) -> None:
    """Raise a cell that only who holds MEMBERS changes."""
    if load_relaxed(view.cells, cell) < value:  # changed only under MEMBERS
        store_release(view.cells, cell, value)  # pairs with the load_acquire of who looks at all members
