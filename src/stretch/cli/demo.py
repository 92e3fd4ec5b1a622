"""`stretch demo`: the paper's running example, resized while it runs.

The same stream is run three times: with live changes of parallelism, without, and shared-nothing. What the demo says
about the results and the copies is computed from these runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from stretch.cli.text import WIDTH, Emphasis, clock, emphasis, table
from stretch.cli.tweets import END, HOUR, START, tweets
from stretch.metrics import Metrics, Reconfiguration
from stretch.operator.paper import longest_tweet
from stretch.runtime.job import Job
from stretch.runtime.reference import EngineName
from stretch.runtime.setup import setup
from stretch.windows.spec import sliding

HELP = "show the longest tweet per hashtag, on 1, then 4, then 2 instances, changed while the tweets flow"

STEP = HOUR // 4  # event time between two lines of the progress
SIZE, ADVANCE = "1 hour", "30 minutes"
INSTANCES_MAX = 4
CHANGES = {START + HOUR: 4, START + 2 * HOUR: 2}  # when the rush begins, and when it is over
ROWS_PER_WINDOW = 3
SAMPLES = 5  # tweets that are shown
PAUSE_SECONDS = 0.08  # between two lines on a terminal, so that an eye can follow

_SCHEMA = pa.schema([("ts", pa.timestamp("us", tz="UTC")), ("user", pa.string()), ("text", pa.string())])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="another stream of tweets (default: 0)")


def run(options: argparse.Namespace) -> int:
    """Show the demo; 1 if a run gave other results than another."""
    stress = emphasis(sys.stdout)
    pause = PAUSE_SECONDS if sys.stdout.isatty() else 0.0
    stream = tweets(options.seed)
    _introduce(stream, stress)
    live = _show_live_run(stream, stress, pause)
    print("\n" + stress("The longest tweets") + f", top {ROWS_PER_WINDOW} of each window\n")
    print(_indented(_result_table(live.results)))
    return _compare(stream, live, stress)


# --- running


@dataclass(frozen=True)
class Progress:
    """Where a run is: up to which event time tweets were added, how many, and the change just asked for, if any."""

    until: int
    tweets: int
    asked: Reconfiguration | None


@dataclass(frozen=True)
class Run:
    """A run that is over."""

    results: pa.Table
    metrics: Metrics


def _flow(job: Job, stream: list[tuple[int, str, str]], changes: dict[int, int]) -> Iterator[tuple[Progress, pa.Table]]:
    """Add the tweets step by step, ask for changes when their time has come, and give what results there are."""
    added = 0
    for until in range(START + STEP, END + 1, STEP):
        batch = [row for row in stream if until - STEP <= row[0] < until]
        added += len(batch)
        job.add(_record_batch(batch))
        asked = job.reconfigure(parallelism=changes[until]) if until in changes else None
        yield Progress(until, added, asked), job.results()


def _run(stream: list[tuple[int, str, str]], changes: dict[int, int], engine: EngineName) -> Run:
    """Run the example without showing anything."""
    with _job(engine) as job:
        parts = [results for _, results in _flow(job, stream, changes)]
        parts.append(job.finish())
        return Run(pa.concat_tables(parts), job.metrics())


def _job(engine: EngineName = "reference") -> Job:
    operator = longest_tweet(sliding(SIZE, ADVANCE))
    schema = "ts timestamp, user string, text string"
    return setup(operator, inputs=schema, parallelism=1, max_parallelism=INSTANCES_MAX, engine=engine)


def _record_batch(rows: list[tuple[int, str, str]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=_SCHEMA)


# --- showing


def _introduce(stream: list[tuple[int, str, str]], stress: Emphasis) -> None:
    print(stress("The longest tweet per hashtag") + f", in windows of {SIZE} that start every {ADVANCE}\n")
    print(f"  {len(stream)} tweets of one (made-up) morning. A tweet counts for each of its hashtags:\n")
    lines = [f"  {clock(timestamp)}  {user:6}  {text}" for timestamp, user, text in stream]
    fitting = [line for line in lines if len(line) <= WIDTH]
    print("\n".join(fitting[:: len(fitting) // SAMPLES][:SAMPLES]))


def _show_live_run(stream: list[tuple[int, str, str]], stress: Emphasis, pause: float) -> Run:
    """Run the example with changes of parallelism, and show how it goes."""
    print("\n" + stress("The tweets flow") + "; instances come and go\n")
    print("  until   tweets   results   instances")
    parts: list[pa.Table] = []
    pending: Reconfiguration | None = None
    with _job() as job:
        for progress, results in _flow(job, stream, CHANGES):
            time.sleep(pause)
            parts.append(results)
            if pending is not None and pending.watermark is not None:
                print(stress(f"{'':31}{pending.parallelism} from {clock(pending.watermark)} on, without a restart"))
                pending = None
            metrics = job.metrics()
            note = "" if progress.asked is None else f"   asked for {progress.asked.parallelism}"
            bar = ("#" * metrics.parallelism).ljust(INSTANCES_MAX)
            count = sum(part.num_rows for part in parts)
            print(f"  {clock(progress.until, '%H:%M')}   {progress.tweets:6}   {count:7}   {bar}{note}".rstrip())
            pending = progress.asked or pending
        parts.append(job.finish())
        return Run(pa.concat_tables(parts), job.metrics())


def _result_table(results: pa.Table) -> str:
    """Format the top rows of each window; within a window the longest first, then by name."""
    by_window: dict[int, list[tuple[int, str]]] = {}
    times = results["ts"].cast(pa.int64()).to_pylist()
    for right, hashtag, chars in zip(times, results["hashtag"].to_pylist(), results["chars"].to_pylist(), strict=True):
        by_window.setdefault(right, []).append((-chars, hashtag))
    rows = []
    for right, found in by_window.items():
        window = f"{clock(right - HOUR, '%H:%M')}-{clock(right, '%H:%M')}"
        top = sorted(found)[:ROWS_PER_WINDOW]
        rows += [(window if i == 0 else "", f"#{tag}", -chars) for i, (chars, tag) in enumerate(top)]
    return table(["window", "hashtag", "chars"], rows)


def _compare(stream: list[tuple[int, str, str]], live: Run, stress: Emphasis) -> int:
    """Show what the changes did to the results (nothing), and what shared-nothing would have done."""
    steady = _run(stream, {}, "reference")
    copying = _run(stream, CHANGES, "shared-nothing")
    is_same = live.results.equals(steady.results)
    is_same_copying = live.results.equals(copying.results)
    print("\n" + stress("Compared with other ways to run it") + f", all {live.results.num_rows} results\n")
    print(f"  without any change of parallelism: same results: {stress(_yes_or_no(is_same))}")
    print(f"  shared-nothing, same changes:      same results: {stress(_yes_or_no(is_same_copying))}\n")
    print(_indented(table(
        ["", "this run", "shared-nothing"],
        [
            ("copies of tweets made", live.metrics.copies, copying.metrics.copies),
            ("bytes of state moved", live.metrics.bytes_moved, copying.metrics.bytes_moved),
        ],
    )))  # fmt: skip
    print("\n  This is the reference engine: it shows what is computed; it is slow by design.")
    return 0 if is_same and is_same_copying else 1


def _yes_or_no(answer: bool) -> str:
    return "yes" if answer else "NO"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())
