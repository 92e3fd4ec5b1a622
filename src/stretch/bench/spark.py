"""Figures of the library on Spark: rates next to its own aggregation, the cost of a micro-batch, restart, elasticity.

Both sides read the same files in the same session, a file per micro-batch, with a checkpoint. Rates are rows over the
time of whole micro-batches (planning and checkpoint included), from the second one on. Spark's own pair counts take
long, so it plays fewer of the files.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from stretch.bench.report import Chart, Report, Say, percentile, rounded
from stretch.bench.spark_queries import (
    SCHEMA,
    Batch,
    Folder,
    counted,
    counted_by_spark,
    folder_of,
    passed,
    rate,
    run_query,
    typical,
)
from stretch.errors import JobError
from stretch.operator.spec import Operator
from stretch.spark import live
from stretch.spark.session import local_session
from stretch.windows.spec import tumbling

HELP = "on Spark: words and pairs next to explode + groupBy, the cost of a micro-batch, restart, live changes"

RATIO_GOALS = {"words": 20.0, "L": 15.0, "M": 15.0, "H": 15.0}
FIXED_MS = 80.0
RESTART_SECONDS = 10.0
SWITCH_MS = 40.0
PARALLELISMS = (2, 1, 4)
PAUSE_SECONDS = (0.02, 0.1)  # between two changes


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rows: int  # of a file, which is a micro-batch
    files: int
    files_of_spark: int
    levels: tuple[str, ...]
    small_batches: int
    state_keys: int  # in the window that a restart has to bring back
    changes: int
    parallelism: int = 2


FULL = Size(100_000, 5, 2, ("words", "L", "M", "H"), small_batches=40, state_keys=24_000_000, changes=200)
QUICK = Size(10_000, 3, 2, ("words",), small_batches=8, state_keys=200_000, changes=20)


def run(size: Size, say: Say) -> Report:
    """Measure it."""
    report = Report("spark")
    say("starting Spark")
    spark = local_session(
        spark__sql__shuffle__partitions="2", spark__driver__memory="4g", spark__ui__showConsoleProgress="false"
    )
    try:
        _measure_rates(spark, size, report, say)
        _measure_fixed_cost(spark, size, report, say)
        _measure_changes(spark, size, report, say)
        _measure_restart(spark, size, report, say)
    finally:
        spark.stop()
    return report


# --- 1. Rates


def _measure_rates(spark: Any, size: Size, report: Report, say: Say) -> None:
    owner, folder = folder_of(size.files, size.rows)
    rates: dict[str, list[float]] = {}
    with owner:
        for level in size.levels:
            ours = _rate(spark, folder, level, size, report, say, "noop")
            written = _rate(spark, folder, level, size, report, say, "parquet")
            theirs = counted_by_spark(spark, folder.tweets(spark), level)
            batches = run_query(theirs, folder.new(), limit=size.files_of_spark)
            report.add_run(f"Spark, {level}", batches=[vars(batch) for batch in batches])
            say(f"Spark, {level}: {rate(batches):,.0f} tweets/s")
            report.add(f"{level}: ratio to Spark", ours / rate(batches), "x", at_least=RATIO_GOALS[level])
            report.add(f"{level}: stretch", ours, "tweets/s")
            report.add(f"{level}: stretch, to Parquet", written, "tweets/s")
            report.add(f"{level}: Spark", rate(batches), "tweets/s")
            rates |= {f"stretch, {level}": [ours], f"Spark, {level}": [rate(batches)]}
    report.charts.append(Chart("Counting on Spark", "tweets/s", rates, is_logarithmic=True))


def _rate(spark: Any, folder: Folder, level: str, size: Size, report: Report, say: Say, sink: str) -> float:
    batches = run_query(counted(folder.tweets(spark), level, size.parallelism), folder.new(), sink)
    report.add_run(f"stretch, {level}, {sink}", batches=[vars(batch) for batch in batches])
    say(f"stretch, {level}, {sink} sink: {rate(batches):,.0f} tweets/s, {_results_rate(batches):,.0f} results/s")
    return rate(batches)


def _results_rate(batches: list[Batch]) -> float:
    return 1000 * sum(batch.results for batch in batches[1:]) / sum(batch.total for batch in batches[1:])


# --- 2. What a micro-batch costs


def _measure_fixed_cost(spark: Any, size: Size, report: Report, say: Say) -> None:
    owner, folder = folder_of(size.small_batches, 100)
    with owner:
        took = {
            "identity": run_query(folder.tweets(spark).mapInArrow(passed, SCHEMA), folder.new()),
            "stretch": run_query(counted(folder.tweets(spark), "words", size.parallelism), folder.new()),
        }
    for name, batches in took.items():
        report.add_run(f"{name}, 100 rows per micro-batch", batches=[vars(batch) for batch in batches])
    identity, ours = (typical(took[name], "total") for name in ("identity", "stretch"))
    say(f"a micro-batch of 100 rows: {ours:.0f} ms, with an identity in Python {identity:.0f} ms")
    report.add("micro-batch of 100 rows: more than an identity", ours - identity, "ms", at_most=FIXED_MS)
    report.add("micro-batch of 100 rows: identity", identity, "ms")


# --- 3. Restart


def _measure_restart(spark: Any, size: Size, report: Report, say: Say) -> None:
    """Fill one window with state, stop, and take the time until the first results after a restart."""
    owner, folder = folder_of(1, 10)
    with owner:
        source = folder.new() / "keys"
        source.mkdir()
        say(f"filling a window with {size.state_keys:,} keys")
        _write_keys(spark, source, size.state_keys)
        ours, theirs = folder.new(), folder.new()
        run_query(_kept(spark, source), ours)
        run_query(_read_keys(spark, source).mapInArrow(passed, "ts timestamp, key long"), theirs)
        state = _bytes_below(ours / "checkpoint" / "stretch")
        _write_end(spark, source)
        seconds = _seconds(lambda: run_query(_kept(spark, source), ours))
        begun = _read_keys(spark, source).mapInArrow(passed, "ts timestamp, key long")
        plain = _seconds(lambda: run_query(begun, theirs))
    say(f"restart with {state / 1e9:.2f} GB of state: {seconds:.1f} s, with no state {plain:.1f} s")
    report.add("restart: state in the log", state / 1e9, "GB")
    report.add("restart: until the first results are committed", seconds, "s", at_most=RESTART_SECONDS)
    report.add("restart: the same query with an identity", plain, "s")


def _kept(spark: Any, source: Path) -> Any:
    """Keep a count per key; report only few, so that a restart is measured and not the writing of results."""
    operator = Operator(
        window=tumbling("1 hour"), keys="key", state="count long, latest long", update=_count, output=_report_few,
        schema="key long, count long", name="kept",
    )  # fmt: skip
    return operator.on(_read_keys(spark, source), time="ts")


def _count(w: Any, t: Any) -> None:
    w.count += 1
    w.latest = t.timestamp


def _report_few(w: Any) -> Iterator[tuple[int, int]]:
    if w.key % 100_000 == 0:
        yield w.key, w.count


def _read_keys(spark: Any, source: Path) -> Any:
    return spark.readStream.schema("ts timestamp, key long").option("maxFilesPerTrigger", 1).parquet(str(source))


def _write_keys(spark: Any, source: Path, keys: int) -> None:
    frame = spark.range(keys).selectExpr("timestamp_seconds(id / 1e6) AS ts", "id AS key")
    frame.coalesce(1).write.mode("append").parquet(str(source))


def _write_end(spark: Any, source: Path) -> None:
    spark.sql("SELECT timestamp_seconds(7200) AS ts, 0L AS key").coalesce(1).write.mode("append").parquet(str(source))


def _bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _seconds(action: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun


# --- 4. Live changes


def _measure_changes(spark: Any, size: Size, report: Report, say: Say) -> None:
    """Change the parallelism of a query that counts pairs as fast as it can, again and again."""
    say(f"changing the parallelism of a running query up to {size.changes} times")
    owner, folder = folder_of(size.files * 2, size.rows)
    with owner:
        frame = counted(folder.tweets(spark), "H", 1, max_parallelism=max(PARALLELISMS))
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(folder.new()))
        query = writer.trigger(availableNow=True).start()
        try:
            milliseconds = _change_again_and_again(query, size.changes)
        finally:
            query.stop()
    report.add_run("live changes", switched_ms=[rounded(value) for value in milliseconds])
    say(f"{len(milliseconds)} changes: p50 {median(milliseconds):.1f} ms, p99 {percentile(milliseconds, 99):.1f} ms")
    report.add("live changes", len(milliseconds), "changes")
    report.add("live change, p50", median(milliseconds), "ms")
    report.add("live change, p99", percentile(milliseconds, 99), "ms", at_most=SWITCH_MS)
    report.charts.append(Chart("From the driver's call to the switch", "ms", {"stretch": milliseconds}))


def _change_again_and_again(query: Any, changes: int) -> list[float]:
    """Return the milliseconds from each call to the switch, as long as the query runs."""
    running, chance = live(query), random.Random(0)
    running.metrics(timeout=300.0)  # from then on it is compiled
    found: list[float] = []
    for turn in range(changes):
        time.sleep(chance.uniform(*PAUSE_SECONDS))
        if not query.isActive:
            break
        try:
            (change,) = running.reconfigure(PARALLELISMS[turn % len(PARALLELISMS)])
            change.wait(30.0)
        except JobError:  # the query ended meanwhile
            break
        if change.switched_ms is not None:
            found.append(change.switched_ms)
    return found
