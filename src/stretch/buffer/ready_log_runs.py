"""Finding what is ready, run by run: the inner loop of merging.

What
    The cells ORDER name the sources that take part in a round, least key first. The key of a source is that of its
    next staged entry, or its limit when it has none. `plan_block` repeatedly takes from the first source the run of
    rows that stays below the key of the second one, and has `ready_log_copy` write it.

Invariants
    P1  The order is sorted by key, and keys of different sources differ (a tie ends in the slot).
    P2  When the first source has nothing staged, nothing else is ready: all else is at or beyond its limit.
    P3  A run ends at the ends of the rings that it is copied between, and before a control entry.

Who writes what, memory order
    Called by who merges only, between its acquire and its release (see `ready_log_merge`).
"""

from __future__ import annotations

from stretch.buffer.layout import (
    CONNECTED,
    CONTROL,
    CONTROL_EPOCH,
    CONTROL_FIELDS,
    CONTROL_LINES,
    CONTROL_NUMBER,
    CONTROL_RANK,
    CONTROLS_END,
    CONTROLS_MAX,
    CONTROLS_NEXT,
    END,
    FIXED_TIE,
    HAS_LISTS,
    HEAD,
    INDEX_SHIFT,
    INPUT_SHIFT,
    KEY_TIE,
    KEY_TIME,
    LIMIT_TIE,
    LIMIT_TIME,
    NEXT,
    OF_INPUT,
    OPEN,
    PARTICIPANTS,
    PICKED,
    ROW_NEXT,
    ROWS_FREED,
    SEGMENTS,
    SOURCE_CELLS,
    SOURCES_SEEN,
    STOP,
    TAKEN_TIE,
    TAKEN_TIME,
    LogView,
    input_at,
    is_before,
    order_at,
    source_at,
    tie_of,
)
from stretch.buffer.ready_log_copy import until_ring_ends, write_run
from stretch.buffer.rows import copy_lists
from stretch.native import Cells, kernel

# --- Order


@kernel
def arrange(view: LogView) -> None:
    """Sort the sources that take part by what they have next."""
    merging = view.merging
    merging[PARTICIPANTS] = 0
    for source in range(merging[SOURCES_SEEN]):
        if _set_key(view, source):
            place = merging[PARTICIPANTS]
            time, tie = merging[source_at(source) + KEY_TIME], merging[source_at(source) + KEY_TIE]
            while place > 0 and _is_before_key(time, tie, merging, merging[order_at(place - 1)]):
                merging[order_at(place)] = merging[order_at(place - 1)]
                place -= 1
            merging[order_at(place)] = source
            merging[PARTICIPANTS] += 1


@kernel(inline=True)
def _settle_first(merging: Cells, participants: int) -> None:
    """Move the first source to where its key belongs; the rest is sorted."""
    source = merging[order_at(0)]
    time, tie = merging[source_at(source) + KEY_TIME], merging[source_at(source) + KEY_TIE]
    place = 1
    while place < participants and not _is_before_key(time, tie, merging, merging[order_at(place)]):
        merging[order_at(place - 1)] = merging[order_at(place)]
        place += 1
    merging[order_at(place - 1)] = source


@kernel(inline=True)
def _is_before_key(time: int, tie: int, merging: Cells, source: int) -> bool:
    """Tell whether a key is before that of a source."""
    at = source_at(source)
    return is_before(time, tie, merging[at + KEY_TIME], merging[at + KEY_TIE])


