"""State is bounded by live windows, and silence costs neither memory nor steps."""

from dataclasses import replace

import pytest
from hypothesis import given

import stretch as st
from tests.harness.queries import SCHEMA, Joined
from tests.harness.run import Case, Cut, Execution, batch, interleave, rows_of, start
from tests.harness.scenarios import scenarios, windowed


def live(windows, watermark):
    """Return the boundaries of window instances that are over and still in the store."""
    return [(each.left, each.key) for each in windows if each.instances[0].right <= watermark]


@given(scenario=scenarios(windowed()))
def test_after_a_long_silence_no_window_and_no_tuple_is_left(scenario):
    """Only the counters of a keyless join stay: one set per key group, without tuples."""
    run = interleave(scenario)
    windows = list(run.job.engine.operator.windows)
    assert not any(instance.tuples for each in windows for instance in each.instances)
    assert not any(each.held for each in windows)
    query = scenario.case.query
    is_counting = isinstance(query, Joined) and query.is_round_robin
    assert len(windows) <= (query.groups if is_counting else 0)


@given(scenario=scenarios(windowed()))
def test_at_any_time_only_live_windows_are_kept(scenario):
    """No window that is over, no tuple that its window has left behind, one set per key if it slides."""
    case = scenario.case
    source = max(range(len(case.sources)), key=lambda n: len(case.sources[n]))
    with start(case, replace(scenario.execution, changes=())) as job:
        for other in range(len(case.sources)):
            if other != source:
                job.close(other)
        for row in case.sources[source]:
            job.add(batch((row,)), source)
            windows = list(job.engine.operator.windows)
            assert live(windows, row[0]) == []
            for each in windows:
                for instance in each.instances:
                    assert all(instance.left <= t.timestamp < instance.right for t in instance.tuples)
            if job.engine.plan.boundaries.kind == "single":
                assert len(windows) == len({each.key for each in windows})


WITHOUT_KEYS = Joined(Cut(10, 1, "single"), "all", groups=2)


def steps(operator, gap):
    """Return how many steps it takes to process two tuples of each of two inputs, with a silence in between."""
    job = st.setup(operator, inputs=[SCHEMA] * 2, parallelism=2)
    count, step = 0, job.engine.scheduler.step

    def counted():
        nonlocal count
        count += 1
        return step()

    job.engine.scheduler.step = counted
    for timestamp in (0, gap):
        for source in (0, 1):
            job.add(batch(((timestamp, None, "red", None, 0, None),)), source)
    assert len(rows_of(job.finish())) >= 2
    return count


def test_a_silent_year_costs_no_steps_without_keys():
    """The earliest window is looked up, not walked to: counters keep these instances alive for ever."""
    operator = WITHOUT_KEYS.operator()
    assert steps(operator, 50_000) <= steps(operator, 50) + 4


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_a_silent_year_costs_no_steps_with_keys(kind):
    operator = Joined(Cut(10, 3, kind), "all", keys="tag").operator()
    assert steps(operator, 50_000) <= steps(operator, 50) + 4


def test_a_silent_year_costs_no_steps_in_the_printed_join_either():
    operator = st.Join(window=st.sliding(10), match=lambda l, r: True, groups=2, printed_purge=True)
    assert steps(operator, 50_000) <= steps(operator, 50) + 4


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_a_leap_of_ages_is_taken_at_once(kind):
    """From far before 1970 to far after it, in any unit."""
    operator = st.Operator(
        window=st.sliding(10, 5, kind),
        output=lambda w: [(len(w.tuples),)],
        schema="n long",
    )
    with st.setup(operator, inputs=SCHEMA) as job:
        times = (-(10**17), -1, 0, 10**17)
        job.add(batch(tuple((timestamp, None, None, None, 0, None) for timestamp in times)))
        assert rows_of(job.finish()) == [
            *[(-(10**17) + 5, 1), (-(10**17) + 10, 1), (0, 1), (5, 2), (10, 1)],
            *[(10**17 + 5, 1), (10**17 + 10, 1)],
        ]
    assert len(job.engine.operator.windows) == 0


def test_an_instance_in_the_pool_keeps_nothing_unread():
    """Only connected instances are readers: those in the pool do not hold the buffer."""
    case = silent_join()
    job = start(case, Execution(parallelism=1, pool=4))
    job.add(batch(case.sources[0]))
    readers = job.engine.operator.input.buffer.readers
    assert readers == {job.engine.operator.reader(0)}
    assert job.engine.operator.input.buffer.unread(job.engine.operator.reader(0)) == 0


def silent_join():
    rows = tuple((timestamp, None, "red", None, 0, None) for timestamp in range(5))
    return Case(Joined(Cut(10, 1, "single"), "all"), (rows, ()), (0, 1))
