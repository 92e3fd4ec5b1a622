"""Watermarks: implicit, of bounded disorder, explicit; late tuples, heartbeats, silent and ended sources.

Paper: section "correctness".
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as some

import stretch as st
from tests.harness.definition import Cut, Tuple, exact, multiset
from tests.harness.queries import SCHEMA, Aggregated, Columns
from tests.harness.run import ENGINES, INTERPRETED, batch, rows_of

QUERY = Aggregated(Cut(10, 5), "tag", (("count", None), ("sum", "x"), ("first", "x"), ("last", "x")))
TIMES = some.integers(-15, 40)
UNSORTED = some.lists(some.tuples(TIMES, some.sampled_from(["red", "pink"]), some.integers(0, 99)), max_size=15)


def rows_from(arrivals):
    return tuple((timestamp, None, tag, None, x, None) for timestamp, tag, x in arrivals)


def setup(engine="reference", **options):
    return st.setup(QUERY.operator(), inputs=SCHEMA, engine=engine, **options)


def expected(rows):
    """Return what the definition makes of the rows of one source, which are sorted by time, then as they came."""
    order = sorted(rows, key=lambda row: row[0])
    return QUERY.expected([Tuple(row[0], 0, n, 0, Columns(*row[1:])) for n, row in enumerate(order)])


def batches(rows, sizes) -> Iterator[tuple]:
    for size in sizes:
        yield rows[:size]
        rows = rows[size:]
    yield from ((row,) for row in rows)


def split(rows, disorder):
    """Return the rows that are in time and those that are late: further back than `disorder` from the latest so far."""
    latest, taken, late = float("-inf"), [], []
    for row in rows:
        (late if row[0] < latest - disorder else taken).append(row)
        latest = max(latest, row[0])
    return taken, late


@pytest.mark.parametrize("engine", ENGINES)
@given(arrivals=UNSORTED, disorder=some.none() | some.integers(0, 20), sizes=some.lists(some.integers(1, 5)))
def test_late_tuples_are_counted_and_kept_aside_and_the_rest_is_the_definition(engine, arrivals, disorder, sizes):
    """With implicit watermarks a tuple is late if it goes back at all; what is late does not depend on batches."""
    rows = rows_from(arrivals)
    taken, late = split(rows, disorder or 0)
    with setup(engine, watermark=disorder, parallelism=2) as job:
        for part in batches(rows, sizes):
            job.add(batch(part))
        table = rows_of(job.finish())
        assert multiset(table) == multiset(expected(taken))
        assert exact(rows_of(job.late())) == exact(late)
        assert job.metrics().late == len(late)
        assert len(job.late()) == 0, "handed out once"


@given(
    timestamps=some.lists(TIMES, max_size=15),
    disorder=some.integers(0, 20),
    seed=some.randoms(use_true_random=False),
    parallelism=some.integers(1, 3),
)
def test_disorder_within_its_bound_loses_nothing_and_changes_nothing(timestamps, disorder, seed, parallelism):
    rows = rows_from((timestamp, "red", n) for n, timestamp in enumerate(sorted(timestamps)))
    shuffled = sorted(rows, key=lambda row: row[0] + seed.uniform(0, disorder))
    with setup(watermark=disorder, parallelism=parallelism) as job:
        job.add(batch(tuple(shuffled)))
        table = rows_of(job.finish())
        assert job.metrics().late == 0
    assert multiset(table) == multiset(expected(shuffled))


@given(arrivals=UNSORTED, marks=some.lists(some.integers(-20, 45), max_size=15))
def test_explicit_watermarks_sort_what_they_have_reached(arrivals, marks):
    """Tuples wait for the source's own watermarks; a tuple below the last of them is late."""
    reached, results, taken, late = float("-inf"), [], [], []
    with setup(watermark="explicit", parallelism=2) as job:
        for n, row in enumerate(rows_from(arrivals)):
            job.add(batch((row,)))
            (late if row[0] < reached else taken).append(row)
            if n < len(marks):
                job.watermark(marks[n])
                reached = max(reached, marks[n])
                results += rows_of(job.results())
                assert all(row[0] <= reached for row in results), "nothing leaves before its window is over"
        results += rows_of(job.finish())
        assert exact(rows_of(job.late())) == exact(late)
    assert multiset(results) == multiset(expected(taken))


def test_explicit_watermarks_on_a_case_done_by_hand():
    with st.setup(
        st.Aggregate(window=st.tumbling(10), xs=st.first("x"), n=st.count()), inputs=SCHEMA, watermark="explicit"
    ) as job:
        job.add(batch(rows_from([(7, None, 1), (3, None, 2), (12, None, 3)])))
        assert rows_of(job.results()) == [], "no watermark, no result"
        job.watermark(10)
        assert rows_of(job.results()) == [(10, 2, 2)]
        job.add(batch(rows_from([(9, None, 4), (10, None, 5)])))
        assert rows_of(job.late()) == list(rows_from([(9, None, 4)]))
        assert rows_of(job.finish()) == [(20, 5, 2)]


# --- silence


