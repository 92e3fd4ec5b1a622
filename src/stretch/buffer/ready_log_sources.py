"""What sources call: staging rows and control entries, promising bounds, waiting for room.

What
    A source alone writes its staging; it publishes counts and bounds, and then asks for a merge. External sources hand
    over arrays (`admit`); workers write their results into the staging columns themselves (`reserve_rows`,
    `publish_rows`) and promise with `advance`.

Flow control
    Pending are the ready entries that the slowest connected reader has not released. What waits for other sources is no
    work for anybody yet: it may fill its source's staging, so that one thread can feed several sources in turns.
    Rows come in while fewer than the limit are pending: TARGET_NS of work at the pace of the slowest reader, at least
    LIMIT_MIN and at most the capacity. Control entries and bounds come in whatever is pending.

Invariants
    S1  One thread at a time acts for a source.
    S2  A source stores its rows, then its count of staged entries (release), then its bound (release), so that a bound
        never promises an entry that who merges has not seen.
    S3  One place of a staging is never taken by rows, so a control entry waits for a merge at most.

Memory order
    As in S2; room is looked up by acquire loads of what readers and merging have released.
"""

from __future__ import annotations

from stretch.buffer.layout import (
    BOUND,
    CONSUMED,
    CONTROL_EPOCH,
    CONTROL_NUMBER,
    CONTROL_RANK,
    CONTROL_ROOM,
    CONTROLS,
    CONTROLS_CONSUMED,
    CONTROLS_MAX,
    INPUT,
    IS_READER,
    LIMIT,
    LIMIT_MIN,
    RANK,
    RANK_VARIES,
    READER_CELLS,
    READERS_HIGH,
    READY,
    SHORT_OF_ITEMS,
    SLOWEST,
    SOURCE_CELLS,
    SPEED,
    STAGED,
    TARGET_NS,
    WAKE_SOURCES,
    LogView,
)
from stretch.buffer.ready_log_merge import request_merge, slowest_position, try_merge
from stretch.buffer.ready_log_runs import control_line
from stretch.buffer.rows import FULL, append_rows, place_items, skip_row
from stretch.native import (
    PARK_AT_ONCE,
    WAIT_AGAIN,
    Cells,
    kernel,
    load_acquire,
    load_relaxed,
    store_release,
    wait_round,
)
from stretch.native.memory import read_int64

_BEFORE_ALL = -1  # api.BEFORE_ALL


# --- Arrays of external sources


@kernel
def admit(view: LogView, source: int, first: int, last: int, times_address: int, addresses: Cells) -> int:
    """Copy rows [first, last) of a caller's arrays into staging, as far as there is room; return how many.

    Room is what staging and flow control allow now; 0 means none, `wait_for_room` waits. Publishes the rows and the
    bound `2 * last time + 1`, and merges. `times_address` is that of int64 times, which do not go back nor before the
    bound of the source; `addresses` is as for `rows.append_rows`. TOO_LONG when row `first` can never fit.
    """
    count = min(last - first, room_for(view, source))
    if count <= 0:
        return 0
    base = source * SOURCE_CELLS
    number = load_relaxed(view.sources, base + STAGED)  # its own
    row_input = view.sources[base + INPUT]
    if view.column_counts[row_input] > 0:
        table = view.tables[2 * row_input + 1, : view.column_counts[row_input]]
        freed = load_acquire(view.sources, base + CONSUMED)  # acquire: pairs with the store_release of merging
        count = append_rows(table, source, number, freed, first, first + count, addresses)
        if count <= 0:
            if count == 0:
                store_release(view.sources, base + SHORT_OF_ITEMS, freed)  # its own
            return count
    mask = view.staged_times.shape[1] - 1
    for k in range(count):
        view.staged_times[source, (number + k) & mask] = read_int64(times_address + 8 * (first + k))
    time = read_int64(times_address + 8 * (first + count - 1))
    store_release(view.sources, base + STAGED, number + count)  # pairs with the load_acquire of merging (S2)
    store_release(view.sources, base + BOUND, 2 * time + 1)  # as above, and after the count
    request_merge(view)
    return count


@kernel
def admit_all(
    view: LogView, source: int, first: int, last: int, times_address: int, addresses: Cells, deadline_ns: int
) -> int:
    """Admit rows [first, last) piece by piece; return how many, fewer if stopped or late; TOO_LONG as `admit`."""
    done = first
    while done < last:
        count = admit(view, source, done, last, times_address, addresses)
        if count < 0:
            return count if done == first else done - first
        done += count
        if done < last and wait_for_room(view, source, last - done, deadline_ns) != WAIT_AGAIN:
            break
    return done - first


