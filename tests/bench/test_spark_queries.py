"""What `stretch bench spark` compares is the same: our counts are those of Spark's explode and groupBy."""

from collections import Counter

import pytest

from stretch.bench.spark_queries import counted, counted_by_spark, folder_of


@pytest.mark.slow
@pytest.mark.parametrize("level", ["words", "L", "H"])
def test_both_count_the_same(spark, level):
    owner, folder = folder_of(2, 3_000)
    with owner:
        tweets = spark.read.parquet(str(folder.input))
        ours = Counter(tuple(row) for row in counted(tweets, level, 2).collect())
        key = "key" if level == "words" else "key.word, key.other"
        theirs = counted_by_spark(spark, tweets, level).selectExpr("window.end", *key.split(", "), "count")
        assert ours == Counter(tuple(row) for row in theirs.collect())
    assert len(ours) > 10_000
