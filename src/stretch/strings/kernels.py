"""Interning: from rows of text to ids, without a lock.

What
    `intern_rows` takes rows block by block (some 128 texts) through simple loops: find where the texts are; hash
    them; read the slots that the hashes name; compare with the records that the slots name; settle the rest, which
    is adding the texts that this did not find, and raising `until` where it is too low. The two loops in the middle
    do little else than missing the cache, without a branch that depends on the data, so that the misses of many
    texts overlap.

Invariants
    S1  A slot of the table changes from empty to one id and never again, until a sweep, which is alone, rebuilds all.
    S2  A record is written before its id is in the table, by the one thread that took the id, and afterwards only
        its UNTIL changes, upwards, until a sweep frees it.
    S3  **No text has two ids.** Everybody looks for a text through the same slots in the same order (its hash, one
        slot on at a time) and adds it at the first empty one, by a compare_exchange from empty. Of two that add the
        same text one succeeds; the other finds the winner's id in that slot, compares and takes it. As slots do not
        change back (S1), no text is behind an empty slot. A sweep keeps one id per text, for it only moves ids.
    S4  **No two texts have one id**: ids found are compared byte by byte; hashes and tags only save comparisons. An id
        is given out once between two sweeps, because TAKEN only grows.
    S5  **No id is given out again while something may name it.** A sweep frees ids with `until <= MARK` only. MARK
        comes from the engine: everything that named such an id has left. What may name it later has found the id in
        the table and raised its `until` above MARK before it went out (TOO_LATE refuses other times), and a sweep
        waits for those inside. So do decoders: an undecoded result holds its ids by `until`, not by being inside.
    S6  What is alone may stop between two rows only: a row with NO_ROOM is done again from its beginning. What it
        had added is found then.

Who writes what
    | what                        | who                                                         |
    |-----------------------------|-------------------------------------------------------------|
    | records, hashes             | who took the id, before it is in the table; sweeps           |
    | records[UNTIL] afterwards   | everyone inside, by compare_exchange, upwards                |
    | table                       | everyone inside, by compare_exchange from 0; sweeps          |
    | texts                       | who moved TEXT_END past it by compare_exchange; sweeps       |
    | TAKEN, LOST                 | everyone inside, by fetch_add; sweeps                        |
    | MARK                        | the engine, upwards                                          |
    | free, the limits and sizes  | sweeps                                                       |
    | TextColumn, outputs         | the one thread that interns them                             |

Memory order
    The compare_exchange that puts an id into the table releases its record and hash; the load_acquire of the slot
    pairs with it. A worker reads `hashes[id]` without being inside: it got the id through a buffer whose release and
    acquire come after these. UNTIL needs no order of its own: only sweeps read it, and `access` orders these.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stretch.native.atomics import Cells, compare_exchange, fetch_add, load_acquire, load_relaxed
from stretch.native.jit import kernel
from stretch.strings.access import enter, leave
from stretch.strings.layout import (
    BASE,
    DONE,
    FIRST,
    FIRST_ROW,
    FREE,
    FREE_COUNT,
    FRESH,
    HASH_MASK,
    HASHED,
    ID_COUNT_MAX,
    ID_LIMIT,
    INLINE_BYTES,
    LATEST,
    LENGTH,
    LOST,
    MARK,
    NO_ROOM,
    NULL_STOP,
    ONE,
    OPEN,
    RECORD_CELLS,
    ROOM,
    ROW,
    SECOND,
    SLOT,
    STATUS,
    TABLE_MASK,
    TAKEN,
    TEXT_END,
    TEXT_LIMIT,
    TWO,
    UNSETTLED,
    UNTIL,
    VALUES,
    DictionaryView,
    Ids,
    Longs,
    TextColumn,
    Words,
)
from stretch.strings.rows import begin_row, end_of_piece, find_runs, find_values, keep_distinct
from stretch.strings.tokenise import Long, Text, Word, eight_bytes, hash_text

_0: Final = np.uint64(0)
_1: Final = np.uint64(1)
_2: Final = np.uint64(2)
_3: Final = np.uint64(3)
_7: Final = np.uint64(7)
_8: Final = np.uint64(8)
_32: Final = np.uint64(32)
_RECORD_CELLS: Final = np.uint64(RECORD_CELLS)
_UNTIL: Final = np.uint64(UNTIL)
_LENGTH: Final = np.uint64(LENGTH)
_FIRST: Final = np.uint64(FIRST)
_SECOND: Final = np.uint64(SECOND)
_INLINE: Final = np.uint64(INLINE_BYTES)
_NULL_STOP: Final = np.uint64(NULL_STOP)
_ID_COUNT: Final = np.uint64(ID_COUNT_MAX)
_ID_MASK: Final = np.uint64(ID_COUNT_MAX - 1)
_TAG_MASK: Final = np.uint64(2**63 - ID_COUNT_MAX)

_MISSING: Final = -1  # stands for an id


@kernel
def intern_rows(
    view: DictionaryView, column: TextColumn, until: Longs, ids: Ids, starts: Longs, first: Long, row: Long, last: Long
) -> tuple[Long, Long]:
    """Intern rows from `row` to `last`; return a status and the row it stopped at.

    Row r has the time until[r]; its ids go to ids[starts[r - first] : starts[r - first + 1]]. starts[row - first]
    says where the output goes on.
    """
    place = column.place
    place[FIRST_ROW] = first
    place[ROOM] = len(ids)
    status: Long = np.int64(DONE)
    while status == DONE and row < last:
        status = enter(view)
        if status != DONE:
            break
        stop = end_of_piece(column, row, last)
        place[LATEST] = load_acquire(view.control, MARK)  # acquire: pairs with the compare_exchange of `release`
        place[BASE] = starts[row - first]
        place[OPEN] = 0
        begin_row(column, until, starts, row, stop, np.int64(0))
        status = place[STATUS]
        while status == DONE and place[ROW] < stop:
            if column.kind == VALUES:
                count = find_values(column, until, starts, stop)
            else:
                count = find_runs(column, until, starts, stop)
            _hash_texts(column, count, np.uint64(view.control[HASH_MASK]))
            output = ids[place[BASE] :]
            settled = _settle(view, column, count, _look_up(view, column, count, output), output)
            place[BASE] += settled
            status = place[STATUS] if settled == count else NO_ROOM
        leave(view)
        begun, row = row, place[ROW]
        while starts[row - first] > place[BASE]:  # S6
            row -= 1
        if column.distinct:
            keep_distinct(column.seen, place, ids, starts, begun - first, row - first)
    return status, row


@kernel
def _hash_texts(column: TextColumn, count: Long, hash_mask: Word) -> None:
    bounds, text = column.bounds, column.text
    hashes, ones, twos = column.found[HASHED], column.found[ONE], column.found[TWO]
    for number in range(count):
        k = np.uint64(number)
        start, stop = bounds[_2 * k], bounds[_2 * k + _1]
        if stop == _NULL_STOP:
            stop = start  # anything: the lengths will differ
        hashed, ones[k], twos[k] = hash_text(text, start, stop)
        hashes[k] = hashed & hash_mask


@kernel
def _look_up(view: DictionaryView, column: TextColumn, count: Long, ids: Ids) -> Long:
    """Give texts the id that the first slot of their hash names, or _MISSING if that is not theirs.

    Return how many are to be settled: the missing ones and those whose `until` is to be raised.
    """
    bounds, untils, table, words = column.bounds, column.untils, view.table, view.words
    hashes, ones, twos, slots = column.found[HASHED], column.found[ONE], column.found[TWO], column.found[SLOT]
    todo = column.found[UNSETTLED]
    mask = np.uint64(view.control[TABLE_MASK])
    for number in range(count):
        k = np.uint64(number)
        # acquire: pairs with the compare_exchange of `find_or_add`, which publishes the record
        slots[k] = np.uint64(load_acquire(table, hashes[k] & mask))
    todo_count = _0
    for number in range(count):
        k = np.uint64(number)
        length = bounds[_2 * k + _1] - bounds[_2 * k]
        id_ = slots[k] & _ID_MASK
        record = id_ * _RECORD_CELLS
        # `&`, not `and`: one branch less for each. The second eight bytes of a long text are not in its record.
        same = (
            ((slots[k] ^ np.uint64(slot_tag(hashes[k]))) < _ID_COUNT)
            & (words[record + _LENGTH] == length)
            & (words[record + _FIRST] == ones[k])
            & (words[record + _SECOND] == twos[k])
            & (length <= _INLINE)
        )
        ids[k] = np.int32(id_) if same else np.int32(_MISSING)
        todo[todo_count] = k
        # Looking at `until` in a loop of its own, with a branch, took a third of all time.
        todo_count += np.uint64((not same) | (load_relaxed(view.records, record + _UNTIL) < untils[k]))
    return np.int64(todo_count)


@kernel
def _settle(view: DictionaryView, column: TextColumn, count: Long, todo_count: Long, ids: Ids) -> Long:
    """Find or add the texts that `_look_up` missed, raise `until`; return how many of all texts are done."""
    bounds, untils, todo = column.bounds, column.untils, column.found[UNSETTLED]
    for number in range(todo_count):
        k = todo[number]
        if ids[k] != _MISSING:
            _raise_until(view.records, np.int64(ids[k]) * RECORD_CELLS + UNTIL, untils[k])
            continue
        start, stop = bounds[_2 * k], bounds[_2 * k + _1]
        id_ = np.int64(0) if stop == _NULL_STOP else find_or_add(view, column.text, start, stop, untils[k])
        if id_ == _MISSING:
            return np.int64(k)
        ids[k] = id_
    return count


@kernel(inline=True)
def _raise_until(records: Cells, cell: Long, until: Long) -> None:
    found = load_relaxed(records, cell)
    # Pairs with itself in other threads: the highest stays. `close` publishes it to the sweep.
    while found < until and not compare_exchange(records, cell, found, until):
        found = load_relaxed(records, cell)


@kernel(inline=True)
def slot_tag(hashed: Word) -> Long:
    """Return the bits of a hash that go into a slot, as they stand there."""
    return np.int64((hashed >> _1) & _TAG_MASK)


@kernel
def find_or_add(view: DictionaryView, text: Text, start: Word, stop: Word, until: Long) -> Long:
    """Return the id of a text, raised to `until`; a new one if it has none (S3); _MISSING if there is no room."""
    table, records = view.table, view.records
    full_hash, one, two = hash_text(text, start, stop)
    hashed = full_hash & np.uint64(view.control[HASH_MASK])
    tag = slot_tag(hashed)
    mask = view.control[TABLE_MASK]
    place: Long = np.int64(hashed & np.uint64(mask))
    own: Long = np.int64(0)
    while True:
        # acquire: pairs with the compare_exchange below, which publishes the record
        slot = load_acquire(table, place)
        if slot == 0:
            if own == 0:
                own = _new_record(view, text, start, stop, full_hash, one, two, until)
                if own == 0:
                    return _MISSING
            # Publishes the record and the hash to the load_acquire of whoever looks it up.
            if compare_exchange(table, place, 0, tag | own):
                return own
            continue  # somebody was faster: look what is there now
        id_ = slot & (ID_COUNT_MAX - 1)
        record = id_ * RECORD_CELLS
        if slot - id_ == tag and _is_text(view.words, view.texts, record, text, start, stop, one, two):
            _raise_until(records, record + UNTIL, until)
            if own != 0:
                _lose(view.control, records, own)
            return id_
        place = (place + 1) & mask


@kernel
def _is_text(
    words: Words, texts: Words, record: Long, text: Text, start: Word, stop: Word, one: Word, two: Word
) -> bool:
    if words[record + LENGTH] != stop - start or words[record + FIRST] != one:
        return False
    if stop - start <= _INLINE:
        return bool(words[record + SECOND] == two)
    index = np.int64(words[record + SECOND])
    at = start
    while at < stop:
        index += 1
        if texts[index] != eight_bytes(text, at, stop):
            return False
        at += _8
    return True


@kernel
def _new_record(
    view: DictionaryView,
    text: Text,
    start: Word,
    stop: Word,
    hashed: Word,
    one: Word,
    two: Word,
    until: Long,
) -> Long:
    """Take an id and write its record; return 0 if there is no room."""
    control, words = view.control, view.words
    number = fetch_add(control, TAKEN, 1)  # pairs with itself in other threads: each gets another number
    if number >= control[ID_LIMIT]:
        return 0
    free_count = control[FREE_COUNT]
    id_ = np.int64(view.free[number]) if number < free_count else control[FRESH] + number - free_count
    if stop - start > _INLINE:
        index = _store_long_text(control, view.texts, id_, text, start, stop)
        if index < 0:
            _lose(control, view.records, id_)
            return 0
        two = np.uint64(index)
    record = id_ * RECORD_CELLS
    words[record + LENGTH] = stop - start
    words[record + FIRST] = one
    words[record + SECOND] = two
    view.records[record + UNTIL] = until
    view.hashes[id_] = hashed
    return id_


@kernel
def _lose(control: Cells, records: Cells, id_: Long) -> None:
    """Leave an id to the next sweep: it is in no slot and names nothing."""
    records[id_ * RECORD_CELLS + UNTIL] = FREE
    fetch_add(control, LOST, 1)  # pairs with itself in other threads; read by `live_count`


@kernel
def _store_long_text(control: Cells, texts: Words, id_: Long, text: Text, start: Word, stop: Word) -> Long:
    cells: Long = 1 + np.int64((stop - start + _7) >> _3)
    while True:
        index = load_relaxed(control, TEXT_END)
        if index + cells > control[TEXT_LIMIT]:
            return -1
        # Pairs with itself in other threads: each gets cells of its own.
        if compare_exchange(control, TEXT_END, index, index + cells):
            break
    texts[index] = ((stop - start) << _32) | np.uint64(id_)
    at = start
    for cell in range(index + 1, index + cells):
        texts[cell] = eight_bytes(text, at, stop)
        at += _8
    return index
