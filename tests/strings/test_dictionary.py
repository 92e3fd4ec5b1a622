"""The dictionary against a plain dict: one id per live text, freed when released, whatever the order of events."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stretch.errors import InputError, JobError, StretchError
from stretch.native.jit import JIT_ENABLED
from stretch.strings import VALUES, WORDS, Dictionary
from stretch.windows.groups import hash_key
from tests.strings.texts import KINDS, decoded, expected_texts, intern_rows, rows_of, texts

EXAMPLES = settings().max_examples if JIT_ENABLED else 12


class Model:
    """What a dictionary should know: id and time of each text, and what has been released."""

    def __init__(self, dictionary):
        self.dictionary = dictionary
        self.known = {}  # text -> (id, until)
        self.mark = 0
        dictionary.release(0)

    def intern(self, kind, distinct, rows, delays):
        until = np.array([self.mark + delay for delay in delays[: len(rows)]], np.int64)
        column = self.dictionary.column(pa.array(rows, pa.string()), kind, distinct=distinct)
        ids, starts = self.dictionary.intern_all(column, until)
        for value, row_ids, time in zip(rows, rows_of(ids, starts), until.tolist(), strict=True):
            expected = expected_texts(kind, value, distinct)
            assert len(row_ids) == len(expected)
            for text, id_ in zip(expected, row_ids, strict=True):
                self.see(text, id_, time)
        assert self.dictionary.decode(ids).to_pylist() == [
            text for value in rows for text in expected_texts(kind, value, distinct)
        ]

    def see(self, text, id_, until):
        if text is None:
            assert id_ == 0
            return
        assert id_ != 0
        known, known_until = self.known.get(text, (id_, until))
        if known_until > self.mark:
            assert known == id_, f"{text!r} got a second id"
        self.known[text] = id_, max(until, known_until)

    def release(self, mark):
        self.mark = max(self.mark, mark)
        self.dictionary.release(mark)

    def live(self):
        return {text: id_ for text, (id_, until) in self.known.items() if until > self.mark}

    def check(self):
        live = self.live()
        assert len(set(live.values())) == len(live), "two texts share an id"
        assert decoded(self.dictionary, list(live.values())) == list(live)
        assert [int(self.dictionary.hashes[id_]) for id_ in live.values()] == [hash_key(text) for text in live]

    def sweep(self):
        self.dictionary.sweep()
        self.known = {text: found for text, found in self.known.items() if found[1] > self.mark}
        assert self.dictionary.live_count() == len(self.known)


batches = st.tuples(
    st.sampled_from(KINDS),
    st.booleans(),
    st.lists(st.none() | texts, max_size=6),
    st.lists(st.integers(1, 20), min_size=6, max_size=6),
)
events = st.one_of(batches, batches, st.integers(0, 15), st.just("sweep"))


@settings(max_examples=EXAMPLES)
@given(st.lists(events, max_size=25), st.sampled_from([2**63 - 1, 0, 1, 7 << 40]), st.sampled_from([1, 3, 50]))
def test_one_id_per_live_text(history, hash_mask, room):
    # With a hash mask of 0 all texts are in one chain and all tags are equal: only comparing tells texts apart.
    model = Model(Dictionary(1 << 14, room=room, hash_mask=hash_mask))
    for event in history:
        if event == "sweep":
            model.sweep()
        elif isinstance(event, int):
            model.release(model.mark + event)
        else:
            model.intern(*event)
        model.check()
    model.sweep()
    model.check()


@settings(max_examples=EXAMPLES)
@given(st.lists(st.none() | texts, max_size=40))
def test_decode_dictionary_is_decode(rows):
    dictionary = Dictionary(1 << 14)
    ids = np.array([row[0] for row in intern_rows(dictionary, pa.array(rows, pa.string()), 1)] * 3, np.int32)
    found = dictionary.decode_dictionary(ids)
    found.validate(full=True)
    assert found.to_pylist() == rows * 3
    assert found.dictionary.to_pylist() == list(dict.fromkeys(row for row in rows if row is not None))
    plain = dictionary.decode(ids)
    plain.validate(full=True)
    assert plain.to_pylist() == rows * 3


def test_an_id_is_given_out_again_lowest_first():
    dictionary = Dictionary(1 << 10, room=1)
    first = intern_rows(dictionary, pa.array(list("abcdef")), until=5)
    intern_rows(dictionary, pa.array(["c"]), until=9)
    dictionary.release(5)
    dictionary.sweep()
    assert dictionary.live_count() == 1
    assert intern_rows(dictionary, pa.array(["x", "y", "c"]), until=9) == [first[0], first[1], first[2]]
    assert decoded(dictionary, [1, 2, 3]) == ["x", "y", "c"]


def test_until_only_grows_and_the_mark_too():
    dictionary = Dictionary(1 << 10)
    ids = intern_rows(dictionary, pa.array(["a"]), until=50)
    intern_rows(dictionary, pa.array(["a"]), until=10)
    dictionary.release(49)
    dictionary.release(3)
    dictionary.sweep()
    assert decoded(dictionary, ids[0]) == ["a"]
    dictionary.release(50)
    dictionary.sweep()
    assert dictionary.live_count() == 0


def test_long_texts_move_together():
    dictionary = Dictionary(1 << 16, room=8)
    kept = [f"kept {k} " + "k" * (k % 50) for k in range(20)]
    ids = [row[0] for row in intern_rows(dictionary, pa.array(kept), until=10**6)]
    highest = 0
    for time in range(200):
        passing = [f"{time} {k} " + "p" * (k * 7 % 90) for k in range(20)]
        intern_rows(dictionary, pa.array(passing), until=time + 1)
        dictionary.release(time)
        assert decoded(dictionary, ids) == kept
        highest = max(highest, dictionary.memory_bytes())
    assert highest < 40_000
    assert dictionary.sweep_count() > 20


def test_the_output_fills_up_between_two_rows():
    dictionary = Dictionary(1 << 10)
    rows = ["a b", "c d e", "", "f"] * 3
    column = dictionary.column(pa.array(rows), WORDS)
    until = np.ones(len(rows), np.int64)
    ids, starts = np.zeros(7, np.int32), np.zeros(len(rows) + 1, np.int64)
    seen, first = [], 0
    while first < len(rows):
        done = dictionary.intern(column, first, len(rows), until, ids, starts)
        assert done > first
        seen += [decoded(dictionary, row) for row in rows_of(ids, starts[: done - first + 1])]
        first = done
    assert seen == [row.split() for row in rows]
    assert dictionary.intern(column, 0, 3, until, ids[:1], starts) == 0


def test_a_column_can_be_interned_again():
    dictionary = Dictionary(1 << 10)
    column = dictionary.column(pa.array(["b a b", "a a"]), WORDS, distinct=True)
    found = [dictionary.intern_all(column, np.ones(2, np.int64)) for _ in range(2)]
    assert [rows_of(*each) for each in found] == [[[1, 2], [2]]] * 2


def test_a_row_with_more_new_words_than_there_is_room():
    dictionary = Dictionary(1 << 14, room=1)
    words = [f"w{k}" for k in range(5_000)]
    ((*ids,),) = intern_rows(dictionary, pa.array([" ".join(words)]), 1, WORDS)
    assert decoded(dictionary, ids) == words
    assert len(set(ids)) == len(words)


def test_full_says_so_and_goes_on_when_there_is_room_again():
    dictionary = Dictionary(16, room=1)
    intern_rows(dictionary, pa.array([f"{k}" for k in range(15)]), until=5)
    with pytest.raises(StretchError, match=r"is full: 15 are alive at once\.\n  why:   there is .* for 16 texts"):
        intern_rows(dictionary, pa.array(["0", "one more"]), until=6)
    dictionary.release(5)
    assert decoded(dictionary, [row[0] for row in intern_rows(dictionary, pa.array(["0", "x"]), until=6)]) == ["0", "x"]


def test_a_text_longer_than_the_reserved_space():
    dictionary = Dictionary(16, room=1)
    with pytest.raises(StretchError, match="is full"):
        intern_rows(dictionary, pa.array(["x" * 10_000]), until=5)
    assert decoded(dictionary, intern_rows(dictionary, pa.array(["x" * 1_000]), until=5)[0]) == ["x" * 1_000]


def test_a_row_at_or_below_the_mark_is_refused():
    dictionary = Dictionary(1 << 10)
    dictionary.release(7)
    column = dictionary.column(pa.array(["a", "b"]))
    with pytest.raises(JobError, match=r"row 1 comes too late(.|\n)*needed until 7, and everything up to 7 has been"):
        dictionary.intern_all(column, np.array([8, 7]))


def test_what_is_no_text_is_refused():
    dictionary = Dictionary(1 << 10)
    for array, kind in ((pa.array([1]), VALUES), (pa.array([["a"]]), WORDS), (pa.array([[1]]), VALUES)):
        with pytest.raises(InputError, match="cannot be interned"):
            dictionary.column(array, kind)


def test_capacity_is_checked():
    for capacity in (0, 1, 2**26 + 1):
        with pytest.raises(ValueError, match="id_capacity must be"):
            Dictionary(capacity)
    assert len(Dictionary(100).hashes) == 128


def test_decode_many_times_with_few_stamps(monkeypatch):
    monkeypatch.setattr("stretch.strings.dictionary._STAMP_MAX", 3)
    dictionary = Dictionary(1 << 10)
    ids = np.array([row[0] for row in intern_rows(dictionary, pa.array(list("abab")), 1)], np.int32)
    for _ in range(10):
        assert dictionary.decode_dictionary(ids[1:]).to_pylist() == list("bab")
        assert dictionary.decode_dictionary(ids).to_pylist() == list("abab")
