"""What did surprise users once, and does not any more."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

import stretch as st
from tests.unit.streams import VISITS, batch, counting, result_of, rows, started, visits

STREAM = visits((1, "a", 2), (2, "b", 3))
RESULTS = [(10, "a", 1), (10, "b", 1)]


def busiest(**settings):
    """Find the largest count among the results of `counting`."""
    return st.Aggregate(**{"window": st.tumbling(10), "most": st.max("visits"), **settings})


# --- results that are lost


def test_a_request_just_before_the_end_loses_nothing():
    with started(max_parallelism=2) as job:
        job.add(STREAM)
        job.reconfigure(2)
        assert rows(job.finish()) == RESULTS


def test_a_heartbeat_that_carries_a_request_is_a_heartbeat():
    with started(max_parallelism=2) as job:
        job.add(STREAM)
        job.reconfigure(2)
        job.watermark(50)
        assert rows(job.results()) == RESULTS


def test_the_first_job_of_a_chain_may_finish_first():
    first = started()
    second = st.setup(busiest(), upstream=first)
    first.add(STREAM)
    assert rows(first.finish()) == RESULTS
    assert rows(second.finish()) == [(20, 1)]


def test_two_jobs_behind_one_get_all_of_its_results():
    first = started()
    followers = [st.setup(busiest(), upstream=first) for _ in range(2)]
    first.add(STREAM)
    first.watermark(50)
    assert [rows(job.results()) for job in followers] == [[(20, 1)], [(20, 1)]]


def test_when_all_sources_are_idle_none_holds_back_the_others():
    now = [0.0]
    with started(sources=2, idle="5 seconds", clock=lambda: now[0]) as job:
        job.add(visits((1, "a", 1), (25, "a", 1)), 0)
        now[0] = 6.0
        assert rows(job.results()) == [(10, "a", 1)]


# --- results that are wrong


def test_a_table_is_taken_as_a_whole_or_not_at_all():
    table = pa.Table.from_batches([STREAM, visits((None, "c", 1))])
    with started() as job:
        with pytest.raises(st.InputError, match="have no time"):
            job.add(table)
        assert rows(job.finish()) == []


@pytest.mark.parametrize(
    "operator",
    [
        counting(ts=st.count()),
        st.Map(lambda t: [(1, 2)], schema="ts long, n long"),
    ],
    ids=["an aggregate called like the time", "a schema with the time column"],
)
def test_results_have_one_column_of_each_name(operator):
    with pytest.raises(st.DefinitionError):
        started(operator)


def test_a_text_is_not_rows_of_letters():
    operator = st.Operator(window=st.tumbling(10), keys="user", output=lambda w: "abc", schema="name string")
    with pytest.raises(st.FunctionError):
        result_of(operator, STREAM)


def test_disorder_is_not_negative():
    with pytest.raises(st.DefinitionError):
        started(watermark=-3)


def test_a_step_of_time_is_at_least_one():
    with pytest.raises(st.DefinitionError):
        started(resolution=0)


# --- jobs


def test_a_closed_source_says_so_and_the_job_goes_on():
    with started(sources=2) as job:
        job.close(0)
        with pytest.raises(st.StretchError):
            job.add(STREAM, 0)
        job.add(STREAM, 1)
        assert rows(job.finish()) == RESULTS


def test_stop_stops_a_job_that_has_not_begun():
    job = st.setup(counting())
    job.stop()
    with pytest.raises(st.JobError, match="the job is stopped"):
        job.add(STREAM)


def test_a_wrong_heartbeat_is_refused_and_the_job_goes_on():
    with started() as job:
        job.add(STREAM)
        with pytest.raises(st.InputError):
            job.watermark("ten")
        assert rows(job.finish()) == RESULTS


def test_a_heartbeat_of_a_timestamp_stream_may_be_a_datetime():
    ddl = "ts timestamp, x int"
    with st.setup(st.Aggregate(window=st.tumbling("1 minute"), n=st.count()), inputs=ddl) as job:
        job.add(batch(ddl, (0, 1)))
        job.watermark(dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC))
        assert rows(job.results()) == [(60_000_000, 1)]


# --- mistakes that are not explained

UNEXPLAINED = {
    "parallelism as text": lambda: started().reconfigure("2"),
    "instances as text": lambda: started().reconfigure(instances=["a"]),
    "a pool as text": lambda: started(max_parallelism="4"),
    "no sources": lambda: started(sources=None),
    "a source as text": lambda: started().add(STREAM, source="0"),
    "a mapping that is none": lambda: started(counting(mapping=3)),
    "a mapping that fails": lambda: started(counting(mapping=lambda group, parallelism: 1 // 0)),
    "upstream that is no job": lambda: st.setup(busiest(), upstream="first"),
    "an engine for a chained job": lambda: st.setup(busiest(), upstream=started(), engine="shared-nothing"),
    "an aggregate called name": lambda: st.Aggregate(window=st.tumbling(10), n=st.count(), name=st.max("pages")),
    "a key name for pairs": lambda: started(counting(keys=st.pairs("user"), key_name="pair")),
}


@pytest.mark.parametrize("mistake", UNEXPLAINED.values(), ids=UNEXPLAINED)
def test_a_mistake_is_explained(mistake):
    with pytest.raises(st.StretchError):
        mistake()


MISLEADING = {
    # what a user did wrong -> what the error has to mention
    "a column of a type that is not supported": (
        lambda: st.setup(counting(keys="day")).add(
            pa.record_batch({"ts": pa.array([1]), "day": pa.array([dt.date(2018, 10, 1)])})
        ),
        "date32",
    ),
    "the time column as a key": (lambda: started(counting(keys="ts")), "time column"),
    "the latest time": (lambda: started(counting(latest=st.max("ts"))), "time column"),
    "a type of Spark with a comma": (lambda: started(inputs="ts long, price decimal(10,2)"), "not supported"),
    "a float as a key": (lambda: result_of(st_keys(lambda t: [t.pages / 2]), STREAM), "at timestamp 1"),
    "a failing predicate": (lambda: joined(lambda l, r: 1 // 0), "match failed"),
    "a row that is not in a list": (lambda: result_of(st_output(lambda w: 1), STREAM), "yield"),
    "a column that a tuple does not have": (lambda: result_of(st_keys(lambda t: t.usr), STREAM), "user"),
}


def st_keys(keys):
    return st.Operator(window=st.tumbling(10), keys=keys, output=lambda w: [], schema="x int")


def st_output(output):
    return st.Operator(window=st.tumbling(10), keys="user", output=output, schema="x int")


def joined(match):
    with st.setup(st.Join(window=st.sliding(10), match=match, inputs=[VISITS, VISITS], groups=1)) as job:
        job.add(STREAM, 0)
        job.add(STREAM, 1)


@pytest.mark.parametrize(("mistake", "mentioned"), MISLEADING.values(), ids=MISLEADING)
def test_an_error_names_what_is_wrong(mistake, mentioned):
    with pytest.raises(st.StretchError, match=mentioned):
        mistake()


def test_a_reconfiguration_shows_itself_in_one_line():
    with started(max_parallelism=4) as job:
        assert len(repr(job.reconfigure(3))) < 200


ONE_ROW = {
    "a tuple": lambda w: (w.key, len(w.tuples)),
    "a list of tuples": lambda w: [(w.key, len(w.tuples))],
    "a generator": lambda w: ((w.key, n) for n in [len(w.tuples)]),
    "numbers of NumPy": lambda w: (w.key, np.int32(len(w.tuples))),
}


@pytest.mark.parametrize("output", ONE_ROW.values(), ids=ONE_ROW)
def test_a_tuple_is_a_row_and_a_list_or_generator_are_rows(output):
    operator = st.Operator(window=st.tumbling(10), keys="user", output=output, schema="user string, n long")
    assert result_of(operator, STREAM) == RESULTS


@pytest.mark.parametrize("made", ["abc", b"abc", 5, {"a": 1}, {1, 2}], ids=repr)
def test_what_is_no_row_is_refused(made):
    for operator in (st_output(lambda w: made), st.Map(lambda t: made, schema="x int")):
        with pytest.raises(st.FunctionError, match="do:    yield rows"):
            result_of(operator, STREAM)


KEYS = {
    "a number of NumPy": (lambda t: np.int32(t.pages), 2),
    "truth of NumPy": (lambda t: [np.bool_(True)], True),
    "parts of NumPy": (lambda t: (np.int64(1), "a"), (1, "a")),
    "the largest number": (lambda t: (1 << 63) - 1, (1 << 63) - 1),
}


@pytest.mark.parametrize(("keys", "expected"), KEYS.values(), ids=KEYS)
def test_keys_are_plain_values(keys, expected):
    seen = []
    operator = st.Operator(window=st.tumbling(10), keys=keys, output=lambda w: seen.append(w.key), schema="x int")
    result_of(operator, visits((1, "a", 2)))
    assert seen == [expected]
    assert not isinstance(seen[0], np.generic)


@pytest.mark.parametrize("key", [1 << 63, (1, -(1 << 63) - 1), 0.5, b"ab", np.float32(1)], ids=repr)
def test_what_is_no_key_is_refused(key):
    with pytest.raises(st.FunctionError, match="cannot be a key\n  where: keys at timestamp 1\n"):
        result_of(st_keys(lambda t: key), STREAM)


def test_a_state_of_numpys_numbers():
    def update(w, t):
        w.n += np.int64(1)
        w.half = np.float32(0.5)
        w.is_on = np.bool_(True)

    operator = st.Operator(
        window=st.tumbling(10),
        keys="user",
        state="n byte, half double, is_on boolean",
        update=update,
        output=lambda w: (w.n, w.half, w.is_on),
        schema="n long, half double, is_on boolean",
    )
    assert result_of(operator, STREAM) == [(10, 1, 0.5, True)] * 2


def test_columns_of_a_join_that_would_clash_are_found():
    clashing = st.Join(
        window=st.sliding(10), match=lambda l, r: True, inputs=["ts long, x int, l_x int", "ts long, x int"]
    )
    with pytest.raises(st.DefinitionError, match="two columns called 'l_x'"):
        st.setup(clashing)


@pytest.mark.parametrize("name", ["name", "keys", "key_name", "inputs", "mapping", "groups", "occurrences"])
def test_an_aggregate_is_not_taken_for_a_setting(name):
    with pytest.raises(st.DefinitionError, match=f"an aggregate cannot be called '{name}'"):
        st.Aggregate(window=st.tumbling(10), n=st.count(), **{name: st.max("pages")})


ELSEWHERE = {"time": "when", "sources": 2, "watermark": 3, "idle": "1 second", "seed": 1, "clock": lambda: 0.0}


@pytest.mark.parametrize("setting", ELSEWHERE)
def test_what_a_chained_job_would_ignore_is_refused(setting):
    with pytest.raises(st.DefinitionError, match=f"a chained job was given {setting}"):
        st.setup(busiest(), upstream=started(), **{setting: ELSEWHERE[setting]})