@kernel
def _set_key(view: LogView, source: int) -> bool:
    """Set the key of a source, that of its next entry or its limit, and where its rows stop; False if it has no key."""
    merging = view.merging
    at = source_at(source)
    number, end = merging[at + NEXT], merging[at + END]
    merging[at + STOP] = end
    if number == end:
        time, tie = merging[at + LIMIT_TIME], merging[at + LIMIT_TIE]
        if is_before(time, tie, merging[at + TAKEN_TIME], merging[at + TAKEN_TIE]):
            time, tie = merging[at + TAKEN_TIME], merging[at + TAKEN_TIE]
        merging[at + KEY_TIME], merging[at + KEY_TIE] = time, tie
        return bool(merging[at + CONNECTED] != 0)
    slot = number & (view.staged_times.shape[1] - 1)
    merging[at + KEY_TIME] = view.staged_times[source, slot]
    merging[at + KEY_TIE] = _tie_at(merging, view.staged_ranks, source, slot)
    if merging[at + CONTROLS_NEXT] != merging[at + CONTROLS_END]:
        line = control_line(source, merging[at + CONTROLS_NEXT])
        control = view.sources[line + CONTROL_NUMBER]
        merging[at + STOP] = min(end, control)
        if control == number:
            merging[at + KEY_TIE] = tie_of(view.sources[line + CONTROL_RANK], source)
    return True


@kernel(inline=True)
def _tie_at(merging: Cells, staged_ranks: Cells, source: int, slot: int) -> int:
    """Return the tie of a staged row."""
    tie = merging[source_at(source) + FIXED_TIE]
    return tie if tie >= 0 else tie_of(staged_ranks[source, slot], source)


@kernel(inline=True)
def control_line(source: int, number: int) -> int:
    """Return where in the cells of sources it stands what a control entry says."""
    return source * SOURCE_CELLS + CONTROL_LINES + (number & (CONTROLS_MAX - 1)) * CONTROL_FIELDS


@kernel(inline=True)
def has_ready(merging: Cells) -> bool:
    """Tell whether the least of all keys is that of an entry."""
    at = source_at(merging[order_at(0)])
    return bool(merging[PARTICIPANTS] > 0 and merging[at + NEXT] < merging[at + END])


# --- Runs


@kernel
def plan_block(view: LogView, room: int) -> int:
    """Write times and refs of the next ready entries, at most `room`, and note which rows to copy; return how many."""
    merging = view.merging
    for number in range(view.column_counts.shape[0]):
        at = input_at(merging, number)
        merging[at + PICKED], merging[at + SEGMENTS], merging[at + OPEN] = 0, 0, -1
    count = 0
    while count < room and has_ready(merging):
        source = merging[order_at(0)]
        at = source_at(source)
        if merging[at + NEXT] == merging[at + STOP]:
            taken = _take_control(view, source, merging[HEAD] + count)
        elif merging[HAS_LISTS] != 0:
            taken = _take_run_with_lists(view, source, merging[HEAD] + count, room - count)
        else:
            taken = _take_runs(
                view.times,
                view.refs,
                view.staged_times,
                view.staged_ranks,
                merging,
                merging[HEAD] + count,
                room - count,
            )
        if taken == 0:
            break
        count += taken
        source = merging[order_at(0)]
        if _set_key(view, source):
            _settle_first(merging, merging[PARTICIPANTS])
        else:
            merging[PARTICIPANTS] -= 1
            for place in range(merging[PARTICIPANTS]):
                merging[order_at(place)] = merging[order_at(place + 1)]
    return count


@kernel(inline=True)
def _take_control(view: LogView, source: int, position: int) -> int:
    """Move a control entry into the log."""
    merging, at = view.merging, source_at(source)
    line = control_line(source, merging[at + CONTROLS_NEXT])
    slot = position & (view.times.shape[0] - 1)
    view.times[slot] = merging[at + KEY_TIME]
    epoch = view.sources[line + CONTROL_EPOCH]
    view.refs[slot] = (epoch << INDEX_SHIFT) | (merging[at + OF_INPUT] << INPUT_SHIFT) | CONTROL
    merging[at + NEXT] += 1
    merging[at + CONTROLS_NEXT] += 1
    merging[at + TAKEN_TIME], merging[at + TAKEN_TIE] = merging[at + KEY_TIME], merging[at + KEY_TIE]
    return 1


