"""The proactive controller: work that is to come, by a model of what it costs (Paper: the controller of Q_5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from stretch.controllers.arguments import check_rising, check_step, seconds_of
from stretch.controllers.costs import Costs, learn
from stretch.controllers.decision import Decision, History, keep, resize
from stretch.controllers.threshold import BACKLOG_SECONDS
from stretch.metrics import Load

LEARN_FROM = 64  # intervals that costs are learnt from, at most
_ALIKE = 0.15  # rates that differ by less are one rate, measured several times
_ALIKE_MAX = 8  # measurements
_SATURATED = 0.98  # busier than that, instances may hold back the sources, and nobody knows how much more there is
_GROWING = 1.005  # work that becomes so much more will be needed soon, and instances with it
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ModelController:
    """Keep the work to come within a band of what instances can do.

    Work is predicted from the rates of the last interval and from what windows will hold `horizon` from now, at costs
    learnt from this job; tuples that wait are work too, to be done within `drain`.

    - `lower`, `upper`: the band. Above it, instances are added until it is in the middle; below it they are removed,
      so many that it stays below the middle; never while tuples wait.
    - `patience`: how long work has to be low before instances are removed.
    - `step`: how many instances one decision may add or remove.
    """

    lower: float = 0.70
    upper: float = 0.80
    horizon: str = "1 second"
    drain: str = "1 second"
    patience: str = "3 seconds"
    step: int | None = None

    def __post_init__(self) -> None:
        check_rising("ModelController", lower=self.lower, upper=self.upper)
        check_step("ModelController", self.step)
        seconds_of(self.horizon, "horizon", "1 second")
        seconds_of(self.drain, "drain", "1 second", 0.01)
        seconds_of(self.patience, "patience", "3 seconds")

    def decide(self, load: Load, past: History) -> Decision:
        """Return what shall be, with the reason in words and numbers."""
        recent = [*past.loads, load][-LEARN_FROM:]
        costs = learn(recent)
        if costs is None:
            return keep(load, "nothing was processed yet")
        ahead = _stored_ahead(recent, seconds_of(self.horizon, "horizon", "1 second"))
        waiting = self._backlog(load, ahead, costs)
        is_saturated = load.average_busy > _SATURATED
        coming = _steady_work(recent, ahead, costs)
        if waiting == 0 and not is_saturated and past.loads:
            coming = min(coming, _steady_work(recent[:-1], ahead, costs))  # what instances cope with may be a burst
        required = max(coming + waiting, load.busy_instances if is_saturated else 0.0)
        shown = _shown(load, coming, waiting, costs)
        if required > self.upper * load.parallelism:
            return self._grow(load, required, shown)
        patience = seconds_of(self.patience, "patience", "3 seconds")
        highest = max([coming, *(_work(_rates(one), ahead, costs) for one in past.recent(load, patience))])
        if highest >= self.lower * load.parallelism:
            return keep(load, shown)
        shown = f"{shown}, below {self.lower:.0%} of {load.parallelism}"
        if any(one.parallelism > one.before for one in past.changes if one.time > load.time - patience):
            return keep(load, f"{shown}, but some were added just now")
        if coming > _GROWING * _steady_work(recent, load.stored, costs):
            return keep(load, f"{shown}, but windows fill")
        return self._shrink(load, highest, shown)

    @property
    def _middle(self) -> float:
        return (self.lower + self.upper) / 2

    def _grow(self, load: Load, required: float, shown: str) -> Decision:
        wanted = ceil(required / self._middle - _ROUNDING)
        chosen = min(wanted, load.maximum, load.parallelism + (self.step or wanted))
        shown = f"{shown}, above {self.upper:.0%} of {load.parallelism}"
        if chosen <= load.parallelism:
            return keep(load, f"{shown}; {load.maximum} instances are the most there are")
        return resize(load, chosen, shown)

    def _shrink(self, load: Load, required: float, shown: str) -> Decision:
        if load.backlog_seconds > BACKLOG_SECONDS:
            return keep(load, f"{shown}, but {load.pending:,} tuples wait")
        wanted = ceil(required / self._middle - _ROUNDING)
        chosen = max(wanted, load.minimum, load.parallelism - (self.step or load.parallelism), 1)
        if chosen >= load.parallelism:
            return keep(load, f"{shown}; fewer instances would not do")
        return resize(load, chosen, shown)

    def _backlog(self, load: Load, ahead: Sequence[float], costs: Costs) -> float:
        """Return how many instances it takes to do what waits in time."""
        if load.backlog_seconds <= BACKLOG_SECONDS:
            return 0.0
        arrived = sum(load.arrived)
        parts = [count / arrived if arrived else 1 / len(load.arrived) for count in load.arrived]
        work = costs.expected([load.pending * part for part in parts], ahead)
        return costs.of(work) / seconds_of(self.drain, "drain", "1 second")


def _rates(load: Load) -> list[float]:
    return [count / load.seconds for count in load.arrived]


def _work(rates: Sequence[float], stored: Sequence[float], costs: Costs) -> float:
    """Return how many instances the work of a second keeps busy."""
    return costs.of(costs.expected(rates, stored))


def _steady_work(recent: Sequence[Load], stored: Sequence[float], costs: Costs) -> float:
    """Return the work at the rates of the last interval, averaged with those before that were about the same."""
    newest = _work(_rates(recent[-1]), stored, costs)
    alike = []
    for load in reversed(recent[-_ALIKE_MAX:]):
        work = _work(_rates(load), stored, costs)
        if abs(work - newest) > _ALIKE * newest:
            break
        alike.append(work)
    return sum(alike) / len(alike)


def _stored_ahead(recent: Sequence[Load], seconds: float) -> list[float]:
    """Return what windows will hold if they go on filling as in the last interval; shrinking is not looked ahead."""
    now = recent[-1]
    if len(recent) < 2 or len(recent[-2].stored) != len(now.stored):
        return [float(count) for count in now.stored]
    before, span = recent[-2], now.time - recent[-2].time
    return [new + max(0.0, (new - old) * seconds / span) for new, old in zip(now.stored, before.stored, strict=True)]


def _shown(load: Load, coming: float, waiting: float, costs: Costs) -> str:
    """Say in words what is to come."""
    joined = f"{costs.comparison_ns:.3g} ns per comparison" if load.stored else f"{costs.update_ns:.3g} ns per update"
    text = f"{load.arrival_rate:,.0f} tuples/s need {coming:.2f} instances"
    if waiting > 0:
        text += f", and {load.pending:,} that wait {waiting:.2f} more"
    return f"{text} ({costs.tuple_ns:.3g} ns per tuple, {joined}, {costs.output_ns:.3g} ns per output)"
