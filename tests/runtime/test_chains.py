"""Chains of compiled jobs: the results of the reference engine, back-pressure, ends in any order, failures."""

import random
import threading
import time

import pytest

import stretch as st
from stretch.runtime.compiled import memory
from tests.runtime.test_stop import A_MILLISECOND, SPINNING, report, wide
from tests.unit.streams import rows, started, visits

GROUPS = 16  # few, so that this runs uncompiled, too


def counting(size):
    return st.Aggregate(window=st.tumbling(size), keys="user", visits=st.count(), groups=GROUPS)


def summing(size, advance=None):
    window = st.sliding(size, advance or size)
    return st.Aggregate(
        window=window, keys="user", total=st.sum("visits"), latest=st.last("visits"), n=st.count(), groups=GROUPS
    )


def latest(size):
    return st.Aggregate(
        window=st.tumbling(size), keys=None, n=st.count(), who=st.last("user"), most=st.max("total"), groups=GROUPS
    )


def play(engine, seed):
    """Run three operators in a row, of which all change again and again, and return all that comes out."""
    choice, parts, now = random.Random(seed), [], 0
    sources = choice.choice([1, 2])
    first = started(counting(5), engine=engine, sources=sources, parallelism=choice.randint(1, 3), max_parallelism=3)
    second = st.setup(summing(30, 10), upstream=first, parallelism=choice.randint(1, 3), max_parallelism=3)
    third = st.setup(latest(60), upstream=second, max_parallelism=2)
    jobs, changes = (first, second, third), []
    with first, second, third:
        for _ in range(60):
            now += choice.randint(1, 12)
            users = [f"user {choice.randint(0, 30)}" for _ in range(choice.randint(1, 20))]
            first.add(visits(*((now, user, 1) for user in users)), choice.randrange(sources))
            if choice.random() < 0.3:
                job = choice.choice(jobs)
                changes.append(job.reconfigure(choice.randint(1, job.engine.max_parallelism)))
            if choice.random() < 0.2:
                parts.append(third.results())
        parts.append(third.finish())
    return [row for part in parts for row in rows(part)], [change.status for change in changes]


@pytest.mark.parametrize("seed", range(12))
def test_a_chain_gives_what_the_reference_engine_gives(seed):
    found, statuses = play("compiled", seed)
    assert found == play("reference", seed)[0]
    assert statuses.count("switched") > 0


def test_metrics_of_each_job_are_its_own():
    with started(counting(10), engine="compiled") as first:
        second = st.setup(summing(20), upstream=first, max_parallelism=2)
        first.add(visits(*((time, "a", 1) for time in range(100))))
        change = second.reconfigure(2)
        assert change.status == "waiting"
        first.add(visits((200, "a", 1), (201, "a", 1)))
        assert second.results().num_rows == 6
        assert change.status == "switched"
        assert (first.metrics().tuples_in, second.metrics().tuples_in, second.metrics().arrived) == (102, 10, (10,))
        assert (first.metrics().parallelism, second.metrics().parallelism) == (1, 2)
        assert second.metrics().latency.total == 6
        second.stop()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_several_jobs_read_the_results_of_one_and_finish_in_any_order(order):
    with started(counting(10), engine="compiled", parallelism=2, max_parallelism=2) as first:
        sizes = (20, 300)
        readers = [st.setup(summing(size), upstream=first, max_parallelism=3) for size in sizes]
        first.add(visits(*((time, "ab"[time % 2], 1) for time in range(100))))
        readers[1].reconfigure(3)
        first.add(visits(*((time, "ab"[time % 2], 1) for time in range(100, 200))))
        found = {number: rows(readers[number].finish()) for number in order}
        assert [sum(row[2] for row in found[number]) for number in (0, 1)] == [200, 200]
        assert [row[0] for row in found[1]] == [300, 300]
        assert not first.engine._workers.is_running


def test_results_of_a_job_that_feeds_another_are_not_read_twice():
    with started(counting(10), engine="compiled") as first:
        first.add(visits((1, "a", 1), (11, "a", 1)))
        st.setup(summing(20), upstream=first)
        with pytest.raises(st.JobError, match="its results are the input of another job"):
            first.results()


