"""Figure 2: pairs of words counted in sliding windows, relative to Polars' word count on the same tweets.

L, M and H are the paper's: pairs up to 3 or 10 words apart, or all. A pair counts once per tweet. There are 45 to 118
result rows per tweet: they are all produced and read, added up, and let go. The sums have to be those of a count past
all tokenising, from the numbers of the words; on a sample all rows have to be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.bench.data import WORDS_PER_TWEET, Tweets, make_tweets
from stretch.bench.digest import Digest, digest
from stretch.bench.report import Chart, Report, Say
from stretch.bench.results import Kept, Summed
from stretch.bench.rig import Rig
from stretch.bench.rivals import Rivals, rival_contestants
from stretch.bench.streams import ADVANCE, WINDOW, dealt
from stretch.bench.turns import Run, fastest, rate, ratio, take_turns
from stretch.operator.aggregate import Aggregate, count
from stretch.operator.keys import pairs
from stretch.runtime.reference import EngineName
from stretch.windows.spec import sliding

HELP = "pairs of words in sliding windows: tweets per second relative to Polars' word count"

DISTANCES = {"L": 3, "M": 10, "H": None}
GOALS = {"L": 0.50, "M": 0.27, "H": 0.25}
WINDOWS_PER_TWEET = WINDOW // ADVANCE


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    tweets: int
    repetitions: int
    sample: int = 4_000  # tweets whose results are compared row by row
    parallelisms: tuple[int, ...] = (1, 2, 4)  # of these the fastest counts
    warm_up: int = 5_000
    seed: int = 0


FULL = Size(tweets=500_000, repetitions=5)
QUICK = Size(tweets=60_000, repetitions=3)


def run(size: Size, say: Say, engine: EngineName = "compiled") -> Report:
    """Measure it."""
    report = Report("paircount")
    with Rivals(size.tweets, size.seed) as rivals:
        say(f"making {size.tweets:,} tweets")
        tweets = make_tweets(size.tweets, size.seed)
        polars = {name: ask for name, ask in rival_contestants(rivals, False).items() if name.startswith("Polars")}
        rates: dict[str, list[float]] = {}
        for level, distance in DISTANCES.items():
            say(f"{level}: compiling")
            with Rig(paircount(distance), sources=1, max_parallelism=max(size.parallelisms), engine=engine) as rig:
                rig.warm_up(tweets.table.slice(0, size.warm_up), size.parallelisms)
                is_equal = _check_sample(rig, tweets, size.sample, distance)
                runs = take_turns(polars | _contestants(rig, level, size, tweets.table), size.repetitions, report, say)
            best, rival = fastest(runs, "stretch"), fastest(runs, "Polars")
            report.add(
                f"{level}: ratio to Polars' word count", ratio(runs[best], runs[rival]), "x", at_least=GOALS[level]
            )
            report.add(best, rate(runs[best]), "tweets/s")
            report.add(f"{level}: results", runs[best][0].digest.rows / size.tweets, "rows per tweet")
            total = len(distinct_pairs(tweets, size.tweets, distance)[0]) * WINDOWS_PER_TWEET
            ours = [run for name, several in runs.items() if name.startswith("stretch") for run in several]
            wrong = sum(run.digest.total != total for run in ours) + (not is_equal)
            report.add(f"{level}: runs whose counts are wrong", wrong, "runs", at_most=0)
            rates |= {name: [run.rate for run in several] for name, several in runs.items()}
    report.charts.append(Chart("Pair count, and Polars' word count", "tweets/s", rates, is_logarithmic=True))
    return report


def paircount(distance: int | None) -> Aggregate:
    """Count pairs with the ready-made aggregate."""
    return Aggregate(window=sliding(WINDOW, ADVANCE), keys=pairs("text", distance), count=count(), name="paircount")


def _contestants(rig: Rig, level: str, size: Size, table: pa.Table) -> dict[str, Callable[[], Run]]:
    return {
        f"stretch {level}, parallelism {parallelism}": partial(_play, rig, parallelism, table)
        for parallelism in size.parallelisms
    }


def _play(rig: Rig, parallelism: int, table: pa.Table) -> Run:
    rig.resize(parallelism)
    results = Summed()
    play = rig.play(dealt(table, rig.start, 1), results)
    return Run(*play, Digest(results.rows, results.total, 0))


# --- The second opinion


def _check_sample(rig: Rig, tweets: Tweets, sample: int, distance: int | None) -> bool:
    results, start = Kept(), rig.start
    rig.play(dealt(tweets.table.slice(0, sample), start, 1), results)
    return results.digest(start) == expected(tweets, sample, distance)


def expected(tweets: Tweets, sample: int, distance: int | None) -> Digest:
    """Digest the pair counts of the first tweets."""
    rows, codes = distinct_pairs(tweets, sample, distance)
    panes = np.asarray(tweets.table["ts"].to_numpy())[rows] // ADVANCE
    vocabulary = len(tweets.vocabulary)
    found, counts = np.unique(
        np.concatenate([(panes + shift) * vocabulary**2 + codes for shift in range(1, WINDOWS_PER_TWEET + 1)]),
        return_counts=True,
    )
    rights, found = np.divmod(found, vocabulary**2)
    first, second = np.divmod(found, vocabulary)
    keys = [pa.DictionaryArray.from_arrays(pa.array(each), tweets.vocabulary) for each in (first, second)]
    return digest(rights * ADVANCE, keys, counts)


def distinct_pairs(
    tweets: Tweets, sample: int, distance: int | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the pairs of each of the first tweets, each once: the number of the tweet, and a code of the pair."""
    reach = distance or WORDS_PER_TWEET
    ids = tweets.ids[:sample].astype(np.int64)
    codes = np.concatenate(
        [
            ids[:, : -k or None] * len(tweets.vocabulary) + ids[:, k:]
            for k in range(1, min(reach, WORDS_PER_TWEET - 1) + 1)
        ],
        axis=1,
    )
    codes.sort(axis=1)
    is_first = np.diff(codes, axis=1, prepend=-1) != 0
    rows = np.nonzero(is_first)[0]
    return rows, codes[is_first]
