"""Contestants take turns: the machine's good and bad minutes are then shared out evenly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple

from stretch.bench.digest import Digest
from stretch.bench.report import Report, Say


class Run(NamedTuple):
    """One repetition of one contestant."""

    tweets: int
    seconds: float
    cpu_seconds: float
    digest: Digest

    @property
    def rate(self) -> float:
        """Tweets per second."""
        return self.tweets / self.seconds

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds, of all threads, per million tweets."""
        return self.cpu_seconds / self.tweets * 1e6


Runs = dict[str, list[Run]]


def take_turns(contestants: Mapping[str, Callable[[], Run]], repetitions: int, report: Report, say: Say) -> Runs:
    """Let everyone run once, then everyone again; note each run in the report."""
    runs: Runs = {name: [] for name in contestants}
    for repetition in range(1, repetitions + 1):
        for name, contestant in contestants.items():
            run = contestant()
            say(f"{name}: {run.rate:,.0f} tweets/s ({repetition} of {repetitions})")
            runs[name].append(run)
            report.add_run(
                name,
                repetition=repetition,
                tweets=run.tweets,
                seconds=run.seconds,
                cpu_seconds=run.cpu_seconds,
                results=run.digest.rows,
                counted=run.digest.total,
            )
    return runs


def fastest(runs: Runs, start: str) -> str:
    """Return the fastest of the contestants whose names start so."""
    return max((name for name in runs if name.startswith(start)), key=lambda name: rate(runs[name]))


def rate(runs: list[Run]) -> float:
    """Return the median of the tweets per second."""
    return median(run.rate for run in runs)


def ratio(ours: list[Run], theirs: list[Run]) -> float:
    """Return how many times as fast we are: the median over repetitions of the two rates' ratio."""
    return median(one.rate / other.rate for one, other in zip(ours, theirs, strict=True))


def cpu_ratio(ours: list[Run], theirs: list[Run]) -> float:
    """Return how many times as much CPU time we take: the median over repetitions."""
    pairs = zip(ours, theirs, strict=True)
    return median(one.cpu_per_million / other.cpu_per_million for one, other in pairs)
