"""The shared memory of a ReadyLog: which cell means what, and who writes it.

What
    `LogView` is what kernels get: int64 arrays, so that every kernel of the log is compiled once for all schemas. The
    log proper is `times` and `refs`, rings of `capacity` entries by position, and one row store per input: of the same
    capacity, or, where rows are kept longer than their entries, of as many as `Keeping` says. Each source stages in
    rings of its own: `staged_times`, `staged_ranks` and the rows of its input's staging store. A staged entry and its
    row have the same number. Control entries take a number (and leave its row unused); what they say stands in lines of
    the source's cells.
    Positions and numbers count from 0 and only grow; a ring is indexed by their low bits.

Invariants
    L1  slowest reader's position <= position of what is merged next <= slowest position + capacity.
    L2  CONSUMED <= STAGED <= CONSUMED + staging capacity, for each source.
    L3  Entries [position of a connected reader, READY) and their rows are never written. Where rows are kept, neither
        are those of an input whose time is at most KEEP before that of the last entry that all readers have released.

Who writes what (one line pair of the cache each, so that nobody's stores disturb others)
    cells: READY, ROWS_FULL, MERGE: who merges, holding the lock bit of MERGE; requests: anybody.
           MEMBERS, VERSION, *_HIGH: who changes members, holding MEMBERS. SLOWEST, LIMIT: anybody who has looked.
    sources: STAGED to SHORT_OF_ITEMS, CONTROL_LINES: the source (BOUND also who connects it, before it runs).
           CONSUMED, CONTROLS_CONSUMED: who merges. IS_SOURCE: who changes members.
    readers: RELEASED, SPEED: the reader (also who connects it, before it runs). IS_READER: who changes members.
    times, refs, rows of the log: who merges. staged_*, staging rows: the source.
    merging: who merges; nobody else reads it, and the lock hands it on.

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
ROWS_FULL: Final = STARVED + 1  # not 0: no room for rows, all of which are kept, whatever readers release
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
SHORT_OF_ITEMS: Final = 3  # CONSUMED when a list found no room; no rows come in before it grows
CONSUMED: Final = LINE  # entries before it are in the log
CONTROLS_CONSUMED: Final = LINE + 1
IS_SOURCE: Final = 2 * LINE
INPUT: Final = IS_SOURCE + 1  # constant
RANK: Final = IS_SOURCE + 2  # constant; RANK_VARIES where each row has its own
CONTROL_LINES: Final = 3 * LINE  # ring of what control entries say
CONTROLS_MAX: Final = 64  # control entries of a source that may be staged at once
CONTROL_NUMBER, CONTROL_RANK, CONTROL_EPOCH, CONTROL_FIELDS = range(4)
SOURCE_CELLS: Final = CONTROL_LINES + CONTROLS_MAX * CONTROL_FIELDS

# Cells of a reader.
RELEASED: Final = 0  # entries before it are not needed any more
SPEED: Final = 1  # picoseconds per entry
IS_READER: Final = 2
READER_CELLS: Final = LINE

# Cells of `merging`: what whoever merges hands to the next one. First of the log,
HEAD: Final = 0  # position of the next entry
LAST_TIME: Final = 1  # the latest watermark that readers have been told
TAIL: Final = 2  # the slowest reader's position when it was looked at last
PARTICIPANTS: Final = 3  # sources that take part in this round
SOURCES_SEEN: Final = 4  # slots looked at in this round
COUNTED: Final = 5  # entries before it are counted in ROWS_FREED (logs with lists only)
HAS_LISTS: Final = 6  # constant: some input has list columns
INPUTS_AT: Final = 7  # constant: where the inputs begin
KEEPS_ROWS: Final = 8  # constant: rows are kept longer than their entries
RELEASED_TIME: Final = 9  # time of the last entry that all readers have released (logs that keep rows only)

# then of each source,
MERGING_SOURCES: Final = LINE  # where they begin
NEXT, END, STOP, KEY_TIME, KEY_TIE, FIXED_TIE, OF_INPUT, ORDER = range(8)  # STOP: END, or the next control entry
LIMIT_TIME, LIMIT_TIE, TAKEN_TIME, TAKEN_TIE, CONTROLS_NEXT, CONTROLS_END, CONNECTED = range(8, 15)
MERGING_CELLS: Final = LINE  # of a source; ORDER of the k-th one is the source with the k-th least key

# and of each input, with places of staged rows to gather, and segments: rows that are copied in one go.
BLOCK: Final = 4096  # entries merged before they are published
LONG_RUN: Final = 16  # rows of one source in a row, from which on each column is one copy
ROW_NEXT, ROWS_FREED, PICKED, SEGMENTS, OPEN = range(5)  # OPEN: the segment that gathers, or -1
ROWS_MAX, KEEP, KEPT_TIMES = range(5, 8)  # constant: rows of the store; how long they are kept; address of their times
PICKS: Final = LINE
SEGMENT_PICKS, SEGMENT_FROM, SEGMENT_TO, SEGMENT_COUNT, SEGMENT_FIELDS = range(5)
SEGMENT_LINES: Final = PICKS + BLOCK
SEGMENTS_MAX: Final = 2 * (BLOCK // LONG_RUN) + 8
INPUT_CELLS: Final = SEGMENT_LINES + SEGMENTS_MAX * SEGMENT_FIELDS

CONTROL_ROOM: Final = 1  # staged entries that rows may not take: control entries come in when rows do not
LIMIT_MIN: Final = 8
SPEED_UNKNOWN: Final = 1_000_000  # a reader that has not reported yet: 1 us per entry
TARGET_NS_DEFAULT: Final = 2_000_000

RANK_VARIES: Final = -2
TIE_SHIFT: Final = 16  # a tie is (rank + 1) << TIE_SHIFT | slot
MEMBERS_MAX: Final = 1 << TIE_SHIFT

TIME_MIN: Final = -(2**62)
TIME_MAX: Final = 2**62 - 1
NO_BOUND: Final = 2 * TIME_MIN  # nothing promised
NEVER: Final = 2**63 - 1

KEPT_ROWS_PER_PIECE: Final = 1 << 19  # rows whose memory is given back together

# Entry kinds and the shape of a ref, as in `api.EntryKind`.
DATA: Final = 0
WATERMARK: Final = 1
CONTROL: Final = 2
INPUT_SHIFT: Final = 2
INDEX_SHIFT: Final = 8
INPUTS_MAX: Final = 1 << (INDEX_SHIFT - INPUT_SHIFT)


class LogView(NamedTuple):
    """What kernels know of a ReadyLog; see the module header. Few arrays: each costs in every call of a kernel."""

    cells: Cells
    sources: Cells  # SOURCE_CELLS per slot
    readers: Cells  # READER_CELLS per slot
    stop: Cells  # cell 0: not 0 when everyone shall stop
    times: Cells  # the log: (capacity,)
    refs: Cells
    staged_times: Cells  # (sources, staging)
    staged_ranks: Cells  # (sources, staging), or (sources, 1) if all ranks are constant
    tables: Cells  # constant: (2 * inputs, columns, TABLE_FIELDS) of row stores: log and stagings of each input
    column_counts: Cells  # constant, by input
    merging: Cells  # private to who merges


@kernel(inline=True)
def tie_of(rank: int, source: int) -> int:
    """Return what orders entries of equal time: by rank, then by slot."""
    return ((rank + 1) << TIE_SHIFT) | source


@kernel(inline=True)
def is_before(time: int, tie: int, other_time: int, other_tie: int) -> bool:
    """Tell whether one key of the total order is before another."""
    return time < other_time or (time == other_time and tie < other_tie)


@kernel(inline=True)
def source_at(source: int) -> int:
    """Return where the cells of a source begin in `merging`."""
    return MERGING_SOURCES + source * MERGING_CELLS


@kernel(inline=True)
def input_at(merging: Cells, number: int) -> int:
    """Return where the cells of an input begin in `merging`."""
    return merging[INPUTS_AT] + number * INPUT_CELLS


@kernel(inline=True)
def order_at(place: int) -> int:
    """Return the cell of `merging` that names the source with the `place`-th least key."""
    return MERGING_SOURCES + place * MERGING_CELLS + ORDER
