"""Words, hashtags and hashes are those that the operators and the reference engine define, for every text."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stretch.native.jit import kernel
from stretch.strings import HASHTAGS, VALUES, WORDS, Dictionary
from stretch.strings.tokenise import NULL_HASH, hash_text, lowest_bit, views_of
from stretch.windows.groups import hash_key
from tests.strings.texts import KINDS, decoded, expected_texts, intern_rows, texts

DICTIONARY = Dictionary(1 << 20)


def found_texts(array, kind, distinct=False):
    return [decoded(DICTIONARY, ids) for ids in intern_rows(DICTIONARY, array, 1, kind, distinct)]


@given(st.lists(st.none() | texts, max_size=12), st.sampled_from(KINDS), st.booleans(), st.booleans())
def test_rows_give_the_texts_that_operators_define(rows, kind, distinct, is_large):
    array = pa.array(rows, pa.large_string() if is_large else pa.string())
    assert found_texts(array, kind, distinct) == [expected_texts(kind, row, distinct) for row in rows]


@given(st.lists(st.none() | st.lists(st.none() | texts, max_size=6), max_size=8), st.booleans(), st.booleans())
def test_lists_give_their_elements(rows, distinct, is_large):
    array = pa.array(rows, pa.large_list(pa.large_string()) if is_large else pa.list_(pa.string()))
    expected = [expected_texts(VALUES, row or [], distinct) for row in rows]  # a null list has no keys
    assert found_texts(array, VALUES, distinct) == expected


@given(st.lists(st.none() | texts, min_size=1, max_size=12), st.sampled_from(KINDS), st.data())
def test_slices_give_the_texts_of_their_rows(rows, kind, data):
    first = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(first, len(rows)))
    array = pa.array(rows, pa.string())[first:stop]
    assert found_texts(array, kind) == [expected_texts(kind, row) for row in rows[first:stop]]
    if kind == VALUES:
        nested = pa.array([[row, "z"] for row in rows], pa.list_(pa.string()))[first:stop]
        assert found_texts(nested, kind) == [[row, "z"] for row in rows[first:stop]]


@given(texts)
def test_hashes_are_those_of_the_reference_engine(text):
    ((id_,),) = intern_rows(DICTIONARY, pa.array([text]), 1)
    assert int(DICTIONARY.hashes[id_]) == hash_key(text)


def test_null_is_id_0():
    assert intern_rows(DICTIONARY, pa.array([None, "", None]), 1)[::2] == [[0], [0]]
    assert int(DICTIONARY.hashes[0]) == hash_key(None) == NULL_HASH


@pytest.mark.parametrize("kind", [WORDS, HASHTAGS])
@pytest.mark.parametrize("shift", [0, 1, 37])
def test_every_byte_is_of_the_right_class(kind, shift):
    # Each byte below 128 between two others, at all places of the 64 that are looked at together.
    rows = ["x" * shift + f"#a{chr(byte)}b" + "y" * 70 for byte in range(128)]
    assert found_texts(pa.array(rows), kind) == [expected_texts(kind, row) for row in rows]


@pytest.mark.parametrize("kind", [WORDS, HASHTAGS])
def test_runs_of_every_length_end_at_every_place(kind):
    rows = [" " * shift + "#" * (kind == HASHTAGS) + "a" * length for shift in range(66) for length in range(1, 67, 5)]
    assert found_texts(pa.array(rows), kind) == [expected_texts(kind, row) for row in rows]
    rows = [row + " " for row in rows]
    assert found_texts(pa.array(rows), kind) == [expected_texts(kind, row) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_longer_than_a_block_and_more_than_a_piece(kind):
    rows = ["", " ".join(f"#w{k} x" for k in range(3_000)), None, *[f"#tag{k}" for k in range(2_500)], "a" * 400_000]
    assert found_texts(pa.array(rows), kind, True) == [expected_texts(kind, row, True) for row in rows]


def test_all_forms_of_arrow_text():
    rows = ["one two", None, "two", "one two"]
    plain = pa.array(rows)
    validity, *bounds_and_text = plain.buffers()
    forms = [
        plain,
        plain.cast(pa.large_string()),
        plain.cast(pa.string_view()),
        plain.dictionary_encode(),
        pa.chunked_array([plain[:1], plain[1:]]),
        pa.StringArray.from_buffers(4, *[pa.py_buffer(bytes(each)) for each in bounds_and_text], validity),
    ]
    for form in forms:
        assert found_texts(form, WORDS) == [["one", "two"], [], ["two"], ["one", "two"]]
    nested = pa.array([["a"], None, ["b", None]])
    for form in (nested, nested.cast(pa.list_(pa.string_view())), nested.cast(pa.large_list(pa.string()))):
        assert found_texts(form, VALUES) == [["a"], [], ["b", None]]
    hidden = pa.ListArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", "b"]), mask=pa.array([True, False]))
    assert found_texts(hidden, VALUES) == [[], ["b"]]  # what a null list hides is not there


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.list_(pa.string())])
def test_no_rows(type_):
    kinds = [VALUES] if pa.types.is_list(type_) else KINDS
    for array in (pa.array([], type_), pa.nulls(0, type_), pa.array([None, None], type_)[2:]):
        assert [found_texts(array, kind) for kind in kinds] == [[] for _ in kinds]


@kernel
def hash_at(text, start, stop):
    return hash_text(text, np.uint64(start), np.uint64(stop))


@given(st.binary(max_size=80), st.data())
def test_hash_of_a_part_of_a_buffer_reads_nothing_else(data, draw):
    start = draw.draw(st.integers(0, len(data)))
    stop = draw.draw(st.integers(start, len(data)))
    part = data[start:stop]
    _, text = views_of(pa.py_buffer(data), len(data))
    with np.errstate(over="ignore"):
        hashed, first, second = hash_at(text, start, stop)
    with contextlib.suppress(UnicodeDecodeError):
        assert int(hashed) == hash_key(part.decode())
    assert int(first) == int.from_bytes(part[:8], "little")
    assert int(second) == int.from_bytes(part[8:16], "little")


@kernel
def lowest_bit_of(bits):
    return lowest_bit(np.uint64(bits))


def test_lowest_bit():
    with np.errstate(over="ignore"):
        for k in range(64):
            assert int(lowest_bit_of(np.uint64(1 << k))) == int(lowest_bit_of(np.uint64((2**64 - 1) >> k << k))) == k
