"""The nested loop finds what a plain loop in Python finds, in the same order."""

import math

import numpy as np
import pytest

import stretch as st
from tests.joins.assembly import has_wide_vectors, vector_loops
from tests.joins.streams import Sides

pytestmark = pytest.mark.timeout(600)  # compiling takes long where many want the processor

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
        st.band("x", "b", 7) & random_function,
    ],
    ids=["function", "band and function"],
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
    far, huge = np.float32(1e-7), np.float32(3e38)
    left = {"x": [2**31 - 1, -(2**31), 5, 5], "y": np.float32([-10, -10, -10, huge])}
    right = {"a": [-(2**31), 2**31 - 1, 15, 15], "b": np.float32([0, 0, far, 0])}
    sides = Sides(
        near, PAPER, (left | {"ts": range(4)}, right | {"c": [0] * 4, "d": [0] * 4, "ts": range(4)}), capacity=4
    )
    assert sides.found(0, (0, 4), [0] * 4, [4] * 4, [(0, 4)], 9) == [(0, 1), (1, 0), (2, 3)]


def test_floats_that_are_no_numbers_match_as_in_the_reference_engine():
    odd = np.float32([np.nan, np.inf, -np.inf, 1])
    left, right = {"x": [1] * 4, "y": odd}, {"a": [1] * 4, "b": odd}
    sides = Sides(near, PAPER, (left, right), capacity=4)
    assert sides.found(0, (0, 4), [0] * 4, [4] * 4, [(0, 4)], 9) == [(3, 3)]


@pytest.mark.skipif(not has_wide_vectors(), reason="this machine has no vectors of 512 bits")
def test_the_inner_loop_compares_16_rows_at_once():
    """The paper's predicate, written as anybody would: 32-bit lanes, and no conversion to wider ones."""
    sides = Sides(near, PAPER, paper_values(4, 60), capacity=4)
    for side in (0, 1):
        sides.found(side, (0, 4), [0] * 4, [4] * 4, [(0, 4)], 9)
        loops = vector_loops(sides.scans[side], "zmm")
        assert any("vpsubd" in loop and "vsubps" in loop and "vpcmpleud" in loop for loop in loops)
        assert not any("vcvtps2pd" in loop or "vpmovsxdq" in loop for loop in loops)
