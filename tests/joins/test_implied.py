"""Bands that functions imply: found in every way to write them, and never more than is true."""

import itertools
import math
import random

import pytest

import stretch as st
from stretch.joins.implied import implied_bands
from stretch.operator.plan import make_plan
from stretch.schema import parse_schema

SCHEMAS = ["ts long, x int, y float, k long, name string", "ts long, a int, b float, c double, name string, d boolean"]


def bands(match):
    schemas = [parse_schema(text, "test") for text in SCHEMAS]
    plan = make_plan(st.Join(match=match, window=st.sliding(9), inputs=list(schemas)), schemas)
    return {(band.left, band.right, -band.below, band.above) for band in implied_bands(match, plan.streams)}


def early_return(l, r):
    if abs(l.x - r.a) > 10:
        return False
    distance = r.b - l.y
    return distance <= 2.5 and not distance < -1


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        (lambda l, r: abs(l.x - r.a) <= 10 and abs(l.y - r.b) <= 10, {("x", "a", -10, 10), ("y", "b", -10, 10)}),
        (lambda l, r: -3 < r.a - l.x <= 4, {("x", "a", -3, 4)}),
        (lambda l, r: l.x - 3 <= r.a and r.a <= l.x + 4, {("x", "a", -3, 4)}),
        (lambda l, r: (abs(l.x - r.a) <= 3) & (l.y > r.b), {("x", "a", -3, 3)}),
        (lambda l, r: abs(l.x - r.a) <= 3 or abs(l.x - r.a + 1) == 5, set()),
        (lambda l, r: l.x - r.a == 3 or l.x == r.a, {("x", "a", -3, 0)}),
        (lambda l, r: l.name == r.name, {("name", "name", 0, 0)}),
        (lambda l, r: abs(l.k - r.a) < 7 and math.sqrt(l.y) > 2, {("k", "a", -7, 7)}),
        (lambda l, r: not (l.x < r.a or l.x > r.a + 2), {("x", "a", -2, 0)}),
        (early_return, {("x", "a", -10, 10)}),  # not a band of b and y: NaN is not below -1
        (lambda l, r: abs(l.y - r.c) <= 0.5, {("y", "c", -0.5, 0.5)}),
    ],
    ids=itertools.count(),
)
def test_a_band_is_found_however_it_is_written(match, expected):
    assert bands(match) == expected


@pytest.mark.parametrize(
    "match",
    [
        lambda l, r: l.y <= r.b and r.b <= l.y,  # infinity is equal to itself, and infinitely far away
        lambda l, r: abs(l.y + 1 - r.b) <= 1,  # the sum is rounded
        lambda l, r: abs(l.x * 2 - r.a) <= 1,
        lambda l, r: l.x <= 3 and r.a >= 3,
        lambda l, r: l.name != r.name,
        lambda l, r: True,
        lambda l, r: abs(l.x - r.a),
        lambda l, r: all(l.x != i for i in range(1000)),
    ],
    ids=itertools.count(),
)
def test_nothing_is_found_where_nothing_is_certain(match):
    assert bands(match) == set()


def test_a_pair_that_matches_lies_in_every_band():
    """Random conditions of random shapes, on values at which they change."""
    chance = random.Random(3)
    parts = ["l.x - r.a", "r.a - l.x", "abs(l.x - r.a)", "l.x - r.a + 2", "l.k - r.a", "3 - (r.a - l.k)"]
    seen = 0
    for _ in range(300):
        conditions = [
            f"{chance.choice(['', 'not '])}({chance.choice(parts)} {chance.choice(['<', '<=', '==', '>=', '>', '!='])} "
            f"{chance.randint(-3, 3)})"
            for _ in range(3)
        ]
        text = conditions[0] + "".join(f" {chance.choice(['and', 'or'])} {each}" for each in conditions[1:])
        match = eval(f"lambda l, r: {text}")
        found = bands(match)
        seen += len(found)
        for _ in range(50):
            l, r = (type("T", (), {name: chance.randint(-4, 4) for name in "xka"}) for _ in "lr")
            if match(l, r):
                for left, right, low, high in found:
                    assert low <= getattr(r, right) - getattr(l, left) <= high, text
    assert seen > 50
