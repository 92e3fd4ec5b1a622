"""Q1: words, and pairs of words up to 3 (L) or 10 (M) apart or all (H), counted in windows of two minutes by one.

Throughput is the highest rate that a static parallelism sustains. Latency is measured at 70 % of it, from when the
tweet that completes a window was due until a result of the window was read. A word that a tweet has twice counts twice
here, as in the usual Flink job, which sends a copy per word; every contestant counts the same, and reads all results.

VSN shares one log and one window state among its instances. SN is the same compiled engine with a log and a state per
instance: a router hashes the keys of each tweet and copies it to every instance that owns one of them. Flink copies per
key. The shaded range of the paper's figure (parallelism of the Map) is not varied: the Map here has the parallelism of
the rest.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import pyarrow as pa

from stretch.bench import flink, prepared
from stretch.bench.fitted import TWEETS, make_fitted_tweets
from stretch.bench.report import Plot, Report, Say
from stretch.bench.results import Summed, Timed
from stretch.bench.rig import SCHEMA, Rig
from stretch.bench.shared_nothing import SharedNothing
from stretch.bench.streams import ADVANCE, WINDOW, cycled, dealt
from stretch.operator.aggregate import Aggregate, count
from stretch.operator.keys import KeySpec, pairs, words
from stretch.runtime.reference import EngineName
from stretch.schema import parse_schema
from stretch.windows.spec import sliding

HELP = "Q1: word count and pair count L, M, H over parallelism: throughput and latency of VSN, SN and Apache Flink"

LOAD = 0.7
RATIO_GOALS = {"wordcount": 7, "paircount L": 15, "paircount M": 20, "paircount H": 25}
LATENCY_GOAL = 0.1  # of Flink's
FLINK_AT = 2  # the parallelism of Flink that goals are relative to
VSN = "stretch (VSN)"
SN = "stretch, shared-nothing (SN)"

DISTANCES: dict[str, int | None] = {"wordcount": 0, "paircount L": 3, "paircount M": 10, "paircount H": None}


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    prepared: int  # tweets that are made ready, as `prepared` says; 0 for fewer, used as they are made
    tweets: tuple[int, ...]  # of them, by workload
    flink_tweets: tuple[int, ...]  # Flink takes longer, and its rate does not depend on how many there are
    repetitions: int
    parallelisms: tuple[int, ...]
    paced_seconds: float
    workloads: tuple[str, ...] = tuple(DISTANCES)
    warm_up: int = 5_000
    seed: int = 0


FULL = Size(
    TWEETS, (TWEETS, 800_000, 400_000, 200_000), (200_000, 60_000, 30_000, 20_000), 5, (1, 2, 4, 8), paced_seconds=3.0
)
QUICK = Size(100_000, (100_000, 60_000, 30_000, 15_000), (40_000, 12_000, 6_000, 4_000), 2, (1, 2), paced_seconds=1.0)


class Run(NamedTuple):
    """One repetition: as fast as it goes, or at a load."""

    rate: float
    results: int
    total: int
    p50_ms: float | None = None
    p99_ms: float | None = None


Runs = dict[str, dict[int, list[Run]]]
"""By contestant and parallelism."""


def run(size: Size, say: Say, engine: EngineName = "compiled") -> Report:
    """Measure it."""
    report = Report("q1")
    made = make_fitted_tweets(max(size.tweets), size.seed) if not size.prepared else None
    table = made if made is not None else prepared.tweets(size.prepared, size.seed, say)
    with ExitStack() as stack:
        rival = None
        reason = flink.missing()
        if reason is None:
            say(f"starting Flink {flink.version()}")
            rival = stack.enter_context(flink.Flink())
        else:
            report.notes.append(reason)
            say(reason)
        counts = zip(size.workloads, size.tweets, size.flink_tweets, strict=True)
        for workload, tweets, flink_tweets in counts:
            some = table.slice(0, tweets).combine_chunks()
            contest = _Contest(workload, size, some, engine, flink_tweets, rival, report, say)
            with ExitStack() as rigs:
                contest.measure(rigs)
    return report


def operator_of(workload: str) -> Aggregate:
    """Return the ready-made aggregate that counts what a workload counts."""
    distance = DISTANCES[workload]
    keys: KeySpec = words("text") if distance == 0 else pairs("text", distance)
    return Aggregate(window=sliding(WINDOW, ADVANCE), keys=keys, count=count(), occurrences=True, name="count")


class _Contest:
    """One workload: everybody at every parallelism, in turns."""

    def __init__(
        self,
        workload: str,
        size: Size,
        table: pa.Table,
        engine: EngineName,
        flink_tweets: int,
        rival: flink.Flink | None,
        report: Report,
        say: Say,
    ) -> None:
        self._workload, self._size, self._table = workload, size, table
        self._engine, self._rival, self._flink_tweets = engine, rival, flink_tweets
        self.operator = operator_of(workload)
        self._report, self._say = report, say
        self.rig = Rig(self.operator, sources=1, max_parallelism=max(size.parallelisms), engine=engine)
        self._apart: dict[int, SharedNothing] = {}

    def measure(self, rigs: ExitStack) -> None:
        """Measure the highest rates, then latencies at a share of them."""
        self._say(f"{self._workload}: compiling")
        rigs.enter_context(self.rig)
        some = self._table.slice(0, self._size.warm_up)
        self.rig.warm_up(some, self._size.parallelisms)
        if self._engine == "compiled":
            for parallelism in self._size.parallelisms:
                apart = SharedNothing(self.operator, parse_schema(SCHEMA), parallelism, DISTANCES[self._workload])
                self._apart[parallelism] = rigs.enter_context(apart)
                apart.play(dealt(some, apart.start, 1)[0], lambda results: None)
        if self._rival is not None:
            self._flink(FLINK_AT, flink.PROMPT, self._flink_tweets // 4)  # its compiler, too, has to warm up
        fast: Runs = {}
        for repetition in range(1, self._size.repetitions + 1):
            for parallelism in self._size.parallelisms:
                self._note(fast, VSN, parallelism, repetition, self._vsn(parallelism))
                if parallelism in self._apart:
                    self._note(fast, SN, parallelism, repetition, self._sn(parallelism))
                for settings in self._settings(parallelism):
                    run = self._flink(parallelism, settings, self._flink_tweets)
                    self._note(fast, settings.name, parallelism, repetition, run)
        loaded: Runs = {}
        for name, by_parallelism in fast.items():
            for parallelism, runs in by_parallelism.items():
                rate = LOAD * median(run.rate for run in runs)
                self._note(loaded, name, parallelism, 1, self._at_load(name, parallelism, rate), at_load=True)
        self._report_all(fast, loaded)

    def _settings(self, parallelism: int) -> tuple[flink.Settings, ...]:
        if self._rival is None:
            return ()
        return (flink.PROMPT, flink.DEFAULT) if parallelism == FLINK_AT else (flink.PROMPT,)

    def _at_load(self, name: str, parallelism: int, rate: float) -> Run:
        if name in (VSN, SN):
            return self._own_at(name, parallelism, rate)
        settings = flink.PROMPT if name == flink.PROMPT.name else flink.DEFAULT
        tweets = min(self._table.num_rows, max(self._flink_tweets, int(rate * self._size.paced_seconds)))
        return self._flink(parallelism, settings, tweets, rate)

    def _vsn(self, parallelism: int) -> Run:
        self.rig.resize(parallelism)
        results = Summed()
        play = self.rig.play(dealt(self._table, self.rig.start, 1), results)
        return Run(play.tweets / play.seconds, results.rows, results.total)

    def _sn(self, parallelism: int) -> Run:
        apart, results = self._apart[parallelism], Summed()
        play = apart.play(dealt(self._table, apart.start, 1)[0], results)
        return Run(play.tweets / play.seconds, results.rows, results.total)

    def _own_at(self, name: str, parallelism: int, rate: float) -> Run:
        if name == VSN:
            self.rig.resize(parallelism)
        start = self.rig.start if name == VSN else self._apart[parallelism].start
        stop, begun = threading.Event(), time.perf_counter()
        results = Timed(self._table, start, rate, begun)
        stream = cycled(self._table, start, stop, rate, begun=begun)
        alarm = threading.Timer(self._size.paced_seconds, stop.set)
        alarm.start()
        if name == VSN:
            play = self.rig.play([stream], results, alarm.join)
        else:
            play = self._apart[parallelism].play(stream, results)
        return Run(play.tweets / play.seconds, results.rows, 0, *results.latencies_ms(play.tweets))

    def _flink(self, parallelism: int, settings: flink.Settings, tweets: int, rate: float = 0) -> Run:
        assert self._rival is not None
        answer = self._rival.count(
            self._rival.keep_tweets(self._table, self._workload.replace(" ", "-")),
            tweets,
            parallelism=parallelism,
            window=(WINDOW, ADVANCE),
            distance=DISTANCES[self._workload],
            rate=rate,
            settings=settings,
        )
        return Run(tweets / answer.seconds, answer.results, answer.total, answer.p50_ms, answer.p99_ms)

    def _note(self, runs: Runs, name: str, parallelism: int, repetition: int, run: Run, at_load: bool = False) -> None:
        runs.setdefault(name, {}).setdefault(parallelism, []).append(run)
        load = f"{LOAD:.0%} load" if at_load else "full speed"
        late = "" if run.p50_ms is None else f", p50 {run.p50_ms:.1f} ms"
        self._say(f"{self._workload}, {load}, {name}, parallelism {parallelism}: {run.rate:,.0f} tweets/s{late}")
        about = {"load": load, "parallelism": parallelism, "repetition": repetition}
        self._report.add_run(f"{self._workload}, {name}", **about, **run._asdict())

    def _report_all(self, fast: Runs, loaded: Runs) -> None:
        report, workload = self._report, self._workload
        rates = {name: {p: [run.rate for run in runs] for p, runs in by.items()} for name, by in fast.items()}
        report.plots.append(Plot(f"{workload}: throughput", "parallelism", "tweets/s", rates, is_logarithmic=True))
        late = {
            name: {p: found for p, runs in by.items() if (found := [r.p50_ms for r in runs if r.p50_ms is not None])}
            for name, by in loaded.items()
        }
        report.plots.append(
            Plot(f"{workload}: median latency at {LOAD:.0%} load", "parallelism", "ms", late, is_logarithmic=True)
        )
        best = max(rates[VSN], key=lambda parallelism: median(rates[VSN][parallelism]))
        report.add(f"{workload}: {VSN}, parallelism {best}", median(rates[VSN][best]), "tweets/s")
        ours_late = late[VSN].get(best)
        if ours_late:
            report.add(f"{workload}: {VSN}, p50 latency at {LOAD:.0%} load", ours_late[0], "ms")
        self._report_shared_nothing(rates)
        ours = {(run.results, run.total) for name in (VSN, SN) for runs in fast.get(name, {}).values() for run in runs}
        report.add(f"{workload}: counts of SN that differ from VSN's", len(ours) - 1, "counts", at_most=0)
        if self._rival is None:
            return
        for settings in (flink.PROMPT, flink.DEFAULT):
            theirs = rates[settings.name][FLINK_AT]
            report.add(f"{workload}: {settings.name}, parallelism {FLINK_AT}", median(theirs), "tweets/s")
            ratio = median(one / other for one, other in zip(rates[VSN][best], theirs, strict=True))
            goal = RATIO_GOALS[workload] if settings is flink.PROMPT else None
            report.add(f"{workload}: ratio to {settings.name}", ratio, "x", at_least=goal)
            flink_late = late[settings.name].get(FLINK_AT)
            if flink_late:
                report.add(f"{workload}: {settings.name}, p50 latency at {LOAD:.0%} load", flink_late[0], "ms")
            if settings is flink.PROMPT and flink_late and ours_late:
                share = ours_late[0] / flink_late[0]
                report.add(f"{workload}: p50 latency relative to Flink's", share, "x", at_most=LATENCY_GOAL)
        self._check(fast)

    def _report_shared_nothing(self, rates: dict[str, dict[int, list[float]]]) -> None:
        for parallelism, apart in self._apart.items():
            pairs_of_rates = zip(rates[VSN][parallelism], rates[SN][parallelism], strict=True)
            gain = median(one / other for one, other in pairs_of_rates)
            name = f"{self._workload}: VSN relative to SN, parallelism {parallelism}"
            self._report.add(name, gain, "x")
            router = apart.router
            name = f"{self._workload}: SN's copies, parallelism {parallelism}"
            self._report.add(name, router.sent / router.tuples, "per tweet")
            self._report.add(f"{name}, bytes", router.bytes_sent / router.tuples, "bytes per tweet")

    def _check(self, fast: Runs) -> None:
        """Count the tweets that Flink counted, too: results and their sum have to be equal."""
        results = Summed()
        self.rig.play(dealt(self._table.slice(0, self._flink_tweets), self.rig.start, 1), results)
        theirs = {
            (r.results, r.total) for name, by in fast.items() if name != VSN for runs in by.values() for r in runs
        }
        wrong = len(theirs - {(results.rows, results.total)})
        self._report.add(f"{self._workload}: counts of Flink that differ from ours", wrong, "counts", at_most=0)
