"""Soak: a thousand random changes of parallelism at 90 % load, aggregate and join, and not a row of difference.

The same tweets are counted, and the same tuples joined, with and without changes. Every result row of both runs goes
into a checksum that ignores the order of rows; they have to be equal, and so have the numbers of rows.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stretch.bench.data import make_tweets
from stretch.bench.digest import Digest, add_up, digest
from stretch.bench.report import Chart, Report, Say, percentile
from stretch.bench.rig import Rig
from stretch.bench.streams import cycled, dealt, first_of_cycle
from stretch.bench.wordcount import wordcount
from stretch.metrics import Reconfiguration
from stretch.operator.join import Join
from stretch.runtime.setup import setup
from stretch.windows.spec import sliding

HELP = "1,000 random changes of parallelism at 90 % load, aggregate and join: the same results, to the last row"

LOAD = 0.9


@dataclass(frozen=True)
class Size:
    """How much is done."""

    changes: int
    tweets: int  # that are played over and over
    parallelism_max: int = 8
    gap_seconds: tuple[float, float] = (0.0, 0.1)
    warm_up: int = 20_000
    warm_up_batches: int = 200  # of the join, with all windows full
    seed: int = 0


FULL = Size(1_000, 200_000)
QUICK = Size(100, 50_000, gap_seconds=(0.0, 0.03), warm_up_batches=50)

JOINED_ROWS = 100  # of each input, in a batch: as many ticks of event time
JOINED_WINDOW = 2_000
JOINED_SCHEMAS = ["ts long, x long", "ts long, a long"]
JOINED_VALUES = 1_000


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
    _count(report, size, say)
    _join(report, size, say)
    return report


def _count(report: Report, size: Size, say: Say) -> None:
    """Count words with and without changes."""
    table = make_tweets(size.tweets, size.seed).table
    say("word count: compiling")
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
    _report(report, "word count", size, took, (changed.digest, still.digest), play.tweets / play.seconds)


def _report(
    report: Report, name: str, size: Size, took: list[float], digests: tuple[Digest, Digest], rate: float
) -> None:
    """Compare the results with those without changes."""
    changed, still = digests
    report.add(f"{name}: changes", len(took), "changes", at_least=size.changes)
    report.add(f"{name}: rate", rate, "tuples/s")
    report.add(f"{name}: result rows", changed.rows, "rows")
    report.add(f"{name}: rows more or less than without changes", abs(changed.rows - still.rows), "rows", at_most=0)
    report.add(f"{name}: results whose checksum differs", int(changed != still), "runs", at_most=0)
    report.add(f"{name}: p50 of a change", percentile(took, 50), "ms")
    report.add(f"{name}: p99 of a change", percentile(took, 99), "ms")
    title = f"Changes between 1 and {size.parallelism_max} instances, {name}"
    report.charts.append(Chart(title, "ms", {"random": took}, is_logarithmic=True))
    report.add_run(f"{name}, with changes", **changed._asdict())
    report.add_run(f"{name}, without changes", **still._asdict())


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


# --- The join


def _near(l: Any, r: Any) -> Any:
    return abs(l.x - r.a) <= 1


def _join(report: Report, size: Size, say: Say) -> None:
    """Join two streams with and without changes; batches are added by the clock, at 90 % of the highest rate."""
    say("join: compiling")
    _play_join(size, 2, None, False)
    plain = _play_join(size, size.warm_up_batches, None, False)
    pace = plain.seconds / size.warm_up_batches / LOAD
    say(f"join: {size.changes} changes at {2 * JOINED_ROWS / pace:,.0f} tuples/s")
    changed = _play_join(size, None, pace, True)
    say(f"join: the same {changed.batches} batches without changes")
    still = _play_join(size, changed.batches, None, False)
    rate = 2 * JOINED_ROWS * changed.batches / changed.seconds
    _report(report, "join", size, changed.took, (changed.digest, still.digest), rate)


class _Joined(NamedTuple):
    """What a play of the join was."""

    batches: int
    seconds: float
    digest: Digest
    took: list[float]


def _play_join(size: Size, batches: int | None, pace: float | None, is_changing: bool) -> _Joined:
    """Play so many batches, or as many as all changes take."""
    chance, values = random.Random(size.seed), np.random.default_rng(size.seed)
    joined = Join(window=sliding(JOINED_WINDOW), match=_near, inputs=JOINED_SCHEMAS)
    found, changes, number = Digest(0, 0, 0), list[Reconfiguration](), 0
    with setup(joined, engine="compiled", max_parallelism=size.parallelism_max) as job:
        begun = time.perf_counter()
        while (
            number < batches if batches is not None else len(changes) < size.changes or changes[-1].status == "waiting"
        ):
            times = np.arange(number * JOINED_ROWS, (number + 1) * JOINED_ROWS)
            for source, name in enumerate(("x", "a")):
                job.add(pa.record_batch({"ts": times, name: values.integers(0, JOINED_VALUES, JOINED_ROWS)}), source)
            number += 1
            is_free = not changes or changes[-1].status != "waiting"
            if is_changing and is_free and len(changes) < size.changes:
                changes.append(job.reconfigure(parallelism=chance.randint(1, size.parallelism_max)))
            found = add_up([found, _digest_of(job.results(wait=False))])
            if pace is not None:
                time.sleep(max(0.0, begun + number * pace - time.perf_counter()))
        found = add_up([found, _digest_of(job.results())])
        seconds = time.perf_counter() - begun
        found = add_up([found, _digest_of(job.finish())])
    return _Joined(number, seconds, found, [change.switched_ms or 0.0 for change in changes])


def _digest_of(results: pa.Table) -> Digest:
    """Digest pairs: their time, and both values."""
    time_of, x, a = (results.column(name).to_numpy() for name in ("ts", "x", "a"))
    return digest(time_of, [], x * JOINED_VALUES + a)
