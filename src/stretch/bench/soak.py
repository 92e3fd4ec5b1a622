"""Soak: a thousand random changes of parallelism while words are counted at 90 % load, and not a row of difference.

The same tweets are counted with and without changes. Every result row of both runs goes into a checksum that ignores
the order of rows; they have to be equal, and so have the numbers of rows and of words counted.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from statistics import median

import pyarrow as pa

from stretch.bench.data import make_tweets
from stretch.bench.digest import Digest, add_up, digest
from stretch.bench.report import Chart, Report, Say, percentile
from stretch.bench.rig import Rig
from stretch.bench.streams import cycled, dealt, first_of_cycle
from stretch.bench.wordcount import wordcount

HELP = "1,000 random changes of parallelism at 90 % load: the same results, to the last row"

LOAD = 0.9


@dataclass(frozen=True)
class Size:
    """How much is done."""

    changes: int
    tweets: int  # that are played over and over
    parallelism_max: int = 8
    gap_seconds: tuple[float, float] = (0.0, 0.1)
    warm_up: int = 20_000
    seed: int = 0


FULL = Size(1_000, 200_000)
QUICK = Size(100, 50_000, gap_seconds=(0.0, 0.03))


class Hashed:
    """Adds up all results and lets them go; times count from `start`."""

    def __init__(self, start: int) -> None:
        self._start = start
        self.digest = Digest(0, 0, 0)

    def __call__(self, results: pa.Table) -> None:
        parts = [
            digest(batch.column(0).to_numpy() - self._start, batch.columns[1:-1], batch.columns[-1].to_numpy())
            for batch in results.to_batches()
            if batch.num_rows > 0
        ]
        self.digest = add_up([self.digest, *parts])


def run(size: Size, say: Say) -> Report:
    """Do it."""
    report = Report("soak")
    table = make_tweets(size.tweets, size.seed).table
    say("compiling")
    parallelisms = range(1, size.parallelism_max + 1)
    with Rig(wordcount(), sources=1, max_parallelism=size.parallelism_max, engine="compiled") as rig:
        rig.warm_up(table.slice(0, size.warm_up), [1, size.parallelism_max])
        rate = LOAD * min(_highest_rate(rig, table, parallelism) for parallelism in (1, size.parallelism_max))
        say(f"{size.changes} changes at {rate:,.0f} tweets/s")
        took: list[float] = []
        stop, start = threading.Event(), rig.start

        def change_often() -> None:
            try:
                took.extend(_change_often(rig, list(parallelisms), size, say))
            finally:
                stop.set()

        changed = Hashed(start)
        play = rig.play([cycled(table, start, stop, rate)], changed, change_often)
        say(f"the same {play.tweets:,} tweets without changes")
        rig.resize(1)
        still = Hashed(rig.start)
        rig.play([first_of_cycle(table, rig.start, play.tweets)], still)
    report.add("changes", len(took), "changes", at_least=size.changes)
    report.add("tweets", play.tweets, "tweets")
    report.add("rate reached", play.tweets / play.seconds, "tweets/s")
    report.add("result rows", changed.digest.rows, "rows")
    report.add(
        "rows more or less than without changes", abs(changed.digest.rows - still.digest.rows), "rows", at_most=0
    )
    report.add("results whose checksum differs", int(changed.digest != still.digest), "runs", at_most=0)
    report.add("p50 of a change", percentile(took, 50), "ms")
    report.add("p99 of a change", percentile(took, 99), "ms")
    report.charts.append(Chart("Changes between 1 and 8 instances", "ms", {"random": took}, is_logarithmic=True))
    report.add_run("with changes", **changed.digest._asdict(), seconds=play.seconds)
    report.add_run("without changes", **still.digest._asdict())
    return report


def _highest_rate(rig: Rig, table: pa.Table, parallelism: int) -> float:
    rig.resize(parallelism)
    plays = [rig.play(dealt(table, rig.start, 1), lambda results: None) for _ in range(3)]
    return median(play.tweets / play.seconds for play in plays)


def _change_often(rig: Rig, parallelisms: list[int], size: Size, say: Say) -> list[float]:
    """Change to any other parallelism, again and again; return how long each change took."""
    chance = random.Random(size.seed)
    current, took = 0, []
    for number in range(size.changes):
        time.sleep(chance.uniform(*size.gap_seconds))
        current = chance.choice([one for one in parallelisms if one != current])
        took.append(rig.change(current).switched_ms or 0.0)
        if number % 100 == 99:
            say(f"{number + 1} changes")
    return took
