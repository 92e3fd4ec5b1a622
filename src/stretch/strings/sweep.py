"""Making room: free the ids that nothing can name any more, rebuild the table, move long texts together.

What
    `make_room` closes the dictionary and does all three at once, so that there is one way for a dictionary to change
    other than by adding. It is called when the ids that the last sweep allowed are used up: at least as many as were
    alive then, and at least as many as it freed.

Invariants
    W1  Sweeping costs O(1) for each id that is added. A sweep looks at every id below FRESH once; these are the live
        ones and the free ones, and it allows no fewer additions before the next sweep than there are of either. The
        table has less than eight slots for each id that is alive or allowed. Long texts are moved only when half of
        `texts` has become garbage, and TEXT_LIMIT allows a cell of text for each cell alive and two for each id.
    W2  Memory follows what is alive: at most twice the live ids, or the highest id alive (ids cannot move) if that is
        more. Free ids are given out lowest first, so high ones die out; `give_back` in `dictionary` returns memory.
    W3  After a sweep the table is at most half full, with all the ids that may be added: a lookup always ends.

Who writes what, and memory order: `kernels` and `access`; a sweep is alone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stretch.native.atomics import Cells, load_acquire
from stretch.native.jit import kernel
from stretch.strings.access import close, open_again
from stretch.strings.kernels import slot_tag
from stretch.strings.layout import (
    DONE,
    FREE,
    FREE_COUNT,
    FRESH,
    FULL,
    HASH_MASK,
    ID_LIMIT,
    IDS_TOUCHED,
    INLINE_BYTES,
    LENGTH,
    LIVE,
    LOST,
    MARK,
    RECORD_CELLS,
    ROOM_MIN,
    SECOND,
    SLOTS_TOUCHED,
    SWEEPS,
    TABLE_MASK,
    TAKEN,
    TEXT_END,
    TEXT_LIMIT,
    TEXTS_TOUCHED,
    UNTIL,
    DictionaryView,
)
from stretch.strings.tokenise import Long

_3: Final = np.uint64(3)
_7: Final = np.uint64(7)
_32: Final = np.uint64(32)
_LOW_32: Final = np.uint64(2**32 - 1)
_INLINE: Final = np.uint64(INLINE_BYTES)


@kernel
def make_room(view: DictionaryView, longest: Long, always: bool) -> Long:
    """Sweep; not if another thread has just made room, unless `always`. Return DONE, FULL, STOPPED or TIMED_OUT.

    DONE means room for at least one more text of `longest` bytes.
    """
    control = view.control
    status = close(view)
    if status != DONE:
        return status
    cells = 1 + (longest + 7) // 8
    has_room = control[TAKEN] < control[ID_LIMIT] and control[TEXT_END] + cells <= control[TEXT_LIMIT]
    if always or not has_room:
        sweep(view, cells)
        has_room = control[ID_LIMIT] > 0 and control[TEXT_END] + cells <= control[TEXT_LIMIT]
    open_again(view)
    return DONE if has_room else FULL


@kernel
def fresh_end(control: Cells) -> Long:
    """Return the id above all that have been given out."""
    # acquire: pairs with the fetch_add of whoever takes ids, for those who look from outside
    taken = min(load_acquire(control, TAKEN), control[ID_LIMIT])
    return control[FRESH] + max(0, taken - control[FREE_COUNT])


@kernel
def sweep(view: DictionaryView, cells: Long) -> None:
    """Free, rebuild and move; allow new ids, and at least `cells` of text. The caller is alone."""
    control = view.control
    ids_end = fresh_end(control)
    text_end = control[TEXT_END]
    # acquire: pairs with the store of `release`
    live_cells = _free_ids(view, ids_end, load_acquire(control, MARK))
    if 2 * live_cells <= text_end:
        _move_texts_together(view)
    live = control[LIVE]
    allowed = max(control[ROOM_MIN], max(live, control[FREE_COUNT]))
    control[ID_LIMIT] = min(allowed, len(view.hashes) - 1 - live)
    control[TAKEN] = 0
    control[LOST] = 0
    _rebuild_table(view)
    room = max(cells, max(live_cells, 2 * (live + allowed)))
    control[TEXT_LIMIT] = min(control[TEXT_END] + room, len(view.texts))
    control[SWEEPS] += 1
    control[IDS_TOUCHED] = max(control[IDS_TOUCHED], ids_end)
    control[TEXTS_TOUCHED] = max(control[TEXTS_TOUCHED], text_end)
    control[SLOTS_TOUCHED] = max(control[SLOTS_TOUCHED], control[TABLE_MASK] + 1)


@kernel
def _free_ids(view: DictionaryView, ids_end: Long, mark: Long) -> Long:
    """Free the ids that nothing names any more, lost and unused ones included; return the cells of live long texts."""
    control, records, words, free = view.control, view.records, view.words, view.free
    live: Long
    highest: Long
    live = highest = free_count = live_cells = np.int64(0)
    for id_ in range(1, ids_end):
        record = id_ * RECORD_CELLS
        if records[record + UNTIL] <= mark:
            records[record + UNTIL] = FREE
            free[free_count] = id_
            free_count += 1
        else:
            live += 1
            highest = id_
            if words[record + LENGTH] > _INLINE:
                live_cells += 1 + np.int64((words[record + LENGTH] + _7) >> _3)
    control[LIVE] = live
    control[FRESH] = highest + 1
    control[FREE_COUNT] = highest - live  # those above are fresh again
    return live_cells


@kernel
def _rebuild_table(view: DictionaryView) -> None:
    control, table, hashes = view.control, view.table, view.hashes
    slots = 2
    while slots < 2 * (control[LIVE] + control[ID_LIMIT]):
        slots *= 2
    for k in range(slots):
        table[k] = 0
    mask = slots - 1
    hash_mask = np.uint64(control[HASH_MASK])
    for id_ in range(1, control[FRESH]):
        if view.records[id_ * RECORD_CELLS + UNTIL] != FREE:
            hashed = hashes[id_] & hash_mask
            slot = np.int64(hashed & np.uint64(mask))
            while table[slot] != 0:
                slot = (slot + 1) & mask
            table[slot] = slot_tag(hashed) | id_
    control[TABLE_MASK] = mask


@kernel
def _move_texts_together(view: DictionaryView) -> None:
    """Move live long texts down over the garbage between them."""
    control, records, words, texts = view.control, view.records, view.words, view.texts
    end = control[TEXT_END]
    at = kept = np.int64(0)
    while at < end:
        header = texts[at]
        length = header >> _32
        record = np.int64(header & _LOW_32) * RECORD_CELLS
        cells = 1 + np.int64((length + _7) >> _3)
        # A header stays when its id has gone, and the id may have got another text since, elsewhere or inline.
        is_live = words[record + LENGTH] == length and words[record + SECOND] == np.uint64(at)
        if is_live and records[record + UNTIL] != FREE:
            if kept != at:
                for k in range(cells):
                    texts[kept + k] = texts[at + k]
                words[record + SECOND] = np.uint64(kept)
            kept += cells
        at += cells
    control[TEXT_END] = kept
