"""What kernels call on a ReadyLog, in one place.

    view = log.view                              # a LogView: hand it to kernels
    view.times[p & mask], view.refs[p & mask]    # the entry at position p; mask = view.times.shape[0] - 1
    ref = index << 8 | input << 2 | kind         # index: DATA the row, CONTROL the epoch, WATERMARK 0
    log.columns(input)                           # typed arrays by row (lists: starts, lengths, items)
    log.staging(source)                          # times, ranks, columns of a source, by number & (staging - 1)

A source is a slot number, a reader too. Counts that cannot be are FULL (-1: no room now) or TOO_LONG (-2: a list of
more items than half an item ring). Waits return WAIT_AGAIN (0: it is there), WAIT_STOPPED or WAIT_TIMED_OUT of
`native.waiting`.
"""

from stretch.buffer.layout import LogView
from stretch.buffer.ready_log_merge import request_merge, slowest_position, try_merge
from stretch.buffer.ready_log_readers import (
    add_readers,
    add_readers_at_end,
    add_sources,
    are_rows_full,
    is_drained,
    is_reader,
    is_source,
    merge_now,
    position,
    ready_end,
    release_to,
    remove_readers,
    remove_sources,
    report_speed,
    slowest_of,
    take_times,
    wait_for_entries,
    wait_for_readers,
)
from stretch.buffer.ready_log_sources import (
    admit,
    admit_all,
    advance,
    bound_of,
    publish_rows,
    reserve_items,
    reserve_rows,
    room_for,
    stage_control,
    wait_for_room,
    wait_for_rows,
)
from stretch.buffer.rows import FULL, TOO_LONG

__all__ = [
    "FULL",
    "TOO_LONG",
    "LogView",
    "add_readers",
    "add_readers_at_end",
    "add_sources",
    "admit",
    "admit_all",
    "advance",
    "are_rows_full",
    "bound_of",
    "is_drained",
    "is_reader",
    "is_source",
    "merge_now",
    "position",
    "publish_rows",
    "ready_end",
    "release_to",
    "remove_readers",
    "remove_sources",
    "report_speed",
    "request_merge",
    "reserve_items",
    "reserve_rows",
    "room_for",
    "slowest_of",
    "slowest_position",
    "stage_control",
    "take_times",
    "try_merge",
    "wait_for_entries",
    "wait_for_readers",
    "wait_for_room",
    "wait_for_rows",
]
