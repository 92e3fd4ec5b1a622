"""Jobs: the states they are in, what each allows, and what they report."""

import datetime as dt
import itertools

import numpy as np
import pyarrow as pa
import pytest

import stretch as st
from tests.unit.streams import VISITS, batch, counting, result_of, rows, started, visits

STREAM = visits((1, "a", 2), (2, "b", 3), (12, "a", 4))
RESULTS = [(10, "a", 1), (10, "b", 1), (20, "a", 1)]


def test_results_come_as_windows_complete_and_the_rest_at_the_end():
    with started() as job:
        job.add(STREAM)
        assert rows(job.results()) == RESULTS[:2]
        assert rows(job.results()) == []
        assert rows(job.finish()) == RESULTS[2:]
        assert rows(job.results()) == []


def test_columns_may_be_read_off_the_first_batch():
    assert result_of(counting(), STREAM) == result_of(counting(), STREAM, inputs=VISITS) == RESULTS


def test_a_table_is_as_good_as_a_batch():
    table = pa.Table.from_batches([STREAM.slice(0, 1), STREAM.slice(1), STREAM.slice(0, 0)])
    assert result_of(counting(), table) == RESULTS
    assert result_of(counting(), STREAM.schema.empty_table()) == []


def test_several_sources_may_have_ended_before_the_job():
    with started(sources=2) as job:
        job.add(STREAM, 0)
        job.close(0)
        job.add(visits((5, "c", 1)), 1)
        job.close(1)
        assert sorted(rows(job.finish())) == sorted([*RESULTS, (10, "c", 1)])


