"""What results are compared by: how many rows, how many counted in all, and a checksum that ignores the rows' order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words64 = npt.NDArray[np.uint64]

_LONGEST = 256
_WEIGHTS = np.random.default_rng(1).integers(1, 2**63, _LONGEST, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
_FACTORS = _WEIGHTS[:8]


class Digest(NamedTuple):
    """Rows of results, the sum of their counts, and a sum over all rows of a hash of each, modulo 2**64."""

    rows: int
    total: int
    checksum: int


def digest(rights: npt.NDArray[np.int64], keys: Sequence[pa.Array], counts: npt.NDArray[np.int64]) -> Digest:
    """Digest rows of right boundaries, keys of one or more texts, and counts."""
    parts = [_mix(rights.astype(np.uint64)), *map(hash_texts, keys), _mix(counts.astype(np.uint64))]
    with np.errstate(over="ignore"):
        codes = np.zeros(len(rights), np.uint64)
        for part, factor in zip(parts, _FACTORS, strict=False):
            codes += part * factor
    return Digest(len(rights), int(counts.sum()), int(_mix(codes).sum(dtype=np.uint64)))


def add_up(digests: Iterable[Digest]) -> Digest:
    """Return the digest of all rows together."""
    every = list(digests)
    return Digest(sum(d.rows for d in every), sum(d.total for d in every), sum(d.checksum for d in every) % 2**64)


def hash_texts(texts: pa.Array) -> Words64:
    """Hash each text, of up to 256 bytes; each different text once if the array is dictionary-encoded."""
    if pa.types.is_dictionary(texts.type):
        codes: Words64 = hash_texts(texts.dictionary)[texts.indices.to_numpy()]
        return codes
    texts = texts.cast(pa.large_string())
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if len(texts) == 0 or offsets[0] == offsets[-1]:
        return np.zeros(len(texts), np.uint64)
    bytes_ = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
    lengths = np.diff(offsets)
    places = np.arange(len(bytes_)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    with np.errstate(over="ignore"):
        summed = np.concatenate(([np.uint64(0)], np.cumsum((bytes_ + np.uint64(1)) * _WEIGHTS[places])))
        # A difference of sums modulo 2**64 is right however often they ran over.
        return _mix(summed[offsets[1:] - offsets[0]] - summed[offsets[:-1] - offsets[0]])


def _mix(words: Words64) -> Words64:
    """Spread the bits of each word (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: Words64 = words ^ (words >> np.uint64(31))
        return mixed
