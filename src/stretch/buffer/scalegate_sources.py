"""What the sources of an ElasticScaleGate call: adding entries, promising bounds, waiting for room.

What
    `add_many` adds entries of arrays, `add` a single one. A promise without an entry (`advance`) is a node of kind
    WATERMARK: that of a whole time stands before everything else at this time. Readers are told it unless an earlier
    entry has told them that time. So watermarks are in the list, and the same for all.

Invariants
    S1  One thread at a time acts for a source: who holds its STATE. Each call takes it once, waits for nothing while
        holding it, and puts it back.
    S2  What a source adds never goes back: LATE instead. A bound that does changes nothing.
    S3  A source can always go on when no other is behind it. All that it added is ready then; once the readers have
        released it, all its nodes but the last few are free, since nobody else's entries take them.

Memory order
    HANDLE is stored with release after the nodes up to it are linked.

Paper: add; the bounds of docs/internals/compiled-engine.md.
"""

from __future__ import annotations

from stretch.buffer.layout import DATA, NO_BOUND, RANK_VARIES, TIME_MIN, WATERMARK
from stretch.buffer.rows import FULL
from stretch.buffer.scalegate_layout import (
    BUSY,
    FLOOR,
    GONE,
    HANDLE,
    IDLE,
    LAST_RANK,
    LAST_TIME,
    LATE,
    MARK,
    NAME,
    NEXT_NUMBER,
    NOTHING,
    OK,
    OUT,
    RANK,
    REF,
    SOURCE_BITS,
    SOURCE_CELLS,
    STATE,
    TIME,
    WAKE_READERS,
    WAKE_SOURCES,
    GateView,
    is_before,
    name_of,
    place_of,
)
from stretch.buffer.scalegate_list import fill, fill_next, first_held, link_filled, room_of
from stretch.native import (
    WAIT_AGAIN,
    Cells,
    backoff,
    compare_exchange,
    kernel,
    load_acquire,
    load_relaxed,
    store_release,
    wait_round,
    wake_all,
)

# --- The state of members


@kernel
def take(cells: Cells, state: int) -> int:
    """Take the state of a source or reader: OK, or GONE if it is not a member.

    Waits only for who holds it: a change of members, or a call by another thread, some instructions each.
    """
    attempt = 0
    # Acquire: pairs with the store_release of put_back.
    while not compare_exchange(cells, state, IDLE, BUSY):
        if load_acquire(cells, state) == OUT:  # acquire: pairs with the store_release of who removed it
            return GONE
        backoff(attempt)
        attempt += 1
    return OK


@kernel(inline=True)
def put_back(cells: Cells, state: int) -> None:
    """Let go of a state."""
    store_release(cells, state, IDLE)  # pairs with the compare_exchange of take


# --- Adding


@kernel
def add(view: GateView, source: int, time: int, rank: int, ref: int) -> int:
    """Add an entry; return OK, FULL, LATE or GONE. `ref` says its kind, as in docs/internals/compiled-engine.md."""
    state = source * SOURCE_CELLS + STATE
    if take(view.sources, state) != OK:
        return GONE
    status = _add_one(view, source, time, rank, ref)
    put_back(view.sources, state)
    if status == OK:
        wake_all(view.cells, WAKE_READERS)
    return status


@kernel
def add_many(view: GateView, source: int, times: Cells, ranks: Cells, refs: Cells, first: int, last: int) -> int:
    """Add entries [first, last) of arrays, as many as there is room for and as are sorted; return how many.

    FULL, LATE or GONE if not even the first. `ranks` may have a single cell, the rank of all.
    """
    if first >= last:
        return 0
    state = source * SOURCE_CELLS + STATE
    if take(view.sources, state) != OK:
        return GONE
    count = _fill_many(view, source, times, ranks, refs, first, last)
    if count > 0:
        link_filled(view, source, count)
    put_back(view.sources, state)
    if count > 0:
        wake_all(view.cells, WAKE_READERS)
    return count


@kernel
def advance(view: GateView, source: int, bound: int) -> int:
    """Promise a bound: 2 * time, or 2 * time + 1 with the rank of the source; return OK, FULL or GONE."""
    rank = MARK
    if bound & 1 and view.ranks[source] != RANK_VARIES:
        rank = view.ranks[source]
    return advance_to(view, source, bound >> 1, rank)


@kernel
def advance_to(view: GateView, source: int, time: int, rank: int) -> int:
    """Promise that the source adds nothing before a position (rank MARK: before a time); OK, FULL or GONE."""
    state = source * SOURCE_CELLS + STATE
    if take(view.sources, state) != OK:
        return GONE
    base, status = source * SOURCE_CELLS, OK
    has_grown = is_before(view.sources[base + LAST_TIME], view.sources[base + LAST_RANK], time, rank)
    if has_grown:
        status = _add_one(view, source, time, rank, WATERMARK)
    put_back(view.sources, state)
    if has_grown and status == OK:
        wake_all(view.cells, WAKE_READERS)
    return status