@kernel
def _take_runs(
    times: Cells,
    refs: Cells,
    staged_times: Cells,
    staged_ranks: Cells,
    merging: Cells,
    position: int,
    room: int,
) -> int:
    """Take runs of rows until a source comes to its stop, or there is no room; return how many rows.

    The innermost loop of merging: it gets plain arrays, and takes interleaved sources row by row.
    """
    participants, count = merging[PARTICIPANTS], 0
    mask = staged_times.shape[1] - 1
    while count < room:
        source = merging[order_at(0)]
        at = source_at(source)
        number, stop = merging[at + NEXT], merging[at + STOP]
        if number == stop:
            break
        slot = number & mask
        length = min(stop - number, room - count)
        length = _run_length(staged_times, staged_ranks, merging, source, slot, length)
        length = write_run(times, refs, staged_times, merging, source, slot, position + count, length)
        count += length
        number += length
        merging[at + NEXT] = number
        if number == stop:
            _note_taken(staged_times, staged_ranks, merging, source)
            break
        merging[at + KEY_TIME] = staged_times[source, number & mask]
        merging[at + KEY_TIE] = _tie_at(merging, staged_ranks, source, number & mask)
        _settle_first(merging, participants)
    return count


@kernel
def _take_run_with_lists(view: LogView, source: int, position: int, room: int) -> int:
    """Take one run of rows, as far as the items of its lists find room; return its length."""
    merging, at = view.merging, source_at(source)
    number = merging[at + NEXT]
    slot = number & (view.staged_times.shape[1] - 1)
    length = min(merging[at + STOP] - number, room)
    length = _run_length(view.staged_times, view.staged_ranks, merging, source, slot, length)
    length = until_ring_ends(view.staged_times, merging, source, slot, length)
    row_input = merging[at + OF_INPUT]
    columns = view.column_counts[row_input]
    if columns > 0:
        log_table, staging_table = view.tables[2 * row_input, :columns], view.tables[2 * row_input + 1, :columns]
        cells = input_at(merging, row_input)
        place = source * view.staged_times.shape[1] + slot
        # Never TOO_LONG: item rings of the log are at least as large as those of stagings.
        length = copy_lists(
            log_table, 0, merging[cells + ROW_NEXT], merging[cells + ROWS_FREED], staging_table, place, length
        )
    if length <= 0:
        return 0
    write_run(view.times, view.refs, view.staged_times, merging, source, slot, position, length)
    merging[at + NEXT] = number + length
    _note_taken(view.staged_times, view.staged_ranks, merging, source)
    return length


@kernel(inline=True)
def _note_taken(staged_times: Cells, staged_ranks: Cells, merging: Cells, source: int) -> None:
    """Note the key of the last row taken: what follows is not before it."""
    at = source_at(source)
    slot = (merging[at + NEXT] - 1) & (staged_times.shape[1] - 1)
    merging[at + TAKEN_TIME] = staged_times[source, slot]
    merging[at + TAKEN_TIE] = _tie_at(merging, staged_ranks, source, slot)


@kernel(inline=True)
def _run_length(staged_times: Cells, staged_ranks: Cells, merging: Cells, source: int, slot: int, count: int) -> int:
    """Return how many of the next `count` rows of the first source are below the second's key; the first one is."""
    count = min(count, staged_times.shape[1] - slot)
    if merging[PARTICIPANTS] < 2:
        return count
    at = source_at(merging[order_at(1)])
    time, tie = merging[at + KEY_TIME], merging[at + KEY_TIE]
    low, step = 1, 1
    # Gallop: rows before `low` are below; the steps double.
    while low < count:
        probe = slot + min(low + step, count) - 1
        if not is_before(staged_times[source, probe], _tie_at(merging, staged_ranks, source, probe), time, tie):
            break
        low = probe - slot + 1
        step *= 2
    high = min(low + step, count) - 1
    while low < high:
        middle = slot + ((low + high) >> 1)
        if is_before(staged_times[source, middle], _tie_at(merging, staged_ranks, source, middle), time, tie):
            low = middle - slot + 1
        else:
            high = middle - slot
    return low
