"""What tests of the dictionary share: texts to try, and the rules of tokenising as the operators define them."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from stretch.operator.keys import hashtags, words
from stretch.strings import HASHTAGS, VALUES, WORDS

KINDS = [VALUES, WORDS, HASHTAGS]

# Few characters, so that texts repeat; of each length in UTF-8, signs, all blanks, and blanks that are none in ASCII.
_CHARACTERS = "ab Z9_#\t\n\r\v\f\0\x1f\x0e\x08\x7fé߿€𝄞\u2003\u0085\xa0"
texts = st.one_of(
    st.text(_CHARACTERS, max_size=12),
    st.text(_CHARACTERS, max_size=200),
    st.text("a", max_size=70),
    st.lists(st.sampled_from(["#tag", "word", "0123456789abcdef", "0123456789abcdefg", "a" * 40]), max_size=40).map(
        " ".join
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=30),
)


class _Row:
    def __init__(self, text):
        self.text = text


def expected_texts(kind, value, distinct=False):
    """Return the texts that one row gives: `value` is text or None, for VALUES maybe a list of them."""
    if kind == VALUES:
        found = value if isinstance(value, list) else [value]
    else:
        found = (words if kind == WORDS else hashtags)("text")(_Row(value))
    return list(dict.fromkeys(found)) if distinct else list(found)


def rows_of(ids, starts):
    """Return the ids of each row."""
    return [ids[first:stop].tolist() for first, stop in itertools.pairwise(starts)]


def intern_rows(dictionary, array, until, kind=VALUES, distinct=False):
    """Intern a column whose rows all have the same time; return the ids of each row."""
    column = dictionary.column(array, kind, distinct=distinct)
    ids, starts = dictionary.intern_all(column, np.full(len(array), until, np.int64))
    return rows_of(ids, starts)


def decoded(dictionary, ids):
    return dictionary.decode(np.array(ids, np.int32)).to_pylist()
