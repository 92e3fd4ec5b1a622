"""The compiled engine gives the reference engine's table, row by row, on threads, however it is run.

What the reference engine proves step by step (definition, order, elasticity, windows) so holds for the compiled one.
Each shape of query is compiled once; windows, streams, batches, parallelism and changes are drawn.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.harness.definition import exact, multiset
from tests.harness.run import Execution, run
from tests.harness.scenarios import MORE_SHAPES, SHAPES, Scenario, cases, executions, shaped


@some.composite
def compiled(draw, shape):
    """Scenarios of a shape, without changes and with many."""
    case = draw(cases(shaped(shape), rows_max=16))
    return Scenario(case, draw(executions(case, 0, 6)))


@pytest.mark.timeout(600)  # compiling takes seconds, and far longer on a machine that has other work
@pytest.mark.parametrize("shape", [*SHAPES, *(pytest.param(shape, marks=pytest.mark.slow) for shape in MORE_SHAPES)])
@settings(max_examples=settings().max_examples // 2)
@given(data=some.data())
def test_its_table_is_that_of_the_reference_engine(shape, data):
    scenario = data.draw(compiled(shape))
    table = run(scenario, "compiled")
    assert multiset(table) == multiset(scenario.case.expected())
    assert exact(table) == exact(run(scenario, "reference", Execution()))
