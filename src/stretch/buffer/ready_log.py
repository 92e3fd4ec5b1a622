"""ReadyLog: sources stage, one thread at a time merges, readers hold a position in one shared log.

`ReadyLog` owns the memory and makes the views; all that happens in it are the kernels of `ready_log_kernels`, called
here from Python or by other kernels on `log.view`. The layout is in `layout`, why it is correct in `ready_log_merge`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.buffer import layout, rows
from stretch.buffer import ready_log_kernels as kernels
from stretch.buffer.layout import NO_BOUND, RANK_VARIES, TARGET_NS_DEFAULT, LogView
from stretch.buffer.rows import Arena, Column, RowStore
from stretch.errors import StretchError
from stretch.native import Cells, deadline_after, store_release, wake_all
from stretch.native.memory import address_of

CAPACITY: Final = 65_536
STAGING: Final = 8_192
ITEMS_PER_ROW: Final = 16  # room for list items: a guess, for the mean of what is pending

FOR_EVER: Final = 10**9  # seconds


class Source(NamedTuple):
    """A slot for a source: the input that its rows belong to, and its rank; None if each row has its own."""

    input: int = 0
    rank: int | None = None


class Keeping(NamedTuple):
    """Rows are kept longer than their entries: up to `rows` of each input, a power of two.

    Those of input n stay until they lie more than `ticks[n]` before what all readers have released; `times[n]` is the
    column with the times of its rows, int64.
    """

    rows: int
    times: Sequence[int]
    ticks: Sequence[int]


class Staging(NamedTuple):
    """The arrays in which a source writes its rows, by `number & (staging - 1)`."""

    times: Cells
    ranks: Cells  # one cell only if all ranks of the log are constant
    columns: tuple[Any, ...]


class ReadyLog:
    """The memory of a log for rows of some inputs; see the module header.

    `inputs` are the columns of each input, `sources` the slots for sources. `capacity` entries can wait for readers,
    `staging` for their turn, per source; `items` and `staging_items` are the rings of each list column. All are powers
    of two. `target_ns` is how much work flow control lets be pending; `stop` may be shared with others. `keeping` says
    that readers look back at rows that they have released.
    """

    def __init__(
        self,
        inputs: Sequence[Sequence[Column]],
        sources: Sequence[Source],
        max_readers: int,
        *,
        capacity: int = CAPACITY,
        staging: int = STAGING,
        items: int | None = None,
        staging_items: int | None = None,
        target_ns: int = TARGET_NS_DEFAULT,
        stop: Cells | None = None,
        keeping: Keeping | None = None,
    ) -> None:
        staging_items = staging_items or ITEMS_PER_ROW * staging
        items = items or max(ITEMS_PER_ROW * capacity, staging_items)
        _check(inputs, sources, capacity, staging, items, staging_items)
        self.inputs, self.sources = [tuple(columns) for columns in inputs], tuple(sources)
        self.max_sources, self.max_readers = len(sources), max_readers
        self.capacity, self.staging_capacity = capacity, staging
        self.row_capacity = capacity if keeping is None else keeping.rows
        self._rows: list[RowStore] = []
        self._staging: list[RowStore] = []

        def build(arena: Arena) -> LogView:
            rings = {"rings": 1, "rows": self.row_capacity, "items": items}
            self._rows = [RowStore(columns, arena, **rings) for columns in inputs]
            rings = {"rings": len(sources), "rows": staging, "items": staging_items}
            self._staging = [RowStore(columns, arena, **rings) for columns in inputs]
            return self._build_view(arena, np.zeros(1, np.int64) if stop is None else stop)

        self.view: LogView = rows.allocate(build)
        self._set_constants(target_ns)
        if keeping is not None:
            self._keep_rows(keeping)

    def _build_view(self, arena: Arena, stop: Cells) -> LogView:
        sources, inputs = self.max_sources, len(self.inputs)
        ranked = self.staging_capacity if any(each.rank is None for each in self.sources) else 1
        return LogView(
            cells=arena.array(layout.CELLS),
            sources=arena.array(sources * layout.SOURCE_CELLS),
            readers=arena.array(self.max_readers * layout.READER_CELLS),
            stop=stop,
            times=arena.array(self.capacity),
            refs=arena.array(self.capacity),
            staged_times=arena.array((sources, self.staging_capacity)),
            staged_ranks=arena.array((sources, ranked)),
            tables=arena.array((2 * inputs, max([1, *map(len, self.inputs)]), rows.TABLE_FIELDS)),
            column_counts=arena.array(inputs),
            merging=arena.array(layout.source_at(sources) + inputs * layout.INPUT_CELLS),
        )

    def _set_constants(self, target_ns: int) -> None:
        view = self.view
        view.cells[layout.TARGET_NS] = target_ns
        view.cells[layout.LIMIT] = self.capacity
        view.merging[layout.LAST_TIME] = layout.TIME_MIN
        view.merging[layout.HAS_LISTS] = any(column.is_list for columns in self.inputs for column in columns)
        view.merging[layout.INPUTS_AT] = layout.source_at(self.max_sources)
        for number, columns in enumerate(self.inputs):
            view.column_counts[number] = len(columns)
            view.merging[layout.input_at(view.merging, number) + layout.ROWS_MAX] = self.row_capacity
            view.tables[2 * number, : len(columns)] = self._rows[number].table
            view.tables[2 * number + 1, : len(columns)] = self._staging[number].table
        for slot, source in enumerate(self.sources):
            cells, merging = slot * layout.SOURCE_CELLS, layout.source_at(slot)
            view.sources[cells + layout.BOUND] = NO_BOUND
            view.sources[cells + layout.SHORT_OF_ITEMS] = -1
            view.sources[cells + layout.INPUT] = view.merging[merging + layout.OF_INPUT] = source.input
            view.sources[cells + layout.RANK] = RANK_VARIES if source.rank is None else source.rank
            fixed_tie = -1 if source.rank is None else layout.tie_of(source.rank, slot)
            view.merging[merging + layout.FIXED_TIE] = fixed_tie
            view.merging[merging + layout.TAKEN_TIME] = layout.TIME_MIN

    def _keep_rows(self, keeping: Keeping) -> None:
        merging = self.view.merging
        merging[layout.KEEPS_ROWS], merging[layout.RELEASED_TIME] = 1, layout.TIME_MIN
        for number, (column, ticks) in enumerate(zip(keeping.times, keeping.ticks, strict=True)):
            at = layout.input_at(merging, number)
            merging[at + layout.KEEP] = ticks
            merging[at + layout.KEPT_TIMES] = address_of(self._rows[number].arrays[column])

    def columns(self, input: int = 0) -> tuple[Any, ...]:
        """Return the columns of an input in the log, by row: typed arrays, or `ListArrays`."""
        return self._rows[input].arrays

    def staging(self, source: int) -> Staging:
        """Return the arrays that a source writes its rows into."""
        columns = self._staging[self.sources[source].input].ring(source)
        return Staging(self.view.staged_times[source], self.view.staged_ranks[source], columns)

    # --- Members: the kernels of the same names, for lists of slots

    def add_readers(self, readers: Iterable[int], start: int = 0) -> int:
        """Connect readers that start at a position; see `ready_log_readers.add_readers`."""
        return kernels.add_readers(self.view, _slots(readers, self.max_readers), start)

    def remove_readers(self, readers: Iterable[int]) -> int:
        """Disconnect readers."""
        return kernels.remove_readers(self.view, _slots(readers, self.max_readers))

    def add_sources(self, sources: Iterable[int], bound: int = NO_BOUND) -> int:
        """Connect sources with a bound; see `ready_log_readers.add_sources`."""
        return kernels.add_sources(self.view, _slots(sources, self.max_sources), bound)

    def remove_sources(self, sources: Iterable[int]) -> int:
        """Disconnect sources."""
        return kernels.remove_sources(self.view, _slots(sources, self.max_sources))

    # --- Batches, from Python

    def add_batch(
        self, source: int, times: npt.NDArray[np.int64], columns: Sequence[Any], *, timeout: float = FOR_EVER
    ) -> int:
        """Add rows piece by piece, as flow control lets them in; return how many, fewer when stopped or late.

        A column is an array, or for lists a pair (int32 offsets as in Arrow, items). Times do not go back. `TOO_LONG`
        if the first row that is left has a list that never fits.
        """
        first_input = self.sources[source].input
        kept = [times := np.ascontiguousarray(times, np.int64)]
        addresses = np.zeros(2 * len(columns), np.int64)
        for number, (column, given) in enumerate(zip(self.inputs[first_input], columns, strict=True)):
            for half, (array, dtype) in enumerate(_arrays_of(column, given)):
                kept.append(np.ascontiguousarray(array, dtype))  # keeps it alive while kernels read it
                addresses[2 * number + half] = address_of(kept[-1])
        deadline_ns = deadline_after(int(timeout * 1e9))
        return kernels.admit_all(self.view, source, 0, len(times), address_of(times), addresses, deadline_ns)

    def close(self) -> None:
        """Stop everyone who waits here; the memory goes when nobody refers to it any more."""
        store_release(self.view.stop, 0, 1)  # pairs with the load_acquire of wait_round
        wake_all(self.view.cells, layout.WAKE_READERS)
        wake_all(self.view.cells, layout.WAKE_SOURCES)


def _arrays_of(column: Column, given: Any) -> list[tuple[Any, Any]]:
    if column.is_list:
        offsets, items = given
        return [(offsets, np.int32), (items, column.dtype)]
    return [(given, column.dtype)]


def _slots(numbers: Iterable[int], count: int) -> Cells:
    slots = np.fromiter(numbers, np.int64)
    if slots.size and not 0 <= slots.min() <= slots.max() < count:
        raise IndexError(f"slots {slots.tolist()} of {count}")
    return slots


def _check(
    inputs: Sequence[Sequence[Column]],
    sources: Sequence[Source],
    capacity: int,
    staging: int,
    items: int,
    staging_items: int,
) -> None:
    """Raise an error unless a log of these sizes can work."""
    why = ""
    if any(size < 2 or size & (size - 1) for size in (capacity, staging)):
        why = f"a capacity of {capacity} and a staging of {staging} are not both powers of two from 2 on."
    elif items < staging_items:
        why = "a list that fits into the staging of a source would never fit into the log."
    elif not 0 < len(inputs) <= layout.INPUTS_MAX or any(not 0 <= each.input < len(inputs) for each in sources):
        why = f"entries name one of up to {layout.INPUTS_MAX} inputs, and sources one of those that exist."
    elif not 0 < len(sources) < layout.MEMBERS_MAX:
        why = f"{len(sources)} sources are not from 1 to {layout.MEMBERS_MAX - 1}."
    else:
        constant = [each.rank for each in sources if each.rank is not None]
        if len(set(constant)) < len(constant) or any(rank < 0 for rank in constant):
            why = "constant ranks order the sources, so they are different, and not negative."
    if why:
        raise StretchError("A ReadyLog cannot be made like that.", why=why, do="change these arguments.")
