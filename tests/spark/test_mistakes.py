"""What is wrong with a call of `on` is said before there is a query."""

import datetime as dt

import pytest
from pyspark.sql import functions as F  # noqa: N812 - Spark's custom

import stretch as st
from tests.spark.streams import operator

ROW = [(dt.datetime(2024, 1, 1), "a", ["one"], 1, {"k": 1})]
COLUMNS = "ts timestamp, device string, words array<string>, x int, other map<string, int>"

MISTAKES = {
    "no DataFrame": (lambda df: operator().on([1, 2]), "got a list"),
    "two DataFrames": (lambda df: operator().on(df, df), "got 2 DataFrame"),
    "no such time column": (lambda df: operator().on(df, time="when"), "the time column 'when' does not exist"),
    "a time column of another type": (
        lambda df: operator().on(df, time="device"),
        "the time column 'device' is string",
    ),
    "no such key column": (lambda df: operator(keys="user").on(df), "the key column 'user' does not exist"),
    "a key column of another type": (lambda df: operator(keys="other").on(df), "is map<string,int>"),
    "no such source column": (lambda df: operator().on(df, source="user"), "the source column 'user' does not exist"),
    "no shards": (lambda df: operator().on(df, shards=0), "shards=0 is not possible"),
    "shards that are no number": (lambda df: operator().on(df, shards="two"), "shards='two' is not possible"),
    "no threads": (lambda df: operator().on(df, parallelism=0), "parallelism=0 is not possible"),
    "too many threads": (lambda df: operator().on(df, parallelism=3, max_parallelism=2), "above max_parallelism=2"),
    "a watermark without a unit": (lambda df: operator().on(df, watermark=10), "watermark=10 does not fit"),
    "an explicit watermark": (lambda df: operator().on(df, watermark="explicit"), "'explicit'"),
    "an idle time without a unit": (lambda df: operator().on(df, idle=5), "idle=5 does not say its unit"),
    "a window in units of a long": (lambda df: operator(window=st.tumbling(5)).on(df), "does not fit the time column"),
    "a column that the declared input has": (
        lambda df: operator(inputs="ts timestamp, words array<string>, x int, device string, more int").on(df),
        "the column 'more' does not exist",
    ),
    "a column of another type than declared": (
        lambda df: operator(inputs="ts timestamp, words array<string>, x int, device int").on(df),
        "the column 'device' is string",
    ),
    "state on a filesystem that nobody knows": (
        lambda df: operator().on(df, state="tape://1"),
        "is no place for state",
    ),
    "state nowhere": (lambda df: operator().on(df, state=""), "is no place for state"),
    "a query that is none": (lambda df: st.live(df), "live() got a DataFrame"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(spark, name):
    make, said = MISTAKES[name]
    with pytest.raises(st.StretchError) as caught:
        make(spark.createDataFrame(ROW, COLUMNS))
    assert said in caught.value.what


def test_a_stream_and_a_batch_do_not_mix(spark):
    batch = spark.createDataFrame(ROW, COLUMNS)
    stream = spark.readStream.format("rate").load().select(F.col("timestamp").alias("ts"))
    both = st.Join(window=st.tumbling("1 hour"), keys="device")
    with pytest.raises(st.DefinitionError, match="got a streaming DataFrame and a batch one"):
        both.on(batch, stream)
