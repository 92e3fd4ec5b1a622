"""Raw tweets made ready for the evaluation: a batch pipeline on Spark, as data comes before it meets a stream.

Raw tweets are Parquet of `id long, created string, user string, text string`: out of order, some of them twice, with
line breaks and runs of blanks in the text, some of it empty.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stretch.spark.session import local_session

RAW_SCHEMA = "id long, created string, user string, text string"


def prepare_tweets(raw: Path, prepared: Path) -> None:
    """Write tweets of `ts long` (milliseconds since 1970), `user` and `text`, each once, sorted."""
    session = local_session("local[2]", spark__sql__shuffle__partitions="2")
    from pyspark.sql import functions as F  # noqa: N812 - as in all of Spark's documents

    text = F.trim(F.regexp_replace("text", r"\s+", " "))
    created = F.to_timestamp("created", "yyyy-MM-dd'T'HH:mm:ss.SSSX")
    tweets = (
        session.read.schema(RAW_SCHEMA)
        .parquet(str(raw))
        .dropDuplicates(["id"])
        .select(F.unix_millis(created).alias("ts"), "user", text.alias("text"), "id")
        .where(F.col("ts").isNotNull() & (F.col("text") != ""))
        .orderBy("ts", "id")
        .select("ts", "user", "text")
    )
    tweets.write.mode("overwrite").parquet(str(prepared))


if __name__ == "__main__":
    prepare_tweets(Path(sys.argv[1]), Path(sys.argv[2]))
