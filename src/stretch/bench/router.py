"""The router of the shared-nothing baseline: which instances own a key of a tuple (Paper: Algorithm "forwardSN").

What
    `find_owners` sets a bit for each instance that owns a word, or a pair of words, of a row. Keys are hashed as the
    engine hashes them, so that an instance finds exactly the keys of its own groups in what it is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.native.hashing import group_of, hash_next
from stretch.native.jit import kernel
from stretch.strings import WORDS, Dictionary
from stretch.windows.groups import GROUP_COUNT

INSTANCES_MAX: Final = 62  # bits of a signed word
ALL_WORDS: Final = 1 << 30


@kernel
def find_owners(
    ids: npt.NDArray[np.int32],
    starts: npt.NDArray[np.int64],
    hashes: npt.NDArray[np.int64],
    owners: npt.NDArray[np.int64],
    reach: int,
    masks: npt.NDArray[np.int64],
) -> None:
    """Set `masks`; a `reach` of 0 stands for words, others for pairs of words so far apart at most."""
    for row in range(len(masks)):
        mask = 0
        stop = starts[row + 1]
        for place in range(starts[row], stop):
            code = hashes[ids[place]]
            if reach == 0:
                mask |= 1 << owners[group_of(code, len(owners))]
                continue
            begun = hash_next(2, code)
            for other in range(place + 1, min(stop, place + 1 + reach)):
                mask |= 1 << owners[group_of(hash_next(begun, hashes[ids[other]]), len(owners))]
        masks[row] = mask


class Router:
    """Deals batches to instances; counts what that copies."""

    def __init__(self, instances: int, distance: int | None) -> None:
        self.owners = np.arange(GROUP_COUNT, dtype=np.int64) % instances  # as the engine maps groups to instances
        self.tuples = 0
        self.sent = 0
        self.bytes_sent = 0
        self._instances = instances
        self._reach = ALL_WORDS if distance is None else distance
        self._dictionary = Dictionary()
        self._hashes = self._dictionary.hashes.view(np.int64)

    def deal(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield for each instance, in order, the tuples that it owns a key of."""
        times = batch.column("ts").to_numpy()
        self._dictionary.release(int(times[0]) - 1)  # of batches before
        ids, starts = self._dictionary.intern_all(self._dictionary.column(batch.column("text"), WORDS), times)
        masks = np.empty(batch.num_rows, np.int64)
        find_owners(ids, starts, self._hashes, self.owners, self._reach, masks)
        self.tuples += batch.num_rows
        for instance in range(self._instances):
            rows = np.flatnonzero(masks >> instance & 1)
            part = batch.take(pa.array(rows))
            self.sent += part.num_rows
            self.bytes_sent += part.nbytes
            yield part
