"""The limit program finds the pairs that the paper's 1T finds: it measures the same work."""

import pytest

from stretch.bench.loops import LimitProgram, compiler
from stretch.bench.pairs import Streams


@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler on this machine")
def test_it_finds_all_pairs():
    streams, window = Streams(40_000, 1), 5_000
    limit = LimitProgram(compiler())
    for start, stop in ((0, 6_000), (6_000, 20_000)):
        found = limit.run(streams, window, start, stop)
        assert found.pairs == streams.join_alone(2 * start, 2 * stop, window).matches > 50
