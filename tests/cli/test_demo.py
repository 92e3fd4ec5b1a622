"""`stretch demo`: what it shows is computed, fits a plain terminal, and it says where its files are."""

import json
import re
import subprocess
import sys
from collections import Counter
from itertools import groupby

import duckdb
import pyarrow as pa
import pytest

import stretch as st
from stretch.cli import demo, tweets
from stretch.cli.text import WIDTH
from tests.harness.query import committed_files

SPEED = 5_400  # three hours in two seconds


def of_a_run(test):
    """Mark a test that needs a run of the demo."""
    for mark in (pytest.mark.slow, pytest.mark.timeout(700), pytest.mark.xdist_group("demo")):
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(folder):
    """What the demo prints, line by line; it runs in a process of its own, as Spark does for a user."""
    command = [sys.executable, "-m", "stretch.cli", "demo", "--out", str(folder), "--speed", str(SPEED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@of_a_run
def test_it_fits_a_plain_terminal(shown):
    plain = [line for line in shown if "/" not in line]  # paths are as long as they are
    assert max(map(len, plain)) <= WIDTH
    assert len(shown) <= 80
    assert not any(line != line.rstrip() or "\033" in line for line in shown)


@of_a_run
def test_the_threads_change_while_the_tweets_flow(shown):
    bars = [len(bar[1]) for line in shown if (bar := re.search(r"\d   (#+)$", line))]
    assert next(parallelism for parallelism, _ in groupby(bars)) == 1
    changes = [re.search(r"reconfigure\((\d)\): switched after [\d.]+ ms and [\d.]+ ms", line) for line in shown]
    assert [int(change[1]) for change in changes if change] == [4, 2]


@of_a_run
def test_all_results_are_the_same(shown):
    assert "  same results: yes" in shown


@of_a_run
def test_the_files_are_where_it_says(shown, folder):
    for name in ("hashtags", "pairs"):
        assert any(str(folder / name) in line for line in shown)
        assert committed_files(folder / name)
    assert (folder / "spark.log").stat().st_size > 0


@of_a_run
def test_pairs_are_those_that_duckdb_counts(shown, folder):
    latest = max(row[0] for row in tweets.tweets(0, demo.CROWD))
    counted = Counter()
    for timestamp, _, text in tweets.tweets(0, demo.CROWD):
        words = text.split()
        near = {(words[i], words[j]) for i in range(len(words)) for j in range(i + 1, min(len(words), i + 4))}
        for left in range(timestamp // demo.HOUR * demo.HOUR - demo.HOUR, timestamp + 1, demo.HOUR // 2):
            if left <= timestamp < left + demo.HOUR <= latest:
                counted.update((left + demo.HOUR, *pair) for pair in near)
    files = [str(path) for path in committed_files(folder / "pairs")]
    found = duckdb.sql(f"SELECT epoch_us(ts), first, second, tweets FROM read_parquet({files})").fetchall()
    assert Counter({tuple(row[:3]): row[3] for row in found}) == counted
    assert len(found) == len(counted)


# --- without Spark


def test_tables_show_the_first_rows_of_each_window():
    ends = pa.array([demo.START, demo.START, demo.START, demo.START, demo.START + demo.HOUR])
    columns = {"hashtag": list("abcde"), "longest": [5, 6, 7, 8, 9], "tweets": [5, 9, 7, 7, 1]}
    results = pa.table({"ts": ends.cast(pa.timestamp("us", tz="UTC")), **columns})
    assert demo._hashtag_table(results).splitlines()[2:] == [
        "08:00-09:00   #b             9         6",
        "              #c             7         7",
        "              #d             7         8",
        "09:00-10:00   #e             1         9",
    ]


class Query:
    """A query as the demo looks at it."""

    def __init__(self, row=0, problem=None):
        self.lastProgress = {"sources": [{"endOffset": json.dumps({"row": row, "rows": 9})}]} if row else None
        self.problem = problem

    def exception(self):
        return self.problem


def test_progress_is_that_of_the_slower_query():
    assert list(demo._progress({"a": Query(9), "b": Query(9)}, 9)) == [9]
    behind = demo._progress({"a": Query(9), "b": Query(4)}, 9)
    assert next(behind) == 4
    behind.close()


def test_a_query_that_fails_ends_the_demo():
    problem = RuntimeError("[PYTHON_EXCEPTION] ...\n  File x\nValueError: no luck today\n at org.apache.spark")
    with pytest.raises(st.StretchError) as error:
        next(demo._progress({"pairs": Query(problem=problem)}, 9))
    assert (error.value.what, error.value.why) == ("the query 'pairs' has failed", "ValueError: no luck today")


def test_a_demo_that_hangs_says_so():
    with pytest.raises(st.StretchError, match="nothing has happened for 0 seconds"):
        next(demo._progress({"pairs": Query()}, 9, patience=0))


# --- the tweets


@pytest.mark.parametrize("crowd", [1, 60])
def test_tweets_are_a_readable_sorted_morning(crowd):
    stream = tweets.tweets(3, crowd)
    assert stream == tweets.tweets(3, crowd)
    times = [timestamp for timestamp, _, _ in stream]
    assert times == sorted(times)
    assert tweets.START <= times[0] <= times[-1] < tweets.END
    by_hour = Counter((timestamp - tweets.START) // tweets.HOUR for timestamp in times)
    assert by_hour[1] > 2 * max(by_hour[0], by_hour[2])
    for _, user, text in stream[:500]:
        assert user
        assert 1 <= len(set(re.findall(r"#\w+", text))) == text.count("#") <= 3
