"""The output does not depend on how a job is run: not its rows, and not their order, ties included."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.harness.definition import exact
from tests.harness.run import INTERPRETED, Execution, interleave, replay, run
from tests.harness.scenarios import Change, scenarios


def plain(scenario):
    """Return the scenario run by one instance, row by row, without changes."""
    return replace(scenario, execution=Execution())


@pytest.mark.parametrize("engine", INTERPRETED)
@given(scenario=scenarios())
def test_the_output_table_is_the_same_for_any_two_executions(engine, scenario):
    """Parallelism, batches, heartbeats, order of calls, closed sources and reconfigurations all differ."""
    assert exact(run(scenario, engine)) == exact(run(scenario, engine, scenario.other))


@given(scenario=scenarios())
def test_the_output_table_is_the_same_for_any_interleaving(scenario):
    assert exact(interleave(scenario).rows) == exact(run(plain(scenario), "reference"))


@given(scenario=scenarios(), parallelism=some.integers(2, 6))
def test_the_output_table_is_the_same_for_any_parallelism(scenario, parallelism):
    alone = plain(scenario)
    together = replace(alone.execution, parallelism=parallelism, pool=parallelism)
    assert exact(interleave(alone, together).rows) == exact(interleave(alone).rows)


@given(scenario=scenarios(), seed=some.integers(0, 2**32 - 1))
def test_the_output_table_is_the_same_for_any_schedule(scenario, seed):
    again = replace(scenario.execution, seed=seed)
    assert exact(interleave(scenario, again).rows) == exact(interleave(scenario).rows)


@given(scenario=scenarios())
def test_the_output_table_is_the_same_with_and_without_reconfigurations(scenario):
    without = replace(scenario.execution, changes=())
    assert exact(interleave(scenario, without).rows) == exact(interleave(scenario).rows)


@given(scenario=scenarios())
def test_the_output_table_is_the_same_for_any_batches_and_heartbeats(scenario):
    row_by_row = replace(scenario.execution, steps=())
    assert exact(run(scenario, "reference", row_by_row)) == exact(run(scenario, "reference"))


@given(scenario=scenarios())
def test_the_same_seed_replays_the_same_interleaving(scenario):
    """Not only the rows: every step of every instance."""
    first, second = interleave(scenario), interleave(scenario)
    assert str(first.trace.processed) == str(second.trace.processed)
    assert first.trace.memberships == second.trace.memberships
    assert exact(first.rows) == exact(second.rows)


@given(scenario=scenarios())
def test_the_line_that_a_failure_prints_runs_the_scenario_again(scenario):
    line = replay(scenario)
    expression = line.split("; print(", 1)[1].removesuffix('.rows)"')
    names: dict = {}
    exec("from tests.harness.run import *", names)
    assert exact(eval(expression, names).rows) == exact(interleave(scenario).rows)


def test_different_seeds_do_give_different_interleavings():
    """Else the tests above would compare a run with itself."""
    from tests.harness.run import Case, Computed, Cut, Scenario

    rows = tuple((timestamp, None, None, None, timestamp, None) for timestamp in range(6))
    case = Case(Computed(Cut(4, 2), "neighbours", "count"), (rows,), (0,))
    execution = Execution(parallelism=3, pool=4, changes=(Change((0, 3)),))
    runs = [interleave(Scenario(case, replace(execution, seed=seed))) for seed in range(5)]
    assert len({str(each.trace.processed) for each in runs}) == 5
    assert len({str(exact(each.rows)) for each in runs}) == 1
