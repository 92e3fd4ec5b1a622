"""Hashes are the same numbers compiled and as Python; hints change nothing."""

import numpy as np
import pytest

from stretch.native.hashing import hash_int, hash_next, scatter
from stretch.native.jit import kernel
from stretch.native.prefetch import prefetch

WORDS = [0, 1, -1, 7 << 32 | 5, -(1 << 63), (1 << 63) - 1, 0x4059_0000_0000_0000]


@pytest.mark.parametrize("word", WORDS)
def test_compiled_hashes_are_those_of_python(word: int) -> None:
    assert _all_three(word) == (scatter(word), hash_int(word), hash_next(2, word))


@kernel
def _all_three(word: int) -> tuple[int, int, int]:
    return scatter(word), hash_int(word), hash_next(2, word)


@pytest.mark.parametrize("step", [1, 1 << 20, 1 << 32, 1 << 40, 1 << 52])
def test_slots_of_words_a_step_apart_hardly_clash(step: int) -> None:
    slots = [(scatter(number * step) >> 32) & 1023 for number in range(512)]
    assert len(set(slots)) > 300  # 512 random ones fill about 400 of 1,024


def test_a_hint_changes_nothing_wherever_it_points() -> None:
    numbers = np.arange(4)
    for index in (0, 3, 1 << 20, -1 << 20):
        _hint(numbers, index)
    assert numbers.tolist() == [0, 1, 2, 3]


@kernel
def _hint(array: np.ndarray, index: int) -> None:
    prefetch(array, index)
