"""The tests of this folder again, in the modes that only a process of its own can have."""

from __future__ import annotations

import pytest

from tests.native.modes import run_python

MODES = {
    "uncompiled": (
        {"NUMBA_DISABLE_JIT": "1"},
        ["test_contract.py", "test_waiting.py", "test_interleaver.py", "test_wake_ups.py"],
    ),
    "boundscheck": ({"STRETCH_BOUNDSCHECK": "1"}, ["test_contract.py"]),
    "no futex": ({"STRETCH_NO_FUTEX": "1"}, ["test_waiting.py"]),
}


@pytest.mark.parametrize("mode", MODES)
def test_mode(mode):
    variables, files = MODES[mode]
    paths = [f"tests/native/{name}" for name in files]
    output = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *paths, **variables)
    assert " passed" in output
    assert "failed" not in output
