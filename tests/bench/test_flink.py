"""Flink counts, forwards and joins what we do: figures relative to it compare equal work."""

import numpy as np
import pytest

import stretch as st
from stretch.bench import flink
from stretch.bench.data import make_tweets
from stretch.bench.streams import ADVANCE, WINDOW
from stretch.operator.aggregate import Aggregate, count
from stretch.operator.keys import pairs, words

pytestmark = [
    pytest.mark.skipif(flink.missing() is not None, reason=str(flink.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("flink"),
]

TWEETS = 2_000


@pytest.fixture(scope="module")
def rival():
    with flink.Flink() as rival:
        yield rival


@pytest.fixture(scope="module")
def tweets():
    return make_tweets(TWEETS, vocabulary=500).table


def ours(table, keys, occurrences):
    operator = Aggregate(window=st.sliding(WINDOW, ADVANCE), keys=keys, count=count(), occurrences=occurrences)
    with st.setup(operator, engine="compiled") as job:
        job.add(table)
        results = job.finish()
    return results.num_rows, sum(results["count"].to_pylist())


@pytest.mark.parametrize(("distance", "occurrences"), [(0, False), (0, True), (3, True), (None, False)])
def test_counts(rival, tweets, distance, occurrences):
    keys = words("text") if distance == 0 else pairs("text", distance)
    answer = rival.count(
        rival.keep_tweets(tweets),
        TWEETS,
        parallelism=2,
        window=(WINDOW, ADVANCE),
        distance=distance,
        occurrences=occurrences,
    )
    assert (answer.results, answer.total) == ours(tweets, keys, occurrences)


def test_latency_of_a_paced_stream(rival, tweets):
    answer = rival.count(rival.keep_tweets(tweets), TWEETS, parallelism=1, window=(WINDOW, ADVANCE), rate=4_000)
    assert answer.seconds > 0.4  # the tweets came at their pace
    assert answer.p50_ms is not None
    assert 0 < answer.p50_ms <= answer.p99_ms


def test_forwards_all_tuples_to_all_instances(rival):
    times, values = np.arange(1_000) // 2, np.arange(1_000)
    answer = rival.forward(rival.keep_pairs(times, values, np.zeros(1_000, np.float32)), parallelism=2)
    # The last tuple waits for the other input to go on.
    assert (answer.tuples, answer.total) == (2 * 999, 2 * sum(range(999)))


def test_joins_each_pair_once(rival):
    random = np.random.default_rng(0)
    rows, window, measured_from = 4_000, 500, 1_000
    times = np.arange(rows) // 2
    firsts, seconds = random.integers(1, 100, rows), random.uniform(1, 100, rows).astype(np.float32)
    answer = rival.join(
        rival.keep_pairs(times, firsts, seconds), parallelism=2, window=window, measured_from=measured_from
    )
    compared = matched = 0
    for number in range(measured_from, rows):
        others = np.arange(1 - number % 2, number, 2)
        others = others[times[others] > times[number] - window]
        compared += len(others)
        near = (np.abs(firsts[others] - firsts[number]) <= 10) & (np.abs(seconds[others] - seconds[number]) <= 10)
        matched += int(near.sum())
    assert (answer.work, answer.results) == (compared, matched)
