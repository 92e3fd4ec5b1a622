"""Rows of several inputs travel as rows of one kind, and come out as they were."""

import pyarrow as pa

from stretch.node import Heard
from stretch.spark.rows import Travelled, make_layout

LEFT = [("ts", "bigint"), ("x", "bigint"), ("name", "string")]
RIGHT = [("ts", "bigint"), ("label", "string"), ("more", "string"), ("y", "bigint")]


def test_inputs_share_the_slots_of_their_types():
    layout = make_layout([LEFT, RIGHT], has_input=True, has_now=False)
    assert layout.slots == ("bigint", "bigint", "string", "string")
    assert layout.columns == (
        (("ts", 0), ("x", 1), ("name", 2)),
        (("ts", 0), ("label", 2), ("more", 3), ("y", 1)),
    )


def test_each_input_gets_its_own_rows_and_names():
    layout = make_layout([LEFT, RIGHT], has_input=True, has_now=True)
    batch = pa.RecordBatch.from_pydict(
        {
            "input": pa.array([0, 1, 0, -2], pa.int8()),
            "now": [5_000_000] * 4,
            "slot0": [1, 2, 3, 9],
            "slot1": [10, 20, 30, None],
            "slot2": ["a", "b", "c", "dev"],
            "slot3": [None, "d", None, None],
        }
    )
    travelled = Travelled(layout, [batch.slice(0, 0), batch], "ts", "label")
    assert travelled.now == 5.0
    assert [(number, rows.to_pylist()) for number, rows in travelled.rows()] == [
        (0, [{"ts": 1, "x": 10, "name": "a"}, {"ts": 3, "x": 30, "name": "c"}]),
        (1, [{"ts": 2, "label": "b", "more": "d", "y": 20}]),
    ]
    assert travelled.heard == [Heard(1, ["dev"], [9])]


def test_one_input_is_passed_on_as_it_is():
    layout = make_layout([LEFT], has_input=False, has_now=False)
    batch = pa.RecordBatch.from_pydict({"slot0": [1], "slot1": [10], "slot2": ["a"]})
    ((number, rows),) = Travelled(layout, [batch]).rows()
    assert (number, rows.to_pylist()) == (0, [{"ts": 1, "x": 10, "name": "a"}])
    assert rows.column(2).buffers()[2].address == batch.column(2).buffers()[2].address  # text is not copied
