"""What readers call, and how members come and go.

What
    A reader holds a position and reads `times`, `refs` and rows from there to `ready_end`; nothing is taken from
    anybody, so readers are wait-free. `release_to` gives entries back. Members (sources and readers) are slots that
    are connected or not; who changes that holds MEMBERS for some instructions.

Invariants
    M1  A reader's released position never goes back, and a new reader starts at or after that of a connected one; so
        what merging has once seen as released stays released.
    M2  Of several callers that add (or remove) the same members at once exactly one is told more than 0: each looks and
        changes under MEMBERS.
    M3  A member's cells are set before it is connected (release), and VERSION grows before the lock is let go: a caller
        that learns of the change and then promises or releases more does so after VERSION has grown (merging, G4).

Memory order
    READY is loaded with acquire: rows and entries before it are visible. RELEASED is stored with release: the reads of
    what it gives back stay before it.
"""

from __future__ import annotations

from stretch.buffer.layout import (
    BOUND,
    CONSUMED,
    DATA,
    HEAD,
    INDEX_SHIFT,
    IS_READER,
    IS_SOURCE,
    MEMBERS,
    NEVER,
    READER_CELLS,
    READERS_HIGH,
    READY,
    RELEASED,
    ROWS_FULL,
    SOURCE_CELLS,
    SOURCES_HIGH,
    SPEED,
    SPEED_UNKNOWN,
    STAGED,
    STARVED,
    VERSION,
    WAKE_READERS,
    WAKE_SOURCES,
    LogView,
)
from stretch.buffer.ready_log_merge import hold_merging, merge_and_let_go, request_merge, try_merge
from stretch.native import (
    PARK_AT_ONCE,
    WAIT_AGAIN,
    Cells,
    backoff,
    compare_exchange,
    exchange,
    fetch_add,
    kernel,
    load_acquire,
    load_relaxed,
    store_release,
    wait_round,
    wake_all,
)


@kernel
def ready_end(view: LogView) -> int:
    """Return the position after the last ready entry; all before it may be read (until released)."""
    return load_acquire(view.cells, READY)  # acquire: pairs with the store_release of merging


@kernel
def position(view: LogView, reader: int) -> int:
    """Return what the reader has released: its entries before this position may be gone."""
    return load_acquire(view.readers, reader * READER_CELLS + RELEASED)  # pairs with the store_release of release_to


@kernel
def take_times(view: LogView, first: int, end: int, times: Cells) -> tuple[int, int]:
    """Write the times of the rows among the entries [first, end) of a log with one input; return count and place.

    The rows lie side by side in the row store's rings, from the place on, as merging numbers them in the order of
    their entries.
    """
    mask = view.times.shape[0] - 1
    count, row = 0, 0
    for position in range(first, end):
        ref = view.refs[position & mask]
        if ref & 3 == DATA:
            if count == 0:
                row = ref >> INDEX_SHIFT
            times[count] = view.times[position & mask]
            count += 1
    return count, row


@kernel
def release_to(view: LogView, reader: int, position: int) -> None:
    """Give back all entries before `position`, with their rows; wakes sources that wait for room. Once per batch."""
    # Release: pairs with the load_acquire of slowest_position; what was read stays before it.
    store_release(view.readers, reader * READER_CELLS + RELEASED, position)
    if exchange(view.cells, STARVED, 0) != 0:  # pairs with the exchange of who merges and finds no room
        request_merge(view)
    wake_all(view.cells, WAKE_SOURCES)


@kernel
def wait_for_entries(view: LogView, position: int, deadline_ns: int) -> int:
    """Wait until there is an entry at `position`; merges if nobody else does; return a wait status.

    Release what has been read before waiting: others may wait for that room.
    """
    attempt = 0
    while True:
        ticket = load_acquire(view.cells, WAKE_READERS)  # acquire: pairs with the wake_all of merging
        if ready_end(view) > position:
            return WAIT_AGAIN
        if (attempt == 0 or attempt >= PARK_AT_ONCE) and try_merge(view) and ready_end(view) > position:
            return WAIT_AGAIN
        status = wait_round(view.cells, WAKE_READERS, ticket, attempt, view.stop, deadline_ns)
        if status != WAIT_AGAIN:
            return status
        attempt += 1


