"""Windows: both kinds give the same, boundaries are exact, and results leave when they are due."""

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

import stretch as st
from tests.harness.definition import exact, multiset
from tests.harness.queries import SCHEMA, Aggregated, Joined
from tests.harness.run import ENGINES, INTERPRETED, Cut, batch, interleave, rows_of, run
from tests.harness.scenarios import aggregated, computed, elastic, scenarios

OUTPUT_BASED = aggregated() | computed(functions=["recount", "ends", "crowds", "sides"])


def of_kind(scenario, kind):
    query = scenario.case.query
    cut = query.cut._replace(kind=kind)
    return replace(scenario, case=replace(scenario.case, query=replace(query, cut=cut)))


@pytest.mark.parametrize("engine", INTERPRETED)
@given(scenario=scenarios(OUTPUT_BASED))
def test_single_and_multi_give_the_same_results(engine, scenario):
    """Both are the paper's window types of one semantics; the order of ties may differ (by when keys came up)."""
    assert multiset(run(of_kind(scenario, "single"), engine)) == multiset(run(of_kind(scenario, "multi"), engine))


@given(scenario=elastic(OUTPUT_BASED))
def test_single_and_multi_give_the_same_results_while_reconfigured(scenario):
    runs = [interleave(of_kind(scenario, kind)).rows for kind in ("single", "multi")]
    assert multiset(runs[0]) == multiset(runs[1])


def row(timestamp, x=0):
    return (timestamp, None, None, None, x, None)


def job(window, engine="reference", **options):
    operator = st.Aggregate(window=window, tuples=st.count())
    return st.setup(operator, inputs=SCHEMA, engine=engine, **options)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["single", "multi"])
@pytest.mark.parametrize("origin", [0, 100, -100, -(10**12), 10**15])
def test_the_left_boundary_belongs_to_a_window_and_the_right_one_does_not(engine, kind, origin):
    with job(st.tumbling(10, kind), engine) as running:
        running.add(batch(tuple(row(origin + offset) for offset in (0, 9, 10, 19, 20))))
        table = rows_of(running.finish())
    assert table == [(origin + 10, 2), (origin + 20, 2), (origin + 30, 1)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["single", "multi"])
def test_a_size_that_is_no_multiple_of_the_advance(engine, kind):
    """Windows of 7 every 3: a tuple at 7 is in [3, 10) and [6, 13), one at 6 in [0, 7) too."""
    with job(st.sliding(7, 3, kind), engine) as running:
        running.add(batch((row(6), row(7))))
        assert rows_of(running.finish()) == [(7, 1), (10, 2), (13, 2)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["single", "multi"])
def test_a_window_is_reported_by_the_first_watermark_that_reaches_its_right_boundary(engine, kind):
    """Not by the one after it (the paper's section "correctness" against its algorithms)."""
    with job(st.tumbling(10, kind), engine, parallelism=2) as running:
        running.add(batch((row(3), row(9))))
        assert rows_of(running.results()) == []
        running.watermark(10)
        assert rows_of(running.results()) == [(10, 2)]
        running.add(batch((row(12),)))
        running.add(batch((row(20),)))
        assert rows_of(running.results()) == [(20, 1)]


@pytest.mark.parametrize("engine", ENGINES)
def test_results_do_not_wait_for_instances_that_have_none(engine):
    """One key, five instances: the other four publish their progress."""
    with job(st.tumbling(10), engine, parallelism=5) as running:
        running.add(batch((row(3), row(15), row(25))))
        assert rows_of(running.results()) == [(10, 1), (20, 1)]


@pytest.mark.parametrize("engine", INTERPRETED)
@given(scenario=scenarios(some.builds(Joined, some.sampled_from([Cut(8, 1, "multi"), Cut(9, 4)]), some.just("all"))))
def test_rows_of_updates_are_held_until_their_boundary(engine, scenario):
    """A pair is timestamped by a window that ends later than windows still to be reported; order has to hold."""
    rows = run(scenario, engine)
    assert [each[0] for each in rows] == sorted(each[0] for each in rows)
    assert multiset(rows) == multiset(scenario.case.expected())


def test_the_output_time_of_updates_with_the_finest_windows_is_one_step_after_the_tuple():
    with st.setup(st.paper.forwarder(2, "x long"), inputs=["ts long, x long"] * 2) as running:
        running.add(batch(((5, 7),), pa.schema([("ts", pa.int64()), ("x", pa.int64())])), source=1)
        assert rows_of(running.finish()) == [(6, 7), (6, 7)]


def test_results_of_equal_times_are_in_the_order_of_key_groups_then_of_first_tuples():
    """What "byte-identical" rests on: with one group, results come as their keys first came up."""
    query = Aggregated(Cut(10, 10), "tag", (("count", None),), groups=1)
    rows = tuple((timestamp, None, tag, None, 0, None) for timestamp, tag in enumerate(["red", "blue", "red", None]))
    with st.setup(query.operator(), inputs=SCHEMA, parallelism=3) as running:
        running.add(batch(rows))
        assert exact(rows_of(running.finish())) == exact([(10, "red", 2), (10, "blue", 1), (10, None, 1)])
