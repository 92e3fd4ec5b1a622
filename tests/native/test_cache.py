"""The cache of compiled kernels: one directory per build, hits in the next process."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest

from stretch.native import jit, kernel
from stretch.native.jit import JIT_ENABLED, cache_directory, sources_of
from tests.native.modes import run_python

pytestmark = pytest.mark.skipif(not JIT_ENABLED, reason="nothing is compiled")

USE = """
import numba
import numpy as np
from stretch.native import fetch_add, jit, park, specialised, wake_all
cells = np.zeros(2, np.int64)
fetch_add(cells, 1, 3)
park(cells, 0, 0, 0)
wake_all(cells, 0)
specialised(lambda value: value + 1)(1)
print(sum(park.stats.cache_hits.values()), sum(wake_all.stats.cache_hits.values()), cells.tolist())
print(jit.cache_directory())
print(repr(numba.config.CACHE_DIR))
"""


@kernel
def kernel_of_a_test(value):
    return value + 1


def test_an_empty_directory_switches_the_cache_off():
    assert run_python("-c", USE, STRETCH_CACHE_DIR="").splitlines()[1] == "None"


def test_only_kernels_of_the_package_are_cached():
    assert cache_directory() is not None
    kernel_of_a_test(1)
    compiled: Any = kernel_of_a_test
    assert not compiled.stats.cache_path


def test_second_process_compiles_nothing_and_flags_make_another_directory(tmp_path):
    cells = [1 << 32, 3]
    first, directory, numba_setting = run_python("-c", USE, STRETCH_CACHE_DIR=str(tmp_path)).splitlines()
    assert first == f"0 0 {cells}"
    assert numba_setting == "''"  # a user's own cached functions stay where they were
    second, same_directory, _ = run_python("-c", USE, STRETCH_CACHE_DIR=str(tmp_path)).splitlines()
    assert second == f"1 1 {cells}"  # the calls of the C library are cached too
    assert same_directory == directory
    checked, other_directory, _ = run_python(
        "-c", USE, STRETCH_CACHE_DIR=str(tmp_path), STRETCH_BOUNDSCHECK="1"
    ).splitlines()
    assert checked == f"0 0 {cells}"
    assert other_directory != directory
    assert sorted(os.listdir(tmp_path)) == sorted(os.path.basename(each) for each in (directory, other_directory))
    assert not [name for _, _, names in os.walk(tmp_path) for name in names if "<lambda>" in name]


def test_a_kernel_is_made_of_all_that_its_file_imports_and_of_nothing_else():
    library = Path(jit.__file__).parents[1]
    of_buffers = sources_of(library / "buffer/ready_log_merge.py")
    of_epochs = sources_of(library / "epochs/kernels.py")
    assert {library / place for place in ("buffer/layout.py", "native/atomics.py", "native/jit.py")} < of_buffers
    assert of_buffers < of_epochs
    assert not {path.parent.name for path in of_buffers} & {"epochs", "operator", "runtime", "strings"}


def test_the_pattern_finds_every_import():
    library = Path(jit.__file__).parents[1]
    for path in library.rglob("*.py"):
        found = set(jit._imports_of(path))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("stretch."):
                place = library.joinpath(*node.module.split(".")[1:])
                assert found & {place.with_suffix(".py"), place / "__init__.py"}, f"{path}: {node.module}"
            assert not isinstance(node, ast.ImportFrom) or node.level == 0, f"{path}: a relative import"
            assert not isinstance(node, ast.Import) or "stretch" not in {each.name for each in node.names}


def test_directory_that_cannot_be_written_is_a_warning(tmp_path):
    blocker = tmp_path / "file"
    blocker.touch()
    script = "import stretch.native as native; native.is_compiled(3)"
    output = run_python(
        "-W",
        "always",
        "-c",
        f"import sys; sys.stderr = sys.stdout\n{script}",
        STRETCH_CACHE_DIR=str(blocker / "cache"),
    )
    assert "stretch compiles its kernels again in this process." in output
    assert f"  where: STRETCH_CACHE_DIR={blocker}/cache" in output
    assert "  why:   the directory cannot be written (" in output
    assert "  do:    point STRETCH_CACHE_DIR at a directory this user can write, or unset it." in output
