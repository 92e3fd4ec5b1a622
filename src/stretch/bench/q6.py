"""Q6: trades of ten companies in bursts, joined with themselves to find prices that move against each other.

The stream is played as fast as it happened: trades come in bursts, up to 8,000 in a second. Windows are 30 seconds. The
predicate is the paper's, with the ratio of the two distances from the average bounded on both sides (-1.05 to -0.95):
the printed one, bounded on one side only, matches most pairs. Latency is from when the later trade of a pair was due
until the pair was read. A controller chooses the parallelism while the stream plays.

The trades are made: the paper's are not public. They are fitted to real ones, see the page of the data. Played is the
stretch around the busiest second.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stretch.bench.fitted import make_trades
from stretch.bench.report import Plot, Report, Say
from stretch.controllers import ThresholdController
from stretch.controllers.elastic import elastic
from stretch.operator.join import BLOCK_COUNT
from stretch.operator.paper import hedge
from stretch.runtime.reference import EngineName
from stretch.runtime.setup import setup
from stretch.windows.spec import sliding

HELP = "Q6: a self-join of trades that come in bursts, in real time, with a controller that chooses the parallelism"

WINDOW_MS = 30_000
AVERAGE_GOAL_MS = 1.0
WORST_GOAL_MS = 21.0
WORST_SECONDS = 10  # of the burst whose average is the worst

GROUPS = BLOCK_COUNT

_TICK_SECONDS = 0.001
_POLL_SECONDS = 0.000_25


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    seconds: int
    max_parallelism: int
    peak: int = 8_000  # trades in the busiest second
    interval: str = "250 milliseconds"  # of the controller
    seed: int = 0


FULL = Size(seconds=600, max_parallelism=8)
QUICK = Size(seconds=40, max_parallelism=4)


def run(size: Size, say: Say, engine: EngineName = "compiled") -> Report:
    """Measure it."""
    report = Report("q6")
    trades = busiest_part(make_trades(seed=size.seed, peak=size.peak), size.seconds)
    say(f"{trades.num_rows:,} trades in {size.seconds} seconds; compiling")
    _warm_up(trades, engine)
    say("playing")
    play = _Play(trades, size, engine)
    play.run()
    _report(report, play, trades)
    return report


def busiest_part(trades: pa.Table, seconds: int) -> pa.Table:
    """Return the trades of so many seconds around the busiest one, with times from 0 on."""
    times = trades["ts"].to_numpy()
    rates = np.bincount(times // 1_000)
    start = max(0, min(int(np.argmax(rates)) - 2 * seconds // 3, len(rates) - seconds)) * 1_000
    part = trades.filter(pc.and_(pc.greater_equal(trades["ts"], start), pc.less(trades["ts"], start + seconds * 1_000)))
    return part.set_column(0, "ts", pc.subtract(part["ts"], start)).combine_chunks()


def _warm_up(trades: pa.Table, engine: EngineName) -> None:
    """Compile, which is done once in a process."""
    with setup(hedge(sliding(WINDOW_MS), two_sided=True, groups=GROUPS), engine=engine) as job:
        for source in (0, 1):
            job.add(trades.slice(0, 100), source)
        job.finish()


class _Play:
    """Trades in real time, and what came of them."""

    def __init__(self, trades: pa.Table, size: Size, engine: EngineName) -> None:
        parallelism: Any = 1
        if engine == "compiled":
            parallelism = elastic(1, size.max_parallelism, controller=ThresholdController(), interval=size.interval)
        self.job = setup(
            hedge(sliding(WINDOW_MS), two_sided=True, groups=GROUPS),
            parallelism=parallelism,
            max_parallelism=None if engine == "compiled" else 1,
            engine=engine,
        )
        self.threads: list[float] = []
        """Of each second: how many instances ran."""
        self.late: list[npt.NDArray[np.float64]] = []
        """For each read: latencies in seconds."""
        self.pair_times: list[npt.NDArray[np.int64]] = []
        self.pairs = 0
        self.wanted = 0.0
        """How far, in seconds, the source was behind at worst: it was blocked, or had too little time."""
        self._times = trades["ts"].to_numpy()
        self._batch = trades.to_batches()[0]
        self._seconds = size.seconds
        self._over = threading.Event()
        self._turn: AbstractContextManager[object] = nullcontext() if engine == "compiled" else threading.Lock()

    def run(self) -> None:
        """Play all trades, and wait for the last pairs."""
        with self.job:
            begun = time.perf_counter()
            with ThreadPoolExecutor(3) as threads:
                reader = threads.submit(self._read, begun)
                try:
                    for source in [threads.submit(self._feed, begun, source) for source in (0, 1)]:
                        source.result()
                    time.sleep(50 * _TICK_SECONDS)
                finally:
                    self._over.set()
                reader.result()

    def _feed(self, begun: float, source: int) -> None:
        """Add the trades to one input when they are due."""
        done = 0
        while True:
            now = time.perf_counter() - begun
            due = int(np.searchsorted(self._times, now * 1e3, side="right"))
            if due > done:
                part = self._batch.slice(done, due - done)
                self.wanted = max(self.wanted, now - self._times[done] / 1e3)
                done = due
                with self._turn:
                    self.job.add(part, source)
            with self._turn:  # nothing before now follows: what is there is ready
                self.job.watermark(int(now * 1e3) + 1, source)
            if source == 0 and len(self.threads) < now:
                self.threads.append(float(self.job.metrics().parallelism))
            if now >= self._seconds:
                return
            time.sleep(_TICK_SECONDS)

    def _read(self, begun: float) -> None:
        while not self._over.is_set():
            with self._turn:
                found = self.job.results(wait=False)
            if found.num_rows == 0:
                time.sleep(_POLL_SECONDS)
                continue
            # A pair has the time of its later trade, and a step more.
            times = found["ts"].to_numpy() - 1
            self.late.append(time.perf_counter() - begun - times / 1e3)
            self.pair_times.append(times)
            self.pairs += found.num_rows


def _report(report: Report, play: _Play, trades: pa.Table) -> None:
    seconds = play._seconds
    rates = np.bincount(trades["ts"].to_numpy() // 1_000, minlength=seconds)[:seconds]
    late = np.concatenate(play.late) if play.late else np.zeros(0)
    second = np.concatenate(play.pair_times) // 1_000 if play.pair_times else np.zeros(0, np.int64)
    counted = np.bincount(second, minlength=seconds)[:seconds]
    summed = np.bincount(second, late, minlength=seconds)[:seconds]
    comparisons = compared(trades["ts"].to_numpy(), seconds)
    across = "seconds"
    report.plots.append(Plot("Input rate", across, "trades/s", {"trades": _curve(rates)}))
    report.plots.append(Plot("Instances", across, "", {"instances": _curve(np.array(play.threads))}))
    report.plots.append(Plot("Throughput", across, "comparisons/s", {"comparisons": _curve(comparisons)}))
    average = {float(n): [1e3 * summed[n] / counted[n]] for n in range(seconds) if counted[n] > 0}
    report.plots.append(Plot("Average latency per second", across, "ms", {"latency": average}, is_logarithmic=True))
    report.add("trades", trades.num_rows, "trades")
    report.add("busiest second", int(rates.max()), "trades")
    report.add("pairs found", play.pairs, "pairs")
    report.add("source behind at worst", 1e3 * play.wanted, "ms")
    if len(late) > 0:
        report.add("average latency", 1e3 * float(late.mean()), "ms", at_most=AVERAGE_GOAL_MS)
        report.add("p99 latency", 1e3 * float(np.percentile(late, 99)), "ms")
        worst = worst_average(summed, counted)
        name = f"average latency in the worst {WORST_SECONDS} seconds"
        report.add(name, 1e3 * worst, "ms", at_most=WORST_GOAL_MS)
    report.add("most instances", max(play.threads, default=0), "instances")
    report.add_run("trades", trades=trades.num_rows, pairs=play.pairs, seconds=seconds)


def compared(times: npt.NDArray[np.int64], seconds: int) -> npt.NDArray[Any]:
    """Return how many comparisons the trades of each second ask for: each with the other input's last 30 seconds."""
    before = np.arange(len(times)) - np.searchsorted(times, times - WINDOW_MS, side="right")
    return np.bincount(times // 1_000, 2.0 * before, minlength=seconds)[:seconds]


def worst_average(summed: npt.NDArray[Any], counted: npt.NDArray[Any]) -> float:
    """Return the highest average over some seconds in a row."""
    width = min(WORST_SECONDS, len(summed))
    sums = np.convolve(summed, np.ones(width), "valid")
    counts = np.convolve(counted, np.ones(width), "valid")
    return float((sums[counts > 0] / counts[counts > 0]).max())


def _curve(values: npt.NDArray[Any]) -> dict[float, list[float]]:
    return {float(second): [float(value)] for second, value in enumerate(values)}
