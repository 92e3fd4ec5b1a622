"""Jobs with an elastic parallelism: a controller chooses, and results are the same."""

import threading
import time

import numpy as np
import pyarrow as pa
import pytest

import stretch as st
from stretch.controllers import keep, resize

ROWS = 2_000
BATCHES_MAX = 5_000  # at 2 ms: ten seconds at least


class Restless:
    """Goes up and down as long as there is something to do."""

    def decide(self, load, past):
        if load.work.tuples == 0:
            return keep(load, "nothing to do")
        return resize(load, 1 + load.parallelism % load.maximum, f"{len(past.changes)} changes so far")


class Failing:
    def decide(self, load, past):
        raise ZeroDivisionError("no luck today")


def counting():
    return st.Aggregate(window=st.tumbling(1_000), keys="user", visits=st.count(), pages=st.sum("pages"))


def batches():
    """Yield visits for ever, a thousand per window."""
    chance = np.random.default_rng(7)
    for number in range(1_000_000):
        times = np.arange(number * ROWS, (number + 1) * ROWS)
        users, pages = chance.integers(0, 50, ROWS), chance.integers(0, 9, ROWS)
        yield pa.record_batch({"ts": times, "user": users, "pages": pages})


def started(**settings):
    return st.setup(counting(), inputs="ts long, user long, pages long", engine="compiled", **settings)


def control_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("stretch-control")]


def test_results_are_those_of_a_job_that_stays_as_it_is():
    elastic = st.elastic(1, 3, controller=Restless(), interval="20 ms")
    taken: list[pa.RecordBatch] = []
    with started(parallelism=elastic) as job:
        for batch in batches():
            taken.append(batch)
            job.add(batch)
            time.sleep(0.002)
            if len(job.decisions) >= 8:
                break
            assert len(taken) < BATCHES_MAX, job.loads
        results = job.finish()
        decisions, loads = job.decisions, job.loads
    with started() as still:
        for batch in taken:
            still.add(batch)
        assert results.equals(still.finish())
    assert {one.reconfiguration.status for one in decisions[:-1]} == {"switched"}
    assert [one.parallelism for one in decisions][:4] == [2, 3, 1, 2]
    assert sum(load.work.updates for load in loads) <= ROWS * len(taken)
    assert all(0 <= part <= 1 for load in loads for part in load.busy)
    assert not control_threads()


def test_the_first_batch_may_bring_the_columns():
    with st.setup(counting(), engine="compiled", parallelism=st.elastic(1, 2, interval="20 ms")) as job:
        time.sleep(0.05)
        assert job.loads == []
        job.add(next(batches()))
        assert job.metrics().max_parallelism == 2


def test_a_controller_that_fails_does_not_fail_the_job(caplog):
    first = next(batches())
    with started(parallelism=st.elastic(2, 2, controller=Failing(), interval="20 ms")) as job:
        job.add(first)
        time.sleep(0.1)
        assert job.finish()["visits"].to_numpy().sum() == ROWS
        assert (job.decisions, job.loads) == ([], [])
    assert "no luck today" in caplog.text


@pytest.mark.parametrize("end", ["stop", "finish"])
def test_the_controller_ends_with_the_job(end):
    job = started(parallelism=st.elastic(1, 2))
    assert control_threads()
    getattr(job, end)()
    assert not control_threads()
    job.stop()


def test_jobs_of_a_chain_have_controllers_of_their_own():
    again = st.Aggregate(window=st.tumbling(2_000), keys="user", visits=st.sum("visits"))
    with (
        started(parallelism=st.elastic(1, 2)) as first,
        st.setup(again, upstream=first, parallelism=st.elastic(1, 3)) as second,
    ):
        assert len(control_threads()) == 2
        assert (first.metrics().max_parallelism, second.metrics().max_parallelism) == (2, 3)
    assert not control_threads()


def test_a_job_without_a_controller_has_no_decisions():
    with started(parallelism=2) as job:
        assert (job.decisions, job.loads) == ([], [])
