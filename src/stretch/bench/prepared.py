"""The tweets of the evaluation: made, cleaned by a pipeline on Spark, and kept as Parquet in the user's cache.

The pipeline gets what a crawler leaves: out of order, some tweets twice, some empty, with line breaks. What it gives
has to be what was made.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stretch.bench.fitted import make_fitted_tweets
from stretch.bench.report import Say, cache_folder
from stretch.errors import StretchError

FIRST_DAY_MS = 1_538_352_000_000  # 1 October 2018, as the paper's tweets
_FORM = 1  # of what is kept; another number is another file
_TWICE, _EMPTY, _BROKEN = 0.01, 0.005, 0.05  # shares of raw tweets


def tweets(count: int, seed: int, say: Say) -> pa.Table:
    """Return prepared tweets from time 0 on, prepared now if they have not been before."""
    folder = cache_folder() / f"tweets-{count}-{seed}-{_FORM}.parquet"
    if not (folder / "_SUCCESS").exists():
        if find_spec("pyspark") is None:
            say("PySpark is not installed: tweets are used as they were made")
            return make_fitted_tweets(count, seed)
        say(f"preparing {count:,} tweets on Spark, this once")
        prepare(folder, count, seed)
    table = pq.read_table(folder).combine_chunks()
    later = pc.subtract(table["ts"], FIRST_DAY_MS)
    return table.set_column(0, "ts", later)


def prepare(folder: Path, count: int, seed: int) -> None:
    """Make tweets, let Spark prepare them in a process of its own, and check what came of it."""
    made = make_fitted_tweets(count, seed)
    raw = folder.with_name(f"{folder.name}.raw")
    raw.mkdir(parents=True, exist_ok=True)
    try:
        pq.write_table(as_crawled(made, seed), raw / "tweets.parquet")
        subprocess.run([sys.executable, "-m", "stretch.spark.prepare", str(raw), str(folder)], check=True)
    finally:
        shutil.rmtree(raw)
    prepared = pq.read_table(folder, columns=["ts"]).num_rows
    if prepared != count:
        raise StretchError(
            f"{count:,} tweets were made, and {prepared:,} came out of the pipeline",
            why="cleaning lost or kept too many",
            do="report this",
        )


def as_crawled(made: pa.Table, seed: int) -> pa.Table:
    """Return tweets as they come from outside: shuffled, some twice, some without text, some with line breaks."""
    random = np.random.default_rng(seed)
    count = made.num_rows
    times = pa.array(np.asarray(made["ts"].to_numpy()) + FIRST_DAY_MS).cast(pa.timestamp("ms"))
    created = pc.strftime(times, "%Y-%m-%dT%H:%M:%SZ")
    broken = pc.replace_substring(made["text"], " ", " \n ", max_replacements=1)
    text = pc.if_else(pa.array(random.random(count) < _BROKEN), broken, made["text"])
    raw = pa.table({"id": np.arange(count), "created": created, "user": made["user"], "text": text})
    empty = raw.slice(0, int(count * _EMPTY))
    empty = empty.set_column(0, "id", pa.array(np.arange(empty.num_rows) + count))
    empty = empty.set_column(3, "text", pa.array(["  \n"] * empty.num_rows, text.type))
    twice = raw.take(pa.array(random.integers(0, count, int(count * _TWICE))))
    every = pa.concat_tables([raw, twice, empty])
    return every.take(pa.array(random.permutation(every.num_rows)))
