"""The inner loops of joins, next to the fastest program that we can write: comparisons, and what an index spares.

The predicate is the paper's band join, windows hold 10,000 to 600,000 tuples per side in event time, and time passes
as fast as it goes. Measured in turns: a limit program in C++ (`limit.cpp`), the nested loop and the index alone, on one
thread, pairs written by all three; and the whole engine, with merging, order and results. That all find the same pairs
is checked in every run. Flink runs beside the engine in `stretch bench q3`; here stand published figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from stretch.bench.loops import Found, Kernels, LimitProgram, Loops, compiler
from stretch.bench.pairs import Streams
from stretch.bench.q3 import BANDS, GENERIC, Runner, join_of
from stretch.bench.report import Report, Say, Table

HELP = "the inner loops of joins: comparisons per second next to a limit program in C++, and the index"

LIMIT_GOAL = 0.8
SCALING_GOAL = 1.7
INDEX_GOAL = 50
AUTHORS_GOAL = 40

PUBLISHED = [
    ["Apache Flink, 2 threads", 0.71, 1.55],
    ["the paper's authors, 2 threads", 0.26, 0.44],
]
"""G comparisons/s, from a slow to a fast machine of this kind."""

_EVEN = 256  # steps: what loops take at once
_ENOUGH_STEPS = 16_384  # for the index, which is done with fewer at once


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    windows: tuple[int, ...]  # tuples per side
    comparisons: float  # per measurement
    repetitions: int
    engine_windows: tuple[int, ...]
    parallelisms: tuple[int, ...]
    seed: int = 0


FULL = Size((10_000, 100_000, 600_000), 2e10, 5, (10_000, 100_000), (1, 2))
QUICK = Size((10_000, 100_000), 2e9, 3, (10_000,), (1, 2))


def run(size: Size, say: Say) -> Report:
    """Measure it."""
    report = Report("join")
    name = compiler()
    if name is None:
        report.notes.append("There is no C++ compiler on this machine, so there is no limit program to compare with.")
        say(report.notes[-1])
    limit = None if name is None else LimitProgram(name)
    limits: dict[int, float] = {}
    kernels = Kernels(join_of(BANDS, size.windows[0]))
    for window in size.windows:
        limits[window] = _measure_loops(kernels, window, size, report, say, limit)
    for window in size.engine_windows:
        _measure_engine(window, size, report, say, limits.get(window, 0.0))
    report.tables.append(Table("Published, for comparison", ["system", "from, G/s", "to, G/s"], PUBLISHED))
    return report


def _measure_loops(
    kernels: Kernels, window: int, size: Size, report: Report, say: Say, limit: LimitProgram | None
) -> float:
    """Measure the loops by themselves; return the limit program's comparisons per second, 0 without one."""
    steps = max(_EVEN, int(size.comparisons / window / 2) // _EVEN * _EVEN)
    looked_up = max(steps, _ENOUGH_STEPS)
    start = window
    streams = Streams(2 * (start + size.repetitions * looked_up + steps), size.seed)
    say(f"window of {window:,} tuples per side: compiling and filling, {2 * steps:,} tuples per measurement")
    loops = Loops(kernels, streams, window)
    loops.fill(start - _EVEN)
    loops.indexed(start - _EVEN, start)  # these two compile
    loops.nested(start - 1, start)
    rates: dict[str, list[float]] = {"limit": [], "nested": [], "index": []}
    wrong = 0
    for _ in range(size.repetitions):
        found: dict[str, Found] = {"nested": loops.nested(start, start + steps)}
        if limit is not None:
            found["limit"] = limit.run(streams, window, start, start + steps)
            wrong += found["limit"][1:] != found["nested"][1:]
        head = loops.indexed(start, start + steps)
        wrong += head[1:] != found["nested"][1:]
        found["index"] = loops.indexed(start + steps, start + looked_up) if looked_up > steps else head
        spent = {"nested": steps, "limit": steps, "index": looked_up - steps or steps}
        for what, one in found.items():
            rates[what].append(2 * spent[what] / one.seconds)
            report.add_run(what, window=window, tuples_per_second=rates[what][-1], pairs=one.pairs)
        start += looked_up
        say(", ".join(f"{what}: {some[-1] * window / 1e9:,.1f} G/s" for what, some in rates.items() if some))
    return _report_loops(window, rates, wrong, report)


def _report_loops(window: int, rates: dict[str, list[float]], wrong: int, report: Report) -> float:
    about = f"window of {window:,} tuples per side"
    nested, index = median(rates["nested"]), median(rates["index"])
    limit = median(rates["limit"]) if rates["limit"] else 0.0
    if limit:
        report.add(f"{about}: limit program in C++, 1 thread", limit * window / 1e9, "G comparisons/s")
    report.add(f"{about}: nested loop alone, 1 thread", nested * window / 1e9, "G comparisons/s")
    if limit:
        ratio = median(ours / theirs for ours, theirs in zip(rates["nested"], rates["limit"], strict=True))
        report.add(f"{about}: nested loop alone, ratio to the limit program", ratio, "x", at_least=LIMIT_GOAL)
    report.add(f"{about}: index alone, 1 thread", index, "tuples/s")
    ratio = median(ours / theirs for ours, theirs in zip(rates["index"], rates["nested"], strict=True))
    report.add(f"{about}: index alone, ratio to the nested loop", ratio, "x", at_least=INDEX_GOAL)
    report.add(f"{about}: runs of which the pairs differ", wrong, "runs", at_most=0)
    return limit * window


def _measure_engine(window: int, size: Size, report: Report, say: Say, limit: float) -> None:
    """Measure jobs with everything around the loop."""
    about = f"window of {window:,} tuples per side"
    part = max(100, 2 * int(size.comparisons / window / 2))
    rounds = size.repetitions * len(size.parallelisms)
    streams = Streams(2 * window + (rounds + 2) * part, size.seed)
    streams.join_alone(0, 2, window)  # compiles
    rates: dict[int, list[float]] = {parallelism: [] for parallelism in size.parallelisms}
    wrong = 0
    say(f"{about}: the engine, compiling and filling")
    with Runner(join_of(GENERIC, window), streams, window, max(size.parallelisms), "compiled") as runner:
        for _ in range(size.repetitions):
            for parallelism in size.parallelisms:
                runner.resize(parallelism)
                start = runner.done
                joined = runner.play(part)
                wrong += joined[2:] != streams.join_alone(start, start + part, window)[2:]
                rates[parallelism].append(part * window / joined.seconds)
                report.add_run("engine", window=window, parallelism=parallelism, rate=rates[parallelism][-1])
                say(f"the engine, parallelism {parallelism}: {rates[parallelism][-1] / 1e9:.2f} G comparisons/s")
    best = {parallelism: median(some) for parallelism, some in rates.items()}
    for parallelism, rate in best.items():
        report.add(f"{about}: engine, parallelism {parallelism}", rate / 1e9, "G comparisons/s")
    if limit:
        report.add(f"{about}: engine, parallelism 1, ratio to limit", best[1] / limit, "x", at_least=LIMIT_GOAL)
    report.add(f"{about}: engine, parallelism 2 to 1", best[2] / best[1], "x", at_least=SCALING_GOAL)
    authors = PUBLISHED[1][2]
    assert isinstance(authors, float)
    report.add(f"{about}: engine, ratio to the authors", best[2] / 1e9 / authors, "x", at_least=AUTHORS_GOAL)
    report.add(f"{about}: engine, runs whose pairs differ from 1T's", wrong, "runs", at_most=0)
