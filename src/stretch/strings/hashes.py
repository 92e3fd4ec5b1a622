"""Hashes of keys in Arrow columns, before there are ids: the numbers of `stretch.windows.groups.hash_key`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.native.jit import kernel
from stretch.strings.layout import Longs, Words
from stretch.strings.tokenise import Text, hash_text, mix, views_of

_STEP = np.uint64(0x9E3779B97F4A7C15)  # hash_key's


def hash_texts(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the hash of each text; what it is for null means nothing."""
    array = array.cast(pa.large_string())
    hashes = np.empty(len(array), np.uint64)
    if len(array):
        offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
        _, text = views_of(array.buffers()[2], int(offsets[-1]))
        with np.errstate(over="ignore"):
            _hash_texts(text, offsets, hashes)
    return hashes


def hash_ints(array: pa.Array) -> npt.NDArray[np.uint64]:
    """Return the hash of each int; what it is for null means nothing."""
    values = np.array(array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
    hashes = np.empty(len(values), np.uint64)
    with np.errstate(over="ignore"):
        _hash_ints(values, hashes)
    return hashes


@kernel
def _hash_texts(text: Text, offsets: Longs, hashes: Words) -> None:
    for k in range(len(hashes)):
        hashed, _, _ = hash_text(text, np.uint64(offsets[k]), np.uint64(offsets[k + 1]))
        hashes[k] = hashed


@kernel
def _hash_ints(values: Longs, hashes: Words) -> None:
    for k in range(len(hashes)):
        hashes[k] = mix(np.uint64(values[k]) + _STEP)
