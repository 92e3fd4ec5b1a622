"""The tests of this folder again, in the modes that only a process of its own can have."""

from __future__ import annotations

import pytest

from tests.native.modes import run_python

MODES = {
    "uncompiled": (
        {"NUMBA_DISABLE_JIT": "1"},
        ["test_tokenise.py", "test_dictionary.py", "test_interleavings.py"],
    ),
    "boundscheck": ({"STRETCH_BOUNDSCHECK": "1"}, ["test_tokenise.py", "test_dictionary.py"]),
}


@pytest.mark.parametrize("mode", ["uncompiled", pytest.param("boundscheck", marks=pytest.mark.slow)])
def test_mode(mode):
    variables, files = MODES[mode]
    paths = [f"tests/strings/{name}" for name in files]
    output = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *paths, **variables)
    assert " passed" in output
    assert "failed" not in output


LITTLE_ADDRESS_SPACE = """
import resource
limit = 3 * 2**30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
import numpy as np, pyarrow as pa
from stretch.strings import Dictionary
dictionary = Dictionary()
ids, _ = dictionary.intern_all(dictionary.column(pa.array(["a", "b", "a"])), np.ones(3, np.int64))
print(ids.tolist(), len(dictionary.hashes))
"""


def test_a_process_with_little_address_space_reserves_less():
    ids, capacity = run_python("-c", LITTLE_ADDRESS_SPACE, NUMBA_DISABLE_JIT="1").rsplit(" ", 1)
    assert ids == "[1, 2, 1]"
    assert 2**16 <= int(capacity) < 2**26
