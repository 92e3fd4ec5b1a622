"""Texts as int32 ids: interned once per tuple where it comes in, decoded where results go out.

    dictionary = Dictionary()
    column = dictionary.column(batch.column("text"), WORDS, distinct=True)
    done = dictionary.intern(column, 0, len(until), until, ids, starts)
    ...                                                    # workers see ids and dictionary.hashes
    dictionary.decode(result_ids)
    dictionary.release(mark)                               # results up to `mark` are out

`kernels` has the argument why ids are exact, `sweep` why memory stays bounded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.errors import JobError, StretchError
from stretch.native.atomics import Cells, compare_exchange, load_acquire, require_cells
from stretch.strings.access import WAIT_NS_MAX, close, open_again
from stretch.strings.columns import dictionary_array, most_ids, text_array, text_column
from stretch.strings.decode import PADDING, copy_texts, measure_texts, number_ids
from stretch.strings.kernels import intern_rows
from stretch.strings.layout import (
    CONTROL_CELLS,
    DONE,
    FOREVER,
    FREE,
    FREE_COUNT,
    FRESH,
    FULL,
    HASH_MASK,
    ID_CAPACITY_MIN,
    ID_COUNT_MAX,
    ID_LIMIT,
    IDS_TOUCHED,
    LENGTH,
    LIVE,
    LOST,
    MARK,
    NO_LENGTH,
    NO_ROOM,
    OUTPUT_FULL,
    RECORD_CELLS,
    ROOM_MIN,
    SLOTS_TOUCHED,
    STOPPED,
    SWEEPS,
    TABLE_MASK,
    TAKEN,
    TEXT_CELLS_PER_ID,
    TEXT_END,
    TEXT_LIMIT,
    TEXTS_TOUCHED,
    TIMED_OUT,
    TOO_LATE,
    UNTIL,
    VALUES,
    DictionaryView,
    Ids,
    Longs,
    Reservation,
    TextColumn,
    default_id_capacity,
    reserved_bytes,
)
from stretch.strings.sweep import fresh_end, make_room
from stretch.strings.tokenise import EIGHT_BYTES, NULL_HASH

# Memory below this is not worth the two system calls that return it.
_GIVE_BACK_BYTES: Final = 1 << 20
_ID_BYTES: Final = 8 * (1 + RECORD_CELLS) + 4  # in hashes, records and free
# Uncompiled, NumPy's numbers warn where the machine's wrap.
_wrapping: Final = np.errstate(over="ignore")
_STAMP_MAX: Final = 2**31 - 1


class Image(NamedTuple):
    """All that a dictionary knows, for `Dictionary.load`: the mark, and the parts of its arrays that are in use."""

    mark: int
    hashes: npt.NDArray[np.uint64]
    records: Longs
    texts: npt.NDArray[np.uint64]


class Dictionary:
    """The texts that a job can name at the moment, each with one id.

    `id_capacity` bounds how many can be alive at once; it costs address space, not memory. `room` is the least number
    of ids between two sweeps. `stop` is the job's stop flag: a thread that has to wait gives up when it is set.
    `hash_mask` is for tests: the table looks at these bits of a hash only.
    """

    def __init__(
        self,
        id_capacity: int | None = None,
        *,
        room: int = 4096,
        stop: Cells | None = None,
        hash_mask: int = 2**63 - 1,
    ) -> None:
        self._arrays = _reserve_some() if id_capacity is None else _reserve(id_capacity)
        arrays = {name: reservation.array for name, reservation in self._arrays.items()}
        self._numbers: Longs = arrays.pop("numbers")
        self._numbers_lock = threading.Lock()
        self._stamp = 0
        control = np.zeros(CONTROL_CELLS, np.int64)
        stop = np.zeros(1, np.int64) if stop is None else stop
        self._view = DictionaryView(control, words=arrays["records"].view(np.uint64), stop=stop, **arrays)
        for name in ("control", "records", "table", "stop"):
            require_cells(getattr(self._view, name), f"a dictionary's {name}")
        self._view.records[UNTIL] = FOREVER
        self._view.records[LENGTH] = NO_LENGTH
        self._view.hashes[0] = NULL_HASH
        control[MARK] = FREE
        control[FRESH] = 1
        control[HASH_MASK] = hash_mask
        control[ROOM_MIN] = max(1, room)
        self.sweep()

    @property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """`stretch.windows.groups.hash_key` of each id's text. It never moves: workers may keep it."""
        return self._view.hashes

    def column(self, array: pa.Array, kind: int = VALUES, *, distinct: bool = False) -> TextColumn:
        """Prepare a column for `intern`: VALUES (text, or lists of text), WORDS or HASHTAGS of a text column.

        With `distinct` a row's ids are a set: only the first of equal ones is kept. A column is used by one thread.
        """
        return text_column(array, kind, distinct)

    @_wrapping
    def intern(self, column: TextColumn, first: int, last: int, until: Longs, ids: Ids, starts: Longs) -> int:
        """Intern rows `first` to `last`; return the row it stopped at, because the next one might not fit into `ids`.

        The ids of row r go to ids[starts[r - first] : starts[r - first + 1]], and stay alive until until[r] is
        released. A row of text fits where there is room for half of its bytes, rounded up; so it does for WORDS that
        turn out to be fewer.
        """
        until = _read_only(until, np.int64)
        starts[0] = 0
        row = first
        while True:
            status, row = intern_rows(self._view, column, until, ids, starts, first, row, last)
            if status in (DONE, OUTPUT_FULL):
                return int(row)
            if status == NO_ROOM:
                status = make_room(self._view, column.longest, False)
                self._give_back()
            if status != DONE:
                self._fail(status, row, until)

    def intern_all(self, column: TextColumn, until: Longs, ids: Ids | None = None) -> tuple[Ids, Longs]:
        """Intern all rows: return the ids, in `ids` if given (`most_ids` says how many), and where each row's begin."""
        rows = len(column.row_offsets) - 1
        if ids is None:
            ids = np.empty(most_ids(column), np.int32)
        starts = np.empty(rows + 1, np.int64)
        done = self.intern(column, 0, rows, until, ids, starts)
        assert done == rows, "most_ids is too low"
        return ids[: starts[-1]], starts

    def release(self, mark: int) -> None:
        """Say that everything with `until` at or below `mark` has left: tuples, window state and results to decode."""
        control = self._view.control
        while True:
            found = load_acquire(control, MARK)  # acquire: pairs with itself in another thread that releases
            # Its release pairs with the load_acquire of a sweep: who named these ids has finished.
            if found >= mark or compare_exchange(control, MARK, found, mark):
                return

    def sweep(self) -> None:
        """Free what has been released now. Not needed: interning sweeps when it pays."""
        status = make_room(self._view, 0, True)
        if status not in (DONE, FULL):
            self._fail(status)
        self._give_back()

    def decode(self, ids: Ids) -> pa.StringArray:
        """Return the texts; id 0 is null. The ids must be alive."""
        ids = _read_only(ids, np.int32)
        offsets = np.empty(len(ids) + 1, np.int64)
        status = measure_texts(self._view, ids, offsets)
        if status != DONE:
            self._fail(status)
        size = int(offsets[-1])
        if size > np.iinfo(np.int32).max:
            raise JobError(
                f"{len(ids):,} texts cannot be decoded at once",
                why=f"they have {size:,} bytes, and an Arrow string column holds {np.iinfo(np.int32).max:,}",
                do="decode fewer at a time, or use decode_dictionary where texts repeat",
            )
        data = np.empty(size + PADDING, np.uint8)
        out = np.ndarray((len(data) - 7,), EIGHT_BYTES, data, strides=(1,))
        status = copy_texts(self._view, ids, offsets, out)
        if status != DONE:
            self._fail(status)
        return text_array(ids, offsets.astype(np.int32), data)

    def decode_dictionary(self, ids: Ids) -> pa.DictionaryArray:
        """Return the texts as indices into a dictionary of those that occur; for many ids that repeat."""
        ids = _read_only(ids, np.int32)
        indices = np.empty(len(ids), np.int32)
        used = np.empty(min(len(ids), int(fresh_end(self._view.control))), np.int32)
        with self._numbers_lock:
            if self._stamp == _STAMP_MAX:
                self._numbers[:] = self._stamp = 0
            self._stamp += 1
            count = number_ids(ids, self._numbers, self._stamp, used, indices)
        return dictionary_array(ids, indices, self.decode(used[:count]))

    def live_count(self) -> int:
        """Return how many texts have an id now, those included that the next sweep will free."""
        control = self._view.control
        return int(control[LIVE] + min(control[TAKEN], control[ID_LIMIT]) - control[LOST])

    def live_bytes(self) -> int:
        """Return about how many bytes an image would have."""
        return self.live_count() * 8 * (1 + RECORD_CELLS) + 8 * int(self._view.control[TEXT_END])

    def sweep_count(self) -> int:
        """Return how many sweeps there were."""
        return int(self._view.control[SWEEPS])

    def memory_bytes(self) -> int:
        """Return how much memory the dictionary takes, as far as it has been touched."""
        control = self._view.control
        ids = max(int(control[IDS_TOUCHED]), int(fresh_end(self._view.control)))
        slots = max(int(control[SLOTS_TOUCHED]), int(control[TABLE_MASK]) + 1)
        cells = max(int(control[TEXTS_TOUCHED]), int(control[TEXT_END]))
        return ids * (_ID_BYTES + 8) + (slots + cells + CONTROL_CELLS) * 8

    def image(self) -> Image:
        """Return all that the dictionary knows, as views that hold until it changes; sweeps first."""
        self.sweep()
        control, view = self._view.control, self._view
        ids_end, text_end = int(control[FRESH]), int(control[TEXT_END])
        return Image(
            int(control[MARK]), view.hashes[:ids_end], view.records[: ids_end * RECORD_CELLS], view.texts[:text_end]
        )

    def load(self, mark: int, ids_end: int, text_end: int, fill: Callable[[npt.NDArray[Any]], None]) -> None:
        """Become what an image was taken of: `fill` is called with the place of each of its arrays, in order.

        The dictionary must have been made just now. All texts keep their ids.
        """
        control, view = self._view.control, self._view
        if ids_end > len(view.hashes) or text_end > len(view.texts):
            self._fail(FULL)
        fill(view.hashes[:ids_end])
        fill(view.records[: ids_end * RECORD_CELLS])
        fill(view.texts[:text_end])
        control[MARK], control[FRESH], control[TEXT_END] = mark, ids_end, text_end
        control[TAKEN] = control[FREE_COUNT] = 0  # the sweep finds the free ones
        self.sweep()

    def _give_back(self) -> None:
        """Return memory to the system when there are far fewer texts than there have been."""
        control = self._view.control

        def ids_end() -> int:
            return int(control[FRESH] + max(0, control[ID_LIMIT] - control[FREE_COUNT]))

        if (int(control[IDS_TOUCHED]) - 2 * ids_end()) * _ID_BYTES < _GIVE_BACK_BYTES:
            return
        if close(self._view) != DONE:
            return
        try:
            touched = int(control[IDS_TOUCHED])
            for name in ("hashes", "free"):
                self._arrays[name].give_back(ids_end(), touched)
            self._arrays["records"].give_back(ids_end() * RECORD_CELLS, touched * RECORD_CELLS)
            self._arrays["table"].give_back(int(control[TABLE_MASK]) + 1, int(control[SLOTS_TOUCHED]))
            self._arrays["texts"].give_back(int(control[TEXT_LIMIT]), int(control[TEXTS_TOUCHED]))
            control[IDS_TOUCHED] = min(touched, ids_end())
            control[SLOTS_TOUCHED] = control[TABLE_MASK] + 1
            control[TEXTS_TOUCHED] = min(control[TEXTS_TOUCHED], control[TEXT_LIMIT])
        finally:
            open_again(self._view)
        with self._numbers_lock:
            self._arrays["numbers"].give_back(ids_end(), touched)

    def _fail(self, status: int, row: int = 0, until: Longs | None = None) -> NoReturn:
        control = self._view.control
        if status == FULL:
            raise StretchError(
                f"The dictionary of texts is full: {self.live_count():,} are alive at once.",
                why=f"there is address space for {len(self.hashes):,} texts, and for {len(self._view.texts) * 8:,} "
                "bytes of those with more than 16",
                do="use shorter windows, or let the process reserve more (ulimit -v, vm.overcommit_memory)",
            )
        if status == TOO_LATE:
            assert until is not None
            raise JobError(
                f"row {row} comes too late to be interned",
                why=f"its texts are needed until {until[row]}, and everything up to {control[MARK]} has been released",
                do="report this as a defect of the engine: it released what it still had to read",
            )
        if status == STOPPED:
            raise JobError("interning was stopped", why="the job has ended", do="look for the job's own error")
        assert status == TIMED_OUT
        raise JobError(
            f"the dictionary of texts did not open within {WAIT_NS_MAX // 10**9} s",
            why="a thread stays inside, or the machine is overloaded",
            do="report this as a defect of the engine if the machine is not overloaded",
        )


