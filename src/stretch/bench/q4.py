"""Q4: single reconfigurations: what the threshold controller chooses, how long the change takes, how even the load is.

As in the paper, instances work at 70 % of what they sustain; then the rate rises to 120 %, or falls to 30 %, and the
controller (90 %, 70 %, 45 %) is asked once. The load is simulated (`paced`): an update sleeps instead of computing, so
that there can be 70 instances. What they sustain is measured, not computed from the service time.

Flow control bounds how much waits in buffers, so that beyond saturation a controller sees how busy instances are, not
how much more there would be; so it adds fewer at once than in the paper's table, and more at its next look, if need be.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from statistics import fmean, median, pstdev
from typing import NamedTuple

from stretch.bench.paced import PacedJob, mean_ms
from stretch.bench.report import Chart, Plot, Report, Say, Table
from stretch.controllers import Decision, History, ThresholdController
from stretch.controllers.balance import variation
from stretch.metrics import Load, Metrics, Reconfiguration

HELP = "Q4: single reconfigurations of up to 70 instances under simulated load: their number, time, and balance"

PROVISIONED = {1: 2, 5: 9, 9: 16, 18: 31, 30: 52, 40: 69}
DECOMMISSIONED = {5: 2, 9: 3, 18: 7, 30: 12, 40: 17, 60: 25, 70: 30}
"""The paper's table, to compare with."""

NORMAL, HIGH, LOW = 0.7, 1.2, 0.3
CHANGE_GOAL_MS = 40.0
SMALL_GOAL_MS = 5.0
VARIATION_GOAL = 2.0
POOL = 72

_SAMPLE_SECONDS = 0.05
_CONTROLLER = ThresholdController(cool_down="0 seconds")


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    starts: tuple[int, ...]
    repetitions: int
    steady_seconds: float
    shown: int  # the start around which rate, throughput and latency are drawn
    small_changes: int = 50


FULL = Size((1, 5, 9, 18, 30, 40, 60, 70), repetitions=5, steady_seconds=2.0, shown=18)
QUICK = Size((1, 9, 30, 70), repetitions=1, steady_seconds=0.5, shown=9, small_changes=20)


class Change(NamedTuple):
    """One reconfiguration and its surroundings."""

    before: Load
    decision: Decision
    record: Reconfiguration | None
    after: Load
    latency_ms: float


def run(size: Size, say: Say) -> Report:
    """Measure it."""
    report = Report("q4")
    report.notes.append(
        "The load is simulated: an update sleeps for a service time instead of computing, so that 70 instances can be "
        "busy on few cores. Buffers, threads, barriers, epochs, metrics and the controller are the real ones."
    )
    changes: dict[str, dict[int, list[Change]]] = {"provisioning": {}, "decommissioning": {}}
    with PacedJob(1, POOL) as paced:
        say("compiling")
        paced.warm_up()
        per_instance = _sustained(paced)
        report.add("what one instance sustains", per_instance, "tuples/s")
        _small_changes(paced, per_instance, size, report, say)
        for start in size.starts:
            for kind, share, table in (
                ("provisioning", HIGH, PROVISIONED),
                ("decommissioning", LOW, DECOMMISSIONED),
            ):
                if start not in table:
                    continue
                sampler = _Sampler(paced) if start == size.shown else None
                several = [_change(paced, start, per_instance, share, size) for _ in range(size.repetitions)]
                changes[kind][start] = several
                if sampler is not None:
                    report.plots += sampler.plots(kind, start)
                for one in several:
                    say(f"{kind}: {one.decision}")
                    _note(report, kind, start, one)
    _summarise(report, changes)
    return report


def unevenness(load: Load) -> tuple[float, float]:
    """Return the coefficients of variation of the instances' work and of their busy time, in percent."""
    busy = 100 * pstdev(load.busy) / load.average_busy if load.average_busy > 0 else 0.0
    return 100 * variation(load.group_work, load.mapping, load.instances), busy


def _sustained(paced: PacedJob) -> float:
    """Return how many tuples per second keep one instance busy."""
    _resize(paced, 4)
    paced.rate = 1_000.0
    time.sleep(0.5)
    load, _ = paced.watch(1.0)
    return load.work.updates / load.seconds / load.busy_instances


def _resize(paced: PacedJob, parallelism: int) -> Reconfiguration:
    change = paced.job.reconfigure(parallelism=parallelism)
    change.wait()
    return change


