"""The index finds what the nested loop finds, in the same order, whoever owns which stripes."""

import numpy as np
import pytest

import stretch as st
from stretch.joins.index import make_index
from stretch.joins.layout import COMPARISONS, COUNT, FULL, OK, PROBE_FIRST, PROBE_LAST, begin, make_hits, make_task
from stretch.joins.stripes import CHUNK, NO_CHUNK, make_stripes, place_for, sort_rows, sweep
from stretch.operator.columns import Form
from tests.joins.streams import Sides, compiled
from tests.joins.test_scan import paper_values

pytestmark = pytest.mark.timeout(600)  # compiling takes long where many want the processor

SCHEMAS = ("x int, y float", "a int, b float, c double, d boolean")
MATCH = st.band("x", "a", 10) & st.band("y", "b", 10)


@pytest.fixture(scope="module")
def index():
    bound, streams, layouts, _ = compiled(MATCH, SCHEMAS)
    return make_index(bound, streams, layouts, "test", bound.parts)


def look_up(index, sides, side, probes, lows, highs, stripes, room, workers, groups=64):
    """Compare probes, worker by worker; return their hits, put together, and how many comparisons they took."""
    mapping = np.arange(groups) % workers
    task, hits = make_task(len(lows), 0, sides.capacity), make_hits(room)
    found = []
    for worker in range(workers):
        task.cells[[PROBE_FIRST, PROBE_LAST]] = probes
        task.lows[:], task.highs[:] = lows, highs
        begin(task)
        own, status = [], FULL
        while status == FULL:
            status = index.scan[side](sides.inputs, stripes[1 - side], task, hits, mapping, worker)
            count = hits.cells[COUNT]
            own += zip(hits.probes[:count].tolist(), hits.rows[:count].tolist(), strict=True)
            assert status == OK or count > 0
        assert own == sorted(own)
        found += own
    return sorted(found), task.cells[COMPARISONS]


def insert(index, sides, stripes, side, first, last, expired, workers, groups=64):
    mapping = np.arange(groups) % workers
    for worker in range(workers):
        arguments = (first, last, expired, sides.capacity - 1, mapping, worker)
        assert index.insert[side](sides.inputs, stripes[side], *arguments) == OK


@pytest.mark.parametrize(("room", "workers"), [(1, 1), (5, 3), (1000, 2)])
def test_it_finds_the_pairs_of_the_nested_loop(index, room, workers):
    rows = 1000
    sides = Sides(MATCH, SCHEMAS, paper_values(rows, 200), capacity=1024)
    stripes = index.allocate(1024)
    for side in (0, 1):
        for first in range(0, rows, 100):
            insert(index, sides, stripes, side, first, first + 100, 0, workers)
    lows, highs = np.arange(200, 400), np.arange(500, 700)
    for side in (0, 1):
        expected = sides.found(side, (100, 300), lows, highs, [(0, rows)], 1000)
        assert len(expected) > 300
        found, compared = look_up(index, sides, side, (100, 300), lows, highs, stripes, room, workers)
        assert found == expected
        if room == 1000:
            assert compared < 200 * rows / 2


def test_rows_expire_and_their_memory_comes_back(index):
    """Ten times as many rows as the ring holds go through, and what is left of them fits."""
    rows, capacity = 10 * 4096, 4096
    values = paper_values(rows, 3000)
    sides = Sides(MATCH, SCHEMAS, [{name: column[:capacity] for name, column in side.items()} for side in values],
                  capacity=capacity)  # fmt: skip
    stripes = index.allocate(capacity)
    for first in range(0, rows, 512):
        for column, array in zip(sides.layouts[1].columns, sides.inputs[1], strict=True):
            if column.form is Form.VALUE:
                places = np.arange(first, first + 512) & (capacity - 1)
                array[places] = values[1][column.name][first : first + 512]
        insert(index, sides, stripes, 1, first, first + 512, first - 2000, 1)
    sides.values, sides.first = ({**values[0]}, values[1]), (0, 0)
    lows, highs = np.full(50, rows - 2000), np.full(50, rows)
    found, _ = look_up(index, sides, 0, (0, 50), lows, highs, stripes, 100, 1)
    assert found == sides.expected(0, (0, 50), lows, highs, [(0, rows)])
    assert len(found) > 0


def test_chunks_go_back_when_all_their_rows_expired():
    stripes = make_stripes([np.int32], 1024)
    mapping = np.zeros(8, np.int64)

    def free():
        chunk, count = (stripes.cells[0] & (2**32 - 1)) - 1, 0
        while chunk != NO_CHUNK:
            chunk, count = stripes.following[chunk], count + 1
        return count

    every = free()
    for number in range(3 * CHUNK + 1):
        assert place_for(stripes, 7, number, 0) != NO_CHUNK
    assert free() == every - 4
    sweep(stripes, 2 * CHUNK, mapping, 1)
    assert free() == every - 4  # not its own
    sweep(stripes, 2 * CHUNK, mapping, 0)
    assert free() == every - 2
    sweep(stripes, 3 * CHUNK + 1, mapping, 0)
    assert free() == every
    assert place_for(stripes, 7, 10_000, 0) != NO_CHUNK


def test_rows_are_sorted():
    random = np.random.default_rng(0)
    for size in (0, 1, 2, 3, 10, 500):
        rows = random.permutation(size + 4)
        expected = [*rows[:2], *np.sort(rows[2 : 2 + size]), *rows[2 + size :]]
        sort_rows(rows, 2, 2 + size)
        assert rows.tolist() == expected
