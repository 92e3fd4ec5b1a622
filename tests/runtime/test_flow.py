"""Flow control: what is pending is a few milliseconds of work, adding waits or gives up, and nothing overtakes."""

import statistics
import threading
import time

import pyarrow as pa
import pytest

import stretch as st
from stretch.buffer.layout import LIMIT
from stretch.runtime.compiled import memory
from tests.runtime.test_stop import A_MILLISECOND, SPINNING, slow, wide
from tests.unit.streams import rows, started, visits

ENGINES = ["reference", "compiled"]


def slow_from(first, count, iterations):
    """Visits of one user, each later than the one before, each of which takes long."""
    return visits(*((first + number, "a", iterations) for number in range(count)))


@pytest.fixture
def spinning():
    with started(SPINNING, engine="compiled", max_parallelism=4) as job:
        job.add(slow(5, A_MILLISECOND))
        job.results()  # its speed is known from here on
        yield job


def test_what_is_pending_follows_the_speed_of_the_slowest_instance(spinning):
    spinning.add(slow(50, A_MILLISECOND))
    assert spinning.metrics().pending <= 10
    spinning.add(slow(400, A_MILLISECOND // 100))
    spinning.results()
    spinning.add(slow(400, A_MILLISECOND // 100))
    assert spinning.metrics().pending <= 1_600
    assert 20 <= spinning.engine.memory.log.view.cells[LIMIT] <= 1_600


def test_not_much_is_pending_before_any_speed_is_known():
    with started(SPINNING, engine="compiled") as job:
        job.add(slow(300, A_MILLISECOND))
        assert job.metrics().pending <= 256


def test_adding_gives_up_in_time_and_takes_the_first_rows(spinning):
    batch = slow(9_000, A_MILLISECOND // 10)
    begun = time.monotonic()
    taken = spinning.add(batch, timeout=0.05)
    assert 0.05 <= time.monotonic() - begun < 5
    assert 0 < taken < 9_000
    assert spinning.add(batch.slice(taken), timeout=0) == 0, "the rest of the first piece is not through yet"
    assert spinning.metrics().tuples_in == 5 + taken
    assert spinning.add(batch.slice(taken, 10)) == 10
    spinning.results()
    assert spinning.metrics().instances[0].tuples == 5 + taken + 10


def test_rows_of_an_attempt_that_gave_up_come_before_all_that_follow():
    """Whatever is called next: a heartbeat does not pass rows that were taken."""
    with started(SPINNING, engine="compiled") as job:
        job.add(slow(3, A_MILLISECOND))
        job.results()
        taken = job.add(slow(2_000, A_MILLISECOND // 10), timeout=0.02)
        assert taken == 2_000
        assert job.metrics().instances[0].tuples < 2_003
        job.watermark(10)
        assert job.results().num_rows == 1
        assert job.metrics().instances[0].tuples == 2_003
        assert job.late().num_rows == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_adding_says_how_many_rows_were_taken(engine):
    with started(engine=engine, watermark=5) as job:
        assert job.add(visits((1, "a", 1), (9, "a", 1), (2, "late", 1)), timeout=1) == 3
        assert job.add(visits()) == 0
        assert job.add(pa.Table.from_batches([visits((10, "a", 1)), visits((11, "a", 1))])) == 2
        assert job.metrics().tuples_in == 5


@pytest.mark.parametrize("timeout", [None, 0.01])
def test_disorder_and_timeouts_go_together(timeout):
    found = []
    for engine in ENGINES:
        with started(engine=engine, watermark=300, parallelism=2) as job:
            batch = visits(*((7919 * n % 5_000 // 10, f"user {n % 7}", 1) for n in range(10_000)))
            parts = []
            while batch.num_rows:
                batch = batch.slice(job.add(batch, timeout=timeout))
                parts.append(job.results())
            parts.append(job.finish())
            found.append(([row for part in parts for row in rows(part)], job.metrics().late))
    assert found[0] == found[1]


def test_the_buffer_does_not_grow():
    with started(engine="compiled") as job:
        job.add(wide(0, 100_000))
        memory_at_first = (job.engine.memory.log.view.times.nbytes, job.engine.memory.out.view.times.nbytes)
        job.add(wide(100_000, 100_000))
        assert job.metrics().pending <= job.engine.memory.log.capacity
        assert memory_at_first == (job.engine.memory.log.view.times.nbytes, job.engine.memory.out.view.times.nbytes)


def test_control_entries_come_in_between_the_pieces_of_a_large_batch(spinning):
    """A change under back-pressure waits for some milliseconds of work, not for the batch."""
    took = []

    def add():
        spinning.add(slow_from(1, 3_000, A_MILLISECOND // 10))

    thread = threading.Thread(target=add)
    thread.start()
    while spinning.metrics().blocked_ns == 0:
        time.sleep(0.001)
    for parallelism in (2, 1, 4, 1):
        change = spinning.reconfigure(parallelism)
        assert change.wait()
        took.append(change.switched_ms)
    assert thread.is_alive(), "the batch went in after all changes"
    thread.join()
    assert statistics.median(took) < 100  # 10 on a machine that does nothing else: stretch bench reconfigure


def test_tiny_buffers_give_the_same_results(monkeypatch):
    monkeypatch.setattr(memory, "CAPACITY", 8)
    monkeypatch.setattr(memory, "STAGING", 4)
    counting = st.Aggregate(window=st.tumbling(10), keys="user", visits=st.count(), groups=16)
    with started(counting, engine="compiled", parallelism=2, max_parallelism=3) as job:
        parts = []
        for first in range(0, 6_000, 2_000):
            job.add(wide(first, 2_000))
            job.reconfigure(1 + first // 2_000)
            parts.append(job.results())
        parts.append(job.finish())
    assert pa.concat_tables(parts).num_rows == 6_000


def test_a_chain_is_not_fooled_by_the_speed_of_its_first_job(monkeypatch):
    """The second operator is slow: what waits for it is little, though the first one is fast."""
    with started(st.Aggregate(window=st.tumbling(1), keys="user", pages=st.max("pages")), engine="compiled") as first:
        second = st.setup(
            st.Aggregate(window=st.tumbling(10), keys="user", n=st.count()), upstream=first, max_parallelism=2
        )
        first.add(wide(0, 20_000))
        assert second.metrics().pending <= memory.CAPACITY
        assert second.finish().num_rows == 20_000
