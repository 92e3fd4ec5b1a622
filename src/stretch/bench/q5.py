"""Q5: random phases with abrupt changes of the rate, and two controllers that follow them.

Rates are the paper's, 500 to 8,000 tuples per second. The load is simulated (`paced`): an update sleeps instead of
computing, so that there can be more busy instances than cores. The work of a tuple is the same all the time here, as in
an aggregate; how the controllers follow windows that fill is shown by `stretch simulate phases`.

Latency runs from the moment that a window was due to end, by the clock and not by what the job had room for, until its
result was read. A phase has settled when latency stays below SETTLED_MS for its rest.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stretch.bench.paced import PacedJob
from stretch.bench.report import Plot, Report, Say, Table, percentile
from stretch.controllers import Controller, Decision, ModelController, Moment, ThresholdController, Trace, elastic
from stretch.controllers import phases as random_phases
from stretch.metrics import Load

HELP = "Q5: abrupt random phases of 500 to 8,000 tuples/s under simulated load, followed by two controllers"

CONTROLLERS: dict[str, Controller] = {
    "model": ModelController(),
    "threshold": ThresholdController(cool_down="1 second"),
}
LATENCY_GOAL_MS = 20.0
SETTLED_GOAL_SECONDS = 2.0
REVERSALS_GOAL = 1
SETTLED_MS = 50.0
MAXIMUM = 48

_BUCKET_SECONDS = 0.1


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    seconds: float
    lengths: tuple[float, float]
    rates: tuple[float, float] = (500.0, 8000.0)
    interval: str = "200 ms"
    seed: int = 1


FULL = Size(1200.0, (100.0, 300.0))
QUICK = Size(60.0, (8.0, 20.0))


@dataclass(frozen=True)
class Phase:
    """What a controller made of one rate."""

    rate: float
    latency_ms: float
    settled_after: float
    changes: int
    reversals: int


def run(size: Size, say: Say) -> Report:
    """Measure it."""
    report = Report("q5")
    report.notes.append(
        "The load is simulated: an update sleeps for a service time instead of computing. Buffers, threads, barriers, "
        "epochs, metrics and controllers are the real ones."
    )
    trace = random_phases(size.seed, size.seconds, size.rates, size.lengths, window_seconds=0.0)
    curves: dict[str, dict[str, dict[float, list[float]]]] = {"rate": {}, "instances": {}, "busy": {}, "latency": {}}
    rows = []
    for name, controller in CONTROLLERS.items():
        limits = elastic(1, MAXIMUM, controller, size.interval)
        with PacedJob(limits) as paced:
            say(f"{name}: compiling")
            paced.warm_up()
            begun, loads, changes = _play(paced, trace, name, say)
            phases = _phases(paced, trace, begun, changes)
            _add_curves(curves, name, begun, loads, paced)
        report.add(
            f"{name}: average latency",
            paced.latency_ms(begun, begun + trace.seconds),
            "ms",
            at_most=_goal(name, LATENCY_GOAL_MS),
        )
        _report(report, name, phases, changes, begun)
        rows += [[name, *vars(phase).values()] for phase in phases]
    header = ["controller", "tuples/s", "latency ms", "settled after s", "changes", "reversals"]
    report.tables.append(Table("Phases", header, rows))
    report.plots += [
        Plot("Arriving tuples", "seconds", "tuples/s", curves["rate"]),
        Plot("Instances", "seconds", "", curves["instances"]),
        Plot("How busy they are on average", "seconds", "%", curves["busy"]),
        Plot("Latency", "seconds", "ms", curves["latency"], is_logarithmic=True),
    ]
    return report


def _goal(name: str, goal: float) -> float | None:
    """Return the goal of the proactive controller; the other one stands beside it."""
    return goal if name == "model" else None


def _play(paced: PacedJob, trace: Trace, name: str, say: Say) -> tuple[float, list[Load], list[Decision]]:
    """Play a trace by the clock; return when it began, and all loads and changes, which the job keeps a few of."""
    paced.rate = sum(trace.moments[0].rates)
    time.sleep(2.0)  # the controller has found its parallelism, as in the middle of a run
    begun = time.monotonic()
    loads: dict[float, Load] = {}
    changes: dict[float, Decision] = {}
    for moment, end in _with_ends(trace):
        paced.rate = sum(moment.rates)
        say(f"{name}: {paced.rate:,.0f} tuples/s")
        while (left := begun + end - time.monotonic()) > 0:
            time.sleep(min(1.0, left))
            paced.check()
            loads |= {load.time: load for load in paced.job.loads}
            changes |= {change.time: change for change in paced.job.decisions}
    return begun, list(loads.values()), list(changes.values())


def _with_ends(trace: Trace) -> list[tuple[Moment, float]]:
    ends = [moment.seconds for moment in trace.moments[1:]] + [trace.seconds]
    return list(zip(trace.moments, ends, strict=True))


def _phases(paced: PacedJob, trace: Trace, begun: float, changes: Sequence[Decision]) -> list[Phase]:
    """Look at each phase by itself; clocks of results and of decisions are the same one."""
    found = []
    for moment, end in _with_ends(trace):
        first, last = begun + moment.seconds, begun + end
        steps = [one.parallelism - one.before for one in changes if first < one.time <= last]
        late = [when for when, _, each in paced.latencies if first <= when < last and each > SETTLED_MS]
        found.append(
            Phase(
                rate=round(sum(moment.rates)),
                latency_ms=round(paced.latency_ms(first, last), 2),
                settled_after=round(late[-1] - first, 2) if late else 0.0,
                changes=len(steps),
                reversals=sum(one * other < 0 for one, other in pairwise(steps)),
            )
        )
    return found


def _report(report: Report, name: str, phases: Sequence[Phase], changes: Sequence[Decision], begun: float) -> None:
    later = phases[1:] or phases  # the first one begins with instances as they should be
    settled, reversals = max(one.settled_after for one in later), max(one.reversals for one in phases)
    report.add(f"{name}: the slowest phase has settled after", settled, "s", at_most=_goal(name, SETTLED_GOAL_SECONDS))
    report.add(f"{name}: reversals in a phase, at most", reversals, "changes", at_most=_goal(name, REVERSALS_GOAL))
    report.add(f"{name}: changes in a phase, at most", max(one.changes for one in phases), "changes")
    took = [one.reconfiguration.switched_ms or 0.0 for one in changes if one.reconfiguration is not None]
    if took:
        report.add(f"{name}: p99 of a reconfiguration", percentile(took, 99), "ms")
    for change in changes:
        milliseconds = None if change.reconfiguration is None else change.reconfiguration.switched_ms
        report.add_run(
            name,
            seconds=change.time - begun,
            before=change.before,
            after=change.parallelism,
            reason=change.reason,
            milliseconds=milliseconds,
        )


def _add_curves(
    curves: dict[str, dict[str, dict[float, list[float]]]],
    name: str,
    begun: float,
    loads: Sequence[Load],
    paced: PacedJob,
) -> None:
    shown = [load for load in loads if load.time >= begun]
    curves["rate"][name] = {round(load.time - begun, 2): [load.arrival_rate] for load in shown}
    curves["instances"][name] = {round(load.time - begun, 2): [float(load.parallelism)] for load in shown}
    curves["busy"][name] = {round(load.time - begun, 2): [100 * load.average_busy] for load in shown}
    last = max((load.time - begun for load in shown), default=0.0)
    starts = [number * _BUCKET_SECONDS for number in range(int(last / _BUCKET_SECONDS))]
    averages = {at: paced.latency_ms(begun + at, begun + at + _BUCKET_SECONDS) for at in starts}
    curves["latency"][name] = {round(at, 2): [each] for at, each in averages.items() if each > 0}
