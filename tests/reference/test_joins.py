"""ScaleJoin and the hedge, as printed and as defined (Paper: Operator "ScaleJoin", Q3 to Q6)."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as some

import stretch as st
from tests.harness.definition import Cut, Tuple, joined, multiset
from tests.harness.run import INTERPRETED, rows_of

SIZE = 10
NUMBERED = "ts long, n long"


def numbered(*rows):
    schema = pa.schema([("ts", pa.int64()), ("n", pa.int64())])
    return pa.record_batch([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], schema=schema)


def join(rows, engine="reference", parallelism=2, **options):
    """Join rows `(timestamp, side)`, numbered as they come, all with all; return pairs of numbers."""
    operator = st.Join(
        window=st.sliding(SIZE),
        match=lambda l, r: True,
        output=lambda l, r: (l.n, r.n),
        schema="l long, r long",
        **{"groups": 3, **options},
    )
    with st.setup(operator, inputs=[NUMBERED] * 2, parallelism=parallelism, engine=engine) as job:
        for n, (timestamp, side) in enumerate(rows):
            job.add(numbered((timestamp, n)), source=side)
        return rows_of(job.finish())


def defined(rows):
    tuples = [Tuple(timestamp, side, n, side, (n,)) for n, (timestamp, side) in enumerate(rows)]
    return joined(tuples, Cut(SIZE, 1, "single"), lambda l, r: True)


def printed(rows):
    """Do the same by times alone: all pairs up to and including one size apart, at one step after the later one."""
    sides = [[(n, timestamp) for n, (timestamp, at) in enumerate(rows) if at == side] for side in (0, 1)]
    return [
        (max(left, right) + 1, l_n, r_n)
        for l_n, left in sides[0]
        for r_n, right in sides[1]
        if abs(left - right) <= SIZE
    ]


@pytest.mark.parametrize("engine", INTERPRETED)
@pytest.mark.parametrize(("distance", "is_joined", "is_printed"), [(0, 1, 1), (9, 1, 1), (10, 0, 1), (11, 0, 0)])
def test_a_pair_exactly_one_size_apart_shares_no_window_but_is_joined_in_print(engine, distance, is_joined, is_printed):
    """`T[0].ts + WS < t.ts` keeps a tuple one step longer than the window `[l, l + WS)` does."""
    for rows in ([(0, 0), (distance, 1)], [(0, 1), (distance, 0)]):
        assert len(join(rows, engine)) == is_joined
        assert len(join(rows, engine, printed_purge=True)) == is_printed


SIDED = some.lists(some.tuples(some.integers(0, 6), some.integers(0, 1)), max_size=15).map(
    lambda steps: [(sum(gap for gap, _ in steps[: n + 1]), side) for n, (_, side) in enumerate(steps)]
)


@given(rows=SIDED, parallelism=some.integers(1, 3))
def test_scale_join_by_its_definition(rows, parallelism):
    assert multiset(join(rows, parallelism=parallelism)) == multiset(defined(rows))


@given(rows=SIDED, parallelism=some.integers(1, 3))
def test_scale_join_as_printed(rows, parallelism):
    assert multiset(join(rows, parallelism=parallelism, printed_purge=True)) == multiset(printed(rows))


@pytest.mark.parametrize("groups", [1, 2, 5, 40])
def test_every_tuple_is_stored_by_exactly_one_key(groups):
    """So no remainder may be missing: a thousand keys go from 0 to 999, not from 1 to 1,000."""
    count = groups + 2
    rows = [(0, 0)] * count + [(1, 1)]
    assert sorted(pair[1] for pair in join(rows, groups=groups)) == list(range(count))


def test_the_counter_counts_the_tuples_of_both_streams():
    """Alternating streams use half of the keys each: the paper's round robin, whose balance D6 does not depend on."""
    operator = st.Join(window=st.sliding(100), match=lambda l, r: False, groups=4)
    with st.setup(operator, inputs=[NUMBERED] * 2) as job:
        for n in range(8):
            job.add(numbered((n, n)), source=n % 2)
        job.watermark(8, source=0)
        job.watermark(8, source=1)
        stored = {w.key: [len(side.tuples) for side in w.instances] for w in job.engine.operator.windows}
    assert stored == {0: [0, 2], 1: [2, 0], 2: [0, 2], 3: [2, 0]}


