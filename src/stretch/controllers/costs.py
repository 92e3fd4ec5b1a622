"""What work costs, learnt from what instances did, and how much work is to come.

The cost model is that of window joins: a tuple is compared with what the other window holds, so that the work of a
second is `rate * stored` comparisons of each input with the other, plus the results they give, plus a little for each
tuple. For aggregates windows updated take the place of comparisons. (V. Gulisano, A. V. Papadopoulos, Y.
Nikolakopoulos, M. Papatriantafilou, P. Tsigas: Performance Modeling of Stream Joins, DEBS 2017.) Unlike there, costs
are no constants of the machine: they are fitted to the last minute, and corrected by the last intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stretch.metrics import Load

Array = npt.NDArray[np.float64]

Amounts = tuple[float, float, float, float]
"""As `Work`, but of what is expected, which are no whole numbers."""

_NAMES = ("tuple_ns", "update_ns", "comparison_ns", "output_ns")
_FADE = 0.95  # weight of an interval relative to the one after it
_TRUST = 1e-3  # of the first guess, relative to that of everything measured
_GUESS = (0.1, 0.8, 0.8, 0.1)  # parts of the time that each kind of work takes
_CORRECTED_BY = 3  # intervals
_CORRECTION_MAX = 1.5


@dataclass(frozen=True)
class Costs:
    """What a tuple is: how much of what there is for each, and how many nanoseconds of one instance each takes."""

    tuple_ns: float = 200.0
    update_ns: float = 100.0
    comparison_ns: float = 0.0
    output_ns: float = 100.0
    updates_per_tuple: float = 1.0
    comparisons_per_pair: float = 1.0
    outputs_per_tuple: float = 0.0
    outputs_per_comparison: float = 0.0

    @property
    def nanoseconds(self) -> tuple[float, float, float, float]:
        """What each kind of work takes, in the order of `Work`."""
        return self.tuple_ns, self.update_ns, self.comparison_ns, self.output_ns

    def of(self, work: Amounts) -> float:
        """Return the seconds of instances that some work takes."""
        return sum(each * count for each, count in zip(self.nanoseconds, work, strict=True)) / 1e9

    def expected(self, tuples: Sequence[float], stored: Sequence[float]) -> Amounts:
        """Return the work of so many tuples of each input, with windows that hold so many."""
        count = sum(tuples)
        comparisons = self.comparisons_per_pair * pairs(tuples, stored)
        outputs = self.outputs_per_tuple * count + self.outputs_per_comparison * comparisons
        return count, self.updates_per_tuple * count, comparisons, outputs


def pairs(tuples: Sequence[float], stored: Sequence[float]) -> float:
    """Return how many pairs tuples of each input make with what the windows of the other hold."""
    return tuples[0] * stored[1] + tuples[1] * stored[0] if len(stored) == 2 else 0.0


def learn(loads: Sequence[Load]) -> Costs | None:
    """Fit costs to what instances did, the latest intervals first; None if they did nothing."""
    worked = [load for load in loads if load.work.tuples > 0]
    if not worked:
        return None
    weights = _FADE ** np.arange(len(worked) - 1, -1, -1.0)
    done = np.array([load.work for load in worked], float) * weights[:, None]
    spent = np.array([load.busy_instances * load.seconds for load in worked]) * weights
    totals = done.sum(axis=0)
    of_pairs = sum(weight * _pairs_of(load) for weight, load in zip(weights, worked, strict=True))
    tuples, updates, comparisons, outputs = (float(total) for total in totals)
    costs = Costs(
        **dict(zip(_NAMES, _fitted(done, spent, totals), strict=True)),
        updates_per_tuple=updates / tuples,
        comparisons_per_pair=comparisons / of_pairs if of_pairs else 0.0,
        outputs_per_tuple=0.0 if comparisons else outputs / tuples,
        outputs_per_comparison=outputs / comparisons if comparisons else 0.0,
    )
    return _corrected(costs, worked[-_CORRECTED_BY:])


def _fitted(done: Array, spent: Array, totals: Array) -> list[float]:
    """Return the nanoseconds of each kind of work, none below 0, that explain best what was spent.

    A guess decides what cannot be told apart.

    What is counted in the same proportions all the time cannot be told apart, and need not be, until proportions
    change. Then the fit learns from the change.
    """
    is_counted = totals > 0
    guess = np.array(_GUESS) * is_counted
    guess *= spent.sum() / guess.sum()
    shares = np.zeros(len(totals))
    left = is_counted.copy()  # costs that may still be above 0
    while left.any():
        scaled = done[:, left] / totals[left]
        trust = _TRUST * np.square(scaled).sum() + 1e-30
        normal = scaled.T @ scaled + trust * np.eye(int(left.sum()))
        found = np.linalg.solve(normal, scaled.T @ spent + trust * guess[left])
        if (found >= 0).all():
            shares[left] = found
            break
        left[np.flatnonzero(left)[found < 0]] = False
    seconds: Array = np.divide(shares, totals, out=np.zeros(len(totals)), where=is_counted)
    return [1e9 * each for each in seconds.tolist()]


def _corrected(costs: Costs, loads: Sequence[Load]) -> Costs:
    """Return costs that agree with what instances really took lately."""
    said = sum(costs.of(load.work) for load in loads)
    took = sum(load.busy_instances * load.seconds for load in loads)
    factor = min(_CORRECTION_MAX, max(1 / _CORRECTION_MAX, took / said if said > 0 else 1.0))
    return replace(costs, **{name: factor * each for name, each in zip(_NAMES, costs.nanoseconds, strict=True)})


def _pairs_of(load: Load) -> float:
    """Return the pairs of an interval; tuples of each input are taken to be processed as they arrived."""
    arrived = sum(load.arrived)
    if len(load.stored) != 2 or arrived == 0:
        return 0.0
    return pairs(load.arrived, load.stored) * load.work.tuples / arrived
