"""The data of the evaluation: made tweets and trades beside the real ones that they are fitted to.

The paper's 4.3 million tweets and its six hours of trades are not public. Tweets here are fitted to 27,205 tweets of
2009 to 2017, trades to the busiest six hours of 500,000 trades of 2013: the lengths of tweets, how many hashtags they
have, how often words occur, and how trades come in bursts. Texts, users and prices are made up.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from stretch.bench.fitted import make_fitted_tweets, make_trades
from stretch.bench.report import Plot, Report, Say
from stretch.bench.samples import real_trades, real_tweets

HELP = "the data of the evaluation: generated tweets and trades beside the real ones that they are fitted to"

_HASHTAG = re.compile(r"#\w+", re.ASCII)
_LAGS = (1, 2, 5, 10, 30, 60, 300)
_QUANTILES = (50, 75, 90, 95, 99, 99.9)
_HOURS_SIX = 21_600


@dataclass(frozen=True)
class Size:
    """How much is made."""

    tweets: int = 27_205
    seconds: int = _HOURS_SIX
    seed: int = 0


FULL = Size()
QUICK = Size()

Curve = dict[float, list[float]]


def run(size: Size, say: Say) -> Report:
    """Make data and compare it with samples, where there are any."""
    report = Report("fit")
    say(f"making {size.tweets:,} tweets and {size.seconds:,} seconds of trades")
    tweets = {"made": make_fitted_tweets(size.tweets, size.seed)["text"].to_pylist()}
    trades = {"made": np.asarray(make_trades(size.seconds, size.seed, peak=None)["ts"].to_numpy())}
    texts, times = real_tweets(), real_trades()
    if texts is None or times is None:
        report.notes.append("No samples of real data are installed, so only what was made is shown: make rivals")
    if texts is not None:
        tweets["real"] = texts
    if times is not None:
        trades["real"] = times
    _report_tweets(report, tweets)
    _report_trades(report, {name: busiest(_per_second(some)) for name, some in trades.items()}, trades)
    return report


def _report_tweets(report: Report, tweets: dict[str, list[str]]) -> None:
    lengths = {name: shares([len(text.split()) for text in texts]) for name, texts in tweets.items()}
    report.plots.append(Plot("Words per tweet", "words", "share", lengths))
    tags = {name: shares([len(_HASHTAG.findall(text)) for text in texts]) for name, texts in tweets.items()}
    report.plots.append(Plot("Hashtags per tweet", "hashtags", "share", tags, is_logarithmic=True))
    ranks = {name: frequencies(texts) for name, texts in tweets.items()}
    report.plots.append(
        Plot("Frequency of words", "rank", "share", ranks, is_logarithmic=True, is_logarithmic_across=True)
    )
    for name, texts in tweets.items():
        report.add(f"words per tweet, {name}", float(np.mean([len(text.split()) for text in texts])), "words")
        tagged = sum(_HASHTAG.search(text) is not None for text in texts)
        report.add(f"tweets with a hashtag, {name}", 100 * tagged / len(texts), "%")
        report.add(f"share of the most frequent word, {name}", 100 * ranks[name][1][0], "%")


def _report_trades(
    report: Report, rates: dict[str, npt.NDArray[np.int64]], times: dict[str, npt.NDArray[np.int64]]
) -> None:
    relative = {
        name: {quantile: [float(np.percentile(some, quantile)) / some.mean()] for quantile in _QUANTILES}
        for name, some in rates.items()
    }
    report.plots.append(Plot("Trades per second, relative to their mean", "percentile", "x", relative))
    correlated = {name: {lag: [correlation(some, lag)] for lag in _LAGS} for name, some in rates.items()}
    report.plots.append(
        Plot("Correlation of log(1 + trades per second)", "seconds apart", "", correlated, is_logarithmic_across=True)
    )
    for name, some in times.items():
        report.add(f"trades in the same millisecond, {name}", len(some) / len(np.unique(some)), "trades")
        report.add(f"busiest second, relative to the mean, {name}", rates[name].max() / rates[name].mean(), "x")


def shares(counts: list[int]) -> Curve:
    """Return how often each number occurs, relative to all."""
    return {float(number): [times / len(counts)] for number, times in sorted(Counter(counts).items())}


def frequencies(texts: list[str]) -> Curve:
    """Return how often the words of some ranks occur, relative to all words."""
    counted = np.array(sorted(Counter(chain.from_iterable(text.lower().split() for text in texts)).values()))[::-1]
    ranks = np.unique(np.geomspace(1, len(counted), 40).astype(int))
    return {int(rank): [float(counted[rank - 1] / counted.sum())] for rank in ranks}


def busiest(rates: npt.NDArray[np.int64], seconds: int = _HOURS_SIX) -> npt.NDArray[np.int64]:
    """Return the stretch of so many seconds with the most trades."""
    if len(rates) <= seconds:
        return rates
    until = np.concatenate(([0], np.cumsum(rates)))
    start = int(np.argmax(until[seconds:] - until[:-seconds]))
    return rates[start : start + seconds]


def correlation(rates: npt.NDArray[np.int64], lag: int) -> float:
    """Return the autocorrelation of the logarithm of one plus the rate."""
    logarithm = np.log1p(rates)
    logarithm = logarithm - logarithm.mean()
    return float((logarithm[lag:] * logarithm[:-lag]).mean() / logarithm.var())


def _per_second(times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    counted: npt.NDArray[np.int64] = np.bincount(times // 1_000 - times[0] // 1_000)
    return counted
