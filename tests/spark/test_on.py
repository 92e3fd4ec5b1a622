"""`operator.on(df)`: what comes out is what the reference engine says."""

from tests.spark.streams import MINUTE, expected, operator, read, row, rows_of, run_all, write, written

FIRST = [row(1, "a", "one two"), row(14, "b", "two three two"), row(8, None, "one")]
SECOND = [row(25, "a", "two"), row(31, "b", "")]
THIRD = [row(75, "c", "four", 7)]


def test_a_batch_dataframe_gives_all_windows(spark, tmp_path):
    for number, rows in enumerate([FIRST, SECOND, THIRD]):
        write(tmp_path / "in", number, rows)
    frame = spark.read.parquet(str(tmp_path / "in"))
    assert rows_of(operator().on(frame)) == expected(FIRST + SECOND + THIRD)


def test_a_stream_gives_the_windows_that_are_complete_and_goes_on_after_a_restart(spark, tmp_path):
    write(tmp_path / "in", 0, FIRST)
    write(tmp_path / "in", 1, SECOND)
    run_all(operator().on(read(spark, tmp_path / "in")), tmp_path / "out")
    assert written(spark, tmp_path / "out") == expected(FIRST + SECOND, until=31 * MINUTE)
    write(tmp_path / "in", 2, THIRD)
    run_all(operator().on(read(spark, tmp_path / "in")), tmp_path / "out")
    assert written(spark, tmp_path / "out") == expected(FIRST + SECOND + THIRD, until=75 * MINUTE)
