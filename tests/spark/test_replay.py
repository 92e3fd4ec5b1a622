"""The replay source: every row once and in order, at its pace, across restarts; mistakes are told before it starts."""

import time
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as some

import stretch as st
from stretch.spark.recording import Recording, read

pytest.importorskip("pyspark")
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from stretch.spark.replay import Pace, Replay, ReplaySource

SECOND = 1_000_000


def ticks(*seconds):
    return pa.array([None if s is None else int(s * SECOND) for s in seconds], pa.int64()).cast(pa.timestamp("us"))


def recording(path, times, rows_per_group=4):
    pq.write_table(pa.table({"ts": times, "n": range(len(times))}), path, row_group_size=rows_per_group)
    return Recording(str(path))


def replay(recorded, **pace):
    """Return a reader and its clock."""
    clock = [100.0]
    return Replay(recorded, Pace(**pace), recorded.schema, lambda: clock[0]), clock


def numbers(reader, start, end):
    (partition,) = reader.partitions(start, end)
    return [n for batch in reader.read(partition) for n in batch.column("n").to_pylist()]


# --- Recordings


@given(
    sizes=some.lists(some.integers(0, 9), min_size=1, max_size=3),
    group=some.integers(1, 5),
    cuts=some.lists(some.integers(0, 27), max_size=6),
)
def test_any_cut_of_any_files_gives_every_row_once_in_order(sizes, group, cuts, tmp_path_factory):
    folder, total = tmp_path_factory.mktemp("recording"), 0
    for number, size in enumerate(sizes):
        table = pa.table({"n": pa.array(range(total, total + size), pa.int64())})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=group)
        total += size
    recorded = Recording(str(folder))
    assert recorded.rows == total
    edges = sorted({0, total, *(cut for cut in cuts if cut < total)})
    found = []
    for start, stop in pairwise(edges):
        for piece in recorded.pieces(start, stop):
            found += [n for batch in read(piece, recorded.schema, 2) for n in batch.column("n").to_pylist()]
    assert found == list(range(total))


def test_what_spark_writes_beside_the_data_is_no_data(tmp_path):
    recording(tmp_path / "part-0.parquet", ticks(1))
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "_metadata").mkdir()
    recording(tmp_path / "_metadata" / "x.parquet", ticks(2, 3))
    recording(tmp_path / ".part-1.parquet", ticks(2, 3))
    assert Recording(str(tmp_path)).rows == 1
    assert Recording(tmp_path.as_uri()).rows == 1


def test_a_file_that_was_written_anew_is_read_anew(tmp_path):
    first = replay(recording(tmp_path / "a.parquet", ticks(1, 2)))[0]
    assert numbers(first, {"row": 0, "rows": 2}, {"row": 2, "rows": 2}) == [0, 1]
    pq.write_table(pa.table({"ts": ticks(1, 2), "n": [7, 8]}), tmp_path / "a.parquet")
    second = replay(Recording(str(tmp_path / "a.parquet")))[0]
    assert numbers(second, {"row": 0, "rows": 2}, {"row": 2, "rows": 2}) == [7, 8]


# --- Pace


def played(reader, row, limit=1000):
    return reader.latestOffset({"row": row, "rows": reader.initialOffset()["rows"]}, ReadMaxRows(limit))["row"]


def test_at_a_speed_rows_come_when_their_time_has_come(tmp_path):
    # Row 3 goes back in time and follows row 2; the last row is in another row group than the first.
    reader, clock = replay(recording(tmp_path / "a.parquet", ticks(10, 11, 14, 12, 20)), speed=2.0)
    shown = [0]
    for now in (90, 100, 101.4, 101.5, 104.4, 104.5, 200):
        clock[0] = now
        shown.append(played(reader, shown[-1]))
    assert shown == [0, 1, 2, 2, 4, 4, 5, 5]


def test_the_clock_begins_after_the_first_row(tmp_path):
    reader, clock = replay(recording(tmp_path / "a.parquet", ticks(*range(9))), rate=1.0)
    assert played(reader, 0) == 1
    clock[0] += 60  # a query that compiles
    assert played(reader, 1) == 1
    clock[0] += 2
    assert played(reader, 1) == 3


def test_a_long_counts_its_own_units(tmp_path):
    reader, clock = replay(recording(tmp_path / "a.parquet", pa.array([0, 500, 1_000])), speed=1_000.0)
    assert [played(reader, 0), played(reader, 1)] == [1, 2]
    clock[0] += 0.5
    assert played(reader, 2) == 3


def test_rows_without_a_time_follow_the_row_before_them(tmp_path):
    reader, clock = replay(recording(tmp_path / "a.parquet", ticks(None, None, 5, None, 9)), speed=1.0)
    assert [played(reader, 0), played(reader, 1), played(reader, 2)] == [1, 2, 4]
    clock[0] += 4
    assert played(reader, 4) == 5


def test_at_a_rate_rows_come_evenly(tmp_path):
    reader, clock = replay(recording(tmp_path / "a.parquet", ticks(*range(11))), rate=4.0)
    assert [played(reader, 0), played(reader, 1)] == [1, 1]
    clock[0] += 0.5
    assert played(reader, 1) == 3
    clock[0] += 1
    assert [played(reader, 3), played(reader, 3, limit=3)] == [7, 6]


