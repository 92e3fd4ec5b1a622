"""Q3: the band join of ScaleJoin, |x - a| <= 10 and |y - b| <= 10, over windows of growing size.

Comparisons per second are counted as the paper counts them: each new tuple with all of the other side's window. Ours is
measured twice, with a predicate that is any function, and with the bands named, which an index finds without comparing
all; its comparisons are those that it spares the user, too. 1T is one thread that does nothing but compare: no sharing,
no order, no output but a count. Flink has no such join: its tuples go to all instances, which compare them with their
share of the window, kept in arrays by hand.

Latency is measured at 70 % of the highest rate for a window, from when the later tuple of a pair was due until the pair
was read. The highest input rate for a window of five minutes follows from the comparisons per second of the largest
window measured, and is not measured itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from math import sqrt
from statistics import median
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from stretch.bench import flink
from stretch.bench.pairs import INPUTS, Joined, Streams
from stretch.bench.report import Plot, Report, Say
from stretch.operator.bands import band
from stretch.operator.join import BLOCK_COUNT, Join
from stretch.runtime.reference import EngineName
from stretch.runtime.setup import setup
from stretch.windows.spec import sliding

HELP = "Q3: the band join over parallelism and windows: comparisons per second and latency, 1T and Apache Flink beside"

LOAD = 0.7
RATIO_GOAL = 20
FLINK_AT = 2
FIVE_MINUTES = 300.0
GENERIC, BANDS, ALONE = "stretch, any predicate", "stretch, named bands", "1T"

GROUPS = BLOCK_COUNT

_BATCH = 2_000  # tuples of both inputs
_TICK_SECONDS = 0.001


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    windows: tuple[int, ...]  # tuples per side
    comparisons: float  # per measurement
    repetitions: int
    parallelisms: tuple[int, ...]
    paced_seconds: float
    flink_share: float = 0.1  # of the tuples: Flink takes longer
    seed: int = 0


FULL = Size((10_000, 100_000), 1e10, 5, (1, 2, 4), 2.0)
QUICK = Size((10_000,), 2e9, 2, (1, 2), 1.0)

Rates = dict[str, dict[int, list[float]]]


def join_of(name: str, window: int) -> Join:
    """Return the join, with any predicate or with named bands."""
    match: Any = band("x", "a", 10) & band("y", "b", 10) if name == BANDS else near
    return Join(window=sliding(window), inputs=INPUTS, match=match, index=name == BANDS, groups=GROUPS, name="band")


def near(l: Any, r: Any) -> bool:
    """Match as the paper's operator does."""
    return bool(abs(l.x - r.a) <= 10 and abs(l.y - r.b) <= 10)


def run(size: Size, say: Say, engine: EngineName = "compiled") -> Report:
    """Measure it."""
    report = Report("q3")
    with ExitStack() as stack:
        reason = flink.missing()
        rival = stack.enter_context(flink.Flink()) if reason is None else None
        if reason is not None:
            report.notes.append(reason)
            say(reason)
        at_largest: dict[str, float] = {}
        for window in size.windows:
            at_largest = _measure_window(window, size, report, say, engine, rival)
    for name, rate in at_largest.items():
        # Each of two streams at rate r: 2 r tuples a second meet r * 300 s tuples of the other side.
        highest = 2 * sqrt(rate / (2 * FIVE_MINUTES))
        report.add(f"{name}: input rate that follows for five minutes", highest, "tuples/s")
    return report


