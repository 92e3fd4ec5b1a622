"""What Spark may do to tasks: attempts that fail, are repeated, run twice, or elsewhere. Here without Spark, by task.

A `Worker` is a Python worker as Spark has them: what it keeps in memory is its own, the state log is everybody's.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import stretch as st
from stretch.node import StateLog
from stretch.operator.plan import make_plan
from stretch.schema import parse_schema
from stretch.spark import places, shards, task
from stretch.spark.rows import Travelled, make_layout
from stretch.spark.work import Key, Results, Work
from tests.spark.streams import MINUTE, SCHEMA, expected, operator, row

QUERY = "a-query"
BATCHES = [
    [row(1, "a", "one two"), row(14, "b", "two three two")],
    [row(25, "a", "two", 5), row(18, None, "one")],
    [row(31, "b", ""), row(40, "a", "three two a-long-word-that-is-not-inlined")],
    [row(75, "c", "four", 7)],
    [row(120, "c", "four", 7)],
]


def work_of(declared=None, shards=1, token=None, **changes):
    """Return what the driver would tell the tasks."""
    declared = declared or operator()
    schema = parse_schema(SCHEMA)
    settings = {
        "operator": declared,
        "inputs": (schema,),
        "result_columns": make_plan(declared, [schema]).result_schema().columns,
        "layout": make_layout(
            [[(name, str(type_)) for name, type_ in schema.columns]], has_input=shards > 1, has_now=False
        ),
        "results": Results(make_plan(declared, [schema]).result_schema().arrow()),
        "name": declared.name,
        "token": token or uuid.uuid4().hex,
        "is_streaming": True,
        "state": None,
        "min_versions": 100,
        "shards": shards,
        "options": {"time": "ts", "source": None},
        "parallelism": 1,
        "max_parallelism": 2,
        "elastic": None,
    }
    return Work(**{**settings, **changes})


class Worker:
    """A Python worker, whose memory ends with it."""

    def __init__(self, checkpoint, monkeypatch):
        self._checkpoint = checkpoint
        self._patch = monkeypatch
        self.kept = OrderedDict()
        self.replay_seconds = 1.0

    def log(self, work, number=0):
        key = Key(QUERY, work.name, number)
        location = places.location(work, str(self._checkpoint), key)
        return StateLog(location, min_versions=work.min_versions, replay_seconds=self.replay_seconds)

    def run(self, work, batch_id, rows, number=0, fails=False):
        """Run an attempt to its end, or until it fails."""
        return [each for part in self.steps(work, batch_id, rows, number, fails) for each in part]

    def steps(self, work, batch_id, rows, number=0, fails=False):
        """Run an attempt; yield its results as they leave."""
        self._patch.setattr(shards, "_kept", self.kept)
        schema = parse_schema(SCHEMA).arrow()
        batches = [pa.RecordBatch.from_pylist([each], schema) for each in rows]
        if work.layout.has_input:
            batches = [each.add_column(0, "input", pa.array([0], pa.int8())) for each in batches]
        if fails:
            batches.append(batches[0].set_column(0, "slot0", pa.array([None], schema.types[0])))
        key = Key(QUERY, work.name, number)
        arrived = Travelled(work.layout, batches)
        for results in task._run_micro_batch(work, key, self.log(work, number), batch_id, arrived):
            plain = results.set_column(0, "ts", results.column(0).cast(pa.int64()))
            yield [tuple(each.values()) for each in plain.to_pylist()]

    def counts(self):
        (shard,) = self.kept.values()
        return shard.counts

    def end(self):
        for shard in self.kept.values():
            shard.node.stop()
        self.kept.clear()


@pytest.fixture
def hire(tmp_path, monkeypatch):
    """Return a function that starts workers over one checkpoint."""
    hired = []

    def start(checkpoint=tmp_path):
        hired.append(Worker(checkpoint, monkeypatch))
        return hired[-1]

    yield start
    for worker in hired:
        worker.end()


def all_until(count):
    """Return what the first micro-batches give altogether."""
    rows = [each for batch in BATCHES[:count] for each in batch]
    return expected(rows, until=max(each["ts"] for each in rows))


def in_order(rows):
    return sorted(rows, key=repr)


def test_memory_is_used_from_one_micro_batch_to_the_next(hire):
    worker, work, made = hire(), work_of(), []
    for number, rows in enumerate(BATCHES):
        made += worker.run(work, number, rows)
    assert in_order(made) == all_until(5)
    assert (worker.counts().kept, worker.counts().restored) == (4, 0)


def test_the_version_is_in_the_log_before_the_last_results_leave(hire):
    worker, work = hire(), work_of()
    worker.run(work, 0, BATCHES[0])
    for _ in worker.steps(work, 1, BATCHES[3]):
        assert worker.log(work).versions() == [0, 1]


def test_what_a_failed_attempt_did_to_memory_is_not_seen(hire):
    worker, work = hire(), work_of()
    made = worker.run(work, 0, BATCHES[0])
    with pytest.raises(st.InputError):
        worker.run(work, 1, BATCHES[1], fails=True)
    assert worker.kept == {}
    for number in (1, 2, 3):
        made += worker.run(work, number, BATCHES[number])
    assert in_order(made) == all_until(4)
    assert worker.counts().restored == 1


def test_an_attempt_that_is_given_up_midway_leaves_nothing(hire):
    worker, work = hire(), work_of()
    first = worker.run(work, 0, BATCHES[0])
    begun = worker.steps(work, 1, BATCHES[3])
    next(begun)
    begun.close()  # Spark wants no more: the version is there, its results are not known to be
    again = worker.run(work, 1, BATCHES[3])
    assert in_order(first + again) == expected(BATCHES[0] + BATCHES[3], until=75 * MINUTE)


def test_a_micro_batch_that_is_repeated_gives_the_same(hire):
    worker, work = hire(), work_of()
    worker.run(work, 0, BATCHES[0])
    once = worker.run(work, 1, BATCHES[3])
    assert worker.run(work, 1, BATCHES[3]) == once != []


def test_a_shard_that_was_elsewhere_meanwhile_catches_up(hire):
    here, there, work = hire(), hire(), work_of()
    made = here.run(work, 0, BATCHES[0])
    made += there.run(work, 1, BATCHES[1])
    made += there.run(work, 2, BATCHES[2])
    made += here.run(work, 3, BATCHES[3])
    assert in_order(made) == all_until(4)
    assert (here.counts().caught_up, here.counts().restored) == (1, 0)


def test_memory_that_another_attempt_has_written_over_is_not_used(hire):
    here, there, work = hire(), hire(), work_of()
    made = here.run(work, 0, BATCHES[0])
    here.run(work, 1, BATCHES[1])
    made += there.run(work, 1, BATCHES[1])  # of both attempts, the version of this one stays
    made += here.run(work, 2, BATCHES[2])
    made += here.run(work, 3, BATCHES[3])
    assert in_order(made) == all_until(4)
    assert (here.counts().kept, here.counts().restored) == (2, 1)


def test_a_worker_that_is_lost_is_replaced(hire):
    work, made = work_of(), []
    for number, rows in enumerate(BATCHES):
        made += hire().run(work, number, rows)
    assert in_order(made) == all_until(5)


def test_the_number_of_threads_may_change_between_runs(hire):
    first, second = work_of(), work_of(parallelism=2)
    worker = hire()
    made = worker.run(first, 0, BATCHES[0])
    made += worker.run(second, 1, BATCHES[1])
    (shard,) = worker.kept.values()
    assert shard.node.metrics().engine.parallelism == 2
    made += worker.run(second, 2, BATCHES[2])
    assert in_order(made) == all_until(3)


def test_a_change_that_was_asked_for_while_it_ran_is_kept_when_a_worker_is_lost(hire):
    worker, work = hire(), work_of()
    worker.run(work, 0, BATCHES[0])
    (shard,) = worker.kept.values()
    shard.node.reconfigure(2)
    worker.run(work, 1, BATCHES[3])
    other = hire()
    other.run(work, 2, BATCHES[4])
    (shard,) = other.kept.values()
    assert shard.node.metrics().engine.parallelism == 2


def test_state_that_is_gone_is_not_taken_for_empty_state(hire, tmp_path):
    work = work_of()
    hire().run(work, 0, BATCHES[0])
    with pytest.raises(st.StateError, match="there is no state to go on with at micro-batch 1"):
        hire(tmp_path / "elsewhere").run(work, 1, BATCHES[1])
    with pytest.raises(st.StateError, match="another name or number of shards"):
        hire().run(work_of(shards=2), 1, BATCHES[1])


def test_an_operator_that_the_state_does_not_fit_is_refused(hire):
    hire().run(work_of(), 0, BATCHES[0])
    with pytest.raises(st.StateError, match="the window was size 1200000000"):
        hire().run(work_of(operator(window=st.tumbling("5 minutes"))), 1, BATCHES[1])


def test_old_versions_are_deleted(hire):
    worker, work = hire(), work_of(min_versions=2)
    worker.replay_seconds = 0.0  # so that every version is a snapshot
    for number in range(12):
        worker.run(work, number, [row(1 + number, "a", "one")])
    assert worker.log(work).versions() == [10, 11]
    assert hire().run(work, 11, [row(12, "a", "one")]) is not None  # the one before can be restored


@pytest.mark.parametrize("count", [2, 3])
def test_shards_share_the_keys_and_give_what_one_gives(hire, count):
    workers, work, made = [hire() for _ in range(count)], work_of(shards=count), []
    for batch_id, rows in enumerate(BATCHES):
        parts = [worker.run(work, batch_id, rows, number) for number, worker in enumerate(workers)]
        made += [each for part in parts for each in part]
    assert in_order(made) == all_until(5)


FATES = ["well", "well", "fails", "is given up", "is repeated", "is done twice"]


@given(some.lists(some.tuples(some.sampled_from(FATES), some.integers(0, 2), some.booleans()), min_size=5, max_size=5))
@settings(max_examples=15)
def test_whatever_happens_each_result_counts_once(fates):
    with pytest.MonkeyPatch.context() as patch:
        import tempfile

        with tempfile.TemporaryDirectory() as checkpoint:
            workers, work, made = [Worker(checkpoint, patch) for _ in range(3)], work_of(), []
            for batch_id, (fate, number, is_lost) in enumerate(fates):
                worker, rows = workers[number], BATCHES[batch_id]
                if is_lost:
                    worker.end()
                if fate == "fails":
                    with pytest.raises(st.InputError):
                        worker.run(work, batch_id, rows, fails=True)
                elif fate == "is given up":
                    begun = worker.steps(work, batch_id, rows)
                    next(begun, None)
                    begun.close()
                elif fate == "is repeated":
                    worker.run(work, batch_id, rows)
                elif fate == "is done twice":
                    workers[number - 1].run(work, batch_id, rows)
                made += worker.run(work, batch_id, rows)
            for worker in workers:
                worker.end()
    assert in_order(made) == all_until(5)


def test_places():
    work, key = work_of(), Key(QUERY, "a", 0)
    for root, begins in [
        ("file:/some%20where/", "/some where/stretch/"),
        ("/some/where", "/some/where/stretch/"),
        ("s3a://bucket/state", "s3://bucket/state/stretch/"),
    ]:
        assert places.location(work, root, key).startswith(begins)
