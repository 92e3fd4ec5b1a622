"""The skip list of an ElasticScaleGate: filling nodes, finding their places, linking them, and getting them back.

What
    Nodes are linked in the order of their positions `(time, rank)`; a node comes after all that are there with the same
    position. A source fills nodes of its ring, finds the place of the first one, starting from the last node it added
    (its finger), and links it with all that follow it and come before the same node, with one compare-exchange.
    One node of 2**spread is tall: it has a shortcut, a few have two or three. Where a search comes upon a tall node it
    goes on by its highest shortcut that does not lead too far.

Invariants
    N1  The list, by links NEXT, is sorted by position. A link changes only by compare-exchange, to a node that comes
        between, and no node is ever taken out: the front of the list is just left behind.
    N2  No reader is past a handle (of the list as linked, not just by position). See `scalegate_readers`.
    N3  Nodes that a source walks in a call are its finger and what comes after it. They are in use until the call
        ends: a node is free only when all readers are past it (FLOOR), and by N2 none is past this source's handle,
        which is its finger or before it.
    N4  Shortcuts are hints. One is followed only to a node that (a) comes after the current one and not after the goal,
        (b) still has the name that the shortcut says. (b) alone could be stale: a node that has been free since has a
        position at or before those of all handles, so at or before the finger, and (a) refuses it. Of a node that is
        being filled anew one could read cells of both; the name is stored first and looked at last, so (b) refuses.
        So shortcuts are written without compare-exchange, even into nodes that may be free or used again by now: the
        worst that can happen is a hint that nobody follows.
    N5  A walk ends: behind its finger others can add only what their rings hold, since by N3 nothing there gets free.

Who writes what
    As in `scalegate_layout`. `fill`, `link_filled` and what they call run while STATE of the source is held.

Memory order
    A node's cells are stored before the compare-exchange that links it (release), read after the load of the link
    (acquire). A node is used again after an acquire load of what readers stored with release when they had passed it.

Paper: section "Using ScaleGate as TB objects", figure "ScaleGate's skip list, and readers'/sources' handles".
"""

from __future__ import annotations

from typing import Final

from stretch.buffer.scalegate_layout import (
    FINGER,
    FLOOR,
    HANDLE,
    LAST_RANK,
    LAST_TIME,
    LEVELS,
    NAME,
    NEVER,
    NEXT,
    NEXT_NUMBER,
    NOTHING,
    RANK,
    READERS_HIGH,
    REF,
    SHORTCUTS,
    SOURCE_BITS,
    SOURCE_CELLS,
    TALL,
    TIME,
    VERSION,
    GateView,
    is_before,
    name_of,
    place_of,
)
from stretch.native import compare_exchange, kernel, load_acquire, load_relaxed, store_release

PUBLISH_EVERY: Final = 64  # nodes linked before readers may see them, within a call
VERSION_ATTEMPTS: Final = 64  # looks at all members while they change, before a caller comes back later

# --- Filling


@kernel(inline=True)
def fill(view: GateView, node: int, time: int, rank: int, ref: int, following: int) -> None:
    """Make a node that is not in the list."""
    nodes, place = view.nodes, place_of(node, view.ring)
    # In this order, for who follows an old shortcut here (N4): pair with the loads of _leads_on.
    store_release(nodes, place + NAME, node)
    store_release(nodes, place + TIME, time)  # as above
    store_release(nodes, place + RANK, rank)  # as above
    nodes[place + REF] = ref
    # Plain would do: nobody follows links of a node that is not linked; pair with the loads of searches.
    store_release(nodes, place + NEXT, following)
    for level in range(LEVELS):
        store_release(nodes, place + SHORTCUTS + level, NOTHING)  # as above


@kernel(inline=True)
def fill_next(view: GateView, source: int, time: int, rank: int, ref: int) -> None:
    """Make the next node of a source; there is room for it."""
    fill(view, name_of(source, view.sources[source * SOURCE_CELLS + NEXT_NUMBER]), time, rank, ref, NOTHING)


