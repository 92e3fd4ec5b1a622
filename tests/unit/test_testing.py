"""`stretch.testing.run`: what a user's tests stand on."""

import time
from datetime import UTC, datetime

import stretch as st

PER_USER = st.Aggregate(window=st.tumbling(10), keys="user", visits=st.count())


def near(l, r):
    return abs(l.x - r.a) <= 1


def test_rows_in_rows_out():
    rows = [{"ts": 12, "user": "ben"}, {"ts": 3, "user": "ana"}, {"ts": 1, "user": "ana"}]
    assert st.testing.run(PER_USER, rows, parallelism=3) == [
        {"ts": 10, "user": "ana", "visits": 2},
        {"ts": 20, "user": "ben", "visits": 1},
    ]


def test_several_inputs_by_name():
    join = st.Join(window=st.sliding(5), match=near, groups=4)
    inputs = {"left": [{"ts": 1, "x": 3}, {"ts": 2, "x": 9}], "right": [{"ts": 3, "a": 4}]}
    assert st.testing.run(join, inputs) == [{"ts": 4, "x": 3, "a": 4}]


def test_an_input_without_rows():
    join = st.Join(window=st.sliding(5), match=near, groups=4)
    inputs = {"left": [{"ts": 1, "x": 3}], "right": []}
    assert st.testing.run(join, inputs, schemas={"right": "ts long, a int"}) == []


def test_timestamps():
    per_hour = st.Aggregate(window=st.tumbling("1 hour"), visits=st.count())
    rows = [{"at": datetime(2018, 10, 1, 9, 30, tzinfo=UTC)}]
    assert st.testing.run(per_hour, rows, time="at") == [{"at": datetime(2018, 10, 1, 10, tzinfo=UTC), "visits": 1}]


def test_it_takes_milliseconds():
    begun = time.perf_counter()
    st.testing.run(PER_USER, [{"ts": n, "user": str(n % 3)} for n in range(20)])
    assert time.perf_counter() - begun < 0.5