@kernel
def room_for(view: LogView, source: int) -> int:
    """Return how many rows the source may stage now: room in its staging, and what flow control allows."""
    base = source * SOURCE_CELLS
    # Acquire: pairs with the store_release of merging, which has copied what is overwritten now.
    consumed = load_acquire(view.sources, base + CONSUMED)
    own = load_relaxed(view.sources, base + STAGED) - consumed  # its own
    room = view.staged_times.shape[1] - CONTROL_ROOM - own
    if room <= 0 or consumed == load_relaxed(view.sources, base + SHORT_OF_ITEMS):  # its own
        return 0
    return min(room, _allowed(view))


@kernel
def _allowed(view: LogView) -> int:
    """Return how many entries more may be pending, at the pace of the slowest reader; notes what it found."""
    slowest = slowest_position(view)
    pace = 1
    for reader in range(load_acquire(view.cells, READERS_HIGH)):  # acquire: pairs with who changes members
        base = reader * READER_CELLS
        if load_acquire(view.readers, base + IS_READER):  # as above
            pace = max(pace, load_relaxed(view.readers, base + SPEED))  # a statistic
    capacity = view.times.shape[0]
    limit = min(max(view.cells[TARGET_NS] * 1000 // pace, LIMIT_MIN), capacity)
    store_release(view.cells, SLOWEST, slowest)  # a statistic: pairs with nothing
    store_release(view.cells, LIMIT, limit)  # as above
    return limit - (load_acquire(view.cells, READY) - slowest)  # acquire: pairs with the store_release of merging


@kernel
def wait_for_room(view: LogView, source: int, wanted: int, deadline_ns: int) -> int:
    """Wait until `admit` would take `wanted` rows, or a good part of what it ever takes at once; return a wait status.

    A source that waited for a single place at a time would be woken for each.
    """
    attempt = 0
    while True:
        ticket = load_acquire(view.cells, WAKE_SOURCES)  # acquire: pairs with the wake_all of release_to and merging
        room = room_for(view, source)
        most = min(load_relaxed(view.cells, LIMIT), view.staged_times.shape[1])  # LIMIT: a statistic
        if room >= min(wanted, max(most // 4, 1)):
            return WAIT_AGAIN
        if attempt >= PARK_AT_ONCE:
            try_merge(view)
        status = wait_round(view.cells, WAKE_SOURCES, ticket, attempt, view.stop, deadline_ns)
        if status != WAIT_AGAIN:
            return status
        attempt += 1


# --- Promises and control entries


@kernel
def advance(view: LogView, source: int, bound: int) -> None:
    """Promise `bound` (2 * time, or 2 * time + 1), publish it with all rows published before, and merge."""
    base = source * SOURCE_CELLS
    if bound > load_relaxed(view.sources, base + BOUND):  # its own
        store_release(view.sources, base + BOUND, bound)  # pairs with the load_acquire of merging (S2)
    request_merge(view)


@kernel
def bound_of(view: LogView, source: int) -> int:
    """Return what a source has promised."""
    return load_acquire(view.sources, source * SOURCE_CELLS + BOUND)  # pairs with the store_release of advance


@kernel
def stage_control(view: LogView, source: int, time: int, epoch: int) -> int:
    """Add a control entry just after what the source has added; return 0, or FULL. Not subject to flow control.

    `time` is that of the tuple or heartbeat that follows. Does not merge: the tuple or heartbeat does.
    """
    base = source * SOURCE_CELLS
    number = load_relaxed(view.sources, base + STAGED)  # its own
    control = load_relaxed(view.sources, base + CONTROLS)  # its own
    # Acquire: each pairs with the store_release of merging, which has read what is overwritten now.
    is_full = number - load_acquire(view.sources, base + CONSUMED) >= view.staged_times.shape[1]
    is_full = is_full or control - load_acquire(view.sources, base + CONTROLS_CONSUMED) >= CONTROLS_MAX  # as above
    if is_full:
        return FULL
    bound = load_relaxed(view.sources, base + BOUND)  # its own
    time = max(time, bound >> 1)
    view.staged_times[source, number & (view.staged_times.shape[1] - 1)] = time
    row_input = view.sources[base + INPUT]
    skip_row(view.tables[2 * row_input + 1, : view.column_counts[row_input]], source, number)
    line = control_line(source, control)
    view.sources[line + CONTROL_NUMBER] = number
    view.sources[line + CONTROL_RANK] = _rank_of_control(view, source, time, bound, number)
    view.sources[line + CONTROL_EPOCH] = epoch
    store_release(view.sources, base + CONTROLS, control + 1)  # pairs with the load of merging, after that of STAGED
    store_release(view.sources, base + STAGED, number + 1)  # pairs with the load_acquire of merging (S2)
    store_release(view.sources, base + BOUND, max(bound, 2 * time))  # as above
    return 0


@kernel
def _rank_of_control(view: LogView, source: int, time: int, bound: int, number: int) -> int:
    """Return the rank just after what the source has added, and before all that it can still add."""
    if view.sources[source * SOURCE_CELLS + RANK] != RANK_VARIES:
        return view.sources[source * SOURCE_CELLS + RANK] if bound == 2 * time + 1 else _BEFORE_ALL
    mask = view.staged_times.shape[1] - 1
    rank = _BEFORE_ALL
    if number > 0 and view.staged_times[source, (number - 1) & mask] == time:
        rank = view.staged_ranks[source, (number - 1) & mask]
    view.staged_ranks[source, number & mask] = rank
    return rank


# --- Rows written in place, by workers


@kernel
def reserve_rows(view: LogView, source: int, count: int) -> int:
    """Return the number of the next row to write, if `count` more fit; or FULL.

    The caller writes row k at `(number + k) & (staging - 1)` of the arrays of `ReadyLog.staging(source)`: times, ranks,
    columns, sorted by time and rank. Nothing is visible before publish_rows. Reserving again gives the same number,
    so reserve some rows ahead and publish those that were written. FULL: publish what is complete, promise what can be
    promised, and `wait_for_rows`. Fewer than `staging` rows fit at once.
    """
    base = source * SOURCE_CELLS
    number = load_relaxed(view.sources, base + STAGED)  # its own
    # Acquire: pairs with the store_release of merging, which has copied what is overwritten now.
    consumed = load_acquire(view.sources, base + CONSUMED)
    own = number - consumed
    if own + count > view.staged_times.shape[1] - CONTROL_ROOM or _allowed(view) <= 0:
        return FULL
    if consumed == load_relaxed(view.sources, base + SHORT_OF_ITEMS):  # its own
        return FULL
    return number


@kernel
def reserve_items(view: LogView, source: int, column: int, number: int, count: int) -> int:
    """Return where the list of a reserved row goes in the items of a list column; FULL or TOO_LONG.

    Sets start and length of row `number`. Once per row and column, rows in order.
    """
    base = source * SOURCE_CELLS
    row_input = view.sources[base + INPUT]
    table = view.tables[2 * row_input + 1, : view.column_counts[row_input]]
    # Acquire: pairs with the store_release of merging, which has copied what is overwritten now.
    freed = load_acquire(view.sources, base + CONSUMED)
    place = place_items(table, column, source, number, freed, count)
    if place == FULL:
        store_release(view.sources, base + SHORT_OF_ITEMS, freed)  # its own
    return place


@kernel
def publish_rows(view: LogView, source: int, count: int) -> None:
    """Publish rows that were reserved and written. Does not merge: `advance` does, or `request_merge`."""
    base = source * SOURCE_CELLS
    number = load_relaxed(view.sources, base + STAGED)  # its own
    store_release(view.sources, base + STAGED, number + count)  # pairs with the load_acquire of merging (S2)


@kernel
def wait_for_rows(view: LogView, source: int, count: int, deadline_ns: int) -> int:
    """Wait until `reserve_rows(count)` succeeds; return a wait status. Asks for a merge of what was published."""
    attempt = 0
    request_merge(view)
    while True:
        ticket = load_acquire(view.cells, WAKE_SOURCES)  # acquire: pairs with the wake_all of release_to and merging
        if reserve_rows(view, source, count) != FULL:
            return WAIT_AGAIN
        if attempt >= PARK_AT_ONCE:
            try_merge(view)
        status = wait_round(view.cells, WAKE_SOURCES, ticket, attempt, view.stop, deadline_ns)
        if status != WAIT_AGAIN:
            return status
        attempt += 1
