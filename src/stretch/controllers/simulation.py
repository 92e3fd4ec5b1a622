"""A simulated operator under a controller: a trace in, decisions and what became of the tuples out.

The operator is a queue of tuples in the order of their arrival, and as many servers as instances run: a batch that
arrived within a step is served by all of them together, as instances share the tuples of one buffer. What a tuple costs
follows from the trace, for a join from what the windows hold when it is its turn. A change takes `switch_seconds` in
which nobody works. There are no threads, so that 72 instances and more run anywhere.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from stretch.controllers.costs import Costs
from stretch.controllers.decision import Controller, Decision, History
from stretch.controllers.elastic import Elastic
from stretch.controllers.trace import Moment, Trace
from stretch.metrics import Load, Work

STEP_SECONDS = 0.01
_OTHER_RATE = 0.1  # a rate that differs by more, relatively, begins another phase
SETTLED_SECONDS = 0.1  # what waits for less does not count as a backlog


@dataclass(frozen=True)
class Machine:
    """What no trace says: how long changes take, and how uneven the world is."""

    switch_seconds: float = 0.01
    noise: float = 0.02
    """Standard deviation of rates and busy times, from step to step and instance to instance, relative."""
    seed: int = 0


@dataclass(frozen=True)
class Point:
    """One interval of a simulation."""

    load: Load
    decision: Decision
    latency: float
    """Seconds that the tuples of the interval waited for instances, on average."""
    worst: float


@dataclass
class Phase:
    """What happened while the rate was about the same."""

    begin: float
    end: float
    rate: float
    """Tuples per second in the beginning."""
    instances: tuple[int, int]
    """In the beginning and in the end."""
    changes: int
    reversals: int
    """Changes in the other direction than the one before, within the phase."""
    settled_after: float
    """Seconds until no backlog was left, for the rest of the phase."""
    latency: float
    """Seconds that its tuples waited, on average."""


@dataclass(frozen=True)
class Simulation:
    """What happened."""

    trace: Trace
    points: list[Point]

    @property
    def changes(self) -> list[Decision]:
        """The decisions that changed something."""
        return [point.decision for point in self.points if point.decision.is_change]

    @property
    def latency(self) -> float:
        """Seconds that tuples waited for instances, on average."""
        return _average_latency(self.points)

    @property
    def backlog(self) -> int:
        """Tuples that were left in the end."""
        return self.points[-1].load.pending

    def phases(self) -> list[Phase]:
        """Look at each stretch of about the same rate by itself."""
        begins: list[tuple[float, float]] = []
        for moment in self.trace.moments:
            rate = sum(moment.rates)
            if not begins or abs(rate - begins[-1][1]) > _OTHER_RATE * begins[-1][1]:
                begins.append((moment.seconds, rate))
        ends = [begin for begin, _ in begins[1:]] + [self.trace.seconds]
        return [self._phase(begin, end, rate) for (begin, rate), end in zip(begins, ends, strict=True)]

    def to_record(self) -> dict[str, Any]:
        """Return it as plain data, for files."""
        return {
            "latency": self.latency,
            "backlog": self.backlog,
            "changes": [
                {"seconds": one.time, "before": one.before, "after": one.parallelism, "reason": one.reason}
                for one in self.changes
            ],
            "phases": [asdict(phase) for phase in self.phases()],
            "intervals": [
                {
                    "seconds": point.load.time,
                    "rate": point.load.arrival_rate,
                    "parallelism": point.load.parallelism,
                    "busy": point.load.average_busy,
                    "pending": point.load.pending,
                    "latency": point.latency,
                    "worst": point.worst,
                }
                for point in self.points
            ],
        }

    def _phase(self, begin: float, end: float, rate: float) -> Phase:
        points = [point for point in self.points if begin < point.load.time <= end]
        steps = [one.decision.parallelism - one.decision.before for one in points if one.decision.is_change]
        late = [one.load.time - begin for one in points if one.load.backlog_seconds > SETTLED_SECONDS]
        return Phase(
            begin,
            end,
            rate,
            instances=(points[0].load.parallelism, points[-1].decision.parallelism) if points else (0, 0),
            changes=len(steps),
            reversals=sum(one * other < 0 for one, other in pairwise(steps)),
            settled_after=late[-1] if late else 0.0,
            latency=_average_latency(points),
        )


def simulate(trace: Trace, elastic: Elastic, machine: Machine | None = None) -> Simulation:
    """Play a trace against a simulated operator and the controller of `elastic`."""
    operator = _Operator(trace, elastic.minimum, machine or Machine())
    controller: Controller = elastic.controller
    history, points = History(), []
    steps = max(1, round(elastic.seconds / STEP_SECONDS))
    moments = deque(trace.moments)
    now = moments.popleft()
    for number in range(int(trace.seconds / STEP_SECONDS)):
        while moments and moments[0].seconds <= number * STEP_SECONDS:
            now = moments.popleft()
        operator.step(now)
        if (number + 1) % steps == 0:
            load = operator.load(elastic)
            decision = controller.decide(load, history)
            history.loads.append(load)
            if decision.is_change:
                history.changes.append(decision)
                operator.resize(decision.parallelism)
            points.append(Point(load, decision, *operator.take_latency()))
    return Simulation(trace, points)


class _Operator:
    """The state of the simulated operator; an interval is what happened since `load` was called."""

    def __init__(self, trace: Trace, parallelism: int, machine: Machine) -> None:
        self._machine = machine
        self._chance = random.Random(machine.seed)
        self._window_seconds = trace.window_seconds if len(trace.moments[0].rates) == 2 else 0.0
        self._parallelism = parallelism
        self._time = 0.0
        self._switching = 0.0  # seconds in which nobody works yet
        self._queue: deque[tuple[float, list[float], Costs]] = deque()  # when, tuples of each input, what they cost
        self._windows: deque[tuple[float, list[float]]] = deque()  # the same, of what was processed
        self._stored = [0.0, 0.0] if self._window_seconds else []
        self._arrived = [0.0] * len(trace.moments[0].rates)
        self._work = [0.0] * len(Work._fields)
        self._spent = 0.0
        self._since = 0.0
        self._latencies = [0.0, 0.0, 0.0]  # tuples, their seconds, the worst

    def step(self, now: Moment) -> None:
        """Let a step's tuples arrive, and instances work for as long."""
        tuples = [max(0.0, rate * STEP_SECONDS * self._chance.gauss(1, self._machine.noise)) for rate in now.rates]
        self._arrived = [sum(pair) for pair in zip(self._arrived, tuples, strict=True)]
        self._queue.append((self._time, tuples, now.costs))
        pause = min(self._switching, STEP_SECONDS)
        self._switching -= pause
        room = (STEP_SECONDS - pause) * self._parallelism
        left = room
        while self._queue and left > 0:
            left -= self._serve(left, self._time + pause + (room - left) / self._parallelism)
        self._spent += room - left
        self._time = round(self._time + STEP_SECONDS, 6)

    def _serve(self, seconds: float, when: float) -> float:
        """Process the oldest tuples, or as many of them as can be done in so many seconds; return what they took."""
        arrived, tuples, costs = self._queue.popleft()
        self._expire(arrived)
        work = costs.expected(tuples, self._stored)
        takes = costs.of(work)
        part = min(1.0, seconds / takes) if takes > 0 else 1.0
        if part < 1.0:
            self._queue.appendleft((arrived, [count * (1 - part) for count in tuples], costs))
        done = [count * part for count in tuples]
        self._work = [sum(pair) for pair in zip(self._work, (part * amount for amount in work), strict=True)]
        if self._window_seconds:
            self._windows.append((arrived, done))
            self._stored = [sum(pair) for pair in zip(self._stored, done, strict=True)]
        latency = max(0.0, when - arrived)
        counted, total, worst = self._latencies
        self._latencies = [counted + sum(done), total + sum(done) * latency, max(worst, latency)]
        return part * takes

    def _expire(self, time: float) -> None:
        while self._windows and self._windows[0][0] <= time - self._window_seconds:
            _, gone = self._windows.popleft()
            self._stored = [max(0.0, have - less) for have, less in zip(self._stored, gone, strict=True)]

    def resize(self, parallelism: int) -> None:
        """Run another number of instances, after the pause that a change takes."""
        self._parallelism = parallelism
        self._switching = self._machine.switch_seconds

    def load(self, elastic: Elastic) -> Load:
        """Return the load of the interval that ends now, and begin the next one."""
        seconds = round(self._time - self._since, 6)
        busy = self._spent / (seconds * self._parallelism)
        uneven = [self._chance.gauss(1, self._machine.noise) for _ in range(self._parallelism)]
        load = Load(
            time=self._time,
            seconds=seconds,
            parallelism=self._parallelism,
            minimum=elastic.minimum,
            maximum=elastic.maximum,
            arrived=tuple(round(count) for count in self._arrived),
            work=Work(*(round(amount) for amount in self._work)),
            busy=tuple(min(1.0, busy * one) for one in uneven),
            pending=int(sum(sum(tuples) for _, tuples, _ in self._queue)),
            stored=tuple(round(count) for count in self._stored),
        )
        self._arrived = [0.0] * len(self._arrived)
        self._work = [0.0] * len(self._work)
        self._spent, self._since = 0.0, self._time
        return load

    def take_latency(self) -> tuple[float, float]:
        """Return the average and the worst latency since the last call."""
        counted, total, worst = self._latencies
        self._latencies = [0.0, 0.0, 0.0]
        return total / counted if counted else 0.0, worst


def _average_latency(points: list[Point]) -> float:
    tuples = sum(point.load.work.tuples for point in points)
    return sum(point.latency * point.load.work.tuples for point in points) / tuples if tuples else 0.0
