"""A map that copies tuples, and an aggregate of one key, give what one operator gives without copies.

Paper: Corollary "duplicationviamap", Theorem "generalizationworks", Observation "vsnstatic".
"""

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as some

import stretch as st
from tests.harness.definition import exact, multiset
from tests.harness.run import batch, rows_of, run_job
from tests.harness.scenarios import scenarios

TWEETS = pa.schema([("ts", pa.int64()), ("user", pa.string()), ("text", pa.string())])
INPUT = "ts long, user string, text string"
WORDS = ["#red", "#pink", "#blue", "#red#pink", "hello", "#", "##red", "#red!", "so_long_a_word"]
WINDOW = st.sliding(20, 10)


@some.composite
def tweets(draw):
    texts = draw(some.lists(some.lists(some.sampled_from(WORDS), max_size=5).map(" ".join), max_size=15))
    now, rows = draw(some.integers(-20, 20)), []
    for text in texts:
        now += draw(some.integers(0, 12))
        rows.append((now, "user", text))
    return tuple(rows)


def fed(first, last, rows, changes):
    """Feed the first job row by row, change parallelism on the way, and return what the last one gives."""
    for index, row in enumerate(rows):
        first.add(batch((row,), TWEETS))
        for job, when, parallelism in changes:
            if when == index:
                job.reconfigure(parallelism)
    return rows_of(last.finish())


CHANGES = some.lists(some.tuples(some.integers(0, 14), some.integers(1, 4)), max_size=3)


@given(rows=tweets(), map_changes=CHANGES, aggregate_changes=CHANGES, changes=CHANGES)
def test_map_and_aggregate_equal_the_operator_that_takes_many_keys(rows, map_changes, aggregate_changes, changes):
    copy, longest = st.paper.longest_tweet_by_map(WINDOW)
    copies = st.setup(copy, inputs=INPUT, max_parallelism=4)
    by_map = st.setup(longest, upstream=copies, max_parallelism=4)
    at_once = st.setup(st.paper.longest_tweet(WINDOW), inputs=INPUT, max_parallelism=4)
    both = [(copies, *change) for change in map_changes] + [(by_map, *change) for change in aggregate_changes]
    copied = fed(copies, by_map, rows, both)
    shared = fed(at_once, at_once, rows, [(at_once, *change) for change in changes])
    assert multiset(copied) == multiset(shared)


@given(rows=tweets(), changes=CHANGES)
def test_explode_and_one_key_equal_many_keys_with_occurrences(rows, changes):
    """What a flatMap does: a key counts as often as it occurs."""
    split = st.Map(lambda t: [(word,) for word in t.text.split()], schema="word string")
    count = st.Aggregate(window=WINDOW, keys="word", count=st.count())
    upstream = st.setup(split, inputs=INPUT, max_parallelism=4)
    downstream = st.setup(count, upstream=upstream, max_parallelism=4)
    at_once = st.setup(st.paper.wordcount(WINDOW, occurrences=True), inputs=INPUT, max_parallelism=4)
    exploded = fed(upstream, downstream, rows, [(downstream, *change) for change in changes])
    shared = fed(at_once, at_once, rows, [(at_once, *change) for change in changes])
    assert multiset(exploded) == multiset(shared)


@given(rows=tweets())
def test_the_operator_and_the_ready_made_aggregate_count_words_alike(rows):
    jobs = [
        st.setup(operator, inputs=INPUT, parallelism=2)
        for operator in (st.paper.wordcount(WINDOW), st.paper.wordcount_aggregate(WINDOW))
    ]
    tables = [exact(fed(job, job, rows, [])) for job in jobs]
    assert tables[0] == tables[1]


@given(scenario=scenarios())
def test_copies_that_shared_nothing_makes_are_those_that_sharing_counts_as_avoided(scenario):
    """Observation "vsnstatic": one engine sends them, the other counts them."""
    static = replace(scenario.execution, changes=())
    made = run_job(scenario, "shared-nothing", static)[1].metrics()
    avoided = run_job(scenario, "reference", static)[1].metrics()
    assert made.copies == avoided.duplicates_avoided
    assert (made.duplicates_avoided, avoided.copies) == (0, 0)
