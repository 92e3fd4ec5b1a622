"""The compiled shared-nothing baseline gives the results of the shared engine, and copies what its keys ask for."""

import pytest

import stretch as st
from stretch.bench.data import make_tweets
from stretch.bench.q1 import DISTANCES, operator_of
from stretch.bench.results import Kept
from stretch.bench.rig import SCHEMA
from stretch.bench.shared_nothing import SharedNothing
from stretch.bench.streams import dealt
from stretch.schema import parse_schema

TWEETS = 5_000


@pytest.mark.parametrize("workload", ["wordcount", pytest.param("paircount L", marks=pytest.mark.slow)])
def test_results_are_those_of_the_shared_engine(workload):
    table = make_tweets(TWEETS, vocabulary=300).table
    with st.setup(operator_of(workload), inputs=SCHEMA, engine="compiled") as job:
        job.add(table)
        expected = job.finish()
    shared = Kept()
    shared(expected)
    with SharedNothing(operator_of(workload), parse_schema(SCHEMA), 3, DISTANCES[workload]) as engine:
        for _ in range(2):  # it stays warm
            kept, start = Kept(), engine.start
            play = engine.play(dealt(table, start, 1, 512)[0], kept)
            assert play.tweets == TWEETS
            assert kept.digest(start) == shared.digest(0)
        assert engine.router.tuples < engine.router.sent <= 3 * engine.router.tuples
        assert engine.router.bytes_sent > 0