# --- the benchmark's predicate

LEFT = pa.schema([("ts", pa.int64()), ("x", pa.int32()), ("y", pa.float32())])
RIGHT = pa.schema([("ts", pa.int64()), ("a", pa.int32()), ("b", pa.float32()), ("c", pa.float64()), ("d", pa.bool_())])


@pytest.mark.parametrize(
    ("x", "y", "is_match"),
    [(0, 0.0, True), (10, 10.0, True), (-10, -10.0, True), (11, 0.0, False), (0, 10.5, False), (-11, -11.0, False)],
)
def test_the_two_bands_of_scale_join_include_ten(x, y, is_match):
    with st.setup(st.paper.scale_join(groups=4)) as job:
        job.add(pa.RecordBatch.from_pylist([{"ts": 5, "x": 100 + x, "y": 100.0 + y}], schema=LEFT), source=0)
        right = {"ts": 300_004, "a": 100, "b": 100.0, "c": 0.5, "d": True}
        job.add(pa.RecordBatch.from_pylist([right], schema=RIGHT), source=1)
        rows = rows_of(job.finish())
    expected = [(300_005, 100 + x, 100.0 + y, 100, 100.0, 0.5, True)]
    assert rows == (expected if is_match else [])


# --- the hedge

TRADES = pa.schema([("ts", pa.int64()), ("id", pa.string()), ("price", pa.int32()), ("average", pa.int32())])


def hedge(left, right, **options):
    """Return whether a trade of A and a trade of B, as `(price, average)`, are reported."""
    with st.setup(st.paper.hedge(groups=2, **options)) as job:
        for source, (name, (price, average)) in enumerate([("A", left), ("B", right)]):
            trade = {"ts": 5, "id": name, "price": price, "average": average}
            job.add(pa.RecordBatch.from_pylist([trade], schema=TRADES), source=source)
        return rows_of(job.finish()) == [(6, "A", left[0], "B", right[0])]


@pytest.mark.parametrize(
    ("left", "right", "is_printed", "is_two_sided"),
    [
        ((110, 100), (90, 100), True, True),  # +10 % and -10 %: a hedge, ratio -1
        ((200, 100), (-5, 100), True, True),  # ratio -1.05: the bound itself belongs
        ((200, 100), (5, 100), True, True),  # ratio -0.95: the other bound too
        ((200, 100), (-6, 100), False, False),  # ratio -1.06
        ((200, 100), (6, 100), True, False),  # ratio -0.94
        ((110, 100), (110, 100), True, False),  # both rise: ratio 1, which the printed predicate lets pass
        ((110, 100), (100, 100), True, False),  # the right one does not move: ratio 0
        ((100, 100), (90, 100), False, False),  # the left one does not move: no ratio
    ],
)
def test_the_printed_hedge_is_bounded_on_one_side_only(left, right, is_printed, is_two_sided):
    assert hedge(left, right) is is_printed
    assert hedge(left, right, two_sided=True) is is_two_sided


def test_a_trade_is_no_hedge_of_its_own_instrument():
    with st.setup(st.paper.hedge(groups=2)) as job:
        for source, price in enumerate((110, 90)):
            trade = {"ts": 5, "id": "A", "price": price, "average": 100}
            job.add(pa.RecordBatch.from_pylist([trade], schema=TRADES), source=source)
        assert job.finish().num_rows == 0


# --- the forwarder (Q2)


@pytest.mark.parametrize("instances", [1, 2, 4])
def test_the_forwarder_gives_every_tuple_once_per_instance(instances):
    operator = st.paper.forwarder(instances, "n long")
    with st.setup(operator, inputs=[NUMBERED] * 2, parallelism=instances) as job:
        job.add(numbered((0, 7), (0, 8)), source=0)
        job.add(numbered((3, 9)), source=1)
        rows = rows_of(job.finish())
        assert job.metrics().duplicates_avoided == 3 * (instances - 1)
    assert multiset(rows) == multiset([(1, 7), (1, 8), (4, 9)] * instances)
