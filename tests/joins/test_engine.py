"""Joins on the compiled engine, by their definition: which pairs, which tuples alone, in which order, however run."""

import random
from collections import namedtuple

import pyarrow as pa
import pytest

import stretch as st
from stretch.node import Node, StateLog
from tests.harness.definition import Cut, Cutless, Tuple, exact, joined
from tests.harness.queries import window
from tests.harness.run import rows_of

SCHEMA = "ts long, user int, tag string, x long, y float"
ARROW = pa.schema(
    [("ts", pa.int64()), ("user", pa.int32()), ("tag", pa.string()), ("x", pa.int64()), ("y", pa.float32())]
)
Columns = namedtuple("Columns", "user tag x y")


def near(l, r):
    return abs(l.x - r.x) <= 2


def rows(chance, count, gaps):
    """Return sorted rows; times repeat and leap, and only columns that `near` does not read are null."""
    now, made = chance.choice([0, -20, 7]), []
    for _ in range(count):
        now += chance.choice(gaps)
        tag, y = chance.choice(["red", "pink", None]), chance.choice([None, 0.5, -1.0])
        made.append((now, chance.choice([None, 1, 2]), tag, chance.randrange(12), y))
    return made


def batch(part):
    columns = list(zip(*part, strict=True)) if part else [()] * len(ARROW)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)], schema=ARROW
    )


def run(join, sides, chance, changes):
    """Feed both sides in pieces that mix, and change who runs now and then; two sources for the left input."""
    pool = 4
    with st.setup(
        join,
        inputs=[SCHEMA] * 2,
        sources=[2, 1],
        parallelism=chance.randint(1, 3),
        max_parallelism=pool,
        engine="compiled",
    ) as job:
        waiting, tables = [list(side) for side in sides], []
        for source in [n for n, side in enumerate(sides) if not side]:
            job.close(source)
        while any(waiting):
            # The source that is furthest behind goes on: the others' rows wait for it, and only so many may wait.
            source = min((side[0][0], n) for n, side in enumerate(waiting) if side)[1]
            size = chance.choice([1, 1, 3, 30])
            job.add(batch(waiting[source][:size]), source=source)
            waiting[source] = waiting[source][size:]
            if not waiting[source]:
                job.close(source)
            if chance.random() < changes:
                job.reconfigure(instances=chance.sample(range(pool), chance.randint(1, pool)))
            if chance.random() < 0.1:
                tables.append(job.results())
        tables.append(job.finish())
    return rows_of(pa.concat_tables(tables))


def expected(sides, when, match, keys=None, how="inner", is_self=False):
    tuples = [
        Tuple(row[0], source, sequence, int(source == 2), Columns(*row[1:]))
        for source, side in enumerate(sides)
        for sequence, row in enumerate(side)
    ]
    return joined(tuples, when, match, keys, how, is_self)


def timing(when):
    return when._asdict() if isinstance(when, Cutless) else {"window": window(when)}


WHEN = [
    Cut(5, 1, "single"),
    Cut(60, 1, "single"),
    Cut(6, 3, "single"),
    Cut(8, 8),
    Cutless(3, 5),
    Cutless(0, 0),
    Cutless(40, 0),
]
GAPS = [[0, 0, 1], [0, 1, 2, 30], [1, 1, 2, 10**9], [0]]


@pytest.mark.parametrize("seed", range(12))
def test_pairs_are_those_of_the_definition_in_its_order(seed):
    chance = random.Random(seed)
    when = WHEN[seed % len(WHEN)]
    counts = chance.choice([(200, 0, 200), (0, 0, 50), (150, 100, 30), (400, 200, 500)])
    gaps = chance.choice(GAPS[:3]) if sum(counts) > 500 else chance.choice(GAPS)
    sides = [rows(chance, count, gaps) for count in counts]
    found = run(st.Join(**timing(when), match=near), sides, chance, changes=0.15)
    assert exact(found) == exact(expected(sides, when, near))


@pytest.mark.parametrize("seed", range(8))
def test_tuples_that_met_nobody_are_reported_in_their_place(seed):
    chance = random.Random(seed)
    when = WHEN[seed % len(WHEN)]
    sides = [rows(chance, count, chance.choice(GAPS)) for count in (100, 50, 80)]
    join = st.Join(**timing(when), keys=["user", "tag"], how="full")
    found = run(join, sides, chance, changes=0.15)
    keys = lambda t: [(t.row.user, t.row.tag)]  # noqa: E731
    assert exact(found) == exact(expected(sides, when, lambda l, r: True, keys, "full"))


@pytest.mark.parametrize("seed", range(4))
def test_a_row_does_not_meet_itself(seed):
    chance = random.Random(seed)
    when = WHEN[seed]
    side = rows(chance, 150, [0, 0, 1, 3])
    sides = [side, [], side]
    found = run(st.Join(**timing(when), match=near, self_join=True, how="left"), sides, chance, changes=0.15)
    assert exact(found) == exact(expected(sides, when, near, how="left", is_self=True))


def on_node(directory, restarts):
    """Join in micro-batches of ten rows a side; where `restarts` says so, another node goes on from what is written."""
    chance, results = random.Random(5), []
    sides = [rows(chance, 40, [0, 1, 2]) for _ in range(2)]
    join, log = st.Join(window=window(Cut(9, 1, "single")), match=near), StateLog(directory)
    node = Node(join, [SCHEMA] * 2, parallelism=2)
    for number in range(4):
        part = [(n, batch(side[10 * number : 10 * number + 10])) for n, side in enumerate(sides)]
        results += [row for made in node.process(number, part) for row in rows_of(pa.Table.from_batches([made]))]
        node.commit(log)
        if number in restarts:
            node.stop()
            node = Node.restore(log, number, join, [SCHEMA] * 2, parallelism=1)
    node.stop()
    return results


def test_a_restart_in_the_middle_of_a_window_changes_nothing(tmp_path):
    expected = on_node(str(tmp_path / "whole"), restarts=())
    assert expected
    assert on_node(str(tmp_path / "cut"), restarts=(1, 2)) == expected