@kernel
def _add_one(view: GateView, source: int, time: int, rank: int, ref: int) -> int:
    base = source * SOURCE_CELLS
    if is_before(time, rank, view.sources[base + LAST_TIME], view.sources[base + LAST_RANK]):
        return LATE
    if room_of(view, source, 2) < 2:
        return FULL
    fill_next(view, source, time, rank, ref)
    link_filled(view, source, 1)
    return OK


@kernel
def _fill_many(view: GateView, source: int, times: Cells, ranks: Cells, refs: Cells, first: int, last: int) -> int:
    """Make nodes of entries, chained, as many as there is room for and as are sorted; FULL or LATE if none."""
    base = source * SOURCE_CELLS
    room = room_of(view, source, last - first + 1) - 1
    if room <= 0:
        return FULL
    time, rank = view.sources[base + LAST_TIME], view.sources[base + LAST_RANK]
    node = name_of(source, view.sources[base + NEXT_NUMBER])
    is_single = ranks.shape[0] == 1
    for k in range(first, min(last, first + room)):
        next_time, next_rank = times[k], ranks[0 if is_single else k]
        if is_before(next_time, next_rank, time, rank):
            return k - first if k > first else LATE
        time, rank = next_time, next_rank
        fill(view, node, time, rank, refs[k], node + (1 << SOURCE_BITS))
        node += 1 << SOURCE_BITS
    return min(last - first, room)


# --- Looking and waiting


@kernel
def room_for(view: GateView, source: int, wanted: int) -> int:
    """Return how many entries the source can add now, `wanted` if it can; GONE if it is not a source."""
    state = source * SOURCE_CELLS + STATE
    if take(view.sources, state) != OK:
        return GONE
    room = room_of(view, source, wanted + 1) - 1
    put_back(view.sources, state)
    return room


@kernel
def wait_for_room(view: GateView, source: int, wanted: int, deadline_ns: int) -> int:
    """Wait until `add_many` would take `wanted` entries, or a good part of what it ever takes; return a wait status.

    A source that waited for a single node at a time would be woken for each. WAIT_AGAIN, too, when it is gone.
    """
    enough = min(wanted, max((view.ring - 1) // 4, 1))
    attempt = 0
    while True:
        ticket = load_acquire(view.cells, WAKE_SOURCES)  # acquire: pairs with the wake_all of release_to
        room = room_for(view, source, enough)
        if room >= enough or room == GONE:
            return WAIT_AGAIN
        status = wait_round(view.cells, WAKE_SOURCES, ticket, attempt, view.stop, deadline_ns)
        if status != WAIT_AGAIN:
            return status
        attempt += 1


@kernel
def is_source(view: GateView, source: int) -> bool:
    """Tell whether the source is connected."""
    return load_acquire(view.sources, source * SOURCE_CELLS + STATE) != OUT  # pairs with the stores of members


@kernel
def position_of(view: GateView, source: int) -> tuple[int, int]:
    """Return the position that a source has reached; before all if it is not a source. For any thread."""
    while True:
        # Acquire: pairs with the store_release of link_filled.
        handle = load_acquire(view.sources, source * SOURCE_CELLS + HANDLE)
        if handle == NOTHING:
            return TIME_MIN, MARK
        place = place_of(handle, view.ring)
        # Both: pair with the stores of fill; the look at the name stays after them.
        time = load_acquire(view.nodes, place + TIME)
        rank = load_acquire(view.nodes, place + RANK)  # as above
        # Another name: the source has gone on and the node is used again. So others make progress if this repeats.
        if load_relaxed(view.nodes, place + NAME) == handle:
            return time, rank


@kernel
def bound_of(view: GateView, source: int) -> int:
    """Return a bound that the source has reached: that of the whole time, unless all of its entries have one rank."""
    time, rank = position_of(view, source)
    if time == TIME_MIN:
        return NO_BOUND
    return 2 * time + (1 if rank != MARK and rank == view.ranks[source] else 0)


@kernel
def pending_of(view: GateView, source: int) -> int:
    """Return how many nodes of a source some reader has not released: its entries and promises, ready or not."""
    base = source * SOURCE_CELLS
    first = max(first_held(view, source), load_relaxed(view.sources, base + FLOOR))  # a statistic
    return max(load_relaxed(view.sources, base + NEXT_NUMBER) - first, 0)  # a statistic


@kernel
def oldest_index(view: GateView, source: int) -> int:
    """Return the index in the ref of the first DATA entry of a source that readers may still need; -1: none.

    For the source, or who owns its rows: rows before this one are free.
    """
    state = source * SOURCE_CELLS + STATE
    is_taken = take(view.sources, state) == OK
    base, found = source * SOURCE_CELLS, -1
    number = max(first_held(view, source), view.sources[base + FLOOR])
    while found < 0 and number < view.sources[base + NEXT_NUMBER]:
        ref = view.nodes[place_of(name_of(source, number), view.ring) + REF]
        if ref & 3 == DATA:
            found = ref >> 8
        number += 1
    if is_taken:
        put_back(view.sources, state)
    return found
