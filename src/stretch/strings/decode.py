"""From ids back to texts, for results.

What
    The kernels of `Dictionary.decode` and `Dictionary.decode_dictionary`. Decoders are inside the dictionary for a
    piece of ids at a time. The ids are alive all the while: the engine moves MARK past a result's time only when the
    result has been decoded.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stretch.native.jit import kernel
from stretch.strings.access import enter, leave
from stretch.strings.layout import (
    DONE,
    FIRST,
    INLINE_BYTES,
    LENGTH,
    RECORD_CELLS,
    SECOND,
    DictionaryView,
    Ids,
    Longs,
)
from stretch.strings.tokenise import Long, Text

PIECE_IDS: Final = 1 << 14
PADDING: Final = 2 * 8  # `copy_texts` writes up to this many bytes beyond a text

_8: Final = np.uint64(8)
_INLINE: Final = np.uint64(INLINE_BYTES)


@kernel
def measure_texts(view: DictionaryView, ids: Ids, offsets: Longs) -> Long:
    """Write where each text begins and ends when they follow one another; null has no bytes."""
    words = view.words
    total = np.int64(0)
    offsets[0] = 0
    for first in range(0, len(ids), PIECE_IDS):
        status = enter(view)
        if status != DONE:
            return status
        for k in range(first, min(first + PIECE_IDS, len(ids))):
            id_ = np.int64(ids[k])
            if id_ != 0:
                total += np.int64(words[id_ * RECORD_CELLS + LENGTH])
            offsets[k + 1] = total
        leave(view)
    return DONE


@kernel
def copy_texts(view: DictionaryView, ids: Ids, offsets: Longs, out: Text) -> Long:
    """Write the texts one after the other, each over what the one before it wrote beyond its end."""
    words, texts = view.words, view.texts
    for first in range(0, len(ids), PIECE_IDS):
        status = enter(view)
        if status != DONE:
            return status
        for k in range(first, min(first + PIECE_IDS, len(ids))):
            record = np.int64(ids[k]) * RECORD_CELLS
            at, stop = np.uint64(offsets[k]), np.uint64(offsets[k + 1])
            if stop - at <= _INLINE:  # null writes, too, and has its bytes written over
                out[at]["eight"] = words[record + FIRST]
                out[at + _8]["eight"] = words[record + SECOND]
                continue
            index = np.int64(words[record + SECOND])
            while at < stop:
                index += 1
                out[at]["eight"] = texts[index]
                at += _8
        leave(view)
    return DONE


@kernel
def number_ids(ids: Ids, numbers: Longs, stamp: Long, used: Ids, out: Ids) -> Long:
    """Number different ids in the order of their first appearance; return how many there are.

    `used` gets them in this order, `out` the number of each id of `ids` (0 for null, which is not counted). `numbers`
    remembers, per id, stamp << 32 | number; what has another stamp is from an earlier call.
    """
    count = 0
    for k in range(len(ids)):
        id_ = np.int64(ids[k])
        entry = numbers[id_]
        if entry >> 32 != stamp and id_ != 0:
            entry = stamp << 32 | count
            numbers[id_] = entry
            used[count] = id_
            count += 1
        out[k] = np.int32(entry & 0xFFFFFFFF)
    return count
