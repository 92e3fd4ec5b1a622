"""DuckDB computes the same results from SQL: a second opinion by code that nobody here wrote."""

import random

import duckdb
import pyarrow as pa
import pytest

import stretch as st
from tests.harness.definition import exact
from tests.harness.run import ENGINES, INTERPRETED, rows_of

TAGS = ["red", "pink", "blue", "green", "teal", "gray"]
WINDOWS = {"tumbling": (600, 600), "sliding": (600, 200), "uneven": (500, 300)}


def tweets(count, seed):
    """Return sorted tweets of up to four hashtags, some twice in one text."""
    chance = random.Random(seed)
    now, rows = -3_000, []
    for _ in range(count):
        now += chance.choice([0, 0, 1, 3, 7])
        words = [chance.choice(["hello", "#" + chance.choice(TAGS), "x" * chance.randrange(9)]) for _ in range(6)]
        rows.append((now, f"user{chance.randrange(20)}", " ".join(words)))
    schema = pa.schema([("ts", pa.int64()), ("user", pa.string()), ("text", pa.string())])
    return pa.Table.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], schema=schema)


def readings(count, seed):
    """Return sorted rows with nulls; floats are halves, which add up exactly in any order."""
    chance = random.Random(seed)
    now, rows = 0, []
    for sequence in range(count):
        now += chance.choice([0, 1, 2, 30])
        x = chance.choice([None, chance.randrange(-50, 50)])
        y = chance.choice([None, chance.randrange(-50, 50) / 2])
        rows.append((now, sequence, chance.choice([None, "a", "b", "c"]), x, y))
    schema = pa.schema(
        [("ts", pa.int64()), ("sequence", pa.int64()), ("k", pa.string()), ("x", pa.int64()), ("y", pa.float64())]
    )
    return pa.Table.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], schema=schema)


def ask(sql, stream, size, advance):
    """Run SQL over `windowed`: the stream with one row per window that holds it, by its right boundary."""
    with duckdb.connect() as connection:
        connection.register("stream", stream)
        # floor(ts / advance) * advance in integers, and back from there while the window still holds the row.
        connection.execute(
            f"""create view windowed as
            select *, unnest(range(latest, ts - {size}, -{advance})) + {size} as right_end
            from (select *, ts - ((ts % {advance}) + {advance}) % {advance} as latest from stream)"""
        )
        return connection.execute(sql).fetchall()


def run(operator, stream, engine, changes=True):
    """Run over batches of 250 rows and three changes of parallelism."""
    with st.setup(operator, parallelism=2, max_parallelism=4, engine=engine) as job:
        tables = []
        for number, part in enumerate(stream.to_batches(max_chunksize=250)):
            job.add(part)
            if changes and number in (1, 3, 5):
                job.reconfigure([4, 1, 3][number // 2])
            tables.append(job.results())
        return rows_of(pa.concat_tables([*tables, job.finish()]))


def ordered(rows):
    """Sort by time and then the rest, nulls as text: DuckDB does not know our order of ties."""
    return exact(sorted(rows, key=lambda row: (row[0], repr(row))))


@pytest.mark.parametrize("engine", INTERPRETED)
@pytest.mark.parametrize(("size", "advance"), WINDOWS.values(), ids=WINDOWS)
def test_longest_tweet_per_hashtag(engine, size, advance):
    stream = tweets(2_500, seed=size)
    answer = ask(
        """select right_end, hashtag, max(length(text))
        from (select *, unnest(list_distinct(regexp_extract_all(text, '#([A-Za-z0-9_]+)', 1))) as hashtag from windowed)
        group by right_end, hashtag""",
        stream,
        size,
        advance,
    )
    assert len(answer) > 50
    assert ordered(run(st.paper.longest_tweet(st.sliding(size, advance)), stream, engine)) == ordered(answer)


@pytest.mark.parametrize("occurrences", [False, True])
@pytest.mark.parametrize(("size", "advance"), WINDOWS.values(), ids=WINDOWS)
def test_counts_of_words(size, advance, occurrences):
    stream = tweets(2_000, seed=size + 1)
    words = "list_filter(string_split(text, ' '), lambda word: word != '')"
    answer = ask(
        f"""select right_end, word, count(*)
        from (select *, unnest({words if occurrences else f"list_distinct({words})"}) as word from windowed)
        group by right_end, word""",
        stream,
        size,
        advance,
    )
    operator = st.paper.wordcount(st.sliding(size, advance), occurrences=occurrences)
    assert ordered(run(operator, stream, "reference")) == ordered(answer)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["single", "multi"])
@pytest.mark.parametrize(("size", "advance"), [(60, 60), (60, 20)])
def test_ready_made_aggregates_with_nulls(engine, kind, size, advance):
    """Nulls: not counted, not added; a sum of nothing is null; first and last take them; a null key is a key."""
    stream = readings(2_000, seed=size + advance)
    answer = ask(
        """select right_end, k, count(*), count(x),
               sum(x)::bigint, min(x), max(x), avg(x), sum(y), min(y), max(y), avg(y),
               first(x order by ts, sequence), last(y order by ts, sequence)
        from windowed group by right_end, k""",
        stream,
        size,
        advance,
    )
    operator = st.Aggregate(
        window=st.sliding(size, advance, kind),
        keys="k",
        n=st.count(),
        known=st.count("x"),
        **{f"{kind}_{name}": getattr(st, kind)(name) for name in "xy" for kind in ("sum", "min", "max", "mean")},
        first_x=st.first("x"),
        last_y=st.last("y"),
    )
    assert ordered(run(operator, stream, engine)) == ordered(answer)


@pytest.mark.parametrize("kind", ["single", "multi"])
def test_a_band_join(kind):
    """Pairs that share a window: once, in the earliest window of the later one, or once per shared window."""
    size, advance = 60, 20
    left, right = readings(1_000, seed=1), readings(1_000, seed=2)
    ends = "unnest(range(ts - ((ts % 20) + 20) % 20, ts - 60, -20)) + 60"
    with duckdb.connect() as connection:
        connection.register("left_stream", left)
        connection.register("right_stream", right)
        answer = connection.execute(
            f"""with l as (select *, {ends} as right_end from left_stream),
                     r as (select *, {ends} as right_end from right_stream)
            select {"min(right_end)" if kind == "single" else "right_end"}, l.sequence, r.sequence
            from l join r using (right_end)
            where abs(l.x - r.x) <= 3
            group by {"" if kind == "multi" else "l.ts, r.ts, "} l.sequence, r.sequence
                {", right_end" if kind == "multi" else ""}"""
        ).fetchall()
    operator = st.Join(
        window=st.sliding(size, advance, kind),
        match=lambda l, r: l.x is not None and r.x is not None and abs(l.x - r.x) <= 3,
        output=lambda l, r: (l.sequence, r.sequence),
        schema="l long, r long",
        groups=5,
    )
    with st.setup(operator, inputs=["ts long, sequence long, k string, x long, y double"] * 2, parallelism=3) as job:
        job.add(left, source=0)
        job.add(right, source=1)
        rows = rows_of(job.finish())
    assert len(answer) > 150
    assert ordered(rows) == ordered(answer)