@pytest.mark.parametrize("engine", ["reference", "shared-nothing"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_source_that_closes_last_carries_the_end(order, engine):
    with started(sources=2, engine=engine) as job:
        job.add(STREAM, 1)
        for source in order:
            job.close(source)
        assert rows(job.finish()) == RESULTS


CLOSED = {"add": (STREAM, 1), "watermark": (9, 1), "close": (1,)}


@pytest.mark.parametrize("method", CLOSED)
def test_a_closed_source_takes_nothing_more(method):
    with started(sources=2) as job:
        job.close(1)
        with pytest.raises(st.JobError, match="source 1 is closed"):
            getattr(job, method)(*CLOSED[method])
        job.add(STREAM, 0)
        assert rows(job.finish()) == RESULTS


def test_numbers_may_be_numpys():
    with started(parallelism=np.int64(1), max_parallelism=np.int32(4), sources=np.int64(2)) as job:
        job.add(STREAM, np.int64(0))
        job.watermark(np.int64(20), np.int64(1))
        change = job.reconfigure(np.int64(3))
        job.reconfigure(instances=np.arange(2), mapping=np.arange(1024) % 2)
        assert change.parallelism == 3
        assert rows(job.finish()) == RESULTS


HEARTBEATS = [
    dt.datetime(1970, 1, 1, 0, 1),
    dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC),
    dt.datetime(1970, 1, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    60_000_000,
]


@pytest.mark.parametrize("ddl", ["ts timestamp, x int", "ts timestamp_ntz, x int"])
@pytest.mark.parametrize("mark", HEARTBEATS, ids=str)
def test_a_heartbeat_of_timestamps(ddl, mark):
    with st.setup(counting(window=st.tumbling("1 minute"), keys=None), inputs=ddl) as job:
        job.add(batch(ddl, (0, 1)))
        job.watermark(mark)
        assert rows(job.results()) == [(60_000_000, 1)]


@pytest.mark.parametrize("mark", ["ten", 1.5, None, True, 1 << 63, dt.datetime(1970, 1, 1)])
def test_what_is_no_time_is_refused(mark):
    with started() as job, pytest.raises(st.InputError, match="is not a point of event time"):
        job.watermark(mark)


# --- chains


def last_of(chain):
    """Count the results of the first job in windows of twenty."""
    return st.setup(st.Aggregate(window=st.tumbling(20), results=st.count()), upstream=chain)


def test_jobs_of_a_chain_finish_in_any_order():
    for ends in itertools.permutations(range(3)):
        first = started()
        jobs = [first, last_of(first), last_of(first)]
        first.add(STREAM)
        found = {n: rows(jobs[n].finish()) for n in ends if jobs[n].is_running}
        found |= {n: rows(jobs[n].results()) for n in range(3) if n not in found}
        assert found == {0: RESULTS, 1: [(20, 2), (40, 1)], 2: [(20, 2), (40, 1)]}


def test_a_chain_of_which_one_job_failed_has_failed():
    fails = st.Operator(window=st.tumbling(10), update=lambda w, t: 1 // 0, schema="x int")
    first = started()
    second = st.setup(fails, upstream=first)
    with pytest.raises(st.FunctionError):
        first.add(STREAM)
    with pytest.raises(st.JobError, match="the job has failed"):
        second.results()


def test_finish_without_any_tuple():
    with started() as job:
        assert rows(job.finish()) == []


# --- states

AFTER_THE_END = {
    "add": lambda job: job.add(STREAM),
    "watermark": lambda job: job.watermark(99),
    "close": lambda job: job.close(),
    "reconfigure": lambda job: job.reconfigure(1),
    "finish": lambda job: job.finish(),
}


@pytest.mark.parametrize("action", AFTER_THE_END.values(), ids=AFTER_THE_END)
@pytest.mark.parametrize("end", ["finish", "stop"])
def test_a_job_that_has_ended_takes_nothing_more(end, action):
    with started() as job:
        job.add(STREAM)
        getattr(job, end)()
        assert not job.is_running
        state = {"finish": "finished", "stop": "stopped"}[end]
        with pytest.raises(st.JobError, match=f"the job is {state}"):
            action(job)


def test_what_came_out_before_the_end_can_still_be_read():
    with started() as job:
        job.add(STREAM)
        job.stop()
        assert rows(job.results()) == RESULTS[:2]
        assert job.metrics().tuples_in == 3
        assert rows(job.late()) == []


def test_stop_is_safe_to_call_twice_and_after_finish():
    job = started()
    job.stop()
    job.stop()
    job = started()
    job.finish()
    job.stop()


def test_with_stops_the_job():
    with started() as job:
        job.add(STREAM)
    assert not job.is_running


def test_with_lets_errors_through():
    with pytest.raises(ZeroDivisionError), started() as job:
        raise ZeroDivisionError
    assert not job.is_running


def failed():
    """Return a job whose function has failed."""
    operator = st.Operator(
        window=st.tumbling(10),
        keys="user",
        update=lambda w, t: w.tuples.append(t.pages // (t.pages - 1)),
        schema="user string",
    )
    job = started(operator)
    with pytest.raises(st.FunctionError, match="update failed"):
        job.add(visits((1, "a", 1)))
    return job


@pytest.mark.parametrize("action", AFTER_THE_END.values(), ids=AFTER_THE_END)
def test_a_job_that_failed_says_so(action):
    with pytest.raises(st.JobError, match="the job has failed"):
        action(failed())


def test_a_job_that_failed_has_no_results_and_still_has_metrics():
    job = failed()
    with pytest.raises(st.JobError, match="the job has failed"):
        job.results()
    assert job.metrics().tuples_in == 1
    job.stop()
    assert not job.is_running


def test_input_that_is_refused_does_not_harm_the_job():
    with started() as job:
        job.add(visits((1, "a", 1)))
        with pytest.raises(st.InputError):
            job.add(visits((None, "b", 1)))
        with pytest.raises(st.InputError):
            job.add("rows")
        with pytest.raises(st.InputError):
            job.add(STREAM, source=3)
        with pytest.raises(st.ReconfigurationError):
            job.reconfigure(5)
        assert rows(job.finish()) == [(10, "a", 1)]


NEEDS_COLUMNS = {
    **{name: action for name, action in AFTER_THE_END.items() if name != "add"},
    "results": lambda job: job.results(),
    "late": lambda job: job.late(),
    "metrics": lambda job: job.metrics(),
}


@pytest.mark.parametrize("action", NEEDS_COLUMNS.values(), ids=NEEDS_COLUMNS)
def test_a_job_that_does_not_know_its_columns_says_so(action):
    with st.setup(counting()) as job, pytest.raises(st.JobError, match="the job has not begun"):
        action(job)


# --- late tuples


def test_late_tuples_are_counted_and_obtainable_and_never_in_results():
    with started(sources=2) as job:
        job.add(visits((5, "a", 1), (4, "late", 7), (12, "a", 1)), 0)
        job.add(visits((1, "b", 1), (20, "b", 1)), 1)
        assert rows(job.late(0)) == [(4, "late", 7)]
        assert rows(job.late(0)) == []
        assert rows(job.late(1)) == []
        assert job.late(0).column_names == ["ts", "user", "pages"]
        assert job.metrics().late == 1
        assert "late" not in {user for _, user, _ in rows(job.finish())}


# --- metrics


TAGGED = [(n, [f"tag{n % 5}", f"tag{n % 7}", f"tag{n % 11}"]) for n in range(60)]
MANY_KEYS = batch("ts long, tags array<string>", *TAGGED)


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_copies_that_were_avoided_are_those_that_shared_nothing_makes(parallelism):
    found = {}
    for engine in ("reference", "shared-nothing"):
        with st.setup(counting(keys="tags"), parallelism=parallelism, engine=engine) as job:
            job.add(MANY_KEYS)
            results = rows(job.finish())
            found[engine] = results, job.metrics()
    (shared_results, shared), (copied_results, copied) = found.values()
    assert shared_results == copied_results
    assert (shared.copies, shared.bytes_moved) == (0, 0)
    assert shared.duplicates_avoided == copied.copies
    assert copied.duplicates_avoided == 0
    assert (copied.copies > 0) == (parallelism > 1)


@pytest.mark.parametrize("engine", ["reference", "shared-nothing"])
def test_metrics_count_what_happened(engine):
    with started(engine=engine, max_parallelism=3) as job:
        metrics = job.metrics()
        assert (metrics.tuples_in, metrics.late, metrics.results) == (0, 0, 0)
        assert (metrics.parallelism, metrics.max_parallelism, metrics.reconfigurations) == (1, 3, 0)
        job.add(visits((1, "a", 1), (0, "late", 1), (2, "b", 1)))
        job.reconfigure(3)
        job.add(visits((3, "a", 1), (4, "c", 1)))
        assert len(rows(job.finish())) == 3
        metrics = job.metrics()
        assert (metrics.tuples_in, metrics.late, metrics.results) == (5, 1, 3)
        assert (metrics.parallelism, metrics.reconfigurations) == (3, 1)
        assert (metrics.bytes_moved > 0) == (engine == "shared-nothing")