@dataclass
class Clock:
    """A clock that tests set."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def one(timestamp):
    return batch(rows_from([(timestamp, "red", 1)]))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_silent_source_stalls_results_and_a_heartbeat_frees_them(engine):
    with setup(engine, sources=2) as job:
        job.add(one(3), source=0)
        job.add(one(30), source=0)
        assert job.results().num_rows == 0, "source 1 may still have tuples at any time"
        job.watermark(30, source=1)
        assert [row[0] for row in rows_of(job.results())] == [5, 10]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_idle_source_holds_nobody_back_and_comes_back_with_late_tuples_counted(engine):
    clock = Clock()
    with setup(engine, sources=2, idle="5 seconds", clock=clock) as job:
        job.add(one(1), source=1)
        job.add(one(3), source=0)
        job.add(one(30), source=0)
        assert job.results().num_rows == 0
        clock.now = 4.9
        job.add(one(31), source=0)
        assert job.results().num_rows == 0
        clock.now = 5.0
        job.add(one(31), source=0)
        assert [row[:3] for row in rows_of(job.results())] == [(5, "red", 2), (10, "red", 2)]
        job.add(one(12), source=1)
        job.add(one(33), source=1)
        assert job.metrics().late == 1
        assert len(job.late(1)) == 1
        assert [row[:3] for row in rows_of(job.finish())] == [(35, "red", 4), (40, "red", 4)]


def test_when_all_sources_are_silent_nobody_is_waited_for():
    """All go on to what the furthest has reached, and no further: its own next tuples are in time."""
    clock = Clock()
    with setup(sources=2, idle="5 seconds", clock=clock) as job:
        job.add(one(3), source=0)
        job.add(one(30), source=0)
        job.add(one(1), source=1)
        assert job.results().num_rows == 0
        clock.now = 1000.0
        assert [row[0] for row in rows_of(job.results())] == [5, 10]
        job.add(one(30), source=0)
        assert job.metrics().late == 0


def test_a_heartbeat_counts_as_a_sign_of_life():
    clock = Clock()
    with setup(sources=2, idle="5 seconds", clock=clock) as job:
        job.add(one(30), source=0)
        clock.now = 4.0
        job.watermark(2, source=1)
        clock.now = 8.0
        job.add(one(31), source=0)
        job.add(one(11), source=1)
        assert job.metrics().late == 0


# --- heartbeats and reconfigurations


def test_a_heartbeat_carries_a_reconfiguration_on_a_silent_stream():
    with setup(max_parallelism=3) as job:
        job.add(one(3))
        change = job.reconfigure(3)
        assert (change.status, change.watermark) == ("waiting", None)
        job.watermark(4)
        assert change.status == "waiting", "announced at 4, so it takes effect beyond 4"
        job.watermark(5)
        assert (change.status, change.watermark) == ("switched", 5)
        assert job.metrics().parallelism == 3
        assert [row[:3] for row in rows_of(job.finish())] == [(5, "red", 1), (10, "red", 1)]


def test_a_heartbeat_that_carries_a_reconfiguration_is_still_a_watermark():
    """Results do not wait for the next one, with a change pending or without."""
    with setup(max_parallelism=3) as job:
        job.add(one(3))
        job.reconfigure(3)
        job.watermark(10)
        assert [row[0] for row in rows_of(job.results())] == [5, 10]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reconfiguration_right_before_the_end_loses_nothing(engine):
    with setup(engine, max_parallelism=3) as job:
        job.add(one(3))
        job.reconfigure(3)
        assert [row[0] for row in rows_of(job.finish())] == [5, 10]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tuple_at_the_time_of_the_heartbeat_before_a_reconfiguration_is_taken(engine):
    """The control tuple goes between the heartbeat and the tuple, all at the same time."""
    with setup(engine, max_parallelism=3, sources=2) as job:
        for source in (0, 1):
            job.watermark(5, source=source)
        for _ in range(3):
            job.reconfigure(3)
        for source in (0, 1):
            job.add(one(5), source=source)
        assert [row[:3] for row in rows_of(job.finish())] == [(10, "red", 2), (15, "red", 2)]


def test_of_several_requests_in_flight_the_last_one_wins_and_the_others_say_so():
    with setup(max_parallelism=4) as job:
        job.add(one(3))
        changes = [job.reconfigure(parallelism) for parallelism in (2, 3, 4)]
        job.add(one(6))
        job.add(one(7))
        assert [change.status for change in changes] == ["superseded", "superseded", "switched"]
        assert job.metrics().reconfigurations == 1
        assert job.metrics().parallelism == 4


# --- ends of sources


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_sources_end_in_any_order_and_what_they_added_is_delivered(engine, order):
    """Paper: removeSources, the flush tuple."""
    with setup(engine, sources=3, parallelism=2) as job:
        for source in range(3):
            job.add(one(3 + 7 * source), source=source)
        for source in order:
            job.close(source)
        assert [row[:3] for row in rows_of(job.finish())] == [
            *[(5, "red", 1), (10, "red", 1), (15, "red", 1)],
            *[(20, "red", 2), (25, "red", 1)],
        ]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_closed_source_takes_nothing_more_and_says_so(engine):
    with setup(engine, sources=2) as job:
        job.close(1)
        for action in (lambda: job.add(one(3), source=1), lambda: job.watermark(3, source=1), lambda: job.close(1)):
            with pytest.raises(st.JobError):
                action()
        job.add(one(3))
        assert job.finish().num_rows == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_a_shared_nothing_or_shared_change_with_tuples_of_an_ended_source_in_flight(engine):
    with setup(engine, sources=2, max_parallelism=3) as job:
        job.add(one(20), source=1)
        job.close(1)
        job.reconfigure(3)
        job.add(one(30), source=0)
        assert [row[:3] for row in rows_of(job.finish())][:2] == [(25, "red", 1), (30, "red", 1)]


@pytest.mark.parametrize("engine", INTERPRETED)
def test_a_stateless_operator_delivers_the_last_tuples_of_all_sources(engine):
    """At the end nothing comes after the last tuple, and there is no window that makes the watermark go on."""
    operator = st.Map(lambda t: [(t.x,)], schema="x long")
    with st.setup(operator, inputs=SCHEMA, sources=3, parallelism=2, engine=engine) as job:
        for source in range(3):
            job.add(one(5), source=source)
        assert job.finish().num_rows == 3