def _measure_window(
    window: int, size: Size, report: Report, say: Say, engine: EngineName, rival: flink.Flink | None
) -> dict[str, float]:
    """Measure everybody; return the best comparisons per second of each."""
    part = max(100, 2 * int(size.comparisons / window / 2))  # tuples of one measurement
    parts = size.repetitions * len(size.parallelisms)
    say(f"window of {window:,} tuples per side: filling, {part:,} tuples per measurement")
    streams = Streams(2 * window + (2 * parts + 2) * part, size.seed)
    streams.join_alone(0, 2, window)  # compiles
    rates: Rates = {}
    late: Rates = {}
    wrong = 0
    for name in (GENERIC, BANDS):
        with Runner(join_of(name, window), streams, window, max(size.parallelisms), engine) as runner:
            for repetition in range(1, size.repetitions + 1):
                for parallelism in size.parallelisms:
                    runner.resize(parallelism)
                    start = runner.done
                    joined = runner.play(part)
                    alone = streams.join_alone(start, start + part, window)
                    wrong += joined[2:] != alone[2:]
                    for who, what in ((name, joined), (ALONE, alone)):
                        at = 1 if who == ALONE else parallelism
                        rate = what.tuples * window / what.seconds
                        rates.setdefault(who, {}).setdefault(at, []).append(rate)
                        _note(report, say, window, who, at, repetition, rate)
            for parallelism in size.parallelisms:
                runner.resize(parallelism)
                tuples_per_second = LOAD * median(rates[name][parallelism]) / window
                some = min(part, 2 * int(tuples_per_second * size.paced_seconds / 2))
                latency = runner.latency_ms(some, tuples_per_second)
                if latency is not None:
                    late.setdefault(name, {})[parallelism] = [latency]
                    say(f"{name}, parallelism {parallelism}, {LOAD:.0%} load: p50 {latency:.2f} ms")
    if rival is not None:
        wrong += _measure_flink(rival, streams, window, part, size, rates, late, report, say)
    return _report(report, window, rates, late, wrong)


def _measure_flink(
    rival: flink.Flink,
    streams: Streams,
    window: int,
    part: int,
    size: Size,
    rates: Rates,
    late: Rates,
    report: Report,
    say: Say,
) -> int:
    """Measure Flink; return how many of its counts were wrong."""
    filled, name, wrong = 2 * window, flink.PROMPT.name, 0
    stop = filled + max(100, 2 * int(part * size.flink_share / 2))
    file = rival.keep_pairs(streams.times[:stop], streams.firsts[:stop], streams.seconds[:stop])
    alone = streams.join_alone(filled, stop, window)
    rival.join(file, parallelism=FLINK_AT, window=window, measured_from=filled)  # its compiler has to warm up
    for repetition in range(1, size.repetitions + 1):
        for parallelism in size.parallelisms:
            answer = rival.join(file, parallelism=parallelism, window=window, measured_from=filled)
            wrong += (answer.results, answer.total) != alone[2:]
            rate = answer.work / answer.seconds
            rates.setdefault(name, {}).setdefault(parallelism, []).append(rate)
            _note(report, say, window, name, parallelism, repetition, rate)
    for parallelism in size.parallelisms:
        pace = LOAD * median(rates[name][parallelism]) / window
        answer = rival.join(file, parallelism=parallelism, window=window, measured_from=filled, rate=pace)
        if answer.p50_ms is not None:
            late.setdefault(name, {})[parallelism] = [answer.p50_ms]
    return wrong


def _note(report: Report, say: Say, window: int, who: str, parallelism: int, repetition: int, rate: float) -> None:
    say(f"{who}, parallelism {parallelism}: {rate / 1e9:.2f} G comparisons/s")
    about = {"window": window, "parallelism": parallelism, "repetition": repetition}
    report.add_run(who, **about, comparisons_per_second=rate)


