"""Rows that are in order already: one thread feeds all inputs, each a slot of the log, in rounds.

A round admits of each input what there is room for, and promises where it goes on. Whatever flow control does, the
input whose next row is the earliest gets on: all that is staged before that row is ready, so it leaves, and makes room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from stretch.runtime.compiled.inlet import Inlet, Piece


class _Rows:
    """The rows of one input that are not in the log yet."""

    def __init__(self, inlet: Inlet, rows: pa.RecordBatch | None) -> None:
        self.inlet = inlet
        self._pieces: Iterator[Piece] = iter(()) if rows is None else inlet.pieces(rows)
        self._piece = next(self._pieces, None)
        self._first = 0

    @property
    def next_time(self) -> int | None:
        """The time of the next row; None at the end."""
        return None if self._piece is None else int(self._piece.times[self._first])

    @property
    def left_of_piece(self) -> int:
        return 0 if self._piece is None else len(self._piece.times) - self._first

    def admit(self) -> int:
        """Admit what there is room for of a piece; return how many rows."""
        if self._piece is None:
            return 0
        done = self.inlet.admit(self._piece, self._first)
        self._first += done
        if self._first == len(self._piece.times):
            self._piece, self._first = next(self._pieces, None), 0
        return done


def feed(inlets: Sequence[Inlet], rows: Sequence[pa.RecordBatch | None], watermark: int) -> Iterator[None]:
    """Put sorted rows of each input into the log, and promise `watermark`, which they all are before.

    Yields now and then, for the caller to take results out: workers may wait for it.
    """
    parts = [_Rows(inlet, given) for inlet, given in zip(inlets, rows, strict=True)]
    while any(part.next_time is not None for part in parts):
        done = 0
        for part in parts:
            done += part.admit()
            part.inlet.promise(watermark if part.next_time is None else part.next_time)
        yield
        if done == 0:
            _, first = min((part.next_time, n) for n, part in enumerate(parts) if part.next_time is not None)
            parts[first].inlet.wait_for_room(parts[first].left_of_piece)
    for inlet in inlets:
        inlet.promise(watermark)
