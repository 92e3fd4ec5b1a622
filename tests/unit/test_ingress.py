"""Ingress: what a source promises, and what becomes of tuples that break the promise."""

from hypothesis import given
from hypothesis import strategies as some

import stretch as st
from stretch.runtime.ingress import Ingress
from tests.unit.streams import batch, rows

TIMES = some.lists(some.integers(-20, 20), max_size=25)


def fed(ingress, times):
    """Feed timestamps; return those that go on, each with its place of arrival."""
    return [row for place, timestamp in enumerate(times) for row in ingress.accept(timestamp, (place,))]


def passed(ingress, times):
    """Feed timestamps and end the source; return what goes on in all."""
    return fed(ingress, times) + list(ingress.flush())


# --- sorted sources


@given(TIMES)
def test_a_sorted_source_passes_what_does_not_go_back(times):
    ingress = Ingress(None)
    expected = [(t, (n,)) for n, t in enumerate(times) if t >= max(times[: n + 1])]
    assert fed(ingress, times) == expected
    assert ingress.late_count == len(times) - len(expected)
    assert ingress.watermark == ingress.latest == (max(times) if times else None)


def test_each_tuple_goes_on_at_once():
    assert list(Ingress(None).accept(5, ())) == [(5, ())]


# --- bounded disorder


@given(TIMES, some.integers(0, 10))
def test_disorder_sorts_and_keeps_what_is_late(times, disorder):
    ingress = Ingress(disorder)
    out = passed(ingress, times)
    late = [(t, (n,)) for n, t in enumerate(times) if t < max(times[: n + 1]) - disorder]
    in_time = [row for row in [(t, (n,)) for n, t in enumerate(times)] if row not in late]
    assert out == sorted(in_time)  # equal timestamps in the order of arrival
    assert ingress.take_late() == late
    assert ingress.late_count == len(late)


def test_a_tuple_on_the_watermark_is_not_late():
    ingress = Ingress(10)
    assert passed(ingress, [20, 10, 9]) == [(10, (1,)), (20, (0,))]
    assert ingress.take_late() == [(9, (2,))]


def test_tuples_wait_until_the_watermark_has_reached_them():
    ingress = Ingress(10)
    assert fed(ingress, [7, 3, 16]) == [(3, (1,))]
    assert fed(ingress, [17]) == [(7, (0,))]
    assert ingress.watermark == 7
    assert ingress.latest == 17


# --- explicit watermarks


@given(TIMES, some.lists(some.integers(-20, 20), max_size=5))
def test_explicit_watermarks_let_go_what_they_have_reached(times, marks):
    ingress = Ingress("explicit")
    out = fed(ingress, times)
    assert out == []
    for place, mark in enumerate(marks, start=1):
        out += ingress.advance(mark)
        assert sorted(out) == sorted((t, (n,)) for n, t in enumerate(times) if t <= max(marks[:place]))
    assert ingress.watermark == (max(marks) if marks else None)
    assert [t for t, _ in out] == sorted(t for t, _ in out)


def test_below_an_explicit_watermark_is_late():
    ingress = Ingress("explicit")
    assert list(ingress.advance(5)) == []
    assert fed(ingress, [4, 5]) == []
    assert ingress.take_late() == [(4, (0,))]
    assert list(ingress.flush()) == [(5, (1,))]


def test_watermarks_never_go_back():
    ingress = Ingress("explicit")
    list(ingress.advance(5))
    list(ingress.advance(3))
    assert ingress.watermark == 5


def test_late_tuples_are_taken_once_and_stay_counted():
    ingress = Ingress(None)
    fed(ingress, [5, 4, 3])
    assert ingress.take_late() == [(4, (1,)), (3, (2,))]
    assert ingress.take_late() == []
    assert ingress.late_count == 2


# --- through a job: batches do not matter

VALUES = "ts long, source int, x int"


@some.composite
def arrivals(draw):
    """Two sources, each with its tuples, cut and interleaved in two ways."""
    streams = [[(t, n, x) for x, t in enumerate(draw(TIMES))] for n in range(2)]
    return streams, draw(schedules(streams)), draw(schedules(streams))


def schedules(streams):
    """Choose how many tuples of which source come next; what is left comes at the end."""
    cut = some.tuples(some.integers(0, len(streams) - 1), some.integers(1, 5))
    return some.lists(cut, max_size=12)


def run(streams, schedule, watermark):
    left = [list(stream) for stream in streams]
    operator = st.Aggregate(window=st.sliding(10, 5), keys="source", seen=st.count(), total=st.sum("x"))
    with st.setup(operator, inputs=VALUES, sources=2, watermark=watermark) as job:
        for source, size in [*schedule, (0, 99), (1, 99)]:
            now, left[source] = left[source][:size], left[source][size:]
            job.add(batch(VALUES, *now), source)
        late = [rows(job.late(source)) for source in range(2)]
        return rows(job.finish()), late


@given(arrivals(), some.sampled_from([None, 0, 5]))
def test_results_and_lateness_do_not_depend_on_batches(arrived, watermark):
    streams, one, other = arrived
    assert run(streams, one, watermark) == run(streams, other, watermark)