@kernel
def room_of(view: GateView, source: int, wanted: int) -> int:
    """Return how many nodes the source has free, `wanted` if it can; all of them, the last one included."""
    base = source * SOURCE_CELLS
    in_use = view.sources[base + NEXT_NUMBER] - view.sources[base + FLOOR]
    if view.ring - in_use < wanted:
        view.sources[base + FLOOR] = max(view.sources[base + FLOOR], first_held(view, source))
        in_use = view.sources[base + NEXT_NUMBER] - view.sources[base + FLOOR]
    return view.ring - in_use


@kernel
def first_held(view: GateView, source: int) -> int:
    """Return the number of the first node of a source that some reader has not passed; 0 if that is not known.

    Two looks at VERSION make the readers a set that was there at once: a new reader starts where a connected one holds
    its nodes, and that one passes them only after VERSION has grown.
    """
    for _ in range(VERSION_ATTEMPTS):
        version = load_acquire(view.cells, VERSION)  # acquire: pairs with the fetch_add of who changes members
        first = NEVER
        for reader in range(load_acquire(view.cells, READERS_HIGH)):  # as above
            # Acquire: pairs with the store_release of move_base; what the reader read stays before it.
            first = min(first, load_acquire(view.passed, reader * view.width + source))
        if load_acquire(view.cells, VERSION) == version:  # acquire: as above, and after all readers
            return first if first != NEVER else 0
    return 0


# --- Searching


@kernel
def find_place(view: GateView, source: int, node: int, time: int, rank: int) -> tuple[int, int]:
    """Return the last node at or before a position, from `node` on, and the one after it."""
    nodes, ring = view.nodes, view.ring
    short = (1 << view.spread) - 1
    while True:
        following = NOTHING
        if (node >> SOURCE_BITS) & short == 0:
            following = _by_shortcut(view, node, time, rank)
        if following == NOTHING:
            # Acquire: pairs with the compare_exchange that linked it.
            following = load_acquire(nodes, place_of(node, ring) + NEXT)
            if following == NOTHING:
                return node, following
            place = place_of(following, ring)
            if is_before(time, rank, nodes[place + TIME], nodes[place + RANK]):
                return node, following
        node = following
        if (node >> SOURCE_BITS) & short == 0:
            _note_tall(view, source, node)


@kernel
def height_of(view: GateView, node: int) -> int:
    """Return the number of shortcuts of a node."""
    number, height = node >> SOURCE_BITS, 0
    while height < LEVELS and number & ((1 << (height + 1) * view.spread) - 1) == 0:
        height += 1
    return height


@kernel
def _by_shortcut(view: GateView, node: int, time: int, rank: int) -> int:
    """Return the node to which the highest useful shortcut leads, or NOTHING."""
    place = place_of(node, view.ring) + SHORTCUTS
    for level in range(height_of(view, node) - 1, -1, -1):
        goal = load_acquire(view.nodes, place + level)  # acquire: pairs with the store_release of _link_shortcuts
        if goal != NOTHING and _leads_on(view, node, goal, time, rank):
            return goal
    return NOTHING


@kernel
def _leads_on(view: GateView, node: int, goal: int, time: int, rank: int) -> bool:
    """Tell whether a shortcut from `node` to `goal` is one on the way to a position (N4)."""
    nodes = view.nodes
    here, there = place_of(node, view.ring), place_of(goal, view.ring)
    # Both acquire: pair with the stores of fill; the look at the name stays after them.
    goal_time = load_acquire(nodes, there + TIME)
    goal_rank = load_acquire(nodes, there + RANK)  # as above
    return (
        load_relaxed(nodes, there + NAME) == goal
        and is_before(nodes[here + TIME], nodes[here + RANK], goal_time, goal_rank)
        and not is_before(time, rank, goal_time, goal_rank)
    )


@kernel
def _note_tall(view: GateView, source: int, node: int) -> None:
    """Remember a tall node: the next tall one of this source may hang on it."""
    base = source * SOURCE_CELLS + TALL
    for level in range(height_of(view, node)):
        view.sources[base + level] = node


