"""The reactive controller: limits on how busy instances are (Paper: the controller of Q_4)."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from stretch.controllers.arguments import check_rising, check_step, seconds_of
from stretch.controllers.decision import Decision, History, keep, resize
from stretch.metrics import Load

BACKLOG_SECONDS = 0.1
"""What waits for less than that is on its way; from there on it is a backlog."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class ThresholdController:
    """Keep instances less busy than a target, and not idle.

    - `upper`: above it, the smallest number of instances is added that brings the average below `target`.
    - `lower`: below it, the largest number is removed that keeps the average below `target` and the busiest instance
      below `upper`; never while tuples wait.
    - `cool_down`: how long a change is given to show, and how long load has to be low before instances are removed.
    - `step`: how many instances one decision may add or remove.
    """

    upper: float = 0.90
    target: float = 0.70
    lower: float = 0.45
    cool_down: str = "5 seconds"
    step: int | None = None

    def __post_init__(self) -> None:
        check_rising("ThresholdController", lower=self.lower, target=self.target, upper=self.upper)
        check_step("ThresholdController", self.step)
        seconds_of(self.cool_down, "cool_down", "5 seconds")

    def decide(self, load: Load, past: History) -> Decision:
        """Return what shall be, with the reason in words and numbers."""
        wait = seconds_of(self.cool_down, "cool_down", "5 seconds")
        shown = f"instances are busy {load.average_busy:.1%} on average"
        if past.since_change(load.time) < wait:
            return keep(load, f"{shown}, and the last change is {past.since_change(load.time):.1f} s ago")
        if load.average_busy > self.upper:
            return self._grow(load, f"{shown}, above {self.upper:.0%}")
        if load.most_busy > self.upper:
            busiest = load.busy.index(load.most_busy)
            number = load.instances[busiest] if load.instances else busiest
            alone = f"instance {number} is busy {load.most_busy:.1%}: balancing would help, more instances less"
            return keep(load, f"{shown}, but {alone}")
        if load.average_busy < self.lower:
            return self._shrink(load, past.recent(load, wait), f"{shown}, below {self.lower:.0%}")
        return keep(load, shown)

    def _grow(self, load: Load, shown: str) -> Decision:
        demand = demand_of(load)
        wanted = _smallest_below(demand, self.target)
        chosen = min(wanted, load.maximum, load.parallelism + (self.step or wanted))
        if chosen <= load.parallelism:
            return keep(load, f"{shown}; {load.maximum} instances are the most there are")
        return resize(load, chosen, f"{shown}; with {chosen} it is {demand / chosen:.1%}")

    def _shrink(self, load: Load, recent: list[Load], shown: str) -> Decision:
        if load.backlog_seconds > BACKLOG_SECONDS:
            return keep(load, f"{shown}, but {load.pending:,} tuples wait")
        demand = max(demand_of(one) for one in recent)
        wanted = max(_smallest_below(demand, self.target), _smallest_below(_skewed(load, demand), self.upper))
        chosen = max(wanted, load.minimum, load.parallelism - (self.step or load.parallelism))
        if chosen >= load.parallelism:
            return keep(load, f"{shown}; fewer instances than {load.parallelism} would not do")
        return resize(load, chosen, f"{shown}; with {chosen} it is {demand / chosen:.1%}")


def demand_of(load: Load) -> float:
    """Return how many instances would be busy all the time with what arrived, more than was processed maybe."""
    if load.work.tuples == 0 or load.backlog_seconds <= BACKLOG_SECONDS:
        return load.busy_instances
    return load.busy_instances * max(1.0, sum(load.arrived) / load.work.tuples)


def _skewed(load: Load, demand: float) -> float:
    """Return the demand as it would be if all instances were as busy as the busiest."""
    return demand * load.most_busy / load.average_busy if load.average_busy > 0 else demand


def _smallest_below(demand: float, limit: float) -> int:
    """Return the smallest number of instances that are busy less than `limit` with the demand."""
    return floor(demand / limit + _ROUNDING) + 1
