"""The compiled engine under stress: real threads, tiny buffers, many workers on few cores, changes all the time.

Each round plays a random stream twice: through the compiled engine, with sources, a reader and someone who changes the
parallelism in threads of their own, and through the reference engine. The results are the same. How long it goes on is
STRESS_SECONDS, some seconds unless it is set:

    STRESS_SECONDS=600 make stress
"""

from __future__ import annotations

import os
import random
import threading
import time

import pyarrow as pa
import pytest

import stretch as st
from stretch.runtime.compiled import memory
from tests.unit.streams import VISITS, rows, started

SECONDS = float(os.environ.get("STRESS_SECONDS", "8"))
MANY_WORKERS = (8, 16, 32)
GROUPS = 64

pytestmark = [pytest.mark.stress, pytest.mark.timeout(SECONDS + 600)]


def stream(choice, length):
    """A sorted stream of visits with many equal times."""
    now, times = 0, []
    for _ in range(length):
        now += choice.choice([0, 0, 0, 1, 1, 5, 40])
        times.append(now)
    users = [f"user {choice.randrange(40)}" for _ in times]
    return pa.record_batch(
        {"ts": pa.array(times, pa.int64()), "user": users, "pages": pa.array(range(length), pa.int64())}
    )


def counting():
    return st.Aggregate(
        window=st.sliding(20, 10),
        keys="user",
        visits=st.count(),
        first=st.first("pages"),
        last=st.last("pages"),
        groups=GROUPS,
    )


def behind():
    return st.Aggregate(window=st.tumbling(40), keys="user", visits=st.sum("visits"), n=st.count(), groups=GROUPS)


def expected(streams, chained):
    """Return what the reference engine gives."""
    first = started(counting(), sources=len(streams))
    last = st.setup(behind(), upstream=first) if chained else first
    for number, batch in enumerate(streams):
        first.add(batch, number)
    return rows(last.finish())


def play(streams, choice, pool, chained):
    """Run the compiled engine with everything at once; return the results and how many changes took effect."""
    first = started(
        counting(), inputs=VISITS, engine="compiled", sources=len(streams), parallelism=pool // 2, max_parallelism=pool
    )
    jobs = [first]
    if chained:
        jobs.append(st.setup(behind(), upstream=first, parallelism=1, max_parallelism=pool))
    last, parts, problems, done = jobs[-1], [], [], threading.Event()
    seeds = [choice.random() for _ in range(len(streams) + 1)]

    def guarded(action, *arguments):
        try:
            action(*arguments)
        except Exception as problem:
            problems.append(problem)
            done.set()

    def feed(number, batch, seed):
        own = random.Random(seed)
        while batch.num_rows and not done.is_set():
            rows_now = own.choice([1, 3, 50, 700])
            timeout = own.choice([None, 0.0, 0.01])
            batch = batch.slice(first.add(batch.slice(0, rows_now), number, timeout=timeout))

    def change(seed):
        own = random.Random(seed)
        while not done.wait(own.choice([0.0, 0.001, 0.01])):
            job = own.choice(jobs)
            instances = own.sample(range(pool), own.randint(1, pool))
            mapping = [own.choice(instances) for _ in range(GROUPS)] if own.random() < 0.3 else None
            try:
                job.reconfigure(instances=instances, mapping=mapping)
            except st.ReconfigurationError:  # too many wait
                time.sleep(0.001)

    def read():
        while not done.wait(0.002):
            parts.append(last.results(wait=False))
            assert last.metrics().pending <= 4 * memory.CAPACITY * len(streams)

    feeders = [threading.Thread(target=guarded, args=(feed, n, batch, seeds[n])) for n, batch in enumerate(streams)]
    others = [threading.Thread(target=guarded, args=each) for each in ((change, seeds[-1]), (read,))]
    for thread in [*feeders, *others]:
        thread.start()
    for thread in feeders:
        thread.join()
    done.set()
    for thread in others:
        thread.join()
    assert not problems, problems
    parts.append(last.finish())
    switched = sum(job.metrics().reconfigurations for job in jobs)
    for job in reversed(jobs):
        job.stop()
    return [row for part in parts for row in rows(part)], switched


def test_results_are_those_of_the_reference_engine_whatever_happens(monkeypatch):
    seed, until, switched, rounds = random.randrange(2**32), time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < until or rounds == 0:
        choice = random.Random(seed)
        capacity = choice.choice([8, 64, 1024])
        monkeypatch.setattr(memory, "CAPACITY", capacity)
        monkeypatch.setattr(memory, "STAGING", choice.choice([4, capacity]))
        streams = [stream(choice, choice.choice([300, 3_000])) for _ in range(choice.randint(1, 3))]
        chained = choice.random() < 0.4
        found, changes = play(streams, choice, choice.choice(MANY_WORKERS), chained)
        assert found == expected(streams, chained), f"seed {seed}"
        switched, rounds, seed = switched + changes, rounds + 1, seed + 1
    print(f"\n{rounds} rounds, {switched} reconfigurations, from seed {seed - rounds} on")
    assert switched > 0
