"""The histogram of latencies: what its quantiles promise."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from stretch.epochs.measures import bucket_of
from stretch.metrics import Latency
from stretch.metrics.latency import BUCKETS, bucket_edge


@given(latency=some.integers(0, 2**62))
def test_a_bucket_holds_what_lies_between_its_edges(latency):
    bucket = bucket_of(latency)
    assert bucket_edge(bucket) <= latency < bucket_edge(bucket + 1)
    assert bucket_edge(bucket + 1) <= max(1.25 * bucket_edge(bucket), bucket_edge(bucket) + 1)


def test_a_clock_that_went_back_counts_as_no_time():
    assert bucket_of(-5) == 0


@given(latencies=some.lists(some.integers(1, 10**10), min_size=1))
def test_a_quantile_is_at_least_the_true_one_and_at_most_a_quarter_more(latencies):
    found = histogram(latencies)
    for share in (0.5, 0.99, 1):
        true_ms = sorted(latencies)[max(0, -int(-share * len(latencies) // 1) - 1)] / 1e6
        assert true_ms <= found.quantile_ms(share) <= 1.25 * true_ms + 1e-6


def test_two_readings_give_the_results_in_between():
    earlier, later = histogram([1_000_000]), histogram([1_000_000, 3_000_000, 3_000_000])
    assert later.since(earlier).total == 2
    assert later.since(earlier).p50_ms == pytest.approx(3, rel=0.25)
    assert Latency().p99_ms is None
    assert repr(Latency()) == "<Latency: no results>"


def histogram(latencies):
    counts = [0] * BUCKETS
    for latency in latencies:
        counts[bucket_of(latency)] += 1
    return Latency(tuple(counts))
