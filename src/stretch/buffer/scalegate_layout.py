"""The shared memory of an ElasticScaleGate: which cell means what, and who writes it.

What
    `GateView` is what kernels get. A *node* of the skip list holds one entry in one cache line of 8 cells. Its name is
    `number << 8 | source`: the `number` counts the nodes of a source from 1 and only grows, so no name is ever used
    twice, which is why a compare-exchange on a link cannot take a new node for an old one (ABA). A node's place is
    fixed by its name: each source has a ring of `ring` nodes. 0 names nothing, so zeroed memory is an empty gate.
    HEAD, the node before all, has the name `max_sources` and never changes its place.

Invariants
    L1  A source's nodes stand in the list in the order of their numbers.
    L2  Numbers [FLOOR, NEXT) of a source are in use; NEXT - FLOOR <= ring, and <= ring - 1 while it is a source: the
        last node is for its flush tuple.
    L3  A node is written by its source before it is linked, and afterwards only its links change.

Who writes what (one pair of cache lines each, so that nobody's stores disturb others)
    cells: WAKE_*: anybody. MEMBERS: who changes members; the others: who holds MEMBERS.
    sources: HANDLE and what follows STATE: who holds STATE (the source in a call, or who changes members).
    readers: who holds STATE (the reader in a call, or who changes members).
    passed: row of a reader: who holds its STATE. limits: private to the reader, as above.
    nodes: L3; NEXT by compare-exchange, shortcuts by plain stores of anybody (they are hints, see `scalegate_list`).

Memory order
    Each cell that another thread looks at is stored with release and loaded with acquire; the kernels say which.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from stretch.buffer.layout import RANK_VARIES, TIME_MIN, WATERMARK
from stretch.buffer.rows import Arena, allocate
from stretch.errors import StretchError
from stretch.native import Cells, kernel, require_cells

LINE: Final = 16  # cells of two cache lines: processors fetch them in pairs

# Cells of the gate.
WAKE_READERS: Final = 0  # wait cell of those who wait for entries
WAKE_SOURCES: Final = 1 * LINE  # wait cell of those who wait for nodes
MEMBERS: Final = 2 * LINE  # not 0: somebody changes the members (Paper: the TestAndSet variable)
VERSION: Final = 3 * LINE  # grows with each change of the members
SOURCES_HIGH: Final = VERSION + 1  # no source from this slot on has ever been connected
READERS_HIGH: Final = VERSION + 2
ANCHOR: Final = VERSION + 3  # the last node of the list, while there is no source
CELLS: Final = 4 * LINE

# Cells of a source.
HANDLE: Final = 0  # the last node that it added and published (Paper: the source's handle); 0: not a source
STATE: Final = LINE  # of sources and readers alike
NEXT_NUMBER: Final = LINE + 1  # of the node that it adds next
FLOOR: Final = LINE + 2  # nodes before this number were free when it looked last
FINGER: Final = LINE + 3  # the last node that it added: where its next search starts
LAST_TIME: Final = LINE + 4  # the position of that node
LAST_RANK: Final = LINE + 5
TALL: Final = LINE + 6  # per level of shortcuts, the last node so high that it has seen
SOURCE_CELLS: Final = 2 * LINE

# Cells of a reader. A state of reading is a node (the last one passed), the last watermark told, and the position of
# the entry that comes next.
CURSOR: Final = 0  # what it has fetched
CURSOR_LAST: Final = 1
CURSOR_POSITION: Final = 2
BASE: Final = 3  # what it has released (Paper: the reader's handle)
BASE_LAST: Final = 4
BASE_POSITION: Final = 5
LIMITS: Final = 6  # how many nodes of its row of `limits` count; 0: look again
LIMIT_TIME: Final = 7
LIMIT_RANK: Final = 8
READER_CELLS: Final = 2 * LINE

# Values of STATE.
OUT: Final = 0  # not a member
IDLE: Final = 1
BUSY: Final = 2  # in a call, or held by who changes members

# Cells of a node.
NAME: Final = 0
TIME: Final = 1
RANK: Final = 2
REF: Final = 3
NEXT: Final = 4
SHORTCUTS: Final = 5  # one per level
LEVELS: Final = 3
NODE_CELLS: Final = 8

NOTHING: Final = 0
SOURCE_BITS: Final = 8
SOURCES_MAX: Final = 254
FIRST_NUMBER: Final = 1
NEVER: Final = 2**63 - 1

# Refs of nodes that stand for no entry of a source. The low two bits are a kind: a dummy is a watermark.
DUMMY: Final = WATERMARK | 1 << 2
FLUSH: Final = 3

MARK: Final = -2  # the rank of a promise of a whole time: before control entries and all others

# What calls return besides counts; FULL is that of row stores.
OK: Final = 0
GONE: Final = -3  # not a member
LATE: Final = -4  # before what the source has added or promised


class GateView(NamedTuple):
    """What kernels know of a gate; see the module header."""

    cells: Cells
    sources: Cells  # SOURCE_CELLS per slot
    readers: Cells  # READER_CELLS per slot
    stop: Cells  # cell 0: not 0 when everyone shall stop
    ranks: Cells  # constant, by source; RANK_VARIES where each entry has its own
    nodes: Cells  # NODE_CELLS per node
    passed: Cells  # (readers, width): of each source, the number of its first node that the reader has not passed
    limits: Cells  # (readers, width): handles that the reader must not pass
    ring: int  # nodes per source, a power of two
    width: int
    spread: int  # one of 2**spread nodes has a shortcut, one of 2**(2 * spread) one of the next level, ...


@kernel(inline=True)
def place_of(node: int, ring: int) -> int:
    """Return the first cell of a node."""
    return ((node & ((1 << SOURCE_BITS) - 1)) * ring + ((node >> SOURCE_BITS) & (ring - 1))) * NODE_CELLS


@kernel(inline=True)
def name_of(source: int, number: int) -> int:
    """Return the name of a node."""
    return number << SOURCE_BITS | source


@kernel(inline=True)
def is_before(time: int, rank: int, other_time: int, other_rank: int) -> bool:
    """Tell whether one position is before another."""
    return time < other_time or (time == other_time and rank < other_rank)


def allocate_gate(
    ranks: Iterable[int | None],
    max_readers: int,
    *,
    capacity: int,
    stop: Cells | None = None,
    spread: int = 3,
) -> GateView:
    """Return an empty gate, without members, for as many sources as there are `ranks` (None: each entry has its own).

    `capacity` is the number of nodes of each source: a power of two, at least 4. One of them is for its flush tuple.
    """
    of_sources = [RANK_VARIES if rank is None else rank for rank in ranks]
    _check(of_sources, max_readers, capacity, spread)
    max_sources = len(of_sources)
    width = -(-(max_sources + 1) // LINE) * LINE  # HEAD counts as the node of one more source

    def build(arena: Arena) -> GateView:
        return GateView(
            cells=arena.array(CELLS),
            sources=arena.array(max_sources * SOURCE_CELLS),
            readers=arena.array(max_readers * READER_CELLS),
            stop=np.zeros(1, np.int64) if stop is None else stop,
            ranks=arena.array(max_sources),
            nodes=arena.array((max_sources * capacity + 1) * NODE_CELLS),
            passed=arena.array(max_readers * width),
            limits=arena.array(max_readers * width),
            ring=capacity,
            width=width,
            spread=spread,
        )

    view: GateView = allocate(build)
    for array, name in ((view.cells, "cells"), (view.sources, "sources"), (view.nodes, "nodes"), (view.stop, "stop")):
        require_cells(array, name)
    view.ranks[:] = of_sources
    view.passed[:] = NEVER
    view.cells[ANCHOR] = head = max_sources
    view.nodes[place_of(head, capacity) + TIME] = TIME_MIN
    view.nodes[place_of(head, capacity) + RANK] = MARK
    for source in range(max_sources):
        cells = view.sources[source * SOURCE_CELLS : (source + 1) * SOURCE_CELLS]
        cells[[NEXT_NUMBER, FLOOR, LAST_TIME, LAST_RANK]] = FIRST_NUMBER, FIRST_NUMBER, TIME_MIN, MARK
    return view


def _check(ranks: list[int], max_readers: int, capacity: int, spread: int) -> None:
    """Raise an error unless a gate of these sizes can work."""
    why = ""
    constant = [rank for rank in ranks if rank != RANK_VARIES]
    if capacity < 4 or capacity & (capacity - 1):
        why = f"a capacity of {capacity} is not a power of two from 4 on."
    elif not 0 < len(ranks) <= SOURCES_MAX or max_readers < 1:
        why = f"there are 1 to {SOURCES_MAX} sources and at least one reader, not {len(ranks)} and {max_readers}."
    elif len(set(constant)) < len(constant) or any(rank < 0 for rank in constant):
        why = "constant ranks order the sources, so they are different, and not negative."
    elif not 1 <= spread <= 8:
        why = f"a spread of {spread} is not from 1 to 8."
    if why:
        raise StretchError("An ElasticScaleGate cannot be made like that.", why=why, do="change these arguments.")
