"""Rows go to the shards that have one of their keys, and every shard hears of all sources."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

import stretch as st
from stretch.node import Heard
from stretch.operator.plan import make_plan
from stretch.schema import parse_schema
from stretch.spark.route import make_route, send
from stretch.spark.rows import Travelled, make_layout

SCHEMA = "ts long, device string, words array<string>, x long"
TEXTS = ["a", "b", "seventeen letters", "", None]


def plan_of(keys):
    aggregate = st.Aggregate(window=st.tumbling(10), keys=keys, groups=16, n=st.count())
    return make_plan(aggregate, [parse_schema(SCHEMA)])


def layout_of():
    columns = [(name, str(type_)) for name, type_ in parse_schema(SCHEMA).columns]
    return make_layout([columns], has_input=True, has_now=False)


def travelling(rows):
    batch = pa.RecordBatch.from_pylist(rows, parse_schema(SCHEMA).arrow())
    return batch.add_column(0, "input", pa.array([0] * len(rows), pa.int8()))


def sent(keys, rows, shards, source=None):
    """Return what arrives at each shard: its rows, and what it hears."""
    route = make_route(plan_of(keys), layout_of(), source, shards)
    arrived = [[] for _ in range(shards)]
    for batch in send(route, [travelling(rows), travelling(rows[:0])]):
        assert len(set(batch.column("shard").to_pylist())) == 1
        arrived[batch.column("shard")[0].as_py()].append(batch.drop_columns(["shard"]))
    made = []
    for batches in arrived:
        travelled = Travelled(layout_of(), batches, "ts", source)
        made.append(([row for _, part in travelled.rows() for row in part.to_pylist()], travelled.heard))
    return made


some_rows = some.lists(
    some.fixed_dictionaries(
        {
            "ts": some.integers(-50, 50),
            "device": some.sampled_from(TEXTS),
            "words": some.none() | some.lists(some.sampled_from(TEXTS), max_size=4),
            "x": some.none() | some.integers(-9, 9),
        }
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("keys", ["words", "device", "x"])
@given(some_rows, some.integers(1, 5))
def test_a_row_goes_once_to_each_shard_that_has_one_of_its_keys(keys, rows, shards):
    plan = plan_of(keys)
    arrived = sent(keys, rows, shards)
    for shard, (got, _) in enumerate(arrived):
        for row in rows:
            made = row[keys] if isinstance(row[keys], list) else [row[keys]]
            own = [key for key in made if row[keys] is not None and plan.group_of(key) % shards == shard]
            is_clear = row[keys] is not None and None not in made
            if own:
                assert got.count(row) == rows.count(row)
            elif is_clear and made:
                assert row not in got
    for row in rows:
        assert any(row in got for got, _ in arrived)


@given(some_rows, some.sampled_from([None, "device"]))
def test_every_shard_hears_how_far_each_source_has_come(rows, source):
    latest = {}
    for row in rows:
        value = None if source is None else row[source]
        latest[value] = max(row["ts"], latest.get(value, row["ts"]))
    for _, heard in sent("words", rows, 3, source):
        assert [(each.input, dict(zip(each.sources, each.latest, strict=True))) for each in heard] == [(0, latest)]
        assert all(isinstance(each, Heard) for each in heard)


def test_what_is_not_known_here_goes_everywhere():
    assert make_route(plan_of(st.words("device")), layout_of(), None, 2) is None
    assert make_route(plan_of(None), layout_of(), None, 2) is None
