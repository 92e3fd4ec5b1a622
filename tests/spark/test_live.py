"""A running query: metrics, changes of parallelism, workers that are killed."""

import json
import os
import signal
import time

import pytest

import stretch as st
from tests.spark.streams import expected, operator, read, row, write, written


class Running:
    """A query over a folder, which gets one more file when the last one is done."""

    def __init__(self, spark, path, **options):
        self.folder, self.out = path / "in", path / "out"
        self.rows = []
        self.count = 0
        write(self.folder, 0, [])
        result = operator(name="live").on(read(spark, self.folder), max_parallelism=3, **options)
        writer = result.writeStream.format("parquet").option("path", str(self.out))
        self.query = writer.option("checkpointLocation", str(path / "checkpoint")).start()
        self.live = st.live(self.query)

    def add(self, *rows):
        self.count += 1
        write(self.folder, self.count, rows)
        self.rows += rows
        self.query.processAllAvailable()

    def add_many(self, count):
        first = 10 * (self.count + 1)
        self.add(*[row(first + n / 10, "a", f"one w{n}") for n in range(count)])


@pytest.fixture
def running(spark, tmp_path):
    made = []

    def start(**options):
        made.append(Running(spark, tmp_path, **options))
        return made[-1]

    yield start
    for each in made:
        each.query.stop()


def test_metrics_and_changes_of_parallelism(spark, running):
    run = running()
    run.add_many(50)
    (before,) = run.live.metrics()
    assert (before.operator, before.shard, before.parallelism, before.tuples_in) == ("live", 0, 1, 50)
    assert before.log_bytes > before.commit_bytes > 0
    (change,) = run.live.reconfigure(parallelism=3)
    assert change.status == "waiting"
    run.add_many(50)
    run.add_many(50)
    assert change.wait(10)
    assert change.switched_ms > 0
    (after,) = run.live.metrics()
    assert (after.parallelism, after.tuples_in, after.restored) == (3, 150, 0)
    with pytest.raises(st.ReconfigurationError, match="the pool has 3 instance"):
        run.live.reconfigure(parallelism=4)
    with pytest.raises(st.DefinitionError, match="no shard 7"):
        run.live.reconfigure(parallelism=2, shard=7)
    assert written(spark, run.out) == expected(run.rows, until=max(each["ts"] for each in run.rows))


@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced(spark, running):
    run = running()
    for _ in range(3):
        run.add_many(20)
        (seen,) = run.live.metrics()
        os.kill(seen.process, signal.SIGKILL)
    run.add_many(20)
    (seen,) = run.live.metrics()
    assert seen.restored == 1
    assert written(spark, run.out) == expected(run.rows, until=max(each["ts"] for each in run.rows))


def test_nobody_without_the_token_is_answered(running, tmp_path):
    run = running()
    run.add(row(1, "a", "one"))
    assert run.live.metrics()
    (file,) = tmp_path.glob("checkpoint/stretch/*/live/0-of-1/control.json")
    assert file.stat().st_mode & 0o077 == 0
    file.write_text(json.dumps(json.loads(file.read_text()) | {"token": "0" * 32}))
    with pytest.raises(st.JobError, match="no worker answers for shard 0 of live"):
        run.live.metrics(timeout=0.1)


@pytest.mark.slow
def test_a_controller_runs_beside_the_engine(running):
    always = st.ThresholdController(upper=0.02, target=0.01, lower=0.001, cool_down="0 seconds")
    run = running(parallelism=st.elastic(1, 3, always, interval="20 milliseconds"))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        run.add_many(300)
        (seen,) = run.live.metrics()
        if seen.decisions:
            break
    assert seen.decisions


def test_a_query_that_has_ended_is_not_live(running):
    run = running()
    run.add(row(1, "a", "one"))
    run.query.stop()
    with pytest.raises(st.JobError, match="the query has ended"):
        st.live(run.query)