def _report(report: Report, window: int, rates: Rates, late: Rates, wrong: int) -> dict[str, float]:
    about = f"window of {window:,} tuples per side"
    report.plots.append(Plot(f"Comparisons, {about}", "parallelism", "per second", rates, is_logarithmic=True))
    inputs = {name: {p: [rate / window for rate in some] for p, some in by.items()} for name, by in rates.items()}
    report.plots.append(Plot(f"Input rate, {about}", "parallelism", "tuples/s", inputs, is_logarithmic=True))
    report.plots.append(Plot(f"Median latency at {LOAD:.0%} load, {about}", "parallelism", "ms", late, True))
    best = {name: max(median(some) for some in by.values()) for name, by in rates.items()}
    for name, rate in best.items():
        report.add(f"{about}: {name}", rate / 1e9, "G comparisons/s")
    if flink.PROMPT.name in rates:
        theirs = median(rates[flink.PROMPT.name][FLINK_AT])
        report.add(f"{about}: any predicate, ratio to Flink", best[GENERIC] / theirs, "x", at_least=RATIO_GOAL)
        report.add(f"{about}: named bands, ratio to Flink", best[BANDS] / theirs, "x")
    report.add(f"{about}: runs whose pairs differ from 1T's", wrong, "runs", at_most=0)
    return best


class Runner:
    """A job whose windows are full, and that goes on from measurement to measurement; use it in a `with` statement."""

    def __init__(self, join: Join, streams: Streams, window: int, pool: int, engine: EngineName) -> None:
        self._job = setup(join, max_parallelism=pool, engine=engine)
        # The reference engine does all its work in the thread that calls it, so threads take turns.
        self._turn: AbstractContextManager[object] = nullcontext() if engine == "compiled" else threading.Lock()
        self._streams = streams
        self._parallelism = 1
        self.done = 0
        """How many tuples have been added."""
        self.play(2 * window)

    def resize(self, parallelism: int) -> None:
        """Change the parallelism; it takes effect with the next tuples."""
        if parallelism != self._parallelism:
            self._job.reconfigure(parallelism=parallelism)
            self._parallelism = parallelism

    def play(self, tuples: int) -> Joined:
        """Add tuples as fast as they get in, and read all pairs."""
        counted = [0, 0]

        def count(found: pa.Table) -> None:
            counted[0] += found.num_rows
            counted[1] += int(found["x"].to_numpy().sum() + found["a"].to_numpy().sum())

        seconds = self._run(tuples, None, count)
        return Joined(tuples, seconds, *counted)

    def latency_ms(self, tuples: int, rate: float) -> float | None:
        """Add tuples when they are due; return the median latency of pairs, None if there were none."""
        latencies: list[float] = []
        start, begun = self.done, time.perf_counter()

        def measure(found: pa.Table) -> None:
            # A pair has the time of its later tuple and a step more; of the two of a step, take the second.
            numbers = 2 * (found["ts"].to_numpy() - 1) + 1 - start
            latencies.extend(time.perf_counter() - begun - numbers / rate)

        self._run(tuples, rate, measure)
        return 1e3 * float(np.median(latencies)) if latencies else None

    def _run(self, tuples: int, rate: float | None, consume: Callable[[pa.Table], None]) -> float:
        """Add tuples, each input from a thread of its own, and read meanwhile; return how many seconds it took."""
        start, begun = self.done, time.perf_counter()
        with ThreadPoolExecutor(2) as threads:
            sources = [threads.submit(self._feed, source, start, start + tuples, begun, rate) for source in (0, 1)]
            while not all(source.done() for source in sources):
                with self._turn:
                    found = self._job.results(wait=False)
                if found.num_rows > 0:
                    consume(found)
                else:
                    time.sleep(_TICK_SECONDS / 4)
            for source in sources:
                source.result()
        self.done += tuples
        consume(self._job.results())
        return time.perf_counter() - begun

    def _feed(self, source: int, start: int, stop: int, begun: float, rate: float | None) -> None:
        """Add the tuples of one input, at once or when they are due; then let the input pass the last of them."""
        done = start
        while done < stop:
            due = stop if rate is None else min(stop, start + int((time.perf_counter() - begun) * rate) // 2 * 2)
            if due > done:
                until = min(due, done + _BATCH)
                batch = self._streams.batches(done, until)[source]
                with self._turn:
                    self._job.add(batch, source)
                done = until
            if rate is not None:
                time.sleep(_TICK_SECONDS)
        with self._turn:
            self._job.watermark(int(self._streams.times[stop - 1]) + 1, source)

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._job.stop()
