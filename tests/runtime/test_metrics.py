"""What `metrics()` says, while a job runs and after it."""

import time

import pyarrow as pa
import pytest

import stretch as st
from tests.runtime.test_stop import A_MILLISECOND, SPINNING, slow, wide
from tests.unit.streams import rows, started, visits

ENGINES = ["reference", "compiled"]


@pytest.mark.parametrize("engine", ENGINES)
def test_engines_agree_on_what_they_both_know(engine):
    with started(engine=engine, max_parallelism=3) as job:
        before = job.metrics()
        assert (before.tuples_in, before.results, before.watermark) == (0, 0, None)
        assert [each.is_active for each in before.instances] == [True, False, False]
        job.add(visits((1, "a", 1), (0, "late", 1), (2, "b", 1)))
        change = job.reconfigure(3)
        job.add(visits((3, "a", 1), (4, "c", 1)))
        job.results()
        metrics = job.metrics()
        assert (metrics.tuples_in, metrics.late, metrics.results) == (5, 1, 0)
        assert (metrics.parallelism, metrics.max_parallelism, metrics.reconfigurations) == (3, 3, 1)
        assert metrics.watermark == 4
        assert all(each.is_active for each in metrics.instances)
        assert set(metrics.mapping) == {0, 1, 2}
        assert [(each.epoch, each.status, each.watermark) for each in metrics.records] == [(1, "switched", 4)]
        assert metrics.records[0].switched_ms == change.switched_ms
        assert metrics.read_ns > before.read_ns
        assert len(rows(job.finish())) == job.metrics().results == 3


def test_updates_are_counted_by_key_group_whoever_makes_them():
    with started(engine="compiled", max_parallelism=2) as job:
        job.add(visits(*((1, "ab"[n % 2], 1) for n in range(10))))
        job.reconfigure(2)
        job.add(visits(*((2 + n, "a", 1) for n in range(5))))
        job.results()
        metrics = job.metrics()
        assert sorted(count for count in metrics.updates if count) == [5, 10]
        assert sum(each.tuples for each in metrics.instances) == 15


def test_times_of_instances_grow_and_fit_into_the_time_that_passes():
    with started(SPINNING, engine="compiled", parallelism=2, max_parallelism=3) as job:
        begun, before = time.monotonic_ns(), job.metrics()
        job.add(slow(50, A_MILLISECOND))
        job.results()
        after = job.metrics()
        spent = time.monotonic_ns() - begun
        busy = [now.busy_ns - old.busy_ns for now, old in zip(after.instances, before.instances, strict=True)]
        assert max(busy) > 20_000_000  # one key: one instance has all the work
        assert max(busy) <= spent
        assert busy[2] == after.instances[2].wait_ns == after.instances[2].entries == 0


def test_backlog_says_what_waits_and_for_how_long():
    with started(SPINNING, engine="compiled") as job:
        job.add(slow(10, A_MILLISECOND))
        job.results()  # now its speed is known
        job.add(slow(60, A_MILLISECOND))
        metrics = job.metrics()
        assert 0 < metrics.backlog <= metrics.pending <= 60
        assert metrics.backlog_ms == metrics.instances[0].backlog_ms > 0
        job.results()
        assert (job.metrics().pending, job.metrics().backlog, job.metrics().backlog_ms) == (0, 0, 0)


def test_sources_that_wait_for_room_are_seen():
    with started(SPINNING, engine="compiled") as job:
        job.add(slow(10, A_MILLISECOND))
        job.results()
        assert job.metrics().blocked_ns == 0
        job.add(slow(200, A_MILLISECOND))
        assert job.metrics().blocked_ns > 10_000_000


def test_latency_is_the_time_since_the_latest_tuple_of_the_window():
    with started(engine="compiled") as job:
        job.add(visits((1, "a", 1), (2, "b", 1)))
        time.sleep(0.05)
        job.watermark(10)
        job.results()
        latency = job.metrics().latency
        assert latency.total == 2
        assert 50 <= latency.p50_ms < 2_000
        job.add(visits((11, "a", 1)))
        job.add(visits((20, "a", 1)))
        job.results()
        assert job.metrics().latency.since(latency).p99_ms < 50


def test_results_wait_until_they_are_read():
    with started(engine="compiled") as job:
        job.add(wide(0, 12_000))
        while job.metrics().watermark < 11:
            time.sleep(0.001)
        while job.metrics().results < 10_000:
            time.sleep(0.001)
        assert job.metrics().results_pending >= 10_000
        assert job.results().num_rows == 10_000
        assert job.metrics().results_pending <= 1  # how far the results have come is an entry, too


def test_memory_grows_with_keys_and_texts_and_is_given_back():
    with started(engine="compiled") as job:
        job.add(wide(0, 9_000))
        job.results()
        full = job.metrics()
        assert full.state_bytes > 9_000 * 16
        assert full.dictionary_bytes > 9_000 * 8
        job.watermark(10)
        job.results()
        assert job.metrics().state_bytes == 0


def test_records_of_changes_are_bounded_and_all_are_counted():
    with started(engine="compiled", max_parallelism=2) as job:
        for number in range(200):
            job.reconfigure(1 + number % 2)
            job.add(visits((2 * number, "a", 1), (2 * number + 1, "a", 1)))
            job.results()
        metrics = job.metrics()
        assert metrics.reconfigurations == 200
        assert 64 <= len(metrics.records) <= 128
        assert metrics.records[-1].epoch == 200


def near(l, r):
    return abs(l.x - r.y) <= 1


def test_a_join_says_what_arrived_what_it_keeps_and_what_it_compared():
    joined = st.Join(window=st.sliding(10), match=near, index=False, inputs=["ts long, x long", "ts long, y long"])
    with st.setup(joined, engine="compiled", parallelism=2) as job:
        for ts in range(8):
            job.add(pa.record_batch({"ts": [ts], "x": [ts]}), source=0)
            job.add(pa.record_batch({"ts": [ts], "y": [ts]}), source=1)
        for source in (0, 1):
            job.watermark(8, source)
        assert job.results().num_rows == 22
        metrics = job.metrics()
        assert (metrics.arrived, metrics.stored) == ((8, 8), (8, 8))
        assert metrics.comparisons == 64  # each with each, once
        for source in (0, 1):
            job.watermark(100, source)
        job.add(pa.record_batch({"ts": [100], "x": [0]}), source=0)
        job.add(pa.record_batch({"ts": [101], "y": [0]}), source=1)
        job.results()
        assert sum(job.metrics().stored) < 8


def test_metrics_are_plain_values():
    with started(engine="compiled") as job:
        metrics = job.metrics()
        assert {type(value) for value in vars(metrics).values()} <= {int, tuple, type(None), st.metrics.Latency}
