"""proto header"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stretch.native.atomics import compare_exchange, fetch_add, load_acquire, load_relaxed
from stretch.native.jit import kernel
from stretch.native.waiting import WAIT_AGAIN, WAIT_STOPPED, deadline_after, wait_round, wake_all
from stretch.strings.layout import *
from stretch.strings.tokenise import *

_ID_MASK = np.uint64(ID_COUNT_MAX - 1)
_TAG_MASK = np.uint64(2**63 - ID_COUNT_MAX)
_ONE = np.uint64(1)
_EIGHT = np.uint64(8)
_ZERO = np.uint64(0)
_INLINE = np.uint64(INLINE_BYTES)
_NULL_LENGTH = np.uint64(2**64 - 1)
PIECE_ROWS = 1024
WAIT_NS = 60_000_000_000

@kernel
def enter(view):
    control = view.control
    attempt = 0
    deadline = deadline_after(WAIT_NS)
    while True:
        ticket = load_acquire(control, OPENED)
        value = load_acquire(control, INSIDE)
        if value < CLOSED:
            if compare_exchange(control, INSIDE, value, value + 1):
                return DONE
            continue
        status = wait_round(control, OPENED, ticket, attempt, view.stop, deadline)
        if status != WAIT_AGAIN:
            return STOPPED if status == WAIT_STOPPED else TIMED_OUT
        attempt += 1

@kernel
def leave(view):
    if fetch_add(view.control, INSIDE, -1) == CLOSED + 1:
        wake_all(view.control, EMPTIED)

@kernel(inline=True)
def slot_tag(hashed):
    return np.int64((hashed >> _ONE) & _TAG_MASK)

@kernel(inline=True)
def raise_until(records, cell, until):
    while True:
        found = load_relaxed(records, cell)
        if found >= until or compare_exchange(records, cell, found, until):
            return

@kernel
def same_long_text(view, id_, length, first, text, start):
    words = view.words
    base = id_ * RECORD_CELLS
    if words[base + LENGTH] != length or words[base + FIRST] != first:
        return False
    at = np.int64(words[base + SECOND]) + 1
    stop = start + length
    while start < stop:
        word = eight_bytes(text, start, stop)
        if view.texts[at] != word:
            return False
        at += 1
        start += _EIGHT
    return True

@kernel
def take_id(control):
    pass

@kernel
def store_text(view, id_, hashed, length, first, second, until, text, start):
    """-> fill"""
    control = view.control
    words = view.words
    base = id_ * RECORD_CELLS
    if length > _INLINE:
        cells = np.int64((length + np.uint64(7)) >> np.uint64(3))
        while True:
            at = load_relaxed(control, TEXT_END)
            if at + 1 + cells > control[TEXT_LIMIT]:
                return False
            if compare_exchange(control, TEXT_END, at, at + 1 + cells):
                break
        view.texts[at] = (length << np.uint64(32)) | np.uint64(id_)
        second = np.uint64(at)
        stop = start + length
        while start < stop:
            word = eight_bytes(text, start, stop)
            at += 1
            view.texts[at] = word
            start += _EIGHT
    view.records[base + UNTIL] = until
    words[base + LENGTH] = length
    words[base + FIRST] = first
    words[base + SECOND] = second
    view.hashes[id_] = hashed
    return True

@kernel
def find_or_add(view, hashed, length, first, second, until, text, start):
    control = view.control
    if length == _NULL_LENGTH:
        return 0
    masked = hashed & np.uint64(control[HASH_MASK])
    mask = control[TABLE_MASK]
    tag = slot_tag(masked)
    slot = np.int64(masked) & mask
    mine = 0
    while True:
        found = load_acquire(view.table, slot)
        if found == 0:
            if mine == 0:
                number = fetch_add(control, TAKEN, 1)
                if number >= control[ID_LIMIT]:
                    return -1
                free_count = control[FREE_COUNT]
                mine = np.int64(view.free[number]) if number < free_count else control[FRESH] + number - free_count
                if not store_text(view, mine, hashed, length, first, second, until, text, start):
                    view.records[mine * RECORD_CELLS + UNTIL] = FREE
                    fetch_add(control, LOST, 1)
                    return -1
            if compare_exchange(view.table, slot, 0, tag | mine):
                return mine
            continue
        if found & ~(ID_COUNT_MAX - 1) == tag:
            id_ = found & (ID_COUNT_MAX - 1)
            base = id_ * RECORD_CELLS
            if length > _INLINE:
                same = same_long_text(view, id_, length, first, text, start)
            else:
                same = view.words[base + LENGTH] == length and view.words[base + FIRST] == first and view.words[base + SECOND] == second
            if same:
                raise_until(view.records, base + UNTIL, until)
                if mine != 0:
                    view.records[mine * RECORD_CELLS + UNTIL] = FREE
                    fetch_add(control, LOST, 1)
                return id_
        slot = (slot + 1) & mask


@kernel(inline=True)
def find_runs(column, row, last, at, open_run, state_base, until, out_starts, first):
    """fill bounds"""
    pass

@kernel
def intern_words(view, column, until, first, row, last, out_ids, out_starts, which):
    text = column.text
    single = column.single
    bounds = column.bounds
    untils = column.untils
    table = view.table
    words = view.words
    records = view.records
    mask = np.uint64(view.control[TABLE_MASK])
    hash_mask = np.uint64(view.control[HASH_MASK])
    base = out_starts[row - first]
    at = np.uint64(column.row_offsets[row])
    end = np.uint64(column.row_offsets[row+1])
    opened = _ZERO
    edge = _ZERO
    tags = column.kind == HASHTAGS
    while row < last:
        # fill
        done = _ZERO
        while edge < np.uint64(2 * BLOCK_TEXTS):
            if at < end:
                bits = run_bits(single, at, end, tags)
                changes = bits ^ ((bits << _ONE) | opened)
                while changes != _ZERO:
                    bounds[edge] = at + lowest_bit(changes)
                    edge += _ONE
                    changes &= changes - _ONE
                opened = bits >> np.uint64(63)
                at += np.uint64(64)
            else:
                if opened:
                    bounds[edge] = end
                    edge += _ONE
                    opened = _ZERO
                for k in range(done, edge>>_ONE):
                    untils[k] = until[row]
                done = edge >> _ONE
                row += 1
                out_starts[row - first] = base + np.int64(done)
                if row == last:
                    break
                at = np.uint64(column.row_offsets[row])
                end = np.uint64(column.row_offsets[row+1])
        count = edge >> _ONE
        for k in range(done, count):
            untils[k] = until[row]
        for k in range(count):
            start = bounds[np.uint64(2)*k]
            stop = bounds[np.uint64(2)*k+_ONE]
            hashed, one, two = hash_text(text, start, stop)
            hashed &= hash_mask
            found = np.uint64(load_acquire(table, hashed & mask))
            id_ = found & np.uint64(ID_COUNT_MAX - 1)
            cell = id_ * np.uint64(RECORD_CELLS)
            same = (((found ^ np.uint64(slot_tag(hashed))) < np.uint64(ID_COUNT_MAX)) & (words[cell + np.uint64(LENGTH)] == stop-start) & (words[cell + np.uint64(FIRST)] == one) & (words[cell+np.uint64(SECOND)] == two))
            out_ids[np.uint64(base)+k] = np.int64(id_) if same else -1
        for k in range(count):
            id_ = np.int64(out_ids[np.uint64(base)+k])
            if id_ >= 0:
                if load_relaxed(records, id_ * RECORD_CELLS) < untils[k]:
                    raise_until(records, id_ * RECORD_CELLS, untils[k])
            else:
                start = bounds[np.uint64(2)*k]
                stop = bounds[np.uint64(2)*k+_ONE]
                hashed, one, two = hash_text(text, start, stop)
                id_ = find_or_add(view, hashed, stop-start, one, two, untils[k], text, start)
                if id_ < 0:
                    base += np.int64(k)
                    while row > first and out_starts[row - first] > base:
                        row -= 1
                    return NO_ROOM, row
                out_ids[np.uint64(base)+k] = id_
        base += np.int64(count)
        if edge & _ONE:
            bounds[0] = bounds[edge-_ONE]
            edge = _ONE
        else: edge=_ZERO
    return DONE, row

@kernel
def sweep(view, text_need):
    control = view.control
    records = view.records
    mark = load_acquire(control, MARK)
    taken = min(load_acquire(control, TAKEN), control[ID_LIMIT])
    fresh = control[FRESH] + max(0, taken - control[FREE_COUNT])
    live = highest = free_count = 0
    for id_ in range(1, fresh):
        if records[id_ * RECORD_CELLS] <= mark:
            records[id_ * RECORD_CELLS] = FREE
            view.free[free_count] = id_
            free_count += 1
        else:
            live += 1
            highest = id_
    free_count -= fresh - 1 - highest
    control[FRESH] = highest + 1
    control[FREE_COUNT] = free_count
    limit = max(control[ROOM_MIN], max(live, free_count))
    limit = min(limit, len(view.hashes) - 1 - live)
    control[ID_LIMIT] = limit
    control[TAKEN] = 0
    control[LOST] = 0
    control[LIVE] = live
    control[TEXT_LIMIT] = len(view.texts)
    slots = 1
    while slots < FILL * (live + limit):
        slots *= 2
    control[TABLE_MASK] = slots - 1
    table = view.table
    for slot in range(slots):
        table[slot] = 0
    mask = slots - 1
    hash_mask = np.uint64(control[HASH_MASK])
    for id_ in range(1, highest + 1):
        if records[id_ * RECORD_CELLS] > mark:
            masked = view.hashes[id_] & hash_mask
            slot = np.int64(masked) & mask
            while table[slot] != 0:
                slot = (slot + 1) & mask
            table[slot] = slot_tag(masked) | id_
import os
FILL = int(os.environ.get("FILL", "2"))
