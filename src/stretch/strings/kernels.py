"""Interning: from rows of text to ids, without a lock.

What
    `intern_rows` takes rows block by block (some 128 texts) through four loops: find where the texts are; hash each
    and look at the one record that its slot names; add the texts that this did not find; raise `until`. The second
    loop has no branch that depends on the data, so that the cache misses of many texts overlap.

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
    ID_COUNT_MAX,
    ID_LIMIT,
    INLINE_BYTES,
    LATEST,
    LENGTH,
    LOST,
    MARK,
    NO_ROOM,
    NULL_STOP,
    OPEN,
    RECORD_CELLS,
    ROOM,
    ROW,
    SECOND,
    STATUS,
    TABLE_MASK,
    TAKEN,
    TEXT_END,
    TEXT_LIMIT,
    UNTIL,
    VALUES,
    DictionaryView,
    Ids,
    Longs,
    TextColumn,
    Words,
)
from stretch.strings.rows import begin_row, end_of_piece, find_runs, find_values, keep_distinct
from stretch.strings.tokenise import Text, eight_bytes, hash_text

_1: Final = np.uint64(1)
_2: Final = np.uint64(2)
_3: Final = np.uint64(3)
_7: Final = np.uint64(7)
_8: Final = np.uint64(8)
_32: Final = np.uint64(32)
_RECORD_CELLS: Final = np.uint64(RECORD_CELLS)
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
    view: DictionaryView, column: TextColumn, until: Longs, ids: Ids, starts: Longs, first: int, row: int, last: int
) -> tuple[int, int]:
    """Intern rows from `row` to `last`; return a status and the row it stopped at.

    Row r has the time until[r]; its ids go to ids[starts[r - first] : starts[r - first + 1]]. starts[row - first]
    says where the output goes on.
    """
    place = column.place
    place[FIRST_ROW] = first
    place[ROOM] = len(ids)
    status = np.int64(DONE)
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
            output = ids[place[BASE] :]
            _look_up(view, column, count, output)
            settled = _settle(view, column, count, output)
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
def _look_up(view: DictionaryView, column: TextColumn, count: int, ids: Ids) -> None:
    """Give texts the id that the first slot of their hash names, or _MISSING if that is another text's."""
    bounds, text = column.bounds, column.text
    table, words = view.table, view.words
    mask = np.uint64(view.control[TABLE_MASK])
    hash_mask = np.uint64(view.control[HASH_MASK])
    for number in range(count):
        k = np.uint64(number)
        start, stop = bounds[_2 * k], bounds[_2 * k + _1]
        if stop == _NULL_STOP:
            ids[k] = 0
            continue
        hashed, one, two = hash_text(text, start, stop)
        hashed &= hash_mask
        # acquire: pairs with the compare_exchange of `find_or_add`, which publishes the record
        slot = np.uint64(load_acquire(table, hashed & mask))
        id_ = slot & _ID_MASK
        record = id_ * _RECORD_CELLS
        # `&`, not `and`: one branch less for each. A long text never matches its second eight bytes.
        same = (
            ((slot ^ np.uint64(slot_tag(hashed))) < _ID_COUNT)
            & (words[record + _LENGTH] == stop - start)
            & (words[record + _FIRST] == one)
            & (words[record + _SECOND] == two)
            & (stop - start <= _INLINE)
        )
        ids[k] = np.int32(id_) if same else np.int32(_MISSING)


@kernel
def _settle(view: DictionaryView, column: TextColumn, count: int, ids: Ids) -> int:
    """Find or add what `_look_up` missed and raise `until` of all; return how many texts were done."""
    bounds, untils, records = column.bounds, column.untils, view.records
    for number in range(count):
        k = np.uint64(number)
        id_ = np.int64(ids[k])
        if id_ != _MISSING:
            _raise_until(records, id_ * RECORD_CELLS + UNTIL, untils[k])
            continue
        id_ = find_or_add(view, column.text, bounds[_2 * k], bounds[_2 * k + _1], untils[k])
        if id_ == _MISSING:
            return number
        ids[k] = id_
    return count


@kernel(inline=True)
def _raise_until(records: Cells, cell: int, until: int) -> None:
    found = load_relaxed(records, cell)
    # Pairs with itself in other threads: the highest stays. `close` publishes it to the sweep.
    while found < until and not compare_exchange(records, cell, found, until):
        found = load_relaxed(records, cell)


@kernel(inline=True)
def slot_tag(hashed: np.uint64) -> int:
    """Return the bits of a hash that go into a slot, as they stand there."""
    return np.int64((hashed >> _1) & _TAG_MASK)


@kernel
def find_or_add(view: DictionaryView, text: Text, start: np.uint64, stop: np.uint64, until: int) -> int:
    """Return the id of a text, raised to `until`; a new one if it has none (S3); _MISSING if there is no room."""
    table, records = view.table, view.records
    full_hash, one, two = hash_text(text, start, stop)
    hashed = full_hash & np.uint64(view.control[HASH_MASK])
    tag = slot_tag(hashed)
    mask = view.control[TABLE_MASK]
    place = np.int64(hashed & np.uint64(mask))
    own = np.int64(0)
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
    words: Words, texts: Words, record: int, text: Text, start: np.uint64, stop: np.uint64, one: np.uint64, two: np.uint64
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
    start: np.uint64,
    stop: np.uint64,
    hashed: np.uint64,
    one: np.uint64,
    two: np.uint64,
    until: int,
) -> int:
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
def _lose(control: Cells, records: Cells, id_: int) -> None:
    """Leave an id to the next sweep: it is in no slot and names nothing."""
    records[id_ * RECORD_CELLS + UNTIL] = FREE
    fetch_add(control, LOST, 1)  # pairs with itself in other threads; read by `live_count`


@kernel
def _store_long_text(
    control: Cells, texts: Words, id_: int, text: Text, start: np.uint64, stop: np.uint64
) -> int:
    cells = 1 + np.int64((stop - start + _7) >> _3)
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
