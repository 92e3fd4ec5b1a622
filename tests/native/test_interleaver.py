"""The interleaver finds races, replays them, and ends what does not end: with compiled atomics and with twins."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from stretch.native import (
    Interleaver,
    InterleavingError,
    backoff,
    compare_exchange,
    fetch_add,
    load_acquire,
    now_ns,
    schedule_point,
    store_release,
)
from stretch.native.jit import JIT_ENABLED
from stretch.native.schedule import STEP_NS, waiting_point
from stretch.native.system import sleep_ns, yield_processor

SEEDS = range(50)


def run_counter(seed, add_one, threads=3, times=4):
    """Return what `threads` workers that add one `times` times make of a counter, and the order of turns."""
    cells = np.zeros(1, np.int64)

    def work():
        for _ in range(times):
            add_one(cells)

    interleaver = Interleaver(seed)
    interleaver.run([work] * threads)
    return int(cells[0]), interleaver.trace


def add_racily(cells):
    store_release(cells, 0, load_acquire(cells, 0) + 1)  # two atomics are not one


def add_atomically(cells):
    fetch_add(cells, 0, 1)


def test_finds_a_lost_update_and_replays_it():
    runs = {seed: run_counter(seed, add_racily) for seed in SEEDS}
    losing = [seed for seed, (total, _) in runs.items() if total < 12]
    assert len(losing) >= 10
    assert len({str(trace) for _, trace in runs.values()}) > 40  # the seeds are different orders
    for seed in losing:
        assert run_counter(seed, add_racily) == runs[seed]


def test_finds_nothing_where_nothing_is():
    assert {run_counter(seed, add_atomically)[0] for seed in SEEDS} == {12}


def test_turns_are_short_in_some_runs_and_long_in_others():
    turn_counts = [len(run_counter(seed, add_atomically, times=20)[1]) for seed in SEEDS]
    assert min(turn_counts) < 10 < 40 < max(turn_counts)


def test_only_one_worker_runs_at_a_time():
    running = []

    def work():
        for _ in range(50):
            running.append(threading.get_ident())
            assert len(running) == 1
            time.sleep(0)  # the interpreter may switch, the interleaver does not
            running.clear()
            schedule_point()

    for seed in range(5):
        Interleaver(seed).run([work] * 4)


def test_results_come_in_order():
    assert Interleaver(1).run([lambda: "left", lambda: None, lambda: 3]) == ["left", None, 3]
    assert Interleaver(1).run([]) == []


def failing():
    schedule_point()
    raise ValueError("no such group")


def spinning():
    while True:
        yield_processor()


def test_error_of_a_worker_names_the_seed():
    interleaver = Interleaver(seed=7)
    with pytest.raises(InterleavingError) as error:
        interleaver.run([spinning, failing])
    lines = str(error.value).splitlines()
    assert lines[0] == "worker 1 (failing) raised ValueError: no such group"
    assert lines[1] == f"  where: step {interleaver.steps} of seed 7"
    assert lines[2] == "  why:   this order of turns breaks it; its error is the cause of this one."
    assert lines[3] == (
        "  do:    replay exactly this order with Interleaver(seed=7, max_steps=100000, strict_parks=False)."
    )
    assert isinstance(error.value.__cause__, ValueError)
    assert [worker for worker, _ in interleaver.failures] == [1]


def test_a_failure_unwinds_the_others_one_by_one():
    unwound: list[int] = []

    def cleaning():
        try:
            spinning()
        finally:
            unwound.append(len(unwound))

    with pytest.raises(InterleavingError, match="no such group"):
        Interleaver(3).run([cleaning, failing, cleaning])
    assert unwound in ([0, 1], [0], [])  # one that had not started yet does not start


def test_two_failures_are_both_kept():
    def fail_on_the_way_out():
        try:
            spinning()
        finally:
            raise KeyError("second")

    interleaver = Interleaver(0)
    with pytest.raises(InterleavingError):
        interleaver.run([fail_on_the_way_out, failing])
    assert sorted(type(error).__name__ for _, error in interleaver.failures) in (
        ["KeyError", "ValueError"],
        ["ValueError"],
    )


def take(locks, index):
    attempt = 0
    while not compare_exchange(locks, index, 0, 1):  # pairs with the store_release in lock_both
        if JIT_ENABLED:
            yield_processor()  # compiled, backoff would really sleep
        else:
            backoff(attempt)
        attempt += 1


def test_deadlock_names_the_seed():
    def lock_both(locks, first, second):
        for _ in range(3):
            take(locks, first)
            take(locks, second)
            store_release(locks, first, 0)
            store_release(locks, second, 0)

    def run(seed):
        locks = np.zeros(2, np.int64)
        workers = [lambda: lock_both(locks, 0, 1), lambda: lock_both(locks, 1, 0)]
        Interleaver(seed, max_steps=2_000).run(workers)

    found = {}
    for seed in SEEDS:
        try:
            run(seed)
        except InterleavingError as error:
            found[seed] = str(error)
    assert 5 <= len(found) < 50  # some orders lock, some do not
    for seed, text in list(found.items())[:3]:
        assert text.startswith("The workers cannot go on: no end after 2000 steps: a livelock, a deadlock, or")
        assert f"  where: step 2001 of seed {seed}\n" in text
        assert f"do:    replay exactly this order with Interleaver(seed={seed}, max_steps=2000, " in text
        assert f"is running at {__file__}:" in text  # where each one stands
        with pytest.raises(InterleavingError) as again:
            run(seed)
        assert str(again.value) == text


def test_a_worker_that_really_blocks_is_reported():
    lock = threading.Lock()

    def hold():
        with lock:
            for _ in range(100):
                schedule_point()

    def run_all_seeds():
        for seed in SEEDS:
            Interleaver(seed, wall_seconds=0.3).run([hold, hold])

    with pytest.raises(InterleavingError, match=r"did not end within 0\.3 s(.|\n)*never with a real lock"):
        run_all_seeds()


def test_time_is_virtual():
    def sleep_long():
        sleep_ns(3_600 * 10**9)
        return now_ns()

    def look_often():
        for _ in range(10):
            waiting_point()
        return now_ns()

    before = time.monotonic()
    slept_ns, looked_ns = Interleaver(5).run([sleep_long, look_often])
    assert time.monotonic() - before < 10
    assert slept_ns >= 3_600 * 10**9
    assert looked_ns <= 12 * STEP_NS
    assert abs(now_ns() - time.monotonic_ns()) < 10**9  # outside of it the clock is real


def test_runs_neither_nest_nor_repeat():
    with pytest.raises(InterleavingError, match="runs cannot nest or overlap"):
        Interleaver(0).run([lambda: Interleaver(1).run([failing])])
    interleaver = Interleaver(0)
    interleaver.run([schedule_point])
    with pytest.raises(RuntimeError, match="has run already"):
        interleaver.run([schedule_point])


def test_other_threads_are_left_alone():
    seen = []

    def start_a_thread():
        thread = threading.Thread(target=lambda: seen.append(load_acquire(np.full(1, 4), 0)))
        thread.start()
        thread.join()

    Interleaver(0).run([start_a_thread])
    assert seen == [4]
