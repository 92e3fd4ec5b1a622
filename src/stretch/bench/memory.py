"""Figure 5: bytes per pending tuple, per window and per text; and that memory stays as it is as windows come and go.

Words are counted, 12 of them in a tweet. What a pending tuple takes is read off the arrays that it lies in; windows and
texts are what the job says they take, divided by how many there are, in the middle of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from stretch.bench.data import WORDS_PER_TWEET, make_tweets
from stretch.bench.report import Report, Say
from stretch.bench.rig import SCHEMA
from stretch.bench.streams import WINDOW, dealt
from stretch.bench.wordcount import wordcount
from stretch.runtime.compiled.memory import TableMemory
from stretch.runtime.setup import setup
from stretch.windows.layout import COUNT, DIRECTORY_WORDS, NO_TABLE, TAG

HELP = "bytes per pending tuple, window and text, and memory over many windows"

GROWTH_GOAL = 1.2


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    tweets: int
    seed: int = 0


FULL = Size(tweets=600_000)
QUICK = Size(tweets=300_000)


def run(size: Size, say: Say) -> Report:
    """Measure it."""
    report = Report("memory")
    say(f"making {size.tweets:,} tweets")
    table = make_tweets(size.tweets, size.seed).table
    span = int(table["ts"][-1].as_py()) + 1
    with setup(wordcount(), inputs=SCHEMA, engine="compiled") as job:
        engine: Any = job.engine
        memory: TableMemory = engine.memory
        states: list[int] = []
        texts: list[int] = []
        [batches] = dealt(table, 0, 1, max(1, size.tweets * WINDOW // (span * 4)))
        say(f"counting words over {span / WINDOW:.0f} windows")
        for batch in batches:
            job.add(batch)
            job.results()
            read = job.metrics()
            states.append(read.state_bytes)
            texts.append(read.dictionary_bytes)
        report.add("pending tuple", _bytes_per_tuple(memory), "bytes")
        report.add("window", states[-1] / _live_entries(memory), "bytes per key and pane")
        report.add("text", texts[-1] / memory.dictionary.live_count(), "bytes")
        for name, taken in (("state", states), ("texts", texts)):
            begun, middle = len(taken) // 10, len(taken) // 2
            report.add(
                f"{name}: most in the second half, relative to the first",
                max(taken[middle:]) / max(taken[begun:middle]),
                "x",
                at_most=GROWTH_GOAL,
            )
        report.add_run("memory", state_bytes=max(states), dictionary_bytes=max(texts), windows=span / WINDOW)
    return report


def _bytes_per_tuple(memory: TableMemory) -> float:
    """Return what an entry and its row take: the arrays of the log, by their widths."""
    view = memory.log.view
    total = float(view.times.itemsize + view.refs.itemsize)
    for column in memory.log.columns(0):
        if isinstance(column, np.ndarray):
            total += column.itemsize
        else:
            total += column.starts.itemsize + column.lengths.itemsize + WORDS_PER_TWEET * column.items.itemsize
    return total


def _live_entries(memory: TableMemory) -> int:
    """Return how many keys the live tables hold."""
    records = memory.tables.directory.reshape(-1, DIRECTORY_WORDS)
    return int(records[records[:, TAG] != NO_TABLE, COUNT].sum())