def _reserve(id_capacity: int) -> dict[str, Reservation]:
    """Reserve all arrays for so many ids, rounded up to a power of two; raise OSError if the system refuses."""
    if not 1 < id_capacity <= ID_COUNT_MAX:
        raise ValueError(f"id_capacity must be 2 to {ID_COUNT_MAX:,}, not {id_capacity:,}")
    capacity = 1 << (id_capacity - 1).bit_length()
    return {
        "hashes": Reservation(capacity, np.uint64),
        "records": Reservation(capacity * RECORD_CELLS, np.int64),
        "table": Reservation(capacity * 2, np.int64),
        "free": Reservation(capacity, np.int32),
        "texts": Reservation(capacity * TEXT_CELLS_PER_ID, np.uint64),
        "numbers": Reservation(capacity, np.int64),
    }


def _reserve_some() -> dict[str, Reservation]:
    """Reserve for as many ids as the system allows."""
    capacity = default_id_capacity()
    while True:
        try:
            return _reserve(capacity)
        except OSError as error:
            if capacity <= ID_CAPACITY_MIN:
                raise StretchError(
                    "There is no address space for a dictionary of texts.",
                    why=f"the system refused {reserved_bytes(capacity) // 2**20:,} MB ({error.strerror}); it limits "
                    "what is reserved, not only what is used",
                    do="lift the limit (ulimit -v, vm.overcommit_memory)",
                ) from error
            capacity //= 16  # not 2: what is left is for others


def _read_only(array: npt.NDArray[Any], dtype: type) -> npt.NDArray[Any]:
    """Return the array in the one form that kernels are compiled for."""
    view: npt.NDArray[Any] = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view
