"""Made data is seeded, sorted, and distributed as its fit says."""

import numpy as np
import pyarrow.compute as pc
import pytest

from stretch.bench import fit
from stretch.bench.fitted import PEAK_TRADES, make_fitted_tweets, make_trades, trades_per_second
from stretch.bench.prepared import as_crawled, tweets
from stretch.bench.samples import real_tweets

COUNT = 5_000


def test_tweets_are_seeded_and_sorted():
    table = make_fitted_tweets(COUNT, seed=3)
    assert table.equals(make_fitted_tweets(COUNT, seed=3))
    assert not table.equals(make_fitted_tweets(COUNT, seed=4))
    assert np.all(np.diff(table["ts"].to_numpy()) >= 0)
    assert table.num_rows == COUNT


def test_tweets_are_as_long_as_real_ones():
    lengths = pc.add(pc.count_substring(make_fitted_tweets(COUNT)["text"], " "), 1)
    assert pc.mean(lengths).as_py() == pytest.approx(16.83, abs=0.3)  # measured on the samples
    tagged = pc.mean(pc.match_substring(make_fitted_tweets(COUNT)["text"], "#")).as_py()
    assert tagged == pytest.approx(0.143, abs=0.02)


def test_trades_come_in_bursts_up_to_the_peak():
    trades = make_trades(seconds=2_000, seed=1)
    rates = np.bincount(trades["ts"].to_numpy() // 1_000)
    assert rates.max() == pytest.approx(PEAK_TRADES, rel=0.01)
    as_real = trades_per_second(20_000, seed=1, peak=None)
    assert fit.correlation(as_real, 1) == pytest.approx(0.27, abs=0.1)  # measured on the samples
    assert pc.min(trades["price"]).as_py() > 0
    assert len(pc.unique(trades["id"])) == 10


def test_the_page_of_the_fit(monkeypatch):
    monkeypatch.setattr(fit, "real_tweets", lambda: None)
    monkeypatch.setattr(fit, "real_trades", lambda: None)
    report = fit.run(fit.Size(tweets=500, seconds=400), lambda text: None)
    assert len(report.plots) == 5
    assert any("make rivals" in note for note in report.notes)


def test_samples_are_optional(tmp_path):
    assert real_tweets(tmp_path) is None


def test_raw_tweets_have_all_that_cleaning_is_for():
    made = make_fitted_tweets(COUNT)
    raw = as_crawled(made, 0)
    ids = raw["id"].to_numpy()
    assert len(ids) > COUNT
    assert np.any(np.diff(ids) < 0)
    assert len(np.unique(ids)) < len(ids)
    assert pc.any(pc.match_substring(raw["text"], "\n")).as_py()


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_prepared_tweets_are_those_that_were_made(tmp_path, monkeypatch):
    pytest.importorskip("pyspark")
    monkeypatch.setenv("STRETCH_CACHE_DIR", str(tmp_path))
    said = []
    table = tweets(COUNT, 7, said.append)
    made = make_fitted_tweets(COUNT, 7)
    assert table["ts"].to_pylist() == made["ts"].to_pylist()
    assert sorted(table["text"].to_pylist()) == sorted(made["text"].to_pylist())  # those of one time may change places
    assert tweets(COUNT, 7, said.append).equals(table)
    assert len(said) == 1  # the second time it is read from the cache
