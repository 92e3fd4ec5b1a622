"""Exactly once in spite of kill -9: a short run of `tests.spark.kills`, and a query that it has to find wrong."""

import pytest

from tests.harness import query
from tests.spark import kills

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("kills")]


def test_nothing_is_lost_and_nothing_comes_twice(tmp_path):
    outcome = kills.run(tmp_path, kills=4, seed=1)
    assert outcome.is_exactly_once, outcome
    assert outcome.kills.total() == 4
    assert outcome.rows > 0


def test_a_query_whose_state_dies_with_its_worker_is_found_out(tmp_path):
    outcome = kills.run(tmp_path, kills=2, seed=0, settings=query.Settings(is_broken=True))
    assert outcome.lost