@kernel
def slowest_of(view: LogView, first: int, last: int) -> int:
    """Return the position that the slowest reader of the slots [first, last) has released; NEVER if there is none."""
    while True:
        version = load_acquire(view.cells, VERSION)  # acquire: pairs with the fetch_add of who changes members
        least = NEVER
        for reader in range(first, last):
            base = reader * READER_CELLS
            if load_acquire(view.readers, base + IS_READER):  # acquire: pairs with the store_release of members
                least = min(least, load_acquire(view.readers, base + RELEASED))  # with the store_release of release_to
        # Acquire: pairs with the fetch_add of who changes members.
        if load_acquire(view.cells, VERSION) == version:
            return least


@kernel
def wait_for_readers(view: LogView, first: int, last: int, position: int, deadline_ns: int) -> int:
    """Wait until all readers of the slots [first, last) have released what is before `position`; a wait status."""
    attempt = 0
    while True:
        ticket = load_acquire(view.cells, WAKE_SOURCES)  # acquire: pairs with the wake_all of release_to and merging
        if slowest_of(view, first, last) >= position:
            return WAIT_AGAIN
        if attempt >= PARK_AT_ONCE:
            try_merge(view)
        status = wait_round(view.cells, WAKE_SOURCES, ticket, attempt, view.stop, deadline_ns)
        if status != WAIT_AGAIN:
            return status
        attempt += 1


@kernel
def merge_now(view: LogView) -> None:
    """Merge what is ready, and return when that is done, by whomever."""
    attempt = 0
    while not try_merge(view):
        backoff(attempt)
        attempt += 1


SPEED_BATCHES = 8


@kernel
def report_speed(view: LogView, reader: int, ns_per_entry: float) -> None:
    """Say how long the reader took per entry of a batch; flow control follows the slowest connected reader.

    What counts is the mean of many batches: a reader that has to share its core is as fast as on a core of its own in
    most of them, and loses the core for a long time in a few.
    """
    picoseconds = int(min(max(ns_per_entry, 0.001), 1e9) * 1000)
    cell = reader * READER_CELLS + SPEED
    before = load_relaxed(view.readers, cell)  # its own
    mean = picoseconds if before == SPEED_UNKNOWN else before + (picoseconds - before) // SPEED_BATCHES
    store_release(view.readers, cell, mean)  # a statistic, for load_relaxed


@kernel
def is_reader(view: LogView, reader: int) -> bool:
    """Tell whether the reader is connected."""
    return load_acquire(view.readers, reader * READER_CELLS + IS_READER) != 0  # pairs with the stores of members


@kernel
def is_source(view: LogView, source: int) -> bool:
    """Tell whether the source is connected."""
    return load_acquire(view.sources, source * SOURCE_CELLS + IS_SOURCE) != 0  # pairs with the stores of members


@kernel
def are_rows_full(view: LogView) -> bool:
    """Tell whether merging has stopped for good: all room for rows is taken by rows that have to be kept."""
    return load_acquire(view.cells, ROWS_FULL) != 0  # pairs with the store_release of room_for_kept


@kernel
def is_drained(view: LogView, source: int) -> bool:
    """Tell whether all that a source staged is in the log."""
    base = source * SOURCE_CELLS
    # Both: pair with the store_release of their writers, the source and who merges.
    return load_acquire(view.sources, base + CONSUMED) == load_acquire(view.sources, base + STAGED)


# --- Members


@kernel
def add_readers(view: LogView, readers: Cells, start: int) -> int:
    """Connect those of `readers` that are not; they start at position `start`. Return how many.

    The caller is a reader and has not released `start` yet (position(view, caller) <= start): for the paper's
    addReaders `start` is what the caller reads next, or the entry that triggers the switch.
    """
    _lock_members(view)
    count = 0
    for k in range(readers.shape[0]):
        base = readers[k] * READER_CELLS
        if load_relaxed(view.readers, base + IS_READER) == 0:  # only changed under the lock
            # All three: pair with the load_acquire of IS_READER in slowest_position and room_for (M3).
            store_release(view.readers, base + RELEASED, start)  # as above
            store_release(view.readers, base + SPEED, SPEED_UNKNOWN)  # as above
            store_release(view.readers, base + IS_READER, 1)  # as above
            _raise_to(view, READERS_HIGH, readers[k] + 1)
            count += 1
    _unlock_members(view, count)
    return count


