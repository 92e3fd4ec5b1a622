"""The band that leaves the fewest pairs is chosen, and none if all leave many."""

import numpy as np
import pytest

import stretch as st
from stretch.joins.choice import choose, share_of

X, Y = st.band("x", "a", 10), st.band("y", "b", 10)


def sample(**spans):
    random = np.random.default_rng(0)
    return {name: random.uniform(0, span, 1000) for name, span in spans.items()}


def test_the_most_selective_band_comes_first():
    left, right = sample(x=1000, y=10_000), sample(a=1000, b=10_000)
    assert choose([X, Y], left, right).bands == choose([Y, X], left, right).bands == (Y, X)
    assert choose([X, Y], left, right).why.startswith("index on b within 10 of y: ")


def test_bands_that_leave_many_pairs_need_no_index():
    choice = choose([X], sample(x=100), sample(a=100))
    assert choice.bands == ()
    assert choice.why.startswith("nested loop: ")
    assert choose([]).bands == ()


def test_without_rows_equality_comes_first():
    same = st.band("k", "k", 0)
    assert choose([X, same, Y]).bands == (same, X, Y)
    assert choose([X, Y], {"x": np.zeros(0)}, {"a": np.zeros(0)}).bands == (X, Y)


def test_a_share_is_counted_with_both_ends():
    assert share_of(X, np.array([0, 100]), np.array([-10, 10, 11, 110])) == pytest.approx(3 / 8)
