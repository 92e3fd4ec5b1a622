"""The engine "python" runs whatever the reference engine runs, uncompiled and on threads, with the same table."""

import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings

import stretch as st
from tests.harness.definition import exact, multiset
from tests.harness.queries import SCHEMA
from tests.harness.run import Execution, batch, rows_of, run
from tests.harness.scenarios import elastic

ROWS = tuple((timestamp, timestamp % 2, None, None, timestamp, None) for timestamp in range(8))


@settings(max_examples=settings().max_examples // 3)
@given(scenario=elastic())
def test_its_table_is_that_of_the_reference_engine(scenario):
    table = run(scenario, "python")
    assert multiset(table) == multiset(scenario.case.expected())
    assert exact(table) == exact(run(scenario, "reference", Execution()))


def counting(update, **options):
    operator = st.Operator(
        window=st.tumbling(10),
        keys="user",
        state="count long",
        update=update,
        output=lambda w: [(w.key, w.count)],
        schema="user long, count long",
        groups=2,
        keys_are_groups=True,
    )
    return st.setup(operator, inputs=SCHEMA, engine="python", **options)


def test_functions_of_different_instances_run_at_the_same_time():
    """Each waits in the function until the other is in it too; holding the lock, nobody would come."""
    meeting = threading.Barrier(2, timeout=30)

    def update(w, t):
        meeting.wait()
        w.count += 1

    with counting(update, parallelism=2) as job:
        job.add(batch(ROWS))
        assert sorted(rows_of(job.finish())) == [(10, 0, 4), (10, 1, 4)]


def test_a_function_that_fails_stops_the_job_with_its_error():
    def update(w, t):
        if t.x == 5:
            raise ValueError("unlucky")

    with counting(update, parallelism=3) as job:
        with pytest.raises(st.FunctionError, match=r"(?s)update for key 1 at timestamp 5.*ValueError: unlucky"):
            job.add(batch(ROWS))
        with pytest.raises(st.JobError, match="the job has failed"):
            job.results()


def test_jobs_can_be_chained_and_end_without_threads():
    before = threading.active_count()
    split = st.Map(lambda t: [(t.x % 3,)] * 2, schema="x long")
    count = st.Aggregate(window=st.tumbling(4), keys="x", n=st.count())
    first = st.setup(split, inputs=SCHEMA, engine="python", parallelism=2, max_parallelism=3)
    with st.setup(count, upstream=first, parallelism=2) as job:
        first.add(batch(ROWS[:4]))
        first.reconfigure(3)
        first.add(batch(ROWS[4:]))
        assert sorted(rows_of(job.finish())) == [(4, 0, 4), (4, 1, 2), (4, 2, 2), (8, 0, 2), (8, 1, 4), (8, 2, 2)]
        first.stop()
    assert threading.active_count() == before


def test_what_all_have_read_is_forgotten():
    operator = st.Aggregate(window=st.tumbling(10), n=st.count())
    with st.setup(operator, inputs="ts long", engine="python", parallelism=2) as job:
        for part in pa.table({"ts": list(range(20_000))}).to_batches(max_chunksize=1_000):
            job.add(part)
        assert len(job.engine.operator.input.buffer._ready) < 12_000
        assert job.finish().num_rows == 2_000
