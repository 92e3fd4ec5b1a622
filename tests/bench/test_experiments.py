"""Each experiment runs, at a tiny size and without Flink, and its checks hold."""

import numpy as np
import pytest

from stretch.bench import flink, pairs, q1, q2, q3, q6
from stretch.bench.data import make_tweets
from stretch.bench.results import Timed
from stretch.bench.streams import ADVANCE


def quiet(text):
    """Say nothing."""


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.setattr(flink, "missing", lambda: "Flink is left out of this test")
    for experiment in (q3, q6):
        monkeypatch.setattr(experiment, "GROUPS", 4)  # the reference engine looks at all of them, step by step


def value_of(report, name):
    (found,) = (figure.value for figure in report.figures if figure.name == name)
    return found


def test_q1():
    size = q1.Size(0, (4_000,), (0,), 1, (1, 2), 0.2, workloads=("wordcount",), warm_up=500)
    report = q1.run(size, quiet)
    assert value_of(report, "wordcount: counts of SN that differ from VSN's") == 0
    assert value_of(report, "wordcount: SN's copies, parallelism 1") == 1
    assert 1 < value_of(report, "wordcount: SN's copies, parallelism 2") <= 2
    assert {run["load"] for run in report.runs} == {"full speed", "70% load"}
    assert "Flink is left out of this test" in report.notes


def test_q2():
    report = q2.run(q2.Size(4_000, 0, 1, (1, 3), 0.2), quiet)
    assert value_of(report, "parallelism 3: input rate") > 0
    assert not any("lost" in note for note in report.notes)


def test_q3(monkeypatch):
    monkeypatch.setattr(pairs, "HIGHEST", 100)  # then a pair in thirty matches
    report = q3.run(q3.Size((100,), 10_000, 1, (1, 2), 0.2), quiet, engine="reference")
    assert value_of(report, "window of 100 tuples per side: runs whose pairs differ from 1T's") == 0
    assert any(plot.curves for plot in report.plots if "latency" in plot.title)


def test_q3_knows_wrong_pairs(monkeypatch):
    monkeypatch.setattr(pairs, "HIGHEST", 100)
    monkeypatch.setattr(q3, "near", lambda l, r: abs(l.x - r.a) <= 10)
    report = q3.run(q3.Size((100,), 10_000, 1, (1,), 0.2), quiet, engine="reference")
    assert value_of(report, "window of 100 tuples per side: runs whose pairs differ from 1T's") > 0


def test_one_thread_joins_as_defined(monkeypatch):
    monkeypatch.setattr(pairs, "HIGHEST", 60)
    streams, window = pairs.Streams(400, seed=1), 50
    found = streams.join_alone(200, 400, window)
    matches = total = 0
    for later in range(200, 400):
        for earlier in range(1 - later % 2, later, 2):
            is_live = streams.times[earlier] > streams.times[later] - window
            near = abs(streams.firsts[later] - streams.firsts[earlier]) <= 10
            if is_live and near and abs(streams.seconds[later] - streams.seconds[earlier]) <= 10:
                matches += 1
                total += int(streams.firsts[later]) + int(streams.firsts[earlier])
    assert matches > 100
    assert (found.matches, found.total) == (matches, total)


def test_q6():
    report = q6.run(q6.Size(seconds=1, max_parallelism=1, peak=40), quiet, engine="reference")
    assert value_of(report, "busiest second") > 0
    assert report.plots[0].title == "Input rate"


def test_comparisons_of_trades():
    times = np.array([0, 0, 500, 29_999, 30_000, 31_000])
    # Each trade meets those of the 30 seconds before it, on both inputs.
    assert q6.compared(times, 32).sum() == 2 * (0 + 1 + 2 + 3 + 2 + 2)


def test_latency_counts_from_when_a_tweet_was_due():
    table = make_tweets(3_100).table  # 124 seconds: windows end at one and two minutes
    results = Timed(table, 0, rate=1_000.0, begun=0.0)
    completing = int(np.searchsorted(table["ts"].to_numpy(), ADVANCE))
    results._windows = [(ADVANCE, 3, completing / 1_000 + 0.5), (2 * ADVANCE, 1, 99.0)]
    assert results.latencies_ms(tweets=completing + 1) == (pytest.approx(500), pytest.approx(500))


def test_no_latency_without_a_window_that_ended():
    results = Timed(make_tweets(100).table, 0, rate=1_000.0, begun=0.0)
    assert results.latencies_ms(tweets=100) == (None, None)
    results._windows = [(ADVANCE, 3, 1.0)]  # the end completed it
    assert results.latencies_ms(tweets=100) == (None, None)