def test_texts_live_until_the_last_operator_has_reported_them(monkeypatch):
    """Ever new texts: ids are used again, and none is that another window still names."""
    with started(counting(10), engine="compiled") as first:
        second = st.setup(summing(200), upstream=first)
        parts = []
        for block in range(60):
            first.add(visits(*((10 * block + n // 50, f"user {block} {n}", 1) for n in range(500))))
            first.engine.memory.dictionary.sweep()
            parts.append(second.results())
        parts.append(second.finish())
        found = {(row[0], row[1]) for part in parts for row in rows(part)}
        expected = {((10 * b + 10) // 200 * 200 + 200, f"user {b} {n}") for b in range(60) for n in range(500)}
        assert found == expected
        assert first.metrics().dictionary_bytes < 10 << 20


def test_a_slow_operator_holds_back_the_sources_of_the_chain(monkeypatch):
    """Nothing grows: what is pending is bounded in every buffer of the chain."""
    monkeypatch.setattr(memory, "CAPACITY", 256)
    monkeypatch.setattr(memory, "STAGING", 256)
    spinning = st.Operator(
        window=st.tumbling(10),
        keys="user",
        state="x long",
        update=spin_a_little,
        output=report,
        schema="user string, x long",
    )
    with started(counting(1), engine="compiled") as first:
        second = st.setup(spinning, upstream=first)
        pending, done = [], threading.Event()

        def look():
            while not done.wait(0.005):
                pending.append((first.metrics().pending, second.metrics().pending))

        thread = threading.Thread(target=look)
        thread.start()
        first.add(wide(0, 5_000))
        done.set()
        thread.join()
        assert first.metrics().blocked_ns > 0
        assert max(map(max, pending)) <= 3 * 256
        assert second.finish().num_rows == 5_000


def spin_a_little(w, t):
    """Work for some microseconds."""
    x = w.x + t.visits
    for _ in range(10_000):
        x ^= (x << 13) & 0x7FFFFFFFFFFFFFFF
        x ^= x >> 7
    w.x = x


def fail_on_seven(w, t):
    if t.visits == 7:
        raise ValueError("seven")
    w.x += t.visits


FAILING = st.Operator(
    name="Failing",
    window=st.tumbling(10),
    keys="user",
    state="x long",
    update=fail_on_seven,
    output=report,
    schema="user string, x long",
)


def test_a_failure_behind_ends_the_whole_chain_with_one_error(monkeypatch):
    monkeypatch.setattr(memory, "CAPACITY", 256)
    monkeypatch.setattr(memory, "STAGING", 256)
    first = started(counting(1), engine="compiled", parallelism=2, max_parallelism=2)
    second = st.setup(FAILING, upstream=first)
    with pytest.raises(st.FunctionError, match="seven"):  # noqa: PT012
        first.add(visits(*((1, "a", 1) for _ in range(7))))
        while True:
            first.add(wide(2_000, 2_000))
    for call in (first.finish, second.results, second.finish):
        with pytest.raises(st.StretchError):
            call()
    begun = time.monotonic()
    second.stop()
    first.stop()
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_chain_stops_in_any_order_and_in_bounded_time(order):
    first = started(SPINNING, engine="compiled", parallelism=2, max_parallelism=2)
    second = st.setup(
        st.Aggregate(window=st.tumbling(10), keys="user", n=st.count()), upstream=first, max_parallelism=2
    )
    first.add(visits(*((n, "a", A_MILLISECOND) for n in range(50))))
    begun = time.monotonic()
    for job in (first, second) if order == "first" else (second, first):
        job.stop()
    assert time.monotonic() - begun < 2
    assert not any(thread.is_alive() for job in (first, second) for thread in job.engine._workers._threads)


def test_a_job_goes_on_when_the_one_behind_it_was_stopped():
    with started(counting(10), engine="compiled") as first:
        second, third = (st.setup(summing(20), upstream=first) for _ in range(2))
        first.add(visits((1, "a", 1), (11, "a", 1)))
        second.stop()
        first.add(wide(0, 0))
        first.add(visits((40, "a", 1)))
        assert rows(third.finish()) == [(20, "a", 1, 1, 1), (40, "a", 1, 1, 1), (60, "a", 1, 1, 1)]


def test_columns_that_may_be_null_are_no_keys():
    with started(summing_pages(), engine="compiled") as first, pytest.raises(st.DefinitionError) as error:
        st.setup(st.Aggregate(window=st.tumbling(10), keys="total", n=st.count()), upstream=first)
    assert "the column 'total' as a key" in str(error.value)


def summing_pages():
    return st.Aggregate(window=st.tumbling(10), keys="user", total=st.sum("pages"))


def test_a_job_that_begins_behind_one_at_work_reads_what_comes_from_then_on():
    with started(counting(10), engine="compiled") as first:
        first.add(visits((1, "a", 1), (11, "a", 1)))
        assert first.results().num_rows == 1
        second = st.setup(summing(100), upstream=first)
        first.add(visits((21, "a", 1)))
        late = st.setup(summing(100), upstream=first)
        assert rows(second.finish()) == [(100, "a", 2, 1, 2)]
        assert rows(late.finish())[0][0] == 100
