"""The state of an operator as named sections of bytes, and back: what a snapshot holds.

What
    State is the window tables, or of a join the rows that its log keeps, the dictionary of texts, and the watermark of
    the workers; everything else (other buffers, epochs, free lists) is empty or without meaning once the engine is
    drained. An operator that comes to keep more must add it here. Sections come piece by piece, and are taken in the
    same order.

Invariants
    I1  An image is taken of a drained engine, and loaded before its workers start.
    I2  It does not depend on the number of workers, the mapping, or what the heap has been through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.errors import JobError
from stretch.runtime.compiled.join_image import PLACE_WORDS, columns_of, place_of, restore_place
from stretch.runtime.compiled.join_memory import JoinMemory
from stretch.runtime.compiled.memory import Memory, TableMemory
from stretch.windows.image import Spans, gather, list_tables, place_tables, scatter, spans_of

PIECE_WORDS = 1 << 19  # 4 MB

Fill = Callable[[npt.NDArray[Any]], None]
"""Fills an array with the bytes that come next."""


class Section(NamedTuple):
    """A run of bytes, which `pieces` gives one after another; each piece holds until the next is asked for."""

    name: str
    bytes: int
    pieces: Callable[[], Iterator[npt.NDArray[Any]]]


def sections_of(memory: Memory) -> list[Section]:
    """Return the state of a drained engine (I1)."""
    texts = memory.dictionary.image()
    sections = [
        _array("mark", np.array([texts.mark], np.int64)),
        _array("hashes", texts.hashes),
        _array("records", texts.records),
        _array("texts", texts.texts),
    ]
    if isinstance(memory, JoinMemory):
        rows = [Section(*column) for column in columns_of(memory)]
        return [*sections, _array("place", place_of(memory)), *rows]
    assert isinstance(memory, TableMemory)
    tables, shape = memory.tables, memory.shape
    listed = list_tables(tables, shape)
    spans = spans_of(tables, shape, listed)
    words = Section("words", 8 * spans.words, lambda: _words(tables.heap, spans))
    return [*sections, _array("tables", listed), words]


def load(memory: Memory, sizes: Mapping[str, int], fill: Fill) -> None:
    """Put back what `sections_of` gave; `sizes` are the bytes of its sections by name (I1)."""
    mark = np.empty(1, np.int64)
    fill(mark)
    memory.dictionary.load(int(mark[0]), sizes["hashes"] // 8, sizes["texts"] // 8, fill)
    if isinstance(memory, JoinMemory):
        _load_rows(memory, fill)
    elif isinstance(memory, TableMemory):
        _load_tables(memory, sizes, fill)


def _load_rows(memory: JoinMemory, fill: Fill) -> None:
    place = np.empty(PLACE_WORDS, np.int64)
    fill(place)
    restore_place(memory, place)
    for _, _, runs in columns_of(memory):
        for run in runs():
            fill(run)


def _load_tables(memory: TableMemory, sizes: Mapping[str, int], fill: Fill) -> None:
    tables, shape = memory.tables, memory.shape
    listed = np.empty((sizes["tables"] // 32, 4), np.int64)
    fill(listed)
    if not place_tables(tables, shape, listed):
        raise JobError(
            "the state does not fit into memory",
            why=f"it has {sizes['words']:,} bytes, and {8 * len(tables.heap):,} are reserved",
            do="use smaller windows, or more shards",
        )
    spans = spans_of(tables, shape, listed)
    left = spans.words
    piece = np.empty(min(left, PIECE_WORDS), np.int64)
    while left > 0:
        part = piece[: min(left, len(piece))]
        fill(part)
        left -= scatter(tables.heap, spans, part)


def _array(name: str, array: npt.NDArray[Any]) -> Section:
    return Section(name, array.nbytes, lambda: iter([array]))


def _words(heap: npt.NDArray[np.int64], spans: Spans) -> Iterator[npt.NDArray[Any]]:
    spans.place[:] = 0
    piece = np.empty(min(spans.words, PIECE_WORDS), np.int64)
    while (count := gather(heap, spans, piece)) > 0:
        yield piece[:count]
