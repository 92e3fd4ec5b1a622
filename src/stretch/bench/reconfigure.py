"""Figure 4: how long a change of parallelism takes, from the request until every instance works in the new epoch.

Words are counted at 70 % of the highest rate that both parallelisms reach, and then as fast as the source gets in,
which keeps the buffers full. A change is asked for some milliseconds after the last one took effect. The results,
window by window, have to be those of the same tweets without any change.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import pyarrow as pa

from stretch.bench.data import make_tweets
from stretch.bench.report import Chart, Report, Say, machine, percentile
from stretch.bench.results import PerWindow
from stretch.bench.rig import Rig
from stretch.bench.streams import cycled, dealt, first_of_cycle
from stretch.bench.wordcount import wordcount

HELP = "milliseconds that a change of parallelism takes, at 70 % load and with full buffers"

LOAD = 0.7
FULL_BUFFER = "full buffer"
FITTING_MS = 2.0  # goal where the threads fit the cores
CROWDED_MS = 10.0  # goal where they do not, or the buffers are full


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    repetitions: int  # changes in each direction
    tweets: int  # that are played over and over
    pairs: tuple[tuple[int, int], ...] = ((1, 2), (1, 4), (2, 32))
    gap_seconds: tuple[float, float] = (0.005, 0.020)  # between two changes
    warm_up: int = 20_000
    seed: int = 0


FULL = Size(repetitions=300, tweets=200_000)
QUICK = Size(repetitions=40, tweets=100_000)


class Change(NamedTuple):
    """A change that took effect: how long until its steps, in milliseconds."""

    before: int
    after: int
    first_control: float
    barrier: float
    switched: float


def run(size: Size, say: Say) -> Report:
    """Measure it."""
    report = Report("reconfigure")
    table = make_tweets(size.tweets, size.seed).table
    pool = max(max(pair) for pair in size.pairs)
    say("compiling")
    with Rig(wordcount(), sources=1, max_parallelism=pool, engine="compiled") as rig:
        rig.warm_up(table.slice(0, size.warm_up), sorted({one for pair in size.pairs for one in pair}))
        for pair in size.pairs:
            highest = min(_highest_rate(rig, table, parallelism) for parallelism in pair)
            for rate in (LOAD * highest, None):
                load = FULL_BUFFER if rate is None else f"{LOAD:.0%} load"
                say(f"{pair[0]} <-> {pair[1]}, {load} ({rate or highest:,.0f} tweets/s)")
                changes, wrong, reached = _play(rig, table, pair, rate, size)
                _report(report, pair, load, changes, wrong, reached)
    return report


def _highest_rate(rig: Rig, table: pa.Table, parallelism: int) -> float:
    rig.resize(parallelism)
    plays = [rig.play(dealt(table, rig.start, 1), lambda results: None) for _ in range(3)]
    return median(play.tweets / play.seconds for play in plays)


def _play(
    rig: Rig, table: pa.Table, pair: tuple[int, int], rate: float | None, size: Size
) -> tuple[list[Change], int, float]:
    """Change often while tweets flow; return the changes, in how many windows results differ, and the rate reached."""
    rig.resize(pair[0])
    changes: list[Change] = []
    stop, start = threading.Event(), rig.start

    def change_often() -> None:
        try:
            changes.extend(_change_often(rig, pair, size))
        finally:
            stop.set()

    results = PerWindow()
    play = rig.play([cycled(table, start, stop, rate)], results, change_often)
    rig.resize(pair[0])
    expected, start_again = PerWindow(), rig.start
    rig.play([first_of_cycle(table, start_again, play.tweets)], expected)
    ours, theirs = results.windows(start), expected.windows(start_again)
    wrong = sum(ours.get(right) != theirs.get(right) for right in ours.keys() | theirs.keys())
    return changes, wrong, play.tweets / play.seconds


def _change_often(rig: Rig, pair: tuple[int, int], size: Size) -> Iterator[Change]:
    """Go from one parallelism to the other and back."""
    pause = random.Random(size.seed)
    for number in range(2 * size.repetitions):
        time.sleep(pause.uniform(*size.gap_seconds))
        before, after = pair[number % 2], pair[1 - number % 2]
        change = rig.change(after)
        yield Change(before, after, change.control_ms or 0.0, change.barrier_ms or 0.0, change.switched_ms or 0.0)


def _report(
    report: Report, pair: tuple[int, int], load: str, changes: list[Change], wrong: int, reached: float
) -> None:
    cores = machine()["cores"]
    rows = {}
    for before, after in (pair, pair[::-1]):
        these = [change for change in changes if (change.before, change.after) == (before, after)]
        took = [change.switched for change in these]
        name = f"{before} -> {after}, {load}"
        goal = FITTING_MS if max(pair) <= cores and load != FULL_BUFFER else CROWDED_MS
        report.add(f"{name}: p50", percentile(took, 50), "ms")
        report.add(f"{name}: p99", percentile(took, 99), "ms", at_most=goal)
        rows[name] = took
        for change in these:
            report.add_run(name, tweets_per_second=reached, **change._asdict())
    name = f"{pair[0]} <-> {pair[1]}, {load}"
    report.add(f"{name}: windows whose results differ from those without changes", wrong, "windows", at_most=0)
    report.charts.append(Chart(f"Reconfiguration {name}", "ms", rows, is_logarithmic=True))
