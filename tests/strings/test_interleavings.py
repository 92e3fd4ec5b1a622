"""Interning, sweeping and decoding in orders that a seed draws and replays; uncompiled, every atomic is a step."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from stretch.native.jit import JIT_ENABLED
from stretch.native.schedule import Interleaver
from stretch.strings import Dictionary
from stretch.strings.layout import INSIDE
from tests.strings.texts import decoded, intern_rows

pytestmark = pytest.mark.skipif(JIT_ENABLED, reason="a compiled kernel is one step")


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_one_id_per_word(first):
    """Workers add the same words at once; two sweep."""
    for seed in range(first, first + 10):
        draw = random.Random(seed)
        dictionary = Dictionary(1 << 8, room=1, hash_mask=draw.choice([0, 3, 2**63 - 1]))
        words = [f"w{k}" + "long" * draw.choice([0, 5]) for k in range(4)]

        def intern(words=tuple(words), dictionary=dictionary, seed=seed):
            order = list(words)
            random.Random(seed).shuffle(order)
            rows = intern_rows(dictionary, pa.array(order), 10)
            ids = [row[0] for row in rows]
            assert decoded(dictionary, ids) == order
            return dict(zip(order, ids, strict=True))

        def sweep(dictionary=dictionary):
            dictionary.sweep()
            dictionary.sweep()

        found = Interleaver(seed, strict_parks=True).run([intern, intern, intern, sweep])[:3]
        assert found[0] == found[1] == found[2]
        assert len(set(found[0].values())) == len(words)
        assert dictionary._view.control[INSIDE] == 0
        dictionary.sweep()
        assert dictionary.live_count() == len(words)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_no_id_is_given_out_while_it_is_held(first):
    """Each worker holds its last rows, releases earlier ones and interns new words, some of them of the other."""
    for seed in range(first, first + 10):
        dictionary = Dictionary(1 << 8, room=1, hash_mask=3)
        done = [0, 0]

        def work(number, dictionary=dictionary, done=done, seed=seed):
            draw = random.Random(seed * 2 + number)
            held = []
            for time in range(1, 5):
                words = [f"{draw.randrange(time, time + 3)}" for _ in range(2)]
                ids = [row[0] for row in intern_rows(dictionary, pa.array(words), time + 2)]
                held = [*held, (words, ids)][-2:]
                for before, known in held:
                    assert decoded(dictionary, known) == before
                done[number] = time
                dictionary.release(min(done))

        Interleaver(seed, strict_parks=True).run([lambda work=work: work(0), lambda work=work: work(1)])


def test_a_reader_of_hashes_sees_those_of_its_ids():
    for seed in range(10):
        dictionary = Dictionary(1 << 8, room=1)
        expected = {}

        def intern(dictionary=dictionary, expected=expected):
            for k in range(6):
                ((id_,),) = intern_rows(dictionary, pa.array([f"{k // 2}"]), 10)
                assert expected.setdefault(id_, int(dictionary.hashes[id_])) == int(dictionary.hashes[id_])
            return np.count_nonzero(dictionary.hashes)

        Interleaver(seed, strict_parks=True).run([intern, intern])
