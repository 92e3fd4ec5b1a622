"""Ending a job: what calls that wait get, from which thread, and how long it takes."""

import threading
import time

import pyarrow as pa
import pytest

import stretch as st
from stretch.runtime.compiled import workers
from tests.unit.streams import rows, started, visits

ENGINES = ["reference", "compiled"]


def spin(w, t):
    """Work for about 2 ns times `pages`, compiled."""
    x = w.x + t.timestamp + 1
    for _ in range(t.pages):
        x ^= (x << 13) & 0x7FFFFFFFFFFFFFFF
        x ^= x >> 7
        x ^= (x << 17) & 0x7FFFFFFFFFFFFFFF
    w.x = x


def report(w):
    yield w.key, w.x


SPINNING = st.Operator(
    window=st.tumbling(10), keys="user", state="x long", update=spin, output=report, schema="user string, x long"
)
A_MILLISECOND, A_SECOND = 500_000, 500_000_000  # iterations, about


def wide(first, count):
    """A batch of many visits, of ever new users."""
    users = pa.array([f"user {number}" for number in range(first, first + count)])
    times = pa.array([number // 1000 for number in range(first, first + count)], pa.int64())
    return pa.record_batch({"ts": times, "user": users, "pages": times})


@pytest.mark.parametrize("engine", ENGINES)
def test_results_are_those_of_all_that_was_added(engine):
    with started(engine=engine, parallelism=2) as job:
        for number in range(1, 40):
            job.add(visits(*((10 * number + place, "ab"[place % 2], 1) for place in range(10))))
            found = rows(job.results())
            assert sorted(found) == ([] if number == 1 else [(10 * number, "a", 5), (10 * number, "b", 5)])


def test_a_thread_may_read_while_another_adds():
    parts = []
    with started(engine="compiled", parallelism=2) as job:
        done = threading.Event()

        def read():
            while not done.is_set():
                parts.append(job.results(wait=False))

        reader = threading.Thread(target=read)
        reader.start()
        for first in range(0, 300_000, 20_000):
            job.add(wide(first, 20_000))
        done.set()
        reader.join()
        parts.append(job.finish())
    assert pa.concat_tables(parts).num_rows == 300_000


def slow(count, iterations):
    """A batch of visits, each of which takes long."""
    return visits(*((0, "a", iterations) for _ in range(count)))


@pytest.mark.parametrize("waiting", ["add", "results", "finish"])
def test_a_stop_from_another_thread_ends_calls_that_wait(waiting):
    job = started(SPINNING, engine="compiled", parallelism=2, max_parallelism=2)
    batch = slow(2_000, A_MILLISECOND)
    if waiting != "add":
        job.add(slow(16, 30 * A_MILLISECOND))  # flow control lets in the last of them while some are still to come
    found = []

    def wait():
        try:
            while waiting == "add":
                job.add(batch)
            getattr(job, waiting)()
        except st.JobError as error:
            found.append(error.what)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    begun = time.monotonic()
    job.stop()
    thread.join(10)
    assert time.monotonic() - begun < 2
    assert found == ["Operator: the job was stopped"]
    assert not job.is_running
    with pytest.raises(st.JobError, match="the job is stopped"):
        job.add(slow(1, 1))
    assert job.results().num_rows == 0


def test_a_stop_from_a_thread_that_did_not_make_the_job():
    with started(engine="compiled") as job:
        job.add(visits((1, "a", 1)))
        thread = threading.Thread(target=job.stop)
        thread.start()
        thread.join(10)
        assert not job.is_running


def test_a_function_that_does_not_return_is_left_behind(monkeypatch):
    monkeypatch.setattr(workers, "STOP_SECONDS", 0.2)
    job = started(SPINNING, engine="compiled")
    job.add(slow(1, 2 * A_SECOND))
    time.sleep(0.05)
    with pytest.warns(RuntimeWarning, match="Operator: stretch-0 did not stop within 0.2 seconds"):
        job.stop()
    job.stop()  # says so once
    job._engine._workers._threads[0].join(60)
