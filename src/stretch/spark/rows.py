"""How rows of several inputs travel as rows of one kind, since Spark's `mapInArrow` takes one DataFrame.

A travelling row has a tag, the number of its input, where there are several; then slots. A slot has one type, and each
input uses it for at most one of its columns, so that inputs that have the same types share all slots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

TAG = "input"


@dataclass(frozen=True)
class Layout:
    """Which slot holds which column: for each input pairs of column and slot; and the types of all slots, as DDL."""

    columns: tuple[tuple[tuple[str, int], ...], ...]
    slots: tuple[str, ...]

    @property
    def has_tag(self) -> bool:
        """Tell whether rows say which input they are of."""
        return len(self.columns) > 1

    def untangle(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the rows of each input in a batch of travelling rows."""
        if not self.has_tag:
            yield 0, self._columns_of(0, batch)
            return
        tags = batch.column(0).to_numpy()
        for number in np.unique(tags):
            is_own = tags == number
            rows = batch if is_own.all() else batch.filter(pa.array(is_own))
            yield int(number), self._columns_of(int(number), rows)

    def _columns_of(self, number: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        names = [name for name, _ in self.columns[number]]
        first = int(self.has_tag)
        return pa.RecordBatch.from_arrays([rows.column(first + slot) for _, slot in self.columns[number]], names=names)


def make_layout(inputs: Sequence[Sequence[tuple[str, str]]]) -> Layout:
    """Deal the columns of each input, pairs of name and type, to slots."""
    slots: list[str] = []
    dealt = []
    for columns in inputs:
        used: list[tuple[str, int]] = []
        for name, type_ in columns:
            taken = {slot for _, slot in used}
            free = [slot for slot, its in enumerate(slots) if its == type_ and slot not in taken]
            if not free:
                free = [len(slots)]
                slots.append(type_)
            used.append((name, free[0]))
        dealt.append(tuple(used))
    return Layout(tuple(dealt), tuple(slots))
