"""`operator.on(df)`: what comes out is what the reference engine says."""

import time

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - Spark's custom

import stretch as st
from tests.spark.streams import MINUTE, expected, operator, read, row, rows_of, run_all, write, written

BATCHES = [
    [row(1, "a", "one two"), row(14, "b", "two three two"), row(8, None, "one")],
    [row(25, "a", "two"), row(31, "b", "")],
    [row(75, "c", "four", 7)],
]
ALL = [each for rows in BATCHES for each in rows]


@pytest.fixture
def folder(tmp_path):
    for number, rows in enumerate(BATCHES):
        write(tmp_path / "in", number, rows)
    return tmp_path / "in"


def test_a_batch_dataframe_gives_all_windows(spark, folder):
    assert rows_of(operator().on(spark.read.parquet(str(folder)))) == expected(ALL)


@pytest.mark.parametrize("shards", [2, 3])
def test_shards_give_what_one_gives(spark, folder, shards):
    frame = spark.read.parquet(str(folder))
    assert rows_of(operator().on(frame, shards=shards)) == expected(ALL)


def test_a_stream_goes_on_after_a_restart(spark, tmp_path):
    for number, rows in enumerate(BATCHES):
        write(tmp_path / "in", number, rows)
        run_all(operator().on(read(spark, tmp_path / "in")), tmp_path / "out")
        seen = [each for some in BATCHES[: number + 1] for each in some]
        assert written(spark, tmp_path / "out") == expected(seen, until=max(each["ts"] for each in seen))


def test_shards_of_a_stream_agree_on_the_watermark(spark, tmp_path):
    rows = [
        row(1, "a", "one two"),
        row(2, "b", "five six"),
        row(25, "a", "two"),
        row(31, "b", ""),
        row(75, "b", "four"),
    ]
    for number, part in enumerate([rows[:2], rows[2:4], rows[4:]]):
        write(tmp_path / "in", number, part)
    query = run_all(operator().on(read(spark, tmp_path / "in"), shards=2, source="device"), tmp_path / "out")
    assert written(spark, tmp_path / "out") == expected(rows, until=25 * MINUTE) != []
    copies = [each.copies for name, each in query.lastProgress.observedMetrics.items() if name.startswith("copies")]
    assert copies == [1]  # of two that there could be


@pytest.mark.slow
def test_a_source_that_is_silent_is_not_waited_for(spark, tmp_path):
    rows = [row(1, "a", "one two"), row(2, "b", "five six"), row(75, "b", "four")]
    write(tmp_path / "in", 0, rows[:2])
    result = operator().on(read(spark, tmp_path / "in"), shards=2, source="device", idle="1 second")
    run_all(result, tmp_path / "out")
    time.sleep(1.1)
    write(tmp_path / "in", 1, rows[2:])
    run_all(result, tmp_path / "out")
    assert written(spark, tmp_path / "out") == expected(rows, until=75 * MINUTE) != []


def test_late_rows_are_delivered_once(spark, folder, tmp_path):
    write(folder, 3, [row(70, "d", "four one", 3), row(80, "c", "four")])
    result = operator().on(read(spark, folder), late=True)
    run_all(result, tmp_path / "out")
    out = spark.read.parquet(str(tmp_path / "out"))
    late = out.where("late is not null").select("late.*")
    assert [(each.device, each.words, each.x) for each in late.collect()] == [("d", ["four", "one"], 3)]
    results = out.where("late is null").drop("late")
    assert rows_of(results) == expected([*ALL, row(80, "c", "four")], until=80 * MINUTE)


def test_a_late_row_that_is_within_the_watermark_is_not_late(spark, folder, tmp_path):
    write(folder, 3, [row(70, "d", "four one", 3), row(80, "c", "four")])
    run_all(operator().on(read(spark, folder), watermark="10 minutes"), tmp_path / "out")
    rows = [*ALL, row(70, "d", "four one", 3), row(80, "c", "four")]
    assert written(spark, tmp_path / "out") == expected(rows, until=70 * MINUTE)


def test_operators_chain(spark, folder):
    counted = operator(name="words").on(spark.read.parquet(str(folder)))
    totals = st.Aggregate(window=st.tumbling("10 minutes"), most=st.max("n"), name="most")
    made = [(each.ts.minute, each.most) for each in totals.on(counted).collect()]
    assert (30, 2) in made or (20, 2) in made


def test_a_stream_that_has_no_rows_in_a_micro_batch_misses_none(spark, folder, tmp_path):
    write(tmp_path / "other", 0, [row(1, "z", "other")])
    first = operator(name="first").on(read(spark, folder))
    second = operator(name="second").on(read(spark, tmp_path / "other"))
    run_all(first.union(second), tmp_path / "out")
    write(tmp_path / "other", 1, [row(200, "z", "other")])
    run_all(first.union(second), tmp_path / "out")
    both = expected(ALL, until=75 * MINUTE) + expected([row(1, "z", "other")])
    assert written(spark, tmp_path / "out") == sorted(both, key=repr)


def test_time_may_be_a_long_and_columns_may_have_any_names(spark):
    frame = spark.range(4).select(
        (F.col("id") * 5).alias("when"), F.lit("a").alias("the key.of"), F.lit(None).alias("no")
    )
    counted = st.Aggregate(window=st.tumbling(10), keys="the key.of", n=st.count()).on(frame, time="when")
    assert rows_of(counted) == [(10, "a", 2), (20, "a", 2)]


def test_what_remains_when_a_query_has_ended(spark, folder, tmp_path):
    query = run_all(operator().on(read(spark, folder), shards=2), tmp_path / "out")
    rest = st.remaining(query)
    assert sorted(written(spark, tmp_path / "out") + rows_of(rest), key=repr) == expected(ALL)
    assert rows_of(rest) == rows_of(st.remaining(query)) != []


def failure_of(query):
    """Return what a query failed with."""
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination()
    return str(caught.value)


def start(frame, tmp_path, **options):
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    return writer.options(**options).trigger(availableNow=True).start()


def test_two_operators_of_one_name_are_refused(spark, folder, tmp_path):
    frame = operator().on(read(spark, folder)).union(operator().on(read(spark, folder)))
    assert "two operators of the query are called 'Aggregate'" in failure_of(start(frame, tmp_path))


@pytest.mark.slow
def test_state_that_does_not_fit_is_refused(spark, folder, tmp_path):
    start(operator().on(read(spark, folder)), tmp_path).awaitTermination()
    write(folder, 3, [row(80, "c", "four")])
    changed = operator(window=st.tumbling("10 minutes")).on(read(spark, folder))
    assert "the window was size 1200000000" in failure_of(start(changed, tmp_path))
    more = operator().on(read(spark, folder), shards=2)
    assert "another name or number of shards" in failure_of(start(more, tmp_path))


@pytest.mark.slow
def test_a_new_checkpoint_begins_with_empty_state_even_if_state_is_elsewhere(spark, folder, tmp_path):
    result = operator().on(read(spark, folder), state=str(tmp_path / "state"))
    run_all(result, tmp_path / "first")
    run_all(result, tmp_path / "second")
    assert written(spark, tmp_path / "first") == written(spark, tmp_path / "second") != []
