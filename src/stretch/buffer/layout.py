"""The shared memory of a ReadyLog: which cell means what, and who writes it.

What
    `LogView` is what kernels get: int64 arrays, so that every kernel of the log is compiled once for all schemas. The
    log proper is `times` and `refs`, rings of `capacity` entries by position, and one row store per input of the same
    capacity. Each source stages in rings of its own: `staged_times`, `staged_ranks` and the rows of its input's
    staging store. A staged entry and its row have the same number. Control entries take a number (and leave its row
    unused); what they say stands in `controls`.
    Positions and numbers count from 0 and only grow; a ring is indexed by their low bits.

Invariants
    L1  slowest reader's position <= position of what is merged next <= slowest position + capacity.
    L2  CONSUMED <= STAGED <= CONSUMED + staging capacity, for each source.
    L3  Entries [position of a connected reader, READY) and their rows are never written.

Who writes what (one line pair of the cache each, so that nobody's stores disturb others)
    cells: READY and what follows, MERGE: who merges, holding the lock bit of MERGE; requests: anybody.
           MEMBERS, VERSION, *_HIGH: who changes members, holding MEMBERS. SLOWEST, LIMIT: anybody who has looked.
    sources: STAGED, BOUND, CONTROLS: the source (BOUND also who connects it, before it runs). CONSUMED: who merges.
           IS_SOURCE: who changes members.
    readers: RELEASED, SPEED: the reader (also who connects it, before it runs). IS_READER: who changes members.
    times, refs, rows of the log: who merges. staged_*, controls, staging rows: the source.
    merge, merging, order, picks, segments, segment_count: private to who merges (the lock orders them).

Memory order
    Each cell that another thread waits for is stored with release and loaded with acquire; the kernels say which.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stretch.native import Cells, kernel

LINE: Final = 16  # cells of two cache lines

# Cells of the log.
READY: Final = 0  # entries before it may be read
MERGE: Final = 1 * LINE  # bit 0: somebody merges; the rest counts requests
WAKE_READERS: Final = 2 * LINE  # wait cell of those who wait for entries
WAKE_SOURCES: Final = 3 * LINE  # wait cell of those who wait for room
STARVED: Final = 4 * LINE  # not 0: who merged last found no room in the log
MEMBERS: Final = 5 * LINE  # not 0: somebody changes the members
VERSION: Final = 6 * LINE  # grows with each change of the members
SOURCES_HIGH: Final = VERSION + 1  # no source from this slot on has ever been connected
READERS_HIGH: Final = VERSION + 2
SLOWEST: Final = 7 * LINE  # a position that no connected reader is before, seen some time ago
LIMIT: Final = SLOWEST + 1  # entries that flow control lets be pending, seen some time ago
TARGET_NS: Final = 8 * LINE  # constant: how much work may be pending
CELLS: Final = 9 * LINE

# Cells of a source.
STAGED: Final = 0  # entries before it are staged
BOUND: Final = 1  # the promise: 2 * time, or 2 * time + 1
CONTROLS: Final = 2  # control entries among the staged ones, counted
CONSUMED: Final = LINE  # entries before it are in the log
CONTROLS_CONSUMED: Final = LINE + 1
IS_SOURCE: Final = 2 * LINE
SOURCE_CELLS: Final = 3 * LINE

# Cells of a reader.
RELEASED: Final = 0  # entries before it are not needed any more
SPEED: Final = 1  # picoseconds per entry
IS_READER: Final = 2
READER_CELLS: Final = LINE

# A line of `controls`.
CONTROL_NUMBER, CONTROL_RANK, CONTROL_EPOCH, CONTROL_FIELDS = range(4)
CONTROLS_MAX: Final = 64  # control entries of a source that may be staged at once

# Cells of `merge`: what whoever merges hands to the next one.
HEAD: Final = 0  # position of the next entry
LAST_TIME: Final = 1  # the latest watermark that readers have been told
TAIL: Final = 2  # the slowest reader's position when it was looked at last
PARTICIPANTS: Final = 3  # length of `order`
SOURCES_SEEN: Final = 4  # slots looked at in this round
HAS_LISTS: Final = 5  # constant: some input has list columns
COUNTED: Final = 6  # entries before it are counted in freed rows (inputs with lists only)
MERGE_CELLS: Final = 8

# Lines of `merging`, by source; the first ones are what this round works on.
NEXT, END, KEY_TIME, KEY_TIE, LIMIT_TIME, LIMIT_TIE, NEXT_CONTROL, CONTROLS_END, CONNECTED = range(9)
CONTROLS_NEXT, TAKEN_TIME, TAKEN_TIE, MERGING_FIELDS = range(9, 13)

# Lines of `rows`, by input.
ROW_NEXT, ROWS_FREED, BLOCK_FIRST, PICKED, ROWS_FIELDS = range(5)

# A line of `segments`: rows of a block that are copied in one go.
SEGMENT_PICKS, SEGMENT_FROM, SEGMENT_TO, SEGMENT_COUNT, SEGMENT_FIELDS = range(5)

BLOCK: Final = 4096  # entries merged before they are published
LONG_RUN: Final = 16  # rows of one source in a row, from which on each column is one copy
SEGMENTS_MAX: Final = 2 * (BLOCK // LONG_RUN) + 8

CONTROL_ROOM: Final = 1  # staged entries that rows may not take: control entries come in when rows do not
LIMIT_MIN: Final = 64
SPEED_UNKNOWN: Final = 1_000_000  # a reader that has not reported yet: 1 us per entry
TARGET_NS_DEFAULT: Final = 4_000_000

RANK_VARIES: Final = -2  # in `ranks`: each row of the source has its own
TIE_SHIFT: Final = 16  # a tie is (rank + 1) << TIE_SHIFT | slot
MEMBERS_MAX: Final = 1 << TIE_SHIFT

TIME_MIN: Final = -(2**62)
TIME_MAX: Final = 2**62 - 1
NO_BOUND: Final = 2 * TIME_MIN  # nothing promised
NEVER: Final = 2**63 - 1

# Entry kinds and the shape of a ref, as in `api.EntryKind`.
DATA: Final = 0
WATERMARK: Final = 1
CONTROL: Final = 2
INPUT_SHIFT: Final = 2
INDEX_SHIFT: Final = 8
INPUTS_MAX: Final = 1 << (INDEX_SHIFT - INPUT_SHIFT)


class LogView(NamedTuple):
    """What kernels know of a ReadyLog; see the module header."""

    cells: Cells
    sources: Cells  # SOURCE_CELLS per slot
    readers: Cells  # READER_CELLS per slot
    stop: Cells  # cell 0: not 0 when everyone shall stop
    times: Cells  # the log: (capacity,)
    refs: Cells
    staged_times: Cells  # (sources, staging)
    staged_ranks: Cells  # (sources, staging), or (sources, 1) if all ranks are constant
    controls: Cells  # (sources, CONTROLS_MAX, CONTROL_FIELDS)
    inputs: Cells  # constant, by source
    ranks: Cells  # constant, by source; RANK_VARIES where each row has its own
    log_tables: Cells  # constant: (inputs, columns, TABLE_FIELDS) of row stores, and how many columns each input has
    staging_tables: Cells
    column_counts: Cells
    merge: Cells  # from here on private to who merges
    merging: Cells  # (MERGING_FIELDS, sources)
    order: Cells  # sources, least next entry first
    rows: Cells  # (ROWS_FIELDS, inputs)
    picks: Cells  # (inputs, BLOCK): places of staged rows
    segments: Cells  # (inputs, SEGMENTS_MAX, SEGMENT_FIELDS)
    segment_counts: Cells  # by input


@kernel(inline=True)
def tie_of(rank: int, source: int) -> int:
    """Return what orders entries of equal time: by rank, then by slot."""
    return ((rank + 1) << TIE_SHIFT) | source


@kernel(inline=True)
def is_before(time: int, tie: int, other_time: int, other_tie: int) -> bool:
    """Tell whether one key of the total order is before another."""
    return time < other_time or (time == other_time and tie < other_tie)
