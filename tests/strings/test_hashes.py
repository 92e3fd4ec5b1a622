"""Hashes of columns are those of keys."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as some

from stretch.strings.hashes import hash_ints, hash_texts
from stretch.windows.groups import hash_key


@given(some.lists(some.text(max_size=40)), some.integers(0, 3))
def test_texts(texts, start):
    column = pa.array(texts, pa.string()).slice(min(start, len(texts)))
    assert hash_texts(column).tolist() == [hash_key(text) for text in column.to_pylist()]


@given(some.lists(some.integers(-(1 << 63), (1 << 63) - 1)))
def test_ints(numbers):
    assert hash_ints(pa.array(numbers, pa.int64())).tolist() == [hash_key(number) for number in numbers]


def test_null_is_whatever():
    assert hash_texts(pa.array(["a", None])).dtype == hash_ints(pa.array([None, 1], pa.int32())).dtype == np.uint64
