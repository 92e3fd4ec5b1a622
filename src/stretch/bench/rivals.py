"""Word counts by Polars and DuckDB, in a process of their own: their threads are not ours to count.

They hold the tweets in memory and get two threads each. They are asked in every form that users write (see `FORMS`)
and the faster one counts. Requests and answers are lines of JSON; this module is both ends of the pipe.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from stretch.bench.data import make_tweets
from stretch.bench.digest import Digest, digest
from stretch.bench.report import optional
from stretch.bench.turns import Run
from stretch.errors import StretchError

NAMES = {"polars": "Polars", "duckdb": "DuckDB"}
FORMS = ("rows", "panes")
"""Put each row into its windows and group by window and word, or count by pane first and add up panes."""

THREADS = 2
ADVANCE = 60_000  # windows of two advances, as in `st.paper.wordcount`


@dataclass(frozen=True)
class Task:
    """Who counts how: words once per tweet, or every occurrence."""

    rival: str
    form: str
    occurrences: bool = False


class Rivals:
    """The rivals' process, with the same tweets as ours; use it in a `with` statement."""

    def __init__(self, tweets: int, seed: int) -> None:
        self._tweets = tweets
        optional("polars")
        optional("duckdb")
        environment = os.environ | {"POLARS_MAX_THREADS": str(THREADS)}  # read once, when Polars is imported
        command = [sys.executable, "-m", "stretch.bench.rivals", str(tweets), str(seed)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, task: Task) -> Run:
        """Let one rival count once, and wait for it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(vars(task)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # The missing answer says so.
        answer = self._process.stdout.readline()
        if not answer:
            raise StretchError(
                f"{task.rival} did not finish",
                why=f"the rivals' process ended with status {self._process.wait()}; its own error is above",
                do="check the versions of polars and duckdb, and that there is enough memory",
            )
        seconds, cpu_seconds, *found = json.loads(answer)
        return Run(self._tweets, seconds, cpu_seconds, Digest(*found))

    def __enter__(self) -> Rivals:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def rival_contestants(rivals: Rivals, occurrences: bool) -> dict[str, Callable[[], Run]]:
    """Return everyone, in every form."""
    return {
        f"{title}, {form}": partial(rivals.run, Task(name, form, occurrences))
        for name, title in NAMES.items()
        for form in FORMS
    }


# --- In the rivals' process


def serve(tweets: int, seed: int) -> None:
    """Count as asked, line by line, until there are no more."""
    table = make_tweets(tweets, seed).table.select(["ts", "text"])
    counters = {"polars": _prepare_polars(table), "duckdb": _prepare_duckdb(table)}
    for line in sys.stdin:
        task = Task(**json.loads(line))
        begun, begun_cpu = time.perf_counter(), time.process_time()
        result = counters[task.rival](task.form, task.occurrences)
        seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - begun_cpu
        sys.stdout.write(json.dumps([seconds, cpu_seconds, *_digest(result)]) + "\n")
        sys.stdout.flush()


def _digest(result: Any) -> Digest:
    """Digest a result with the columns pane, word and tweets, where a pane is that before the right boundary."""
    table = result if isinstance(result, pa.Table) else result.to_arrow()
    rights = (table["pane"].to_numpy() + 1) * ADVANCE
    words = table["word"].cast(pa.string()).dictionary_encode().combine_chunks()
    return digest(rights, [words], table["tweets"].to_numpy().astype(np.int64))


def _prepare_polars(table: pa.Table) -> Callable[[str, bool], Any]:
    pl = optional("polars")
    frame = pl.from_arrow(table)

    def count(form: str, occurrences: bool) -> Any:
        words, pane = pl.col("text").str.split(" "), pl.col("ts") // ADVANCE
        words = words if occurrences else words.list.unique()
        if form == "rows":
            rows = frame.lazy().select(word=words, pane=pl.concat_list(pane, pane + 1)).explode("word").explode("pane")
            return rows.group_by("pane", "word").agg(tweets=pl.len()).collect()
        rows = frame.lazy().select(word=words, pane=pane).explode("word")
        panes = rows.group_by("pane", "word").agg(tweets=pl.len())
        both = pl.concat([panes, panes.with_columns(pl.col("pane") + 1)])
        return both.group_by("pane", "word").agg(pl.col("tweets").sum()).collect()

    return count


_SQL = {
    "rows": """
        select pane, word, count(*) as tweets
        from (select unnest([pane, pane + 1]) as pane, word from words)
        group by all
    """,
    "panes": """
        , panes as (select pane, word, count(*) as tweets from words group by all)
        select pane, word, sum(tweets)::bigint as tweets
        from (from panes union all select pane + 1, word, tweets from panes)
        group by all
    """,
}


def _prepare_duckdb(table: pa.Table) -> Callable[[str, bool], Any]:
    duckdb = optional("duckdb")
    connection = duckdb.connect()
    connection.execute(f"set threads = {THREADS}")
    connection.execute("set preserve_insertion_order = false")
    connection.register("arrived", table)
    connection.execute("create table tweets as from arrived")

    def count(form: str, occurrences: bool) -> Any:
        words = "string_split(text, ' ')"
        words = words if occurrences else f"list_distinct({words})"
        rows = f"with words as (select ts // {ADVANCE} as pane, unnest({words}) as word from tweets)"
        return connection.sql(rows + _SQL[form]).to_arrow_table()

    return count


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
