"""Figure 1: words counted in sliding windows, text in, counts out, next to Polars and DuckDB on the same tweets.

Time is counted from the first batch to the last result, with the sources and the thread that reads results in it. All
results are kept until then, as the rivals keep theirs. A word counts once per tweet, as in the paper; `occurrences` is
what a plain explode gives. Each of our runs has to give the rows that Polars gives.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from statistics import median

import pyarrow as pa

from stretch.bench.data import make_tweets
from stretch.bench.report import Chart, Report, Say
from stretch.bench.results import Kept
from stretch.bench.rig import Rig
from stretch.bench.rivals import Rivals, rival_contestants
from stretch.bench.streams import ADVANCE, WINDOW, dealt
from stretch.bench.turns import Run, Runs, cpu_ratio, fastest, rate, ratio, take_turns
from stretch.operator.aggregate import Aggregate, count
from stretch.operator.keys import words
from stretch.runtime.reference import EngineName
from stretch.windows.spec import sliding

HELP = "words in sliding windows: tweets per second next to Polars and DuckDB, CPU time over parallelism"

RATIO_GOAL = 1.5
CPU_GOAL = 1.25  # at parallelism 4, relative to 1
CPU_GOAL_AT = 4


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    tweets: int
    repetitions: int
    parallelisms: tuple[int, ...] = (1, 2, 4)  # of these the fastest counts
    parallelisms_cpu: tuple[int, ...] = (1, 2, 4, 8, 16)
    source_counts: tuple[int, ...] = (1, 2)
    warm_up: int = 20_000
    seed: int = 0


FULL = Size(tweets=500_000, repetitions=7)
QUICK = Size(tweets=100_000, repetitions=3)


def run(size: Size, say: Say, engine: EngineName = "compiled") -> Report:
    """Measure it."""
    report = Report("wordcount")
    with Rivals(size.tweets, size.seed) as rivals:
        say(f"making {size.tweets:,} tweets")
        table = make_tweets(size.tweets, size.seed).table
        for occurrences in (False, True):
            kind = "occurrences" if occurrences else "words"
            with ExitStack() as stack:
                rigs = {}
                for sources in size.source_counts:
                    say(f"{kind}: compiling for {sources} source(s)")
                    rigs[sources] = stack.enter_context(_rig(sources, occurrences, size, table, engine))
                contestants = rival_contestants(rivals, occurrences) | _contestants(rigs, size.parallelisms, table)
                runs = take_turns(contestants, size.repetitions, report, say)
                _report_rates(report, kind, runs)
                if not occurrences:
                    first = {size.source_counts[0]: rigs[size.source_counts[0]]}
                    contestants = _contestants(first, size.parallelisms_cpu, table)
                    _report_cpu(report, take_turns(contestants, size.repetitions, report, say), size)
    return report


def wordcount(occurrences: bool = False) -> Aggregate:
    """Count words with the ready-made aggregate, which is computed from panes."""
    window = sliding(WINDOW, ADVANCE)
    return Aggregate(window=window, keys=words("text"), count=count(), occurrences=occurrences, name="wordcount")


def _rig(sources: int, occurrences: bool, size: Size, table: pa.Table, engine: EngineName) -> Rig:
    pool = max(size.parallelisms + size.parallelisms_cpu)
    rig = Rig(wordcount(occurrences), sources=sources, max_parallelism=pool, engine=engine)
    rig.warm_up(table.slice(0, size.warm_up), size.parallelisms)
    return rig


def _contestants(rigs: dict[int, Rig], parallelisms: tuple[int, ...], table: pa.Table) -> dict[str, Callable[[], Run]]:
    return {
        f"stretch, {sources} source(s), parallelism {parallelism}": partial(_play, rig, parallelism, table)
        for sources, rig in rigs.items()
        for parallelism in parallelisms
    }


def _play(rig: Rig, parallelism: int, table: pa.Table) -> Run:
    rig.resize(parallelism)
    results, start = Kept(), rig.start
    play = rig.play(dealt(table, start, rig.sources), results)
    return Run(*play, results.digest(start))


def _report_rates(report: Report, kind: str, runs: Runs) -> None:
    best, polars, duckdb = (fastest(runs, name) for name in ("stretch", "Polars", "DuckDB"))
    suffix = "" if kind == "words" else f", {kind}"
    report.add(f"ratio to Polars{suffix}", ratio(runs[best], runs[polars]), "x", at_least=RATIO_GOAL)
    report.add(f"ratio to DuckDB{suffix}", ratio(runs[best], runs[duckdb]), "x", at_least=RATIO_GOAL)
    for name in (best, polars, duckdb):
        report.add(f"{name}{suffix}", rate(runs[name]), "tweets/s")
    expected = runs[polars][0].digest
    wrong = sum(run.digest != expected for several in runs.values() for run in several)
    report.add(f"runs whose results differ from Polars'{suffix}", wrong, "runs", at_most=0)
    rates = {name: [run.rate for run in several] for name, several in runs.items()}
    report.charts.append(Chart(f"Word count{suffix}", "tweets/s", rates))


def _report_cpu(report: Report, runs: Runs, size: Size) -> None:
    by_parallelism = dict(zip(size.parallelisms_cpu, runs.values(), strict=True))
    lowest = by_parallelism[size.parallelisms_cpu[0]]
    for parallelism, several in by_parallelism.items():
        goal = CPU_GOAL if parallelism == CPU_GOAL_AT else None
        if several is not lowest:
            name = f"CPU time at parallelism {parallelism}, relative to {size.parallelisms_cpu[0]}"
            report.add(name, cpu_ratio(several, lowest), "x", at_most=goal)
    seconds = {name: [run.cpu_per_million for run in several] for name, several in runs.items()}
    for parallelism, values in zip(size.parallelisms_cpu, seconds.values(), strict=True):
        report.add(f"CPU time at parallelism {parallelism}", median(values), "s per million tweets")
    report.charts.append(Chart("CPU time of word count", "seconds per million tweets", seconds))
