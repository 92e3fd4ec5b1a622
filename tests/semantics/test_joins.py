"""Joins, by their definition: which pairs, which tuples alone, at which time, and in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

import stretch as st
from tests.harness.definition import Cut, Cutless, Tuple, exact, joined
from tests.harness.run import INTERPRETED, Case, Columns, Execution, Joined, Scenario, interleave, run
from tests.harness.scenarios import executions, scenarios, streams
from tests.harness.scenarios import joined as joins


@pytest.mark.parametrize("engine", INTERPRETED)
@given(scenario=scenarios(joins()))
def test_rows_are_those_of_the_definition_in_its_order(engine, scenario):
    assert exact(run(scenario, engine)) == exact(scenario.case.expected())


@given(scenario=scenarios(joins()))
def test_rows_are_those_of_the_definition_in_its_order_in_every_interleaving(scenario):
    assert exact(interleave(scenario).rows) == exact(scenario.case.expected())


@some.composite
def self_joins(draw):
    how = draw(some.sampled_from(["inner", "left", "full"]))
    query = Joined(draw(some.sampled_from([Cut(5, 1, "single"), Cutless(0, 4)])), "band", None, 3, how, True)
    rows = draw(streams(10))
    case = Case(query, (rows, rows), (0, 1))
    return Scenario(case, draw(executions(case)))


@pytest.mark.parametrize("engine", INTERPRETED)
@given(scenario=self_joins())
def test_a_row_does_not_meet_itself_in_a_self_join(engine, scenario):
    assert exact(run(scenario, engine)) == exact(scenario.case.expected())


def rows(timestamps, payload=(None, None, None, 0, None)):
    return tuple((timestamp, *payload) for timestamp in timestamps)


def meet(when, left, right, how="inner", engine="reference"):
    """Return the times of the results of tuples at these times."""
    case = Case(Joined(when, "all", None, 2, how), (rows(left), rows(right)), (0, 1))
    return [(row[0], row[4], row[9]) for row in run(Scenario(case, Execution()), engine)]


@pytest.mark.parametrize("engine", INTERPRETED)
@pytest.mark.parametrize(
    ("distance", "is_met"), [(-4, False), (-3, True), (-1, True), (0, True), (1, True), (5, True), (6, False)]
)
def test_both_ends_of_an_interval_belong_to_it(engine, distance, is_met):
    """A right tuple at `l - before` and at `l + after`."""
    found = meet(Cutless(3, 5), [10], [10 + distance], engine=engine)
    assert found == ([(max(10, 10 + distance) + 1, 0, 0)] if is_met else [])


@pytest.mark.parametrize("engine", INTERPRETED)
def test_tuples_alone_are_reported_when_nobody_can_come_any_more(engine):
    """A left tuple waits for what is up to `after` later, a right one for what is up to `before` later."""
    assert meet(Cutless(3, 5), [10], [], "full", engine) == [(16, 0, None)]
    assert meet(Cutless(3, 5), [], [10], "full", engine) == [(14, None, 0)]
    assert meet(Cut(5, 1, "single"), [10], [], "full", engine) == [(15, 0, None)]
    assert meet(Cut(5, 5), [11], [], "full", engine) == [(15, 0, None)]
    assert meet(Cut(6, 3, "single"), [10], [], "full", engine) == [(15, 0, None)]


def test_a_pair_that_shares_several_keys_comes_once():
    """Under the first of them, whoever owns which key."""
    sides = "ts long, tags array<string>"
    join = st.Join(window=st.sliding(10), keys="tags", inputs=[sides, sides], groups=16)
    found = st.testing.run(
        join,
        {"left": [{"ts": 1, "tags": ["a", "b", "c"]}], "right": [{"ts": 2, "tags": ["c", "x", "b"]}]},
        parallelism=4,
    )
    assert len(found) == 1


def test_the_definition_itself_on_a_case_done_by_hand():
    tuples = [
        Tuple(0, 0, 0, 0, ("a",)),
        Tuple(2, 0, 1, 0, ("b",)),
        Tuple(2, 1, 0, 1, ("x",)),
        Tuple(3, 1, 1, 1, ("y",)),
    ]
    found = joined(tuples, Cut(3, 1, "single"), lambda l, r: (l, r) != (("b",), ("x",)), how="full")
    assert found == [(3, "a", "x"), (4, "b", "y")]
    found = joined(tuples, Cut(4, 2, "multi"), lambda l, r: l == ("a",), how="inner")
    assert found == [(4, "a", "x"), (4, "a", "y")]
    found = joined(tuples, Cutless(0, 2), lambda l, r: r == ("x",), lambda t: [Columns], how="full")
    assert found == [(3, "a", "x"), (3, "b", "x"), (4, None, "y")]


PEOPLE = "ts long, x long, note string"


@pytest.mark.parametrize(
    "match",
    [
        st.band("x", "x", 2),
        st.band("x", "x", 9) & (lambda l, r: abs(l.x - r.x) <= 2),
        (lambda l, r: abs(l.x - r.x) <= 2) & st.band("x", "x", 9),
        st.band("x", "x", 5) & st.band("x", "x", 2.5),
    ],
    ids=["a band", "band and function", "function and band", "two bands"],
)
def test_a_band_is_a_predicate_like_others_and_null_is_in_no_band(match):
    left = [{"ts": n, "x": x, "note": "l"} for n, x in enumerate([0, 5, None])]
    right = [{"ts": 3 + n, "x": x, "note": "r"} for n, x in enumerate([2, 3, 8, None])]
    join = st.Join(window=st.sliding(100), match=match, inputs=[PEOPLE, PEOPLE])
    if not isinstance(match, type(st.band("x", "x", 2))):
        left, right = left[:-1], right[:-1]  # functions of a user do not take nulls here
    assert [(row["l_x"], row["r_x"]) for row in st.testing.run(join, {"left": left, "right": right})] == [
        (0, 2),
        (5, 3),
    ]


def test_a_band_of_timestamps_takes_a_length_of_time():
    side = "ts timestamp, at timestamp"
    join = st.Join(window=st.sliding("1 minute"), match=st.band("at", "at", "2 seconds"), inputs=[side, side])
    plan = st.setup(join).engine.plan
    assert (plan.operator.pairing.match.below, plan.operator.pairing.match.above) == (2_000_000, 2_000_000)
