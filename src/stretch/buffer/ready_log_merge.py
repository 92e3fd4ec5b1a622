"""Merging: one thread at a time moves what is ready from the stagings into the log, in the total order.

What
    The order is by time, then rank, then slot, then as staged. One round looks at all sources, then repeats: take the
    source whose next entry is least, find how far it stays below all others, and move that run; after a block of
    runs, publish it. An exhausted source takes part with its *limit*: what it promised, or the last entry taken from
    it if that is later. When a limit is least, nothing below it can come and nothing at or above it is ready: the
    round ends, and if the least limit is beyond the last watermark, it becomes a WATERMARK entry.

    Times and refs are written while the runs are found, rows column by column afterwards: a long run is one copy per
    column, short ones are gathered by their places.

Invariants
    G1  Whoever holds bit 0 of MERGE is the only one that touches `merging`, times, refs and
        rows of the log. It is a try-lock: nobody waits for it.
    G2  Nothing staged is stranded. All changes of MERGE are read-modify-writes of one word, so they have one order.
        Take a request that finds the lock taken: it adds 2 and leaves. The holder reads the word, merges, and lets
        go by a compare_exchange that expects what it read. Either the request came before that read, then the
        read (acquire) sees what was published before the request (release), and the merge covers it. Or it came
        after, then the compare_exchange fails and the holder merges again. Or it came after the lock was let go, and
        then it found it free and merged itself.
    G3  Nothing is stranded for want of room either. A round that ends for want of room sets STARVED by an exchange and
        looks at the readers again; a reader that releases stores its position and takes STARVED by an exchange. The
        two exchanges have an order: either the round sees the position, or the reader sees the mark and requests a
        merge.
    G4  Of a source, bounds are read before counts: what the bound excludes was staged before it. If members change
        while sources or readers are looked at, the look is repeated: who misses a new member then cannot have seen
        what an old one did after connecting it (a later bound, a later position), for VERSION changes in between.
    G5  A round is bounded: it moves at most what was staged when it looked. Rounds repeat only on requests, and those
        who request them are held back by flow control while readers do not read.

Cost
    Zen 5 at 2.6 GHz, two 8-byte columns, ns per row: one source, or blocks of many rows, 1.3 to 2.1; two sources that
    alternate row by row 12.6 (11.9 of them to find the runs), four 15.5. With 2 source threads and 2 reader threads
    that do nothing on 2 cores, rows alternating: 35 to 52 M rows/s, twice that delivered; at 70 % of it and batches of
    1,000 rows the latency is 0.11 ms (p50), 0.6 ms (p99).

Paper: Definition "ready", in the total order of `buffer.api`.
"""

from __future__ import annotations

from typing import Final

from stretch.buffer.layout import (
    BLOCK,
    BOUND,
    CONNECTED,
    CONSUMED,
    CONTROLS,
    CONTROLS_CONSUMED,
    CONTROLS_END,
    CONTROLS_NEXT,
    COUNTED,
    DATA,
    END,
    FIXED_TIE,
    HAS_LISTS,
    HEAD,
    INPUT_SHIFT,
    IS_READER,
    IS_SOURCE,
    KEEPS_ROWS,
    KEY_TIME,
    LAST_TIME,
    LIMIT_TIE,
    LIMIT_TIME,
    MERGE,
    NEXT,
    NO_BOUND,
    PARTICIPANTS,
    READER_CELLS,
    READERS_HIGH,
    READY,
    RELEASED,
    ROWS_FREED,
    SOURCE_CELLS,
    SOURCES_HIGH,
    SOURCES_SEEN,
    STAGED,
    STARVED,
    TAIL,
    TIME_MIN,
    VERSION,
    WAKE_READERS,
    WAKE_SOURCES,
    WATERMARK,
    LogView,
    input_at,
    order_at,
    source_at,
    tie_of,
)
from stretch.buffer.ready_log_copy import copy_noted_rows
from stretch.buffer.ready_log_keep import free_passed_rows, note_if_rows_full, room_for_kept
from stretch.buffer.ready_log_runs import arrange, has_ready, plan_block
from stretch.native import (
    compare_exchange,
    exchange,
    kernel,
    load_acquire,
    load_relaxed,
    store_release,
    wake_all,
)

