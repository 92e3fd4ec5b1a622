"""What kernels call on a ReadyLog (SKELETON: signatures are final, bodies are being written).

    view = log.view                       # a LogView, hand it to kernels
    view.times[p & mask], view.refs[p & mask]   # entry at position p (mask = view.times.shape[0] - 1)
    ref = index << 8 | input << 2 | kind  # DATA: index = physical row; CONTROL: index = epoch number; WATERMARK: 0
    log.columns(input)                    # typed arrays by physical row (lists: starts, lengths, items)
    log.staging(source)                   # the same for the staging ring of a source, + .times, .ranks

A source is the number of its slot, a reader too: 0 <= source < log.max_sources.
Status codes: FULL = -1 (no room now), TOO_LONG = -2 (a list longer than half an item ring).
Waits return WAIT_AGAIN (0: it is there, go on), WAIT_STOPPED or WAIT_TIMED_OUT of native.waiting.
"""

from __future__ import annotations

from typing import Any

from stretch.native import Cells, kernel

LogView = Any


# --- Sources


@kernel
def admit(view: LogView, source: int, first: int, last: int, times_address: int, addresses: Cells) -> int:
    """Copy rows [first, last) of a caller's arrays into staging, as far as there is room; return how many.

    Room is what staging and flow control allow now; 0 means none, `wait_for_room` waits. Publishes the rows and the
    bound `2 * last time + 1`, and merges. `addresses` is as for rows.append_rows. Times must not go back.
    TOO_LONG when row `first` can never fit.
    """
    raise NotImplementedError


@kernel
def wait_for_room(view: LogView, source: int, wanted: int, deadline_ns: int) -> int:
    """Wait until `admit` would take `wanted` rows, or a good part of what flow control allows; return a wait status."""
    raise NotImplementedError


@kernel
def stage_control(view: LogView, source: int, time: int, epoch: int) -> int:
    """Add a control entry just after what the source has added; return 0 or FULL. Not subject to flow control.

    `time` is the time of the tuple or heartbeat that follows. Does not merge: the tuple or heartbeat does.
    """
    raise NotImplementedError


@kernel
def advance(view: LogView, source: int, bound: int) -> None:
    """Promise `bound` (2 * time, or 2 * time + 1), publish it with all rows published before, and merge."""
    raise NotImplementedError


@kernel
def reserve_rows(view: LogView, source: int, count: int) -> int:
    """Return where `count` more rows go in the source's staging arrays, or FULL.

    The caller writes row k at `(first + k) & staging_mask` of `log.staging(source)`: times, ranks (sorted by time and
    rank), columns. Nothing is visible before publish_rows. Reserving again before publishing gives the same place.
    FULL: publish what is finished, `request_merge(view)`, `wait_for_staging(view, source, count, deadline)`.
    """
    raise NotImplementedError


@kernel
def reserve_items(view: LogView, source: int, column: int, row: int, count: int) -> int:
    """Return where the list of the `row`-th unpublished row (0, 1, ...) goes in the items array; FULL or TOO_LONG."""
    raise NotImplementedError


@kernel
def publish_rows(view: LogView, source: int, count: int) -> None:
    """Publish rows that were reserved and written. Does not merge: `advance` does, or `request_merge`."""
    raise NotImplementedError


@kernel
def wait_for_staging(view: LogView, source: int, count: int, deadline_ns: int) -> int:
    """Wait until reserve_rows(count) succeeds (count <= staging capacity - 8); merges; return a wait status."""
    raise NotImplementedError


# --- Merging


@kernel
def request_merge(view: LogView) -> None:
    """Merge what is ready, or leave it to the one who merges now, who will see everything published before."""
    raise NotImplementedError


@kernel
def try_merge(view: LogView) -> bool:
    """Merge what is ready unless somebody merges now; True if it merged (perhaps nothing)."""
    raise NotImplementedError


# --- Readers


@kernel
def ready_end(view: LogView) -> int:
    """Return the position after the last ready entry; all before it may be read (until released)."""
    raise NotImplementedError


@kernel
def position(view: LogView, reader: int) -> int:
    """Return what the reader has released: its entries before this position may be gone."""
    raise NotImplementedError


@kernel
def release_to(view: LogView, reader: int, position: int) -> None:
    """Give back all entries before `position`, with their rows; wakes sources that wait for room. Once per batch."""
    raise NotImplementedError


@kernel
def wait_for_entries(view: LogView, position: int, deadline_ns: int) -> int:
    """Wait until there is an entry at `position`; merges if nobody else does; return a wait status."""
    raise NotImplementedError


@kernel
def report_speed(view: LogView, reader: int, ns_per_entry: float) -> None:
    """Say how long the reader takes per entry; flow control follows the slowest connected reader."""
    raise NotImplementedError


# --- Members: each returns how many it changed; of several callers at once exactly one gets more than 0


@kernel
def add_readers(view: LogView, readers: Cells, start: int) -> int:
    """Connect those of `readers` that are not; they start at position `start`.

    The caller is a reader and has not released `start` yet (position(view, caller) <= start): for the paper's
    `from_last` that is the position of the entry that triggers the switch.
    """
    raise NotImplementedError


@kernel
def remove_readers(view: LogView, readers: Cells) -> int:
    """Disconnect those of `readers` that are connected; they hold back nobody any more."""
    raise NotImplementedError


@kernel
def is_reader(view: LogView, reader: int) -> bool:
    """Tell whether the reader is connected."""
    raise NotImplementedError


@kernel
def add_sources(view: LogView, sources: Cells, bound: int) -> int:
    """Connect those of `sources` that are not, each with `bound`, which the caller's own bound has reached.

    A source that comes back: `bound` is not before what it staged last.
    """
    raise NotImplementedError


@kernel
def remove_sources(view: LogView, sources: Cells) -> int:
    """Disconnect those of `sources` that are connected; what they staged is still delivered. Merges."""
    raise NotImplementedError


@kernel
def bound(view: LogView, source: int) -> int:
    """Return what a source has promised."""
    raise NotImplementedError
