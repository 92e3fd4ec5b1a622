"""Parts of the simulated load and of the soak that are right or wrong by themselves."""

import pyarrow as pa
import pytest

from stretch.bench.paced import GROUPS, mean_ms, one_key_per_group
from stretch.bench.q4 import unevenness
from stretch.bench.soak import Hashed
from stretch.metrics import Latency
from stretch.metrics.latency import BUCKETS, bucket_edge
from stretch.windows.groups import hash_key
from tests.unit.test_controllers import load


def test_there_is_one_key_per_group():
    keys = one_key_per_group().tolist()
    assert [hash_key(key) % GROUPS for key in keys] == list(range(GROUPS))


def test_the_average_of_a_histogram():
    assert mean_ms(Latency()) == 0.0
    counts = [0] * BUCKETS
    bucket = next(n for n in range(BUCKETS) if bucket_edge(n + 1) > 10_000_000)
    counts[bucket] = 3
    assert mean_ms(Latency(tuple(counts))) == pytest.approx(10, rel=0.13)


def test_unevenness_is_that_of_work_and_of_time():
    measured = load([0.5, 0.7], group_work=(10, 10, 30, 10), mapping=(0, 0, 1, 1), instances=(0, 1))
    assert unevenness(measured) == pytest.approx((100 * 10 / 30, 100 * 0.1 / 0.6))


def results(*rows):
    times, words, counts = zip(*rows, strict=True)
    return pa.table({"ts": pa.array(times, pa.int64()), "key": list(words), "n": pa.array(counts, pa.int64())})


def test_checksums_of_results_ignore_order_and_batches_and_nothing_else():
    one, two, three = (10, "a", 3), (10, "b", 1), (20, "a", 2)
    whole, parts, later, other = Hashed(0), Hashed(0), Hashed(5), Hashed(0)
    whole(results(one, two, three))
    for row in (three, one, two):
        parts(results(row))
    later(results((15, "a", 3), (15, "b", 1), (25, "a", 2)))
    other(results(one, two, (20, "b", 2)))
    assert whole.digest == parts.digest == later.digest != other.digest
    assert whole.digest[:2] == (3, 6)
