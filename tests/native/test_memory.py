"""Memory by address does the same compiled, called from Python, and uncompiled (`test_modes.py`)."""

from __future__ import annotations

import numpy as np
import pytest

from stretch.errors import StretchError
from stretch.native import kernel
from stretch.native.memory import (
    address_of,
    copy_bytes,
    read_int8,
    read_int16,
    read_int32,
    read_int64,
    reserve,
    write_int8,
    write_int16,
    write_int32,
    write_int64,
)

VALUES = [0, 1, -1, 2**7 - 1, -(2**7), 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]


@kernel
def copy_all(target, origin, size):
    copy_bytes(target, origin, size)


@kernel
def write_all(address, value):
    write_int8(address, value)
    write_int16(address + 8, value)
    write_int32(address + 16, value)
    write_int64(address + 24, value)


@kernel
def read_all(address):
    return read_int8(address), read_int16(address + 8), read_int32(address + 16), read_int64(address + 24)


def write_all_from_python(address, value):
    for width, write in enumerate((write_int8, write_int16, write_int32, write_int64)):
        write(address + 8 * width, value)


def read_all_from_python(address):
    return tuple(
        read(address + 8 * width) for width, read in enumerate((read_int8, read_int16, read_int32, read_int64))
    )


@pytest.mark.parametrize("misaligned", [0, 3])
@pytest.mark.parametrize("value", VALUES)
def test_values_keep_their_low_bits_and_their_sign(value, misaligned):
    expected = tuple((value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for bits in (8, 16, 32, 64))
    for write in (write_all, write_all_from_python):
        block = np.zeros(40, np.uint8)
        write(address_of(block) + misaligned, value)
        assert read_all(address_of(block) + misaligned) == expected
        assert read_all_from_python(address_of(block) + misaligned) == expected


def test_a_write_leaves_its_neighbours():
    block = np.full(16, 7, np.uint8)
    write_int16(address_of(block) + 4, -1)
    assert block.tolist() == [7] * 4 + [255] * 2 + [7] * 10


@pytest.mark.parametrize("copy", [copy_bytes, copy_all])
@pytest.mark.parametrize("size", [0, 1, 7, 64, 100_000])
def test_copies_exactly_what_is_asked_for(copy, size):
    origin = np.arange(size + 2, dtype=np.uint8)
    target = np.zeros(size + 2, np.uint8)
    copy(address_of(target) + 1, address_of(origin) + 1, size)
    assert target[1 : size + 1].tolist() == origin[1 : size + 1].tolist()
    assert target[0] == target[-1] == 0


def test_reserved_memory_is_zero_and_costs_nothing_until_touched():
    block = reserve(1 << 33)
    assert block.size == 1 << 33
    assert block[-1] == block[0] == 0
    block[1 << 32] = 1
    assert block[1 << 32] == 1
    assert address_of(block) % 4096 == 0


def test_reserved_memory_outlives_its_first_array():
    part = reserve(8192)[4096:].view(np.int64)
    part[:] = 5
    assert part.sum() == 5 * 512


def test_says_how_much_the_system_refused():
    with pytest.raises(StretchError, match="does not give"):
        reserve(1 << 62)