@kernel
def add_readers_at_end(view: LogView, readers: Cells) -> int:
    """Connect readers, none of which is connected, where merging goes on; return that position.

    Needs no caller that is a reader: nothing is merged meanwhile, so what they start at cannot be overwritten.
    """
    attempt = 0
    # Acquire: pairs with the compare_exchange by which the previous holder let go (G1 of ready_log_merge).
    while not hold_merging(view):
        backoff(attempt)
        attempt += 1
    start = view.merging[HEAD]
    add_readers(view, readers, start)
    merge_and_let_go(view)
    return start


@kernel
def remove_readers(view: LogView, readers: Cells) -> int:
    """Disconnect those of `readers` that are connected; they hold back nobody any more. Return how many."""
    _lock_members(view)
    count = 0
    for k in range(readers.shape[0]):
        base = readers[k] * READER_CELLS
        if load_relaxed(view.readers, base + IS_READER) != 0:  # only changed under the lock
            store_release(view.readers, base + IS_READER, 0)  # pairs with the load_acquire of slowest_position
            count += 1
    _unlock_members(view, count)
    if count > 0:
        request_merge(view)
        wake_all(view.cells, WAKE_SOURCES)
    return count


@kernel
def add_sources(view: LogView, sources: Cells, bound: int) -> int:
    """Connect those of `sources` that are not, each with `bound`, which the caller's own bound has reached.

    A source that comes back does so with a bound that is not before what it staged last. Return how many.
    """
    _lock_members(view)
    count = 0
    for k in range(sources.shape[0]):
        base = sources[k] * SOURCE_CELLS
        if load_relaxed(view.sources, base + IS_SOURCE) == 0:  # only changed under the lock
            # Both: pair with the load_acquire of IS_SOURCE by who merges (M3).
            store_release(view.sources, base + BOUND, bound)
            store_release(view.sources, base + IS_SOURCE, 1)  # as above
            _raise_to(view, SOURCES_HIGH, sources[k] + 1)
            count += 1
    _unlock_members(view, count)
    return count


@kernel
def remove_sources(view: LogView, sources: Cells) -> int:
    """Disconnect those of `sources` that are connected, and merge; return how many.

    What they staged is still delivered; they hold back nobody any more.
    """
    _lock_members(view)
    count = 0
    for k in range(sources.shape[0]):
        base = sources[k] * SOURCE_CELLS
        if load_relaxed(view.sources, base + IS_SOURCE) != 0:  # only changed under the lock
            store_release(view.sources, base + IS_SOURCE, 0)  # pairs with the load_acquire of who merges
            count += 1
    _unlock_members(view, count)
    if count > 0:
        request_merge(view)
    return count


@kernel
def _lock_members(view: LogView) -> None:
    """Take the lock of the members; it is held for some instructions only, and never while waiting."""
    attempt = 0
    # Acquire: pairs with the store_release of _unlock_members.
    while not compare_exchange(view.cells, MEMBERS, 0, 1):
        backoff(attempt)
        attempt += 1


@kernel
def _unlock_members(view: LogView, changes: int) -> None:
    """Say that members changed, if so, and let go of the lock."""
    if changes > 0:
        fetch_add(view.cells, VERSION, 1)  # pairs with the load_acquires of who looks at members (M3)
    store_release(view.cells, MEMBERS, 0)  # pairs with the compare_exchange of _lock_members


@kernel(inline=True)
def _raise_to(view: LogView, cell: int, value: int) -> None:
    """Raise a cell that only who holds MEMBERS changes."""
    if load_relaxed(view.cells, cell) < value:  # only changed under the lock
        store_release(view.cells, cell, value)  # pairs with the load_acquire of who looks at all slots
