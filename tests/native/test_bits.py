"""Bits: compiled and plain functions agree."""

import numpy as np

from stretch.native import kernel
from stretch.native.bits import first_bit, nonzero_bytes
from stretch.native.memory import address_of


@kernel
def both(address: int, word: int) -> tuple[int, int]:
    return nonzero_bytes(address), first_bit(word)


def test_bytes_become_bits():
    random = np.random.default_rng(0)
    for share in (0, 0.1, 1):
        block = ((random.random(16) < share) * random.integers(1, 256, 16)).astype(np.uint8)
        expected = int(np.packbits(block != 0, bitorder="little").view(np.uint16)[0])
        assert nonzero_bytes(address_of(block)) == both(address_of(block), 1)[0] == expected


def test_the_first_bit_is_the_lowest():
    block = np.zeros(16, np.uint8)
    for word, first in ((1, 0), (12, 2), (-(1 << 63), 63), (-1, 0)):
        assert first_bit(word) == both(address_of(block), word)[1] == first
