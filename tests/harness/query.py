"""A streaming query in a process of its own, for tests that end it the hard way: words counted per window, to Parquet.

`python -m tests.harness.query FOLDER` runs it until the input is used up, and goes on from the checkpoint if there is
one. It reads `in/`, and writes `out/`, `checkpoint/` and `settings.json` say how. `expected` is what has to come out,
by DuckDB; `written` is what did.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import stretch as st
from stretch.bench.data import make_tweets

SIZE, ADVANCE = 120_000, 60_000  # two minutes by one, in milliseconds
VOCABULARY = 500


@dataclass(frozen=True)
class Settings:
    """How the query runs."""

    master: str = "local[2,4]"
    files_per_batch: int = 1
    shards: int = 1
    parallelism: int = 2
    is_broken: bool = False
    """Count with state that only the Python worker knows: what a test of exactly once has to find."""


def prepare(folder: Path, settings: Settings, files: int, rows_per_file: int, seed: int = 0) -> None:
    """Write the input: sorted tweets, and one at the end that completes all windows before it."""
    (folder / "in").mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(asdict(settings)))
    table = make_tweets(files * rows_per_file, seed, vocabulary=VOCABULARY).table.select(["ts", "text"])
    last = int(np.asarray(table["ts"])[-1])
    table = pa.concat_tables([table, pa.table({"ts": [last + SIZE + ADVANCE], "text": ["end"]})])
    for number in range(files):
        stop = None if number + 1 == files else rows_per_file
        part = table.slice(number * rows_per_file, stop)
        path = folder / "in" / f"{number:05}.parquet"
        pq.write_table(part, path)
        os.utime(path, (1_600_000_000 + number,) * 2)  # Spark takes the oldest first


def expected(folder: Path) -> Counter[tuple[int, str, int]]:
    """Count the words of the input with DuckDB."""
    found = duckdb.sql(f"""
        WITH words AS (
            SELECT DISTINCT filename, file_row_number, ts, unnest(string_split(text, ' ')) AS word
            FROM read_parquet('{folder}/in/*.parquet', filename = true, file_row_number = true)
            WHERE text <> 'end'
        )
        SELECT (ts // {ADVANCE} + shift) * {ADVANCE} AS ts, word, count(*) AS count
        FROM words, range(1, {SIZE // ADVANCE + 1}) AS shifts(shift) GROUP BY ALL
    """)
    assert found is not None
    return Counter(found.fetchall())


def written(folder: Path) -> Counter[tuple[int, str, int]]:
    """Read the rows of all files that the sink has committed."""
    rows: Counter[tuple[int, str, int]] = Counter()
    for path in committed_files(folder / "out"):
        table = pq.read_table(path)
        rows.update(zip(*(table[name].to_pylist() for name in ("ts", "word", "count")), strict=True))
    return rows


def committed_files(out: Path) -> list[Path]:
    """Return the files that Spark's log of the sink names; what failed attempts left behind is not among them."""
    log = out / "_spark_metadata"
    numbers = {int(path.name.removesuffix(".compact")): path for path in log.iterdir() if path.name[0].isdigit()}
    compacts = [number for number, path in numbers.items() if path.name.endswith(".compact")]
    begin = max(compacts, default=0)
    lines = [line for number in sorted(numbers) if number >= begin for line in numbers[number].read_text().splitlines()]
    return [Path(json.loads(line)["path"].removeprefix("file://")) for line in lines if line.startswith("{")]


def batches(folder: Path) -> int:
    """Return how many micro-batches are committed."""
    commits = folder / "checkpoint" / "commits"
    found = [int(path.name) for path in commits.iterdir() if path.name.isdigit()] if commits.exists() else []
    return max(found, default=-1) + 1


# --- In the query's own process


def main(folder: Path) -> None:
    """Run the query."""
    settings = Settings(**json.loads((folder / "settings.json").read_text()))
    from stretch.spark.session import local_session

    spark = local_session(
        settings.master,
        spark__sql__shuffle__partitions="2",
        spark__sql__streaming__minBatchesToRetain="5",
        spark__driver__memory="600m",
        spark__executor__memory="600m",
        spark__executor__cores="1",
    )
    tweets = (
        spark.readStream.schema("ts long, text string")
        .option("maxFilesPerTrigger", settings.files_per_batch)
        .parquet(str(folder / "in"))
    )
    results = _broken(tweets) if settings.is_broken else _counted(tweets, settings)
    query = (
        results.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    spark.stop()


def _counted(tweets: Any, settings: Settings) -> Any:
    counted = st.Aggregate(window=st.sliding(SIZE, ADVANCE), keys=st.words("text"), count=st.count(), name="wordcount")
    return counted.on(tweets, time="ts", parallelism=settings.parallelism, shards=settings.shards)


_panes: Counter[tuple[int, str]] = Counter()


def _broken(tweets: Any) -> Any:
    return tweets.repartition(1).mapInArrow(_count_in_memory, "ts long, word string, count long")


def _count_in_memory(batches: Any) -> Any:
    results = []
    for batch in batches:
        for ts, text in sorted(zip(batch["ts"].to_pylist(), batch["text"].to_pylist(), strict=True)):
            for word in set(text.split()) - {"end"}:
                for right in range(ts // ADVANCE * ADVANCE + ADVANCE, ts + SIZE + 1, ADVANCE):
                    _panes[right, word] += 1
            for right, word in [key for key in _panes if key[0] <= ts]:
                results.append({"ts": right, "word": word, "count": _panes.pop((right, word))})
    if results:
        yield pa.RecordBatch.from_pylist(results)


if __name__ == "__main__":
    from tests.harness import query as this  # so that what Spark pickles is found by its name

    this.main(Path(sys.argv[1]))