def test_after_a_restart_the_clock_begins_with_the_next_row(tmp_path):
    recorded = recording(tmp_path / "a.parquet", ticks(0, 1, 100, 101))
    reader, _ = replay(recorded, speed=1.0)
    assert [played(reader, 2), played(reader, 3)] == [3, 4]


def test_available_now_is_everything(tmp_path):
    reader, _ = replay(recording(tmp_path / "a.parquet", ticks(0, 10, 20)), speed=1.0)
    reader.prepareForTriggerAvailableNow()
    assert [played(reader, 0, 2), played(reader, 2, 2), played(reader, 3, 2)] == [2, 3, 3]
    assert reader.latestOffset({"row": 0, "rows": 3}, ReadAllAvailable())["row"] == 3


def test_a_query_is_not_continued_on_other_files(tmp_path):
    reader, _ = replay(recording(tmp_path / "a.parquet", ticks(0, 10, 20)))
    with pytest.raises(st.StateError) as error:
        reader.partitions({"row": 1, "rows": 9}, {"row": 2, "rows": 9})
    assert "has 3 rows, and had 9" in str(error.value)


# --- Mistakes


MISTAKES = {
    "an option that does not exist": ({"sped": "1"}, "stretch-replay does not know the option 'sped'"),
    "two paces": ({"speed": "1", "rate": "2"}, "stretch-replay got speed=1 and rate=2"),
    "a time that nothing asks for": ({"time": "ts"}, "stretch-replay got time='ts', and no speed"),
    "a speed that is no number": ({"speed": "fast"}, "speed='fast' is not a number above zero"),
    "a speed of zero": ({"speed": "0"}, "speed='0' is not a number above zero"),
    "half a row": ({"rowsPerBatch": "1.5"}, "rowsPerBatch='1.5' is not a whole number above zero"),
    "a rate without end": ({"rate": "inf"}, "rate='inf' is not a number above zero"),
    "no such time": ({"speed": "1", "time": "when"}, "the time column 'when' does not exist"),
    "a time that is text": ({"speed": "1", "time": "s"}, "the time column 's' is string"),
}


@pytest.mark.parametrize(("options", "what"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_options(options, what, tmp_path):
    from pyspark.sql.datasource import CaseInsensitiveDict

    pq.write_table(pa.table({"ts": ticks(1), "s": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(st.DefinitionError) as error:
        ReplaySource(CaseInsensitiveDict(options | {"path": str(tmp_path)})).schema()
    assert error.value.what == what


def test_mistakes_in_files(tmp_path):
    with pytest.raises(st.DefinitionError, match="does not know what to play"):
        ReplaySource({}).schema()
    with pytest.raises(st.DefinitionError, match="the path does not exist"):
        Recording(str(tmp_path / "nowhere"))
    with pytest.raises(st.DefinitionError, match="no file below it"):
        Recording(str(tmp_path))
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": ["1"]}), tmp_path / "2.parquet")
    with pytest.raises(st.DefinitionError, match=r"2\.parquet has other columns"):
        Recording(str(tmp_path))


# --- In Spark


@pytest.fixture
def source(spark):
    spark.dataSource.register(ReplaySource)
    return spark.readStream.format("stretch-replay")


def ended(query):
    try:
        assert query.awaitTermination(60)
    finally:
        query.stop()
    return query


@pytest.mark.slow
def test_a_query_is_stopped_and_goes_on_at_the_same_row(source, tmp_path, spark):
    times = pa.array(np.arange(300) * SECOND).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table({"ts": times, "n": range(300), "text": pa.array(map(str, range(300))).dictionary_encode()})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=90)

    def start(reader, **trigger):
        writer = reader.load(str(tmp_path / "a.parquet")).writeStream.format("parquet").trigger(**trigger)
        return writer.option("checkpointLocation", str(tmp_path / "ck")).start(str(tmp_path / "out"))

    query = start(source.option("speed", 200).option("rowsPerBatch", 40), processingTime="0 seconds")
    while not (tmp_path / "ck" / "commits" / "1").exists():
        time.sleep(0.02)
        assert query.exception() is None
    query.stop()
    query = ended(start(source.option("rowsPerBatch", 120), availableNow=True))
    assert len(query.recentProgress) >= 2
    found = spark.read.parquet(str(tmp_path / "out"))
    assert dict(found.dtypes) == {"ts": "timestamp", "n": "bigint", "text": "string"}
    assert sorted(row.n for row in found.collect()) == list(range(300))
    assert found.where("ts <> timestamp_seconds(n) or text <> n").count() == 0


def test_a_schema_of_fewer_columns_reads_no_others(source, tmp_path, spark):
    pq.write_table(pa.table({"ts": ticks(1, 2), "n": [1, 2], "text": ["a", "b"]}), tmp_path / "a.parquet")
    frame = source.schema("text string, n long").load(str(tmp_path))
    query = frame.writeStream.format("memory").queryName("fewer").trigger(availableNow=True).start()
    ended(query)
    assert [tuple(row) for row in spark.table("fewer").collect()] == [("a", 1), ("b", 2)]


def test_mistakes_are_told_when_the_source_is_made(source, tmp_path):
    with pytest.raises(Exception, match="why:   its options are path, time, speed, rate, rowsPerBatch"):
        source.option("sped", 1).load(str(tmp_path))
