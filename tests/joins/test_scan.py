"""The nested loop finds what a plain loop in Python finds, in the same order."""

import math

import numpy as np
import pytest

import stretch as st
from tests.joins.streams import Sides

PAPER = ("x int, y float", "a int, b float, c double, d boolean")


def near(l, r):
    return abs(l.x - r.a) <= 10 and abs(l.y - r.b) <= 10


def paper_values(rows, span, seed=0, first=0):
    random = np.random.default_rng(seed)

    def floats():
        return random.uniform(1, span, rows).astype(np.float32)

    left = {"ts": np.arange(rows), "x": random.integers(1, span, rows), "y": floats()}
    right = {"ts": np.arange(rows), "a": random.integers(1, span, rows), "b": floats()}
    return left, right | {"c": floats().astype(float), "d": random.random(rows) < 0.5}


def windows(rows, probes, first, seed=1):
    random = np.random.default_rng(seed)
    lows = np.sort(random.integers(first, first + rows // 2, probes))
    return lows, np.maximum(lows, np.sort(random.integers(first, first + rows + 1, probes)))


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("room", [1, 7, 1000])
def test_hits_are_those_of_a_plain_loop_in_its_order(side, room):
    rows, first = 150, (1000, 37)
    sides = Sides(near, PAPER, paper_values(rows, 60), capacity=256, first=first)
    other = first[1 - side]
    probes = (first[side] + 10, first[side] + 90)
    lows, highs = windows(rows, 80, other)
    ranges = [(other - 5, other + 20), (other + 20, other + 21), (other + 40, other + 131)]
    expected = sides.expected(side, probes, lows, highs, ranges)
    assert len(expected) > 100
    assert sides.found(side, probes, lows, highs, ranges, room) == expected


def random_function(l, r):
    if l.name == r.name:
        return l.x > r.a and math.sqrt(abs(l.y)) < 7
    return l.timestamp % 7 == r.ts % 5 and r.d


@pytest.mark.parametrize(
    "match",
    [
        random_function,
        st.band("x", "a", 3) & random_function,
        st.band("y", "b", 2.5),
        st.band("x", "b", 1),
        lambda l, r: l.x == r.a or l.x - r.a == 3,
    ],
    ids=["function", "band and function", "float band", "mixed band", "lambda"],
)
def test_any_function_and_bands(match):
    rows = 70
    left, right = paper_values(rows, 30)
    names = np.random.default_rng(5).integers(1, 4, (2, rows))
    sides = Sides(
        match,
        ("x int, y float, name string", "a int, b float, c double, d boolean, name string"),
        (left | {"name": names[0]}, right | {"name": names[1]}),
        capacity=128,
    )
    every = [0] * rows, [rows] * rows
    for side in (0, 1):
        expected = sides.expected(side, (0, rows), *every, [(0, rows)])
        assert 0 < len(expected) < rows * rows
        assert sides.found(side, (0, rows), *every, [(0, rows)], 64) == expected


def test_nulls_are_not_near():
    values = {"x": [1, None, 0]}, {"a": [None, 0, 1]}
    sides = Sides(st.band("x", "a", 1), ("x int", "a int"), values, capacity=4)
    assert sides.found(0, (0, 3), [0] * 3, [3] * 3, [(0, 3)], 9) == [(0, 1), (0, 2), (2, 1), (2, 2)]


def test_arithmetic_is_that_of_the_reference_engine():
    """Distances at the edge of what 32 bits can tell: sums that run over, and floats that round."""
    ints = {"x": [2**31 - 1, -(2**31), 5]}, {"a": [-(2**31), 2**31 - 1, 15]}
    sides = Sides(lambda l, r: abs(l.x - r.a) <= 10, ("x int", "a int"), ints, capacity=4)
    assert sides.found(0, (0, 3), [0] * 3, [3] * 3, [(0, 3)], 9) == [(0, 1), (1, 0), (2, 2)]
    far, near_ = np.float32(1e-7), np.float32(0)
    floats = {"y": [np.float32(-10), np.float32(3e38)]}, {"b": [far, near_]}
    sides = Sides(lambda l, r: abs(l.y - r.b) <= 10, ("y float", "b float"), floats, capacity=4)
    assert sides.found(0, (0, 2), [0] * 2, [2] * 2, [(0, 2)], 9) == [(0, 1)]
