"""Tweets and trades that are made up, seeded, and distributed as real ones.

The paper's own data, 4.3 million tweets of two days and six hours of trades, are not public. What stands here as
numbers was measured on the samples that `samples` reads; `stretch bench fit` shows both side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from stretch.bench.data import USERS, make_words, tweet_times

TWEETS = 4_300_000  # as in the paper


@dataclass(frozen=True)
class TweetFit:
    """How tweets are distributed."""

    word_counts: tuple[float, ...]  # per mille of tweets with 1, 2, ... words
    hashtag_counts: tuple[float, ...]  # per mille with 0, 1, ... hashtags
    shift: float  # the word of rank r is drawn in proportion to 1 / (r + shift) ** exponent
    exponent: float
    vocabulary: int
    hashtags: int  # different ones


@dataclass(frozen=True)
class TradeFit:
    """How trades come: the logarithm of one plus their number per second is a sum of a slow and a fast part, and noise.

    Each part is a first-order autoregressive process: its share of the variance, and its correlation from one second
    to the next.
    """

    mean: float
    deviation: float
    slow: tuple[float, float]
    fast: tuple[float, float]
    burst: float  # trades in the same millisecond, on average


REAL_TWEETS = TweetFit(
    word_counts=(
        *(0.6, 21.2, 30.7, 19.4, 21.0, 17.5, 17.5, 20.4, 23.1, 25.9, 29.1, 31.5, 36.2, 37.5, 44.6, 48.6, 56.5, 57.7),
        *(59.8, 60.0, 57.2, 59.6, 57.4, 53.2, 43.4, 30.9, 18.4, 8.8, 3.8, 1.8),
    ),
    hashtag_counts=(857, 101, 35, 6, 1),
    shift=3.0,
    exponent=1.04,
    vocabulary=200_000,
    hashtags=20_000,
)
REAL_TRADES = TradeFit(mean=1.48, deviation=1.53, slow=(0.16, 0.9985), fast=(0.2, 0.7), burst=5.9)

PEAK_TRADES = 8_000  # per second: the highest rate in the paper
COMPANIES = 10
_TICK_SECONDS = 21_600  # six hours


def make_fitted_tweets(count: int, seed: int = 0, fit: TweetFit = REAL_TWEETS) -> pa.Table:
    """Make tweets from time 0 on, 25 per second: `ts long, user string, text string`."""
    random = np.random.default_rng(seed)
    lengths = _pick(random, fit.word_counts, count) + 1
    tags = np.minimum(_pick(random, fit.hashtag_counts, count), lengths)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    ids = _draw(random, fit.vocabulary, fit.shift, fit.exponent, int(offsets[-1]))
    # The last words of a tweet are its hashtags.
    row = np.repeat(np.arange(count), lengths)
    is_tag = offsets[row + 1] - np.arange(len(ids)) <= tags[row]
    ids[is_tag] = fit.vocabulary + ids[is_tag] % fit.hashtags
    plain = make_words(random, fit.vocabulary)
    words = pa.concat_arrays([plain, pc.binary_join_element_wise("#", plain.slice(0, fit.hashtags), "")])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), words.take(pa.array(ids)))
    text = pc.binary_join(lists, " ")
    users = pc.binary_join_element_wise("user", pa.array(range(USERS)).cast(pa.string()), "")
    names = users.take(pa.array(random.integers(0, USERS, count)))
    return pa.table({"ts": pa.array(tweet_times(random, count)), "user": names, "text": text})


def make_trades(
    seconds: int = _TICK_SECONDS, seed: int = 0, *, peak: int | None = PEAK_TRADES, fit: TradeFit = REAL_TRADES
) -> pa.Table:
    """Make trades of ten companies: `ts long, id string, price int, average int`.

    The busiest second has `peak` of them; None for as many as real ones have.
    """
    random = np.random.default_rng(seed)
    rates = trades_per_second(seconds, seed, peak=peak, fit=fit)
    second = np.repeat(np.arange(seconds), rates)
    bursts = np.maximum(1, (rates / fit.burst).astype(np.int64))
    within = random.random(seconds * 2)  # where the bursts of a second begin
    place = (random.random(len(second)) * bursts[second]).astype(np.int64)
    millisecond = ((within[second] + place * 0.618034) % 1.0 * 1_000).astype(np.int64)
    times = np.sort(second * 1_000 + millisecond)
    company = np.minimum((random.random(len(times)) ** 2 * COMPANIES).astype(np.int64), COMPANIES - 1)
    averages = (5_000 + 3_000 * np.arange(COMPANIES)).astype(np.int32)  # in cents
    noise = np.cumsum(random.normal(0, 0.00005, len(times)))  # the market moves all of them
    own = random.normal(0, 0.01, len(times))
    prices = (averages[company] * (1 + noise + own)).astype(np.int32)
    ids = pa.array([f"C{number}" for number in range(COMPANIES)]).take(pa.array(company))
    return pa.table({"ts": times, "id": ids, "price": prices, "average": averages[company]})


def trades_per_second(
    seconds: int, seed: int = 0, *, peak: int | None = PEAK_TRADES, fit: TradeFit = REAL_TRADES
) -> npt.NDArray[np.int64]:
    """Return how many trades there are in each second."""
    random = np.random.default_rng(seed)
    noise = random.normal(0, np.sqrt(1 - fit.slow[0] - fit.fast[0]), seconds)
    logarithm = noise + _wander(random, *fit.slow, seconds) + _wander(random, *fit.fast, seconds)
    rates = np.expm1(np.maximum(0, fit.mean + fit.deviation * logarithm))
    scaled: npt.NDArray[np.int64] = np.rint(rates * ((peak or rates.max()) / rates.max())).astype(np.int64)
    return scaled


def _wander(random: np.random.Generator, share: float, correlation: float, seconds: int) -> npt.NDArray[np.float64]:
    """Return an autoregressive process with a variance of `share`."""
    shocks = random.normal(0, np.sqrt(share * (1 - correlation**2)), seconds)
    values, level = np.empty(seconds), random.normal(0, np.sqrt(share))
    for number, shock in enumerate(shocks):
        level = correlation * level + shock
        values[number] = level
    return values


def _pick(random: np.random.Generator, shares: tuple[float, ...], count: int) -> npt.NDArray[np.int64]:
    """Pick indices in proportion to shares."""
    cumulated = np.cumsum(shares)
    picked: npt.NDArray[np.int64] = np.searchsorted(cumulated, random.random(count) * cumulated[-1], side="right")
    return picked


def _draw(
    random: np.random.Generator, vocabulary: int, shift: float, exponent: float, count: int
) -> npt.NDArray[np.int64]:
    cumulated = np.cumsum((np.arange(1, vocabulary + 1) + shift) ** -exponent)
    ranks: npt.NDArray[np.int64] = np.searchsorted(cumulated, random.random(count) * cumulated[-1], side="right")
    return np.minimum(ranks, vocabulary - 1)