# --- Linking


@kernel
def link_filled(view: GateView, source: int, count: int) -> None:
    """Link the next `count` nodes of a source, which are filled, sorted and chained, and publish them."""
    base = source * SOURCE_CELLS
    node, finger = name_of(source, view.sources[base + NEXT_NUMBER]), view.sources[base + FINGER]
    unpublished = 0
    end = node + (count << SOURCE_BITS)
    while node != end:
        linked = _link_run(view, source, finger, node, (end - node) >> SOURCE_BITS)
        _link_tall(view, source, node, linked)
        node += linked << SOURCE_BITS
        finger = node - (1 << SOURCE_BITS)
        unpublished += linked
        if unpublished >= PUBLISH_EVERY:
            store_release(view.sources, base + HANDLE, finger)  # pairs with the load_acquire of readers (N2)
            unpublished = 0
    view.sources[base + NEXT_NUMBER] += count
    view.sources[base + FINGER] = finger
    place = place_of(finger, view.ring)
    view.sources[base + LAST_TIME], view.sources[base + LAST_RANK] = view.nodes[place + TIME], view.nodes[place + RANK]
    store_release(view.sources, base + HANDLE, finger)  # pairs with the load_acquire of readers (N2)


@kernel
def _link_run(view: GateView, source: int, start: int, first: int, most: int) -> int:
    """Link a chain of up to `most` filled nodes, as far as nobody's node comes between them; return how many."""
    nodes, ring = view.nodes, view.ring
    place = place_of(first, ring)
    time, rank = nodes[place + TIME], nodes[place + RANK]
    before, after = find_place(view, source, start, time, rank)
    while True:
        count = most
        if after != NOTHING:
            place = place_of(after, ring)
            count = _count_before(view, first, most, nodes[place + TIME], nodes[place + RANK])
        last = first + ((count - 1) << SOURCE_BITS)
        # Plain would do: nobody else knows these nodes yet.
        store_release(nodes, place_of(last, ring) + NEXT, after)
        # Release: publishes the nodes to the load_acquire of searches and readers. It fails if somebody else came in.
        if compare_exchange(nodes, place_of(before, ring) + NEXT, after, first):
            return count
        if count < most:
            store_release(nodes, place_of(last, ring) + NEXT, last + (1 << SOURCE_BITS))  # as above
        before, after = find_place(view, source, before, time, rank)


@kernel
def _count_before(view: GateView, first: int, most: int, time: int, rank: int) -> int:
    """Count the nodes of a chain before a position that the first one is before."""
    count = 1
    while count < most:
        place = place_of(first + (count << SOURCE_BITS), view.ring)
        if not is_before(view.nodes[place + TIME], view.nodes[place + RANK], time, rank):
            break
        count += 1
    return count


@kernel(inline=True)
def _link_tall(view: GateView, source: int, first: int, count: int) -> None:
    """Give shortcuts to the tall ones of some nodes of a source that have been linked."""
    step = 1 << view.spread
    number = first >> SOURCE_BITS
    end = number + count
    number = (number + step - 1) & ~(step - 1)
    while number < end:
        _link_shortcuts(view, source, name_of(source, number))
        number += step


@kernel
def _link_shortcuts(view: GateView, source: int, node: int) -> None:
    """Put a node between a tall one before it and where that one's shortcut leads, at each of its levels (N4)."""
    nodes, base = view.nodes, source * SOURCE_CELLS + TALL
    here = place_of(node, view.ring)
    for level in range(height_of(view, node)):
        before = view.sources[base + level]
        place = place_of(before, view.ring)
        # A hint only: the name may change right after.
        if before != NOTHING and load_relaxed(nodes, place + NAME) == before:
            # All three: pair with each other and with the load_acquire of _by_shortcut.
            store_release(nodes, here + SHORTCUTS + level, load_acquire(nodes, place + SHORTCUTS + level))
            # store_release: as above; the node's own shortcut is written before anybody finds the node.
            store_release(nodes, place + SHORTCUTS + level, node)
        view.sources[base + level] = node
