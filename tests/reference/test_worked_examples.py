"""The paper's other worked examples: Corollary "duplicationviamap" (tweets B and C), and the watermark example."""

import pytest

import stretch as st
from tests.harness.run import INTERPRETED, rows_of
from tests.reference.tweets import HOUR, MINUTE, TWEETS, B, C, clock, time, tweets

AT_TEN = [("10:00", "pink", 13), ("10:00", "red", 13)]
AT_HALF_PAST_TEN = [("10:30", "pink", 13), ("10:30", "red", 13)]


def read(table):
    """Return results as the paper writes them; the order of equal times is ours, so sort them by key."""
    return sorted((clock(timestamp), *rest) for timestamp, *rest in rows_of(table))


@pytest.mark.parametrize("engine", INTERPRETED)
@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_the_operator_of_many_keys_gives_the_longest_tweet_per_hashtag(engine, parallelism):
    with st.setup(st.paper.longest_tweet(), inputs=TWEETS, parallelism=parallelism, engine=engine) as job:
        job.add(tweets(B, C))
        assert job.results().num_rows == 0
        job.watermark(time("10:00"))
        assert read(job.results()) == AT_TEN
        assert read(job.finish()) == AT_HALF_PAST_TEN


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_map_and_aggregate_give_the_same(parallelism):
    copy, longest = st.paper.longest_tweet_by_map()
    copies = st.setup(copy, inputs=TWEETS, parallelism=parallelism)
    job = st.setup(longest, upstream=copies, parallelism=parallelism)
    copies.add(tweets(B, C))
    copies.watermark(time("10:00"))
    # The same results at the same watermark: what M lets pass is as far as what M has seen.
    assert read(job.results()) == AT_TEN
    assert read(job.finish()) == AT_HALF_PAST_TEN


def test_the_map_makes_one_tuple_per_hashtag():
    copy, _ = st.paper.longest_tweet_by_map()
    with st.setup(copy, inputs=TWEETS) as job:
        job.add(tweets(B, C))
        assert read(job.finish()) == [("09:50", "pink", 11), ("09:58", "pink", 13), ("09:58", "red", 13)]


# --- the watermark example (appendix "Watermark example"): two inputs, windows of an hour every half hour


def windows_of(job):
    return sorted(clock(each.left) for each in job.engine.operator.windows)


def two_inputs(kind):
    operator = st.Operator(
        window=st.sliding(HOUR, 30 * MINUTE, kind),
        inputs=2,
        output=lambda ws: [(clock(ws[0].left), *(len(w.tuples) for w in ws))],
        schema="left string, ones int, twos int",
    )
    return st.setup(operator, inputs=[TWEETS, TWEETS])


def test_no_window_is_expired_before_and_those_from_midnight_are_after():
    """At W = 00:50 later tuples may still fall into any window; at W = 01:05 none falls into those from 00:00."""
    job = two_inputs("multi")
    job.add(tweets(("00:20", "a", ""), ("00:50", "a", "")), source=0)
    job.add(tweets(("00:10", "b", ""), ("00:50", "b", "")), source=1)
    assert windows_of(job) == ["00:00", "00:30"]
    assert [row[0] for row in rows_of(job.results())] == [30 * MINUTE], "the one before, which ended at 00:30"
    job.add(tweets(("01:05", "a", "")), source=0)
    assert job.results().num_rows == 0, "source 1 is still at 00:50"
    assert windows_of(job) == ["00:00", "00:30"]
    job.add(tweets(("01:05", "b", "")), source=1)
    assert rows_of(job.results()) == [(HOUR, "00:00", 2, 2)]
    assert windows_of(job) == ["00:30", "01:00"]


def test_a_single_instance_slides_at_the_same_watermark():
    job = two_inputs("single")
    job.add(tweets(("00:20", "a", ""), ("00:50", "a", "")), source=0)
    job.add(tweets(("00:10", "b", ""), ("00:50", "b", "")), source=1)
    job.results()
    assert windows_of(job) == ["00:00"]
    for source, user in enumerate("ab"):
        job.add(tweets(("01:05", user, "")), source=source)
    assert rows_of(job.results()) == [(HOUR, "00:00", 2, 2)]
    assert windows_of(job) == ["00:30"]
    (windows,) = job.engine.operator.windows
    assert [[clock(t.timestamp) for t in w.tuples] for w in windows.instances] == [["00:50", "01:05"], ["00:50"]]
