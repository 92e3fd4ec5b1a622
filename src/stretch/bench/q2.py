"""Q2: every tuple of two sorted inputs to every instance, merged in the order of time.

What bounds an operator with two inputs when it does nothing but sort and share. Throughput is the highest input rate;
latency is measured at a tenth of it, from when a tuple was due until an instance had it. Tuples have a time and one
number, so that sorting and sharing is all there is.

Ours is the tuple buffer of the compiled engine with a reader per instance: tuples are sorted once, and readers share
them. Flink sends a copy of both inputs to each instance, which merges them; it has no operator for that, and merging
with its timers takes several times as long, so its instances merge two queues by hand.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from stretch.bench import flink
from stretch.bench.forward import SOURCES, flow_log
from stretch.bench.report import Plot, Report, Say

HELP = "Q2: forward two sorted inputs to all instances: highest rate and lowest latency, with Apache Flink beside"

LOW_LOAD = 0.1
OURS = "stretch"


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    rows: int  # of both inputs
    flink_rows: int
    repetitions: int
    parallelisms: tuple[int, ...]
    paced_seconds: float
    seed: int = 0


FULL = Size(6_000_000, 3_000_000, 5, (1, 2, 4, 8, 16), 1.0)
QUICK = Size(1_000_000, 500_000, 2, (1, 2, 4), 0.5)

Values = dict[str, dict[int, list[float]]]


def run(size: Size, say: Say) -> Report:
    """Measure it."""
    report = Report("q2")
    report.notes.append("Ours is the tuple buffer alone, without an operator on top.")
    times = np.cumsum(np.random.default_rng(size.seed).integers(0, 2, size.rows))
    inputs = [times[side::SOURCES].copy() for side in range(SOURCES)]
    rates: Values = {OURS: {}}
    late: Values = {OURS: {}}
    say("compiling")
    flow_log([part[:1_000] for part in inputs], 0, 1)
    with ExitStack() as stack:
        rival = _Rival(stack, times[: size.flink_rows], size, report, say)
        for repetition in range(1, size.repetitions + 1):
            for parallelism in size.parallelisms:
                flow = flow_log(inputs, 0, parallelism)
                rate = size.rows / flow.seconds
                some = int(LOW_LOAD * rate * size.paced_seconds) // SOURCES
                pace_ps = int(1e12 * SOURCES / (LOW_LOAD * rate))
                paced = flow_log([part[:some] for part in inputs], pace_ps, parallelism)
                if not (flow.is_complete and paced.is_complete):
                    report.notes.append(f"Parallelism {parallelism}: tuples were lost or repeated.")
                rates[OURS].setdefault(parallelism, []).append(rate)
                late[OURS].setdefault(parallelism, []).append(paced.latency_ms(50))
                _note(report, say, OURS, parallelism, repetition, rate, paced.latency_ms(50))
                rival.measure(parallelism, repetition, rates, late)
    report.plots.append(Plot("Highest input rate", "parallelism", "tuples/s", rates, is_logarithmic=True))
    report.plots.append(Plot("Lowest median latency", "parallelism", "ms", late, is_logarithmic=True))
    for parallelism in size.parallelisms:
        ours = rates[OURS][parallelism]
        report.add(f"parallelism {parallelism}: input rate", median(ours), "tuples/s")
        report.add(f"parallelism {parallelism}: p50 latency", median(late[OURS][parallelism]), "ms")
        if flink.PROMPT.name in rates:
            theirs = rates[flink.PROMPT.name][parallelism]
            report.add(f"parallelism {parallelism}: Flink's input rate", median(theirs), "tuples/s")
            ratio = median(one / other for one, other in zip(ours, theirs, strict=True))
            report.add(f"parallelism {parallelism}: ratio to Flink", ratio, "x")
    return report


class _Rival:
    """Flink, or nobody."""

    def __init__(self, stack: ExitStack, times: npt.NDArray[np.int64], size: Size, report: Report, say: Say) -> None:
        self._report, self._say, self._size = report, say, size
        self._flink: flink.Flink | None = None
        reason = flink.missing()
        if reason is not None:
            report.notes.append(reason)
            say(reason)
            return
        say(f"starting Flink {flink.version()}")
        self._flink = stack.enter_context(flink.Flink())
        self._times = times
        self._forward(len(times), 1)  # its compiler has to warm up

    def measure(self, parallelism: int, repetition: int, rates: Values, late: Values) -> None:
        """Measure Flink once."""
        if self._flink is None:
            return
        name = flink.PROMPT.name
        rate = len(self._times) / self._forward(len(self._times), parallelism).seconds
        paced = self._forward(int(LOW_LOAD * rate * self._size.paced_seconds), parallelism, LOW_LOAD * rate)
        p50_ms = paced.p50_ms or 0.0
        rates.setdefault(name, {}).setdefault(parallelism, []).append(rate)
        late.setdefault(name, {}).setdefault(parallelism, []).append(p50_ms)
        _note(self._report, self._say, name, parallelism, repetition, rate, p50_ms)

    def _forward(self, rows: int, parallelism: int, rate: float = 0) -> flink.Answer:
        assert self._flink is not None
        times, values = self._times[:rows], np.arange(rows, dtype=np.int32)
        file = self._flink.keep_pairs(times, values, values.astype(np.float32))
        return self._flink.forward(file, parallelism=parallelism, rate=rate)


def _note(report: Report, say: Say, name: str, parallelism: int, repetition: int, rate: float, p50_ms: float) -> None:
    say(f"{name}, parallelism {parallelism}: {rate:,.0f} tuples/s, p50 {p50_ms:.2f} ms")
    about = {"parallelism": parallelism, "repetition": repetition}
    report.add_run(name, **about, tuples_per_second=rate, p50_ms=p50_ms)