_BEFORE_ALL: Final = -1  # api.BEFORE_ALL


# --- The lock


@kernel
def request_merge(view: LogView) -> None:
    """Merge what is ready, or leave it to the one who merges now, who will see everything published before."""
    while True:
        value = load_relaxed(view.cells, MERGE)
        if value & 1:
            # Release: publishes the caller's stores to the holder's load_acquire of the word (G2).
            if compare_exchange(view.cells, MERGE, value, value + 2):
                return
        # Acquire: pairs with the compare_exchange by which the previous holder let go.
        elif compare_exchange(view.cells, MERGE, value, value + 3):
            merge_and_let_go(view)
            return


@kernel
def try_merge(view: LogView) -> bool:
    """Merge what is ready unless somebody merges now; True if it merged (perhaps nothing)."""
    if not hold_merging(view):
        return False
    merge_and_let_go(view)
    return True


@kernel
def hold_merging(view: LogView) -> bool:
    """Take the lock unless somebody has it; True if so. Then `merge_and_let_go`, some instructions later."""
    value = load_relaxed(view.cells, MERGE)
    # Acquire: pairs with the compare_exchange by which the previous holder let go.
    return value & 1 == 0 and compare_exchange(view.cells, MERGE, value, value + 1)


@kernel
def merge_and_let_go(view: LogView) -> None:
    """Merge until no request has come in meanwhile, and let go of the lock (G2)."""
    while True:
        value = load_acquire(view.cells, MERGE)  # acquire: pairs with the compare_exchange of request_merge
        _merge_round(view)
        # Release: hands `merging` to the next holder. Fails if a request came in.
        if compare_exchange(view.cells, MERGE, value, value - 1):
            return


@kernel
def _merge_round(view: LogView) -> None:
    """Move all that is ready into the log, as far as there is room."""
    _look_at_sources(view)
    arrange(view)
    is_starved = False
    while True:
        room = _room_in_log(view, BLOCK)
        if view.merging[KEEPS_ROWS] != 0:
            room = min(room, room_for_kept(view))
        count = plan_block(view, room) if room > 0 else 0
        if count > 0:
            copy_noted_rows(view)
            _publish(view, count)
            is_starved = False
            continue
        if not has_ready(view.merging):
            break
        if is_starved:
            if view.merging[KEEPS_ROWS] != 0:
                note_if_rows_full(view)
            return
        exchange(view.cells, STARVED, 1)  # pairs with the exchange of release_to (G3); then looks again
        is_starved = True
    _add_watermark(view)


# --- Looking


@kernel
def _look_at_sources(view: LogView) -> None:
    """Read what every source has promised and staged, into `merging`."""
    cells, sources, merging = view.cells, view.sources, view.merging
    while True:
        version = load_acquire(cells, VERSION)  # acquire: pairs with the fetch_add of who changes members (G4)
        high = load_acquire(cells, SOURCES_HIGH)  # as above
        for source in range(high):
            at, base = source_at(source), source * SOURCE_CELLS
            merging[at + CONNECTED] = load_acquire(sources, base + IS_SOURCE)  # with the store_release of members
            # Acquire: pairs with the store_release of advance and admit; before the counts (G4).
            merging[at + LIMIT_TIME] = load_acquire(sources, base + BOUND)
        for source in range(high):
            at, base = source_at(source), source * SOURCE_CELLS
            merging[at + END] = load_acquire(sources, base + STAGED)  # with the store_release of who stages
            merging[at + CONTROLS_END] = load_relaxed(sources, base + CONTROLS)  # written before STAGED
        # Acquire: pairs with the fetch_add of who changes members (G4).
        if load_acquire(cells, VERSION) == version:
            break
    merging[SOURCES_SEEN] = high
    for source in range(high):
        at = source_at(source)
        bound, tie = merging[at + LIMIT_TIME], merging[at + FIXED_TIE]
        merging[at + LIMIT_TIME] = bound >> 1
        merging[at + LIMIT_TIE] = tie if bound & 1 and tie >= 0 else tie_of(_BEFORE_ALL, source)


