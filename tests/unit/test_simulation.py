"""Controllers on simulated instances: they settle, they do not flap, and they leave no phase behind."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as hypothesis

import stretch as st
from stretch.controllers import Costs, Machine, Moment, Trace, elastic, keep, phases, simulate
from stretch.controllers.costs import learn
from stretch.metrics import Load, Work

AGGREGATE = Costs(tuple_ns=500_000, update_ns=1_500_000, updates_per_tuple=2)  # 3.5 ms per tuple: 28 busy at 8,000/s
JOIN = Costs(tuple_ns=2_000, comparison_ns=160, output_ns=200, outputs_per_comparison=1e-5)  # 51 with 10 s windows


class Still:
    def decide(self, load, past):
        return keep(load, "as told")


def steady(rate, seconds=10.0, costs=AGGREGATE, window_seconds=0.0):
    rates = (rate / 2, rate / 2) if window_seconds else (rate,)
    return Trace((Moment(0.0, rates, costs),), seconds, window_seconds)


# --- the simulated operator


@pytest.mark.parametrize(("rate", "instances", "busy"), [(1000, 4, 0.875), (1000, 8, 0.4375), (200, 1, 0.7)])
def test_instances_are_as_busy_as_the_work_says(rate, instances, busy):
    still = simulate(steady(rate), elastic(instances, instances, Still()), Machine(noise=0.0))
    assert still.points[-1].load.average_busy == pytest.approx(busy, rel=0.01)
    assert (still.backlog, still.latency) == (0, 0.0)


def test_what_is_too_much_waits():
    late = simulate(steady(1000), elastic(2, 2, Still()), Machine(noise=0.0))
    # 3.5 busy instances' work, done by 2: after 10 seconds 3/7 of the tuples wait, and those before waited ever longer.
    assert late.backlog == pytest.approx(10_000 * 3 / 7, rel=0.01)
    assert late.points[-1].latency == pytest.approx(10 * 3 / 7, rel=0.1)
    assert late.points[-1].load.average_busy == pytest.approx(1.0)


def test_windows_of_a_join_fill_and_forget():
    joined = simulate(steady(1000, 30.0, JOIN, window_seconds=10.0), elastic(4, 4, Still()), Machine(noise=0.0))
    stored = [sum(point.load.stored) for point in joined.points]
    assert stored[4] == pytest.approx(5_000, rel=0.01)
    assert stored[15:] == pytest.approx([10_000] * 15, rel=0.01)
    comparisons = [point.load.work.comparisons for point in joined.points]
    assert comparisons[25] == pytest.approx(1000 * 5_000, rel=0.01)  # each with the other input's window


def test_the_same_seed_gives_the_same_simulation():
    once, again = (simulate(phases(3, 60.0), elastic(1, 72), Machine(seed=3)) for _ in range(2))
    assert once.to_record() == again.to_record()


# --- what controllers have to do


def abrupt(seed, seconds=25.0, count=3):
    """Phases of random rates, none like the one before, for a join and an aggregate; windows are shorter than they."""
    chance = random.Random(seed)
    rates: list[float] = []
    while len(rates) < count:
        rate = chance.uniform(500, 8000)
        if not rates or not 0.7 < rate / rates[-1] < 1.4:
            rates.append(rate)
    joined = [Moment(number * seconds, (rate / 2, rate / 2), JOIN) for number, rate in enumerate(rates)]
    counted = [Moment(number * seconds, (rate,), AGGREGATE) for number, rate in enumerate(rates)]
    return Trace(tuple(joined), seconds * count, 10.0), Trace(tuple(counted), seconds * count)


@settings(max_examples=3)
@given(seed=hypothesis.integers(0, 1 << 30))
def test_the_model_settles_without_flapping_and_leaves_no_phase_behind(seed):
    for trace in abrupt(seed):
        done = simulate(trace, elastic(1, 72, st.ModelController(), "200 ms"), Machine(seed=seed))
        first, *later = done.phases()
        assert first.settled_after <= 5.0  # from one instance, and nothing known about costs
        for phase in later:
            assert phase.settled_after <= 2.0
            assert phase.reversals <= 1
            assert phase.latency <= 0.020
        assert done.backlog < 0.1 * sum(trace.moments[-1].rates)


@settings(max_examples=3)
@given(seed=hypothesis.integers(0, 1 << 30))
def test_one_change_too_many_per_phase_at_most_where_one_is_enough(seed):
    _, counted = abrupt(seed)
    done = simulate(counted, elastic(1, 72, st.ModelController(), "1 second"), Machine(seed=seed))
    for phase in done.phases()[1:]:
        assert phase.changes <= 2


@settings(max_examples=3)
@given(seed=hypothesis.integers(0, 1 << 30))
def test_thresholds_leave_no_phase_behind_either(seed):
    for trace in abrupt(seed):
        done = simulate(
            trace, elastic(1, 72, st.ThresholdController(cool_down="1 second"), "200 ms"), Machine(seed=seed)
        )
        assert done.backlog < 0.1 * sum(trace.moments[-1].rates)
        assert all(phase.reversals <= 1 for phase in done.phases())


@pytest.mark.parametrize("controller", [st.ThresholdController(cool_down="0 seconds"), st.ModelController()])
@pytest.mark.parametrize("rate", [300, 1000, 3333, 8000])
def test_a_steady_rate_is_left_alone(controller, rate):
    done = simulate(steady(rate, 40.0), elastic(1, 72, controller), Machine(noise=0.03))
    assert [one for one in done.changes if one.time > 15] == []


@pytest.mark.parametrize("controller", [st.ThresholdController(cool_down="0 seconds"), st.ModelController()])
def test_no_instance_is_removed_while_tuples_wait(controller):
    trace = Trace((Moment(0.0, (8000.0,), AGGREGATE), Moment(10.0, (300.0,), AGGREGATE)), 60.0)
    done = simulate(trace, elastic(1, 8, controller), Machine())
    waited = [point for point in done.points if point.load.backlog_seconds > 0.1]
    assert len(waited) > 10
    assert all(point.decision.parallelism >= point.decision.before for point in waited)
    assert done.points[-1].load.parallelism < 4


def test_a_burst_that_instances_cope_with_is_not_followed():
    rates = [(0.0, 1000.0), (20.0, 1250.0), (20.2, 1000.0)]
    trace = Trace(tuple(Moment(begin, (rate,), AGGREGATE) for begin, rate in rates), 30.0)
    done = simulate(trace, elastic(1, 72, st.ModelController(), "200 ms"), Machine())
    assert max(point.load.arrival_rate for point in done.points if point.load.time > 19) > 1200
    assert [one for one in done.changes if one.time > 15] == []


def test_the_model_corrects_what_costs_turn_out_to_be():
    dearer = Costs(tuple_ns=500_000, update_ns=4_500_000, updates_per_tuple=2)
    trace = Trace((Moment(0.0, (1000.0,), AGGREGATE), Moment(20.0, (1000.0,), dearer)), 60.0)
    done = simulate(trace, elastic(1, 72, st.ModelController()), Machine())
    assert done.backlog == 0
    assert done.points[15].load.parallelism in (4, 5)  # 3.5 busy
    assert done.points[-1].load.parallelism in (12, 13, 14)  # 9.5 busy


def test_the_model_says_what_it_expects():
    done = simulate(phases(1, 120.0), elastic(1, 72, st.ModelController()))
    assert "tuples/s need" in done.changes[-1].reason
    assert "ns per comparison" in done.changes[-1].reason


# --- learning


def measured(done, busy, stored=()):
    arrived = (done[0] // 2, done[0] // 2) if stored else (done[0],)
    return Load(0.0, 1.0, 1, 1, 1, arrived, Work(*done), (busy,), stored=stored)


def test_costs_are_learnt_where_they_can_be_told_apart():
    told = [(1000, 0, 100_000 * n, 100 * n * n) for n in range(1, 9)]
    loads = [measured(one, 1e-4 * one[0] + 1e-6 * one[2] + 1e-5 * one[3], (500, 500)) for one in told]
    costs = learn(loads)
    assert costs.tuple_ns == pytest.approx(100_000, rel=0.1)
    assert costs.comparison_ns == pytest.approx(1000, rel=0.1)
    assert costs.output_ns == pytest.approx(10_000, rel=0.1)


def test_costs_that_cannot_be_told_apart_sum_up():
    loads = [measured((1000, 5000, 0, 10), 0.5)] * 5
    costs = learn(loads)
    assert costs.of(loads[0].work) == pytest.approx(0.5)
    assert min(costs.nanoseconds) >= 0


def test_nothing_is_learnt_from_nothing():
    assert learn([measured((0, 0, 0, 0), 0.0)]) is None


# --- traces


def test_the_phases_of_the_paper():
    made = phases(seed=5)
    lengths = [later.seconds - one.seconds for one, later in zip(made.moments, made.moments[1:], strict=False)]
    assert made.seconds == 1200
    assert all(500 <= sum(moment.rates) <= 8000 for moment in made.moments)
    assert all(99 <= length <= 301 for length in lengths)
    assert phases(seed=5) == made != phases(seed=6)


@pytest.mark.parametrize("name", ["trace.json", "trace.csv"])
@pytest.mark.parametrize("window_seconds", [0.0, 60.0])
def test_traces_survive_files(name, window_seconds, tmp_path):
    made = phases(1, 600.0, window_seconds=window_seconds)
    made.write(tmp_path / name)
    assert Trace.read(tmp_path / name) == made


def test_a_table_of_rates_is_a_trace(tmp_path):
    (tmp_path / "rates.csv").write_text("seconds,rate\n0,100\n10,250\n30,0\n")
    assert Trace.read(tmp_path / "rates.csv") == Trace((Moment(0.0, (100.0,)), Moment(10.0, (250.0,))), 30.0)


def test_loads_that_were_recorded_make_a_trace():
    trace = phases(2, 150.0)
    loads = [point.load for point in simulate(trace, elastic(72, 72, Still()), Machine(seed=1)).points]
    recorded = Trace.of([Load.from_record(json.loads(json.dumps(load.to_record()))) for load in loads])
    assert recorded.seconds == pytest.approx(150)
    assert recorded.window_seconds == pytest.approx(60, rel=0.05)
    played, original = (simulate(one, elastic(1, 72, st.ModelController())) for one in (recorded, trace))
    assert played.points[-1].load.parallelism == pytest.approx(original.points[-1].load.parallelism, abs=2)
