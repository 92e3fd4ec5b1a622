"""Load balancing: few groups move, work becomes even, and the reason says so in numbers."""

from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as hypothesis

import stretch as st
from stretch.controllers import History, keep
from stretch.controllers.balance import evened, variation
from tests.unit.test_controllers import load


class Still:
    def decide(self, load, past):
        return keep(load, "fine")


BALANCING = st.BalanceController(Still(), limit=0.1, cool_down="0 seconds")

WORK = hypothesis.lists(hypothesis.integers(0, 1000), min_size=1, max_size=60)


@given(work=WORK, instances=hypothesis.integers(1, 8))
def test_work_never_becomes_more_uneven_and_owners_are_instances(work, instances):
    before = [group % instances for group in range(len(work))]
    after = evened(work, before, range(instances))
    assert variation(work, after, range(instances)) <= variation(work, before, range(instances))
    assert set(after) <= set(range(instances))


@given(work=WORK, instances=hypothesis.integers(1, 8))
def test_nobody_has_more_than_the_others_by_more_than_a_group(work, instances):
    after = evened(work, [0] * len(work), range(instances))
    totals = [sum(work[group] for group, owner in enumerate(after) if owner == number) for number in range(instances)]
    assert max(totals) - min(totals) <= max(work)


def test_variation_is_the_coefficient_of_variation():
    assert variation([1, 2, 3, 4], [0, 0, 1, 2], [0, 1, 2]) == pytest.approx(pstdev([3, 3, 4]) / fmean([3, 3, 4]))
    assert variation([0, 0], [0, 1], [0, 1]) == 0.0


def test_few_groups_move():
    work, before = [1] * 64, [group % 4 for group in range(64)]
    work[0] = 15  # so that its owner has 30, and the others 16 each
    after = evened(work, before, range(4), limit=0.05)
    moved = sum(old != new for old, new in zip(before, after, strict=True))
    assert variation(work, after, range(4)) <= 0.05
    assert moved <= 11
    assert after[0] == 0  # the large one stays


def test_an_even_job_is_left_alone():
    before = tuple(group % 4 for group in range(64))
    assert evened([5] * 64, before, range(4)) == before
    measured = load([0.6] * 4, group_work=(5,) * 64, mapping=before, instances=(0, 1, 2, 3))
    decision = BALANCING.decide(measured, History())
    assert not decision.is_change
    assert decision.reason == "fine; the work of instances varies by 0.0%"


def test_uneven_work_gets_a_mapping_of_its_own():
    mapping = tuple(group % 4 for group in range(64))
    work = tuple(50 if owner == 1 else 10 for owner in mapping)
    measured = load([0.3, 0.95, 0.3, 0.3], group_work=work, mapping=mapping, instances=(0, 1, 2, 3))
    decision = BALANCING.decide(measured, History())
    assert decision.is_change
    assert decision.parallelism == 4
    assert variation(work, decision.mapping, range(4)) <= 0.1
    assert decision.reason.startswith(
        "the work of instances varies by 86.6% (coefficient of variation, limit 10%); with"
    )
    assert "of 64 groups elsewhere it is" in decision.reason


def test_the_other_controller_goes_first():
    mapping = tuple(group % 2 for group in range(8))
    measured = load(1.0, 2, group_work=(9, 1) * 4, mapping=mapping, instances=(0, 1))
    eager = st.BalanceController(st.ThresholdController(cool_down="0 seconds"), cool_down="0 seconds")
    assert eager.decide(measured, History()).parallelism == 3


def test_one_hot_group_cannot_be_divided():
    mapping = tuple(group % 2 for group in range(4))
    measured = load([0.1, 0.9], group_work=(0, 900, 0, 0), mapping=mapping, instances=(0, 1))
    decision = BALANCING.decide(measured, History())
    assert not decision.is_change
    assert decision.reason.endswith("and groups are few")


def test_jobs_that_do_not_measure_groups_are_left_alone():
    assert BALANCING.decide(load(0.5, 2), History()).reason == "fine"
