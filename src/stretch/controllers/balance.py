"""Load balancing: other owners for a few key groups, so that instances have about the same work.

What moves is the right to touch a group, from the next epoch on; state stays where it is. So a balancing change is as
cheap as any other, and a controller may ask for one whenever work is uneven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev

from stretch.controllers.arguments import check_rising, seconds_of
from stretch.controllers.decision import Controller, Decision, History, keep
from stretch.controllers.threshold import ThresholdController
from stretch.metrics import Load

_WORTH_IT = 0.5  # a change has to make the variation so much smaller


@dataclass(frozen=True)
class BalanceController:
    """Even out the work of instances; another controller decides how many there are, and goes first.

    - `controller`: the other one.
    - `limit`: the coefficient of variation of the instances' work (0.1 is 10 %) above which groups get other owners.
    - `cool_down`: how long work is watched, after a change, before it is called uneven.
    """

    controller: Controller = field(default_factory=ThresholdController)
    limit: float = 0.10
    cool_down: str = "3 seconds"

    def __post_init__(self) -> None:
        check_rising("BalanceController", limit=self.limit)
        seconds_of(self.cool_down, "cool_down", "3 seconds")

    def decide(self, load: Load, past: History) -> Decision:
        """Return what shall be, with the reason in words and numbers."""
        decision = self.controller.decide(load, past)
        wait = seconds_of(self.cool_down, "cool_down", "3 seconds")
        if decision.is_change or not load.mapping or past.since_change(load.time) < wait:
            return decision
        watched = [one.group_work for one in past.recent(load, max(wait, load.seconds)) if one.mapping == load.mapping]
        work = [sum(group) for group in zip(*watched, strict=True)]
        before = variation(work, load.mapping, load.instances)
        if before <= self.limit:
            return keep(load, f"{decision.reason}; the work of instances varies by {before:.1%}")
        mapping = evened(work, load.mapping, load.instances, self.limit / 2)
        after = variation(work, mapping, load.instances)
        if after > _WORTH_IT * before:
            return keep(load, f"{decision.reason}; the work of instances varies by {before:.1%}, and groups are few")
        moved = sum(old != new for old, new in zip(load.mapping, mapping, strict=True))
        reason = (
            f"the work of instances varies by {before:.1%} (coefficient of variation, limit {self.limit:.0%}); "
            f"with {moved} of {len(mapping)} groups elsewhere it is {after:.1%}"
        )
        return Decision(load.time, load.parallelism, load.parallelism, reason, mapping)


def variation(work: Sequence[float], mapping: Sequence[int], instances: Sequence[int]) -> float:
    """Return the coefficient of variation of the instances' work; 0 if there is none."""
    return _variation(_totals(work, mapping, instances))


def evened(
    work: Sequence[float], mapping: Sequence[int], instances: Sequence[int], limit: float = 0.0
) -> tuple[int, ...]:
    """Return a mapping that differs in few groups, with a coefficient of variation of at most `limit` if possible.

    Step by step one group goes from who has most to who has least: the one that makes them most alike.
    """
    owners = list(mapping)
    totals = _totals(work, owners, instances)
    groups: dict[int, list[int]] = {number: [] for number in instances}
    for group, owner in enumerate(owners):
        groups[owner].append(group)
    for _ in owners:
        most, least = max(totals, key=totals.__getitem__), min(totals, key=totals.__getitem__)
        gap = totals[most] - totals[least]
        chosen = min(groups[most], key=lambda group: abs(gap / 2 - work[group]), default=None)
        if chosen is None or not 0 < work[chosen] < gap or _variation(totals) <= limit:
            break
        owners[chosen] = least
        groups[most].remove(chosen)
        groups[least].append(chosen)
        totals[most] -= work[chosen]
        totals[least] += work[chosen]
    return tuple(owners)


def _totals(work: Sequence[float], mapping: Sequence[int], instances: Sequence[int]) -> dict[int, float]:
    """Return the work of each instance."""
    totals = dict.fromkeys(instances, 0.0)
    for group, owner in enumerate(mapping):
        totals[owner] += work[group]
    return totals


def _variation(totals: dict[int, float]) -> float:
    average = fmean(totals.values())
    return pstdev(totals.values()) / average if average > 0 else 0.0
