"""One table of what each atomic does, for all its forms: called from Python, from a kernel, and as the twin.

`test_modes.py` runs this file again with NUMBA_DISABLE_JIT=1 (then both columns are the twin) and with bounds checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba.core.errors import TypingError

from stretch.errors import StretchError
from stretch.native import (
    compare_exchange,
    exchange,
    fetch_add,
    is_compiled,
    kernel,
    load_acquire,
    load_relaxed,
    require_cells,
    schedule_point,
    specialised,
    store_release,
    user_function,
)
from stretch.native.jit import BOUNDSCHECK, JIT_ENABLED

LARGEST = 2**63 - 1
SMALLEST = -(2**63)


@kernel
def kernel_load_acquire(array, index):
    schedule_point()  # may stand in a kernel: it is nothing there
    return load_acquire(array, index)


@kernel
def kernel_load_relaxed(array, index):
    return load_relaxed(array, index)


@kernel
def kernel_store_release(array, index, value):
    return store_release(array, index, value)


@kernel
def kernel_exchange(array, index, value):
    return exchange(array, index, value)


@kernel
def kernel_fetch_add(array, index, value):
    return fetch_add(array, index, value)


@kernel
def kernel_compare_exchange(array, index, expected, desired):
    return compare_exchange(array, index, expected, desired)


FORMS: dict[str, tuple[Callable[..., Any], ...]] = {
    "python": (load_acquire, load_relaxed, store_release, exchange, fetch_add, compare_exchange),
    "kernel": (
        kernel_load_acquire,
        kernel_load_relaxed,
        kernel_store_release,
        kernel_exchange,
        kernel_fetch_add,
        kernel_compare_exchange,
    ),
}
LOAD, RELAXED, STORE, EXCHANGE, ADD, COMPARE = range(6)

# operation, what the cell holds, arguments, what is returned, what the cell holds then
TABLE = [
    (LOAD, 7, (), 7, 7),
    (LOAD, SMALLEST, (), SMALLEST, SMALLEST),
    (RELAXED, -1, (), -1, -1),
    (STORE, 7, (8,), None, 8),
    (STORE, 7, (SMALLEST,), None, SMALLEST),
    (EXCHANGE, 7, (8,), 7, 8),
    (EXCHANGE, -5, (LARGEST,), -5, LARGEST),
    (ADD, 7, (3,), 7, 10),
    (ADD, 7, (-9,), 7, -2),
    (ADD, 7, (0,), 7, 7),
    (ADD, LARGEST, (1,), LARGEST, SMALLEST),
    (ADD, SMALLEST, (-1,), SMALLEST, LARGEST),
    (ADD, LARGEST, (LARGEST,), LARGEST, -2),
    (COMPARE, 7, (7, 9), True, 9),
    (COMPARE, 7, (8, 9), False, 7),
    (COMPARE, 7, (7, 7), True, 7),
    (COMPARE, SMALLEST, (SMALLEST, LARGEST), True, LARGEST),
    (COMPARE, 2**32 + 1, (1, 9), False, 2**32 + 1),
]


def plain_array():
    return np.zeros(3, np.int64)


def strided_array():
    return np.zeros(12, np.int64)[2::4]


def reversed_array():
    return np.zeros(3, np.int64)[::-1]


def record_field():
    record = np.dtype([("flag", np.int32), ("next", np.int64), ("weight", np.float32)], align=True)
    return np.zeros(3, record)["next"]


@pytest.mark.parametrize("make_array", [plain_array, strided_array, reversed_array, record_field])
@pytest.mark.parametrize("form", FORMS)
def test_table(form, make_array):
    for operation, before, arguments, returned, after in TABLE:
        array = make_array()
        require_cells(array, "the array under test")
        array[:] = 111
        array[1] = before
        result = FORMS[form][operation](array, 1, *arguments)
        case = (operation, before, arguments)
        assert result == returned, case
        assert type(result) is type(returned), case
        assert array.tolist() == [111, after, 111], case


@pytest.mark.parametrize("form", FORMS)
def test_numpy_integers_are_integers(form):
    array = plain_array()
    assert FORMS[form][ADD](array, np.int32(2), np.int16(5)) == 0
    assert array.tolist() == [0, 0, 5]


@kernel
def add_to_field(nodes, index, value):
    return fetch_add(nodes["next"], index, value)


def test_field_taken_inside_a_kernel():
    nodes = np.zeros(4, np.dtype([("flag", np.int32), ("next", np.int64)], align=True))
    assert add_to_field(nodes, 2, 5) == 0
    assert add_to_field(nodes, 2, 5) == 5
    assert nodes["next"].tolist() == [0, 0, 10, 0]
    assert nodes["flag"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("index", [-1, 3, -(2**40), 2**40])
def test_index_outside_of_the_array(index):
    # In an unchecked build a kernel would touch foreign memory here, so only the checked ones are tried.
    forms = FORMS if BOUNDSCHECK or not JIT_ENABLED else {"python": FORMS["python"]}
    for functions in forms.values():
        for operation, _, arguments, _, _ in TABLE:
            with pytest.raises(IndexError, match="counted from the front"):
                functions[operation](plain_array(), index, *arguments)


def test_arrays_that_are_no_cells():
    packed = np.zeros(4, np.dtype([("flag", np.int8), ("next", np.int64)]))["next"]
    read_only = np.zeros(3, np.int64)
    read_only.flags.writeable = False
    refused: list[tuple[np.ndarray, str]] = [
        (np.zeros(3), "not int64"),
        (np.zeros(3, np.int32), "not int64"),
        (np.zeros(3, ">i8"), "not int64"),
        (np.zeros((3, 3), np.int64), "one dimension"),
        (read_only, "read-only"),
        (packed, "torn"),
    ]
    for array, why in refused:
        with pytest.raises(StretchError, match=why) as error:
            require_cells(array, "the wait cells")
        assert str(error.value).startswith("Atomics cannot work on the wait cells.\n  where: an array of dtype ")
    with pytest.raises(StretchError, match="not int64"):
        fetch_add(refused[0][0], 0, 1)


@pytest.mark.skipif(not JIT_ENABLED, reason="a kernel is compiled")
def test_kernels_refuse_arrays_that_are_no_cells():
    for array in (np.zeros(3), np.zeros((3, 3), np.int64), np.zeros(3, np.int32)):
        with pytest.raises(TypingError, match="it takes a writable, aligned, one-dimensional int64 array"):
            kernel_fetch_add(array, 0, 1)
    packed = np.zeros(4, np.dtype([("flag", np.int8), ("next", np.int64)]))
    with pytest.raises(TypingError, match="it takes a writable, aligned, one-dimensional int64 array"):
        add_to_field(packed, 0, 1)


def test_is_compiled():
    assert is_compiled(add_to_field) is JIT_ENABLED
    assert not is_compiled(fetch_add)
    assert not is_compiled(3)


@kernel(inline=True)
def twice(value):
    return 2 * value


@kernel
def twice_plus_one(value):
    return twice(value) + 1


def test_inline_kernel():
    assert twice_plus_one(20) == 41
    assert twice(20) == 40


def test_specialised_closes_over_a_function():
    def specialise(update):
        @specialised
        def update_all(values):
            for index in range(len(values)):
                values[index] = update(values[index])

        return update_all

    @specialised
    def square(value):
        return value * value

    values = np.arange(4)
    specialise(square)(values)
    specialise(twice)(values)
    assert values.tolist() == [0, 2, 8, 18]


def test_kernel_refuses_a_closure():
    with pytest.raises(StretchError) as error:

        @kernel
        def inner(value):
            return value

    lines = str(error.value).splitlines()
    assert lines[0] == "@kernel cannot compile test_kernel_refuses_a_closure.<locals>.inner."
    assert lines[1].startswith(f"  where: {__file__}:")
    assert lines[2] == (
        "  why:   it is defined inside another function, and kernels may be cached, which closures may not."
    )
    assert lines[3] == "  do:    move it to the top of its module, or decorate it with @specialised."


@kernel
def divide(left, right):
    return left / right


@pytest.mark.skipif(not JIT_ENABLED, reason="Python raises")
def test_division_by_zero_does_not_raise_in_a_kernel():
    assert divide(1.0, 0.0) == np.inf


def test_user_functions_fail_as_in_python():
    def mean(total, count):
        return total // count

    def pick(values, index):
        return values[index]

    mean_compiled, pick_compiled = user_function(mean), user_function(pick)
    assert is_compiled(mean_compiled) is JIT_ENABLED

    @specialised
    def apply(total, count, values, index):
        return mean_compiled(total, count) + pick_compiled(values, index)

    values = np.arange(3)
    assert apply(7, 2, values, -1) == 5
    with pytest.raises(ZeroDivisionError):
        apply(7, 0, values, 1)
    with pytest.raises(IndexError):
        apply(7, 2, values, 3)


@kernel
def read_far(array, index):
    return array[index]


@pytest.mark.skipif(not BOUNDSCHECK, reason="only checked builds raise")
def test_bounds_are_checked():
    with pytest.raises(IndexError):
        read_far(np.zeros(3, np.int64), 2**30)
