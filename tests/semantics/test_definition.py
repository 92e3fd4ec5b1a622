"""Every engine gives what the definition says (Paper: Definition "correctness", Theorem "generalizationworks")."""

import pytest
from hypothesis import given

from tests.harness.definition import Cut, Tuple, exact, multiset, results
from tests.harness.run import INTERPRETED, interleave, run
from tests.harness.scenarios import scenarios


@pytest.mark.parametrize("engine", INTERPRETED)
@given(scenario=scenarios())
def test_results_equal_the_definition(engine, scenario):
    assert multiset(run(scenario, engine)) == multiset(scenario.case.expected())


@given(scenario=scenarios())
def test_results_equal_the_definition_in_every_interleaving(scenario):
    assert multiset(interleave(scenario).rows) == multiset(scenario.case.expected())


@given(scenario=scenarios())
def test_shared_nothing_and_virtual_shared_nothing_give_the_same_table(scenario):
    tables = [exact(run(scenario, engine)) for engine in INTERPRETED]
    assert all(table == tables[0] for table in tables)


def test_the_definition_itself_on_a_case_done_by_hand():
    """Windows of 4 every 2; keys a, b. At 3: windows [0, 4) and [2, 6). At -1: [-4, 0) and [-2, 2)."""
    tuples = [Tuple(3, 0, 0, 0, "a"), Tuple(-1, 0, 1, 0, "ab"), Tuple(4, 0, 2, 0, "b")]
    rows = results(
        tuples,
        Cut(size=4, advance=2),
        keys=lambda t: t.row,
        on_output=lambda key, group: [(key, [t.timestamp for t in group])],
    )
    by_hand = [
        *[(0, "a", [-1]), (2, "a", [-1]), (4, "a", [3]), (6, "a", [3])],
        *[(0, "b", [-1]), (2, "b", [-1]), (6, "b", [4]), (8, "b", [4])],
    ]
    assert multiset(rows) == multiset(by_hand)


def test_the_definition_of_updates_on_a_case_done_by_hand():
    """A tuple at 3 meets the one at 1 in [0, 4) only; with single instances it meets others in its earliest window."""
    tuples = [Tuple(timestamp, 0, timestamp, 0, None) for timestamp in (1, 3, 5)]

    def meetings(kind):
        return results(
            tuples,
            Cut(4, 2, kind),
            keys=lambda t: ["all"],
            on_update=lambda key, earlier, t: [(e.timestamp, t.timestamp) for e in earlier],
        )

    assert multiset(meetings("multi")) == multiset([(4, 1, 3), (6, 3, 5)])
    assert multiset(meetings("single")) == multiset([(4, 1, 3), (6, 3, 5)])


def test_the_definition_joins_a_pair_once_per_shared_window_or_once():
    tuples = [Tuple(2, 0, 0, 0, "left"), Tuple(3, 1, 0, 1, "right")]

    def meetings(kind):
        return results(
            tuples, Cut(4, 2, kind), lambda t: ["all"], on_update=lambda key, earlier, t: [(e.row,) for e in earlier]
        )

    assert multiset(meetings("multi")) == multiset([(4, "left"), (6, "left")])
    assert multiset(meetings("single")) == multiset([(4, "left")])