@kernel
def slowest_position(view: LogView) -> int:
    """Return the position that the slowest connected reader has released; without readers all is released."""
    cells, readers = view.cells, view.readers
    while True:
        version = load_acquire(cells, VERSION)  # acquire: pairs with the fetch_add of who changes members (G4)
        least = load_acquire(cells, READY)  # acquire: pairs with the store_release of _publish
        for reader in range(load_acquire(cells, READERS_HIGH)):  # as VERSION
            base = reader * READER_CELLS
            if load_acquire(readers, base + IS_READER):  # acquire: pairs with the store_release of members
                least = min(least, load_acquire(readers, base + RELEASED))  # with the store_release of release_to
        # Acquire: pairs with the fetch_add of who changes members (G4).
        if load_acquire(cells, VERSION) == version:
            return least


@kernel
def _room_in_log(view: LogView, wanted: int) -> int:
    """Return how many entries fit into the log in one piece, at most `wanted`."""
    merging = view.merging
    capacity = view.times.shape[0]
    if merging[KEEPS_ROWS] != 0:
        free_passed_rows(view, slowest_position(view))
    if capacity - (merging[HEAD] - merging[TAIL]) < min(wanted, capacity) or merging[HAS_LISTS] != 0:
        merging[TAIL] = slowest_position(view)
        if merging[HAS_LISTS] != 0 and merging[KEEPS_ROWS] == 0:
            _count_freed_rows(view)
    room = capacity - (merging[HEAD] - merging[TAIL])
    return min(min(room, wanted), capacity - (merging[HEAD] & (capacity - 1)))


@kernel
def _count_freed_rows(view: LogView) -> None:
    """Count, per input, the rows of the entries that all readers have released: their list items are free."""
    merging = view.merging
    mask = view.times.shape[0] - 1
    for position in range(merging[COUNTED], merging[TAIL]):
        ref = view.refs[position & mask]
        if ref & 3 == DATA:
            merging[input_at(merging, (ref & 255) >> INPUT_SHIFT) + ROWS_FREED] += 1
    merging[COUNTED] = merging[TAIL]


# --- Publishing


@kernel
def _publish(view: LogView, count: int) -> None:
    """Let readers see a block, and sources reuse what it took from their stagings."""
    merging = view.merging
    merging[HEAD] += count
    merging[LAST_TIME] = max(merging[LAST_TIME], _latest_data_time(view, count))
    store_release(view.cells, READY, merging[HEAD])  # pairs with the load_acquire of ready_end
    for source in range(merging[SOURCES_SEEN]):
        at, base = source_at(source), source * SOURCE_CELLS
        # Only who merges writes it, so a relaxed load is exact.
        if load_relaxed(view.sources, base + CONSUMED) != merging[at + NEXT]:
            # Both: pair with the load_acquires of the source that looks for room.
            store_release(view.sources, base + CONTROLS_CONSUMED, merging[at + CONTROLS_NEXT])  # as above
            store_release(view.sources, base + CONSUMED, merging[at + NEXT])  # as above
    wake_all(view.cells, WAKE_READERS)
    wake_all(view.cells, WAKE_SOURCES)


@kernel(inline=True)
def _latest_data_time(view: LogView, count: int) -> int:
    """Return the time of the last row among the last `count` entries: a control entry is no watermark."""
    mask = view.times.shape[0] - 1
    position = view.merging[HEAD] - 1
    for _ in range(count):
        if view.refs[position & mask] & 3 == DATA:
            return view.times[position & mask]
        position -= 1
    return TIME_MIN


@kernel
def _add_watermark(view: LogView) -> None:
    """Tell readers how far all sources have come, if the entries before do not tell it and there is room."""
    merging = view.merging
    if merging[PARTICIPANTS] == 0:
        return  # nobody is connected, so nobody promises anything
    time = merging[source_at(merging[order_at(0)]) + KEY_TIME]
    if time <= merging[LAST_TIME] or time <= NO_BOUND >> 1:
        return
    if _room_in_log(view, 1) < 1:
        exchange(view.cells, STARVED, 1)  # pairs with the exchange of release_to (G3); then looks again
        if _room_in_log(view, 1) < 1:
            return
    slot = merging[HEAD] & (view.times.shape[0] - 1)
    view.times[slot] = time
    view.refs[slot] = WATERMARK
    merging[LAST_TIME] = time
    _publish(view, 1)