def _small_changes(paced: PacedJob, per_instance: float, size: Size, report: Report, say: Say) -> None:
    """Change between one and two instances, at 70 % of what one sustains."""
    say("1 <-> 2")
    paced.rate = NORMAL * per_instance
    took = []
    for number in range(2 * size.small_changes):
        time.sleep(0.05)
        took.append(_resize(paced, 2 - number % 2).switched_ms or 0.0)
    report.add("1 <-> 2, 70 % load: median", median(took), "ms", at_most=SMALL_GOAL_MS)
    report.charts.append(Chart("Reconfigurations between 1 and 2 instances", "ms", {"1 <-> 2": took}))


def _change(paced: PacedJob, start: int, per_instance: float, share: float, size: Size) -> Change:
    """Bring instances to their normal load, change the rate, ask the controller, and do what it says."""
    paced.rate = NORMAL * start * per_instance
    _resize(paced, start)
    time.sleep(size.steady_seconds)
    before, _ = paced.watch(size.steady_seconds)
    paced.rate = share * start * per_instance
    time.sleep(0.1)
    measured, _ = paced.watch(0.5, 1, POOL)
    decision = _CONTROLLER.decide(measured, History())
    record = _resize(paced, decision.parallelism) if decision.is_change else None
    time.sleep(size.steady_seconds / 2)
    after, latency = paced.watch(size.steady_seconds)
    return Change(before, decision, record, after, mean_ms(latency))


def _note(report: Report, kind: str, start: int, one: Change) -> None:
    report.add_run(
        f"{kind} from {start}",
        to=one.decision.parallelism,
        reason=one.decision.reason,
        milliseconds=one.record.switched_ms if one.record is not None else None,
        work_variation_percent=unevenness(one.before)[0],
        busy_variation_percent=unevenness(one.before)[1],
        busy_before=one.before.average_busy,
        busy_after=one.after.average_busy,
        latency_after_ms=one.latency_ms,
    )


def _summarise(report: Report, changes: dict[str, dict[int, list[Change]]]) -> None:
    took: dict[str, list[float]] = {}
    uneven: dict[str, list[float]] = {}
    rows = []
    for kind, by_start in changes.items():
        paper = PROVISIONED if kind == "provisioning" else DECOMMISSIONED
        for start, several in by_start.items():
            name = f"{kind} from {start}"
            took[name] = [one.record.switched_ms or 0.0 for one in several if one.record is not None]
            uneven.setdefault(f"{start} instances", []).extend(unevenness(one.before)[0] for one in several)
            ends = sorted(one.decision.parallelism for one in several)
            rows.append([start, kind, median(ends), paper[start], median(took[name] or [0.0])])
    every = [each for several in took.values() for each in several]
    report.add("reconfigurations: the longest", max(every), "ms", at_most=CHANGE_GOAL_MS)
    report.add("reconfigurations: median", median(every), "ms")
    averages = {name: fmean(several) for name, several in uneven.items()}
    report.add(
        "coefficient of variation of the instances' work: the largest",
        max(averages.values()),
        "%",
        at_most=VARIATION_GOAL,
    )
    header = ["instances before", "action", "instances after", "in the paper", "median ms"]
    report.tables.append(Table("Starting and resulting parallelism", header, rows))
    report.charts.append(Chart("Time of a reconfiguration", "ms", {name: each for name, each in took.items() if each}))
    report.charts.append(Chart("Coefficient of variation of the instances' work, at 70 % load", "%", uneven))


class _Sampler:
    """Reads metrics again and again, until it is asked for plots."""

    def __init__(self, paced: PacedJob) -> None:
        self._paced = paced
        self._samples: list[tuple[Metrics, float]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            self._samples.append((self._paced.metrics(), self._paced.rate))

    def plots(self, kind: str, start: int) -> list[Plot]:
        """Return rate, throughput, latency and instances over time."""
        self._stop.set()
        self._thread.join()
        first = self._samples[0][0].read_ns
        curves: dict[str, dict[float, list[float]]] = {"offered": {}, "processed": {}, "latency": {}, "instances": {}}
        for (before, _), (after, rate) in zip(self._samples, self._samples[1:], strict=False):
            at = round((after.read_ns - first) / 1e9, 3)
            seconds = (after.read_ns - before.read_ns) / 1e9
            curves["offered"][at] = [rate]
            curves["processed"][at] = [(sum(after.updates) - sum(before.updates)) / seconds]
            curves["instances"][at] = [after.parallelism]
            latency = after.latency.since(before.latency)
            if latency.total:
                curves["latency"][at] = [mean_ms(latency)]
        title = f"{kind.capitalize()} from {start} instances"
        rates = {name: curves[name] for name in ("offered", "processed")}
        return [
            Plot(f"{title}: rate", "seconds", "tuples/s", rates),
            Plot(f"{title}: latency", "seconds", "ms", {"average": curves["latency"]}),
            Plot(f"{title}: instances", "seconds", "", {"instances": curves["instances"]}),
        ]
