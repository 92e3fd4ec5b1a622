"""Boundary arithmetic against brute force: [l * advance, l * advance + size) for every integer l."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

import stretch as st
from stretch.windows.spec import Boundaries


@some.composite
def boundaries(draw):
    advance = draw(some.integers(1, 12))
    return Boundaries(draw(some.integers(advance, 40)), advance, "multi")


def lefts_by_definition(windows, timestamp):
    """Go through all l whose window could hold the timestamp."""
    far = range(timestamp // windows.advance - windows.size - 2, timestamp // windows.advance + windows.size + 2)
    return [n * windows.advance for n in far if n * windows.advance <= timestamp < n * windows.advance + windows.size]


@given(boundaries(), some.integers(-200, 200))
def test_earliest_and_latest_left(windows, timestamp):
    lefts = lefts_by_definition(windows, timestamp)
    assert windows.earliest_left(timestamp) == lefts[0]
    assert windows.latest_left(timestamp) == lefts[-1]
    assert lefts == list(range(lefts[0], lefts[-1] + 1, windows.advance))


@given(boundaries(), some.integers(-(2**62), 2**62), some.integers(-1000, 1000))
def test_time_has_no_special_point(windows, timestamp, steps):
    moved = timestamp + steps * windows.advance
    assert windows.earliest_left(moved) == windows.earliest_left(timestamp) + steps * windows.advance
    assert windows.latest_left(moved) == windows.latest_left(timestamp) + steps * windows.advance


@given(boundaries(), some.integers(-50, 50))
def test_the_left_boundary_belongs_and_the_right_does_not(windows, number):
    left = number * windows.advance
    assert windows.latest_left(left) == left
    assert windows.earliest_left(windows.right(left)) > left
    assert windows.earliest_left(windows.right(left) - 1) == left


@given(boundaries(), some.integers(-200, 200), some.integers(-200, 200))
def test_expired_means_that_no_later_tuple_belongs(windows, left, watermark):
    left -= left % windows.advance
    reach = range(watermark, watermark + windows.size + abs(left) + 1)
    is_open = any(left <= timestamp < windows.right(left) for timestamp in reach)
    is_ahead = left >= watermark + windows.size + abs(left) + 1
    assert windows.is_expired(left, watermark) == (not is_open and not is_ahead)


@pytest.mark.parametrize(("timestamp", "left"), [(0, 0), (9, 0), (10, 10), (-1, -10), (-10, -10), (-11, -20)])
def test_tumbling_windows_have_one_left(timestamp, left):
    windows = st.tumbling(10).boundaries(time_is_timestamp=False, column="ts")
    assert windows.earliest_left(timestamp) == windows.latest_left(timestamp) == left


def test_without_an_advance_windows_move_with_the_resolution():
    window = st.sliding("1 second")
    assert (window.kind, window.advance) == ("single", None)
    assert window.boundaries(True, "ts") == Boundaries(1_000_000, 1, "single")
    assert window.boundaries(True, "ts", resolution=1_000) == Boundaries(1_000_000, 1_000, "single")


def test_kinds():
    assert st.sliding(10, 5).kind == "multi"
    assert st.sliding(10, 5, kind="single").kind == "single"
    assert st.tumbling(10).kind == "multi"
    assert st.tumbling(10) == st.sliding(10, 10)


def test_a_size_may_have_a_rest_beyond_the_advance():
    windows = st.sliding(10, 4).boundaries(False, "ts")
    assert [windows.earliest_left(t) for t in (0, 1, 2, 3)] == [-8, -8, -4, -4]
    assert windows.latest_left(3) == 0
