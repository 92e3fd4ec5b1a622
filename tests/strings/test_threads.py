"""Real threads that intern the same new words at the same time, in a dictionary that sweeps all the time."""

from __future__ import annotations

import random
import threading

import numpy as np
import pyarrow as pa
import pytest

from stretch.errors import JobError
from stretch.native.jit import JIT_ENABLED
from stretch.strings import WORDS, Dictionary
from stretch.strings.access import close, enter, leave, open_again
from stretch.strings.layout import DONE, INSIDE
from tests.strings.texts import decoded, intern_rows

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="uncompiled threads take turns under the GIL")


def run_threads(functions):
    """Run all functions at once; raise the first error."""
    errors = []

    def call(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"


class Rounds:
    """Threads that intern, in each round, the same words in different orders, and compare what they got."""

    def __init__(self, threads, rounds, hash_mask):
        self.dictionary = Dictionary(1 << 16, room=1, hash_mask=hash_mask)
        self.rounds = rounds
        self.found = [{} for _ in range(threads)]
        self.barrier = threading.Barrier(threads, action=self.compare)
        self.round = 0
        self.live_max = 0

    def words(self, number):
        """Half of the words of a round were there in the round before, half are new; some are long."""
        return [f"w{k}" + "long" * (k % 11) for k in range(number * 100, number * 100 + 200)]

    def work(self, number):
        shuffle = random.Random(number)
        for round_ in range(self.rounds):
            rows = self.words(round_)
            shuffle.shuffle(rows)
            array = pa.array([" ".join(rows[k : k + 10]) for k in range(0, len(rows), 10)])
            column = self.dictionary.column(array, WORDS)
            ids, _ = self.dictionary.intern_all(column, np.full(len(array), round_ + 1))
            assert self.dictionary.decode(ids).to_pylist() == rows
            assert self.dictionary.decode_dictionary(ids).to_pylist() == rows
            self.found[number] = dict(zip(rows, ids.tolist(), strict=True))
            self.barrier.wait(60)

    def compare(self):
        first = self.found[0]
        assert len(set(first.values())) == len(first), "two words share an id"
        assert all(other == first for other in self.found), "a word has two ids"
        self.live_max = max(self.live_max, self.dictionary.live_count())
        self.dictionary.release(self.round)  # the ids of the round before
        self.round += 1


@pytest.mark.parametrize("hash_mask", [2**63 - 1, 31])
@pytest.mark.parametrize("threads", [2, 4])
def test_a_word_has_one_id_in_all_threads(threads, hash_mask):
    rounds = Rounds(threads, 150, hash_mask)
    try:
        run_threads([lambda number=number: rounds.work(number) for number in range(threads)])
    finally:
        rounds.barrier.abort()
    assert rounds.round == 150
    assert rounds.live_max <= 800  # 200 words are alive, and the 100 before; dead ones are at most as many
    assert rounds.dictionary.sweep_count() > 50


def test_ids_stay_while_others_pass():
    """Sources at different times share ids; each holds its last rows while the others' words come and go."""
    dictionary = Dictionary(1 << 16, room=4)
    done = [0] * 3
    steps, hold = 400, 3

    def work(number):
        shuffle = random.Random(number)
        held = []
        for time in range(1, steps + 1):
            texts = [f"{shuffle.choice('abc')}{shuffle.randrange(time, time + 40)}" for _ in range(30)]
            rows = intern_rows(dictionary, pa.array(texts), time + hold)
            held = [*held, (texts, [row[0] for row in rows])][-hold:]
            for before, ids in held:
                assert decoded(dictionary, ids) == before
            done[number] = time
            dictionary.release(min(done))

    run_threads([lambda number=number: work(number) for number in range(3)])
    dictionary.sweep()
    assert dictionary.live_count() <= 3 * hold * 30


def test_sweeps_run_against_lookups_and_decoders():
    dictionary = Dictionary(1 << 16, room=4)
    fixed = [f"fixed {k}" for k in range(300)]
    ids = np.array([row[0] for row in intern_rows(dictionary, pa.array(fixed), 10**6)], np.int32)
    stopped = threading.Event()

    def look_up():
        column = dictionary.column(pa.array(fixed))
        for _ in range(1_500):
            assert np.array_equal(dictionary.intern_all(column, np.full(len(fixed), 10**6))[0], ids)
        stopped.set()

    def decode():
        while not stopped.is_set():
            assert dictionary.decode(ids).to_pylist() == fixed

    def sweep():
        time = 0
        while not stopped.is_set():
            time += 1
            intern_rows(dictionary, pa.array([f"passing by at {time} {k}" for k in range(20)]), time)
            dictionary.release(time)
            dictionary.sweep()

    run_threads([look_up, decode, sweep])


def test_memory_is_flat_while_words_pass_by():
    dictionary = Dictionary()
    memory = []
    for time in range(300):
        words = [f"word {time} {k}" + "x" * (k % 40) for k in range(1_000)]
        intern_rows(dictionary, pa.array(words), time + 3)
        dictionary.release(time)
        memory.append(dictionary.memory_bytes())
    assert max(memory) < 1.2 * max(memory[:30]) < 1_500_000  # 4,000 words are alive, 300,000 pass by


def test_memory_comes_back_after_a_peak():
    dictionary = Dictionary()
    words = [f"word number {k} of the peak" for k in range(100_000)]
    intern_rows(dictionary, pa.array(words), 1)
    intern_rows(dictionary, pa.array(["stays"]), 2)
    peak = dictionary.memory_bytes()
    dictionary.release(1)
    dictionary.sweep()
    # An id cannot move: the last one keeps the records of all below it, which are given out first from now on.
    assert dictionary.live_count() == 1
    dictionary.release(2)
    dictionary.sweep()
    assert dictionary.memory_bytes() < peak / 10
    rows = intern_rows(dictionary, pa.array(words), 3)
    assert decoded(dictionary, [row[0] for row in rows]) == words
    assert dictionary.memory_bytes() <= peak * 1.01


def test_a_thread_outside_waits_until_it_is_open_or_stopped():
    stop = np.zeros(1, np.int64)
    dictionary = Dictionary(1 << 10, stop=stop)
    view = dictionary._view
    assert close(view) == DONE
    timer = threading.Timer(0.05, open_again, [view])
    timer.start()
    assert intern_rows(dictionary, pa.array(["a"]), 1) == [[1]]
    timer.join()

    assert close(view) == DONE
    stop[0] = 1
    with pytest.raises(JobError, match="interning was stopped"):
        intern_rows(dictionary, pa.array(["a"]), 1)
    with pytest.raises(JobError, match="interning was stopped"):
        dictionary.decode(np.ones(1, np.int32))
    open_again(view)
    stop[0] = 0
    assert enter(view) == DONE
    stop[0] = 1
    with pytest.raises(JobError, match="interning was stopped"):
        dictionary.sweep()
    leave(view)
    assert view.control[INSIDE] == 0  # who gave up has opened again
