"""`stretch doctor`: what is there is found, what is missing is named with a cure, and the exit status says so."""

import os
import subprocess
import sys
from importlib import metadata

import pytest

from stretch.cli import doctor, main


def report(capsys):
    status = main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    return status, lines


@pytest.fixture
def healthy(monkeypatch):
    """A machine on which only what a test breaks is broken."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    return monkeypatch


def test_it_finds_what_this_machine_has(healthy, capsys):
    status, lines = report(capsys)
    assert status == 0, lines
    assert lines[-1] == "Everything that stretch on Spark needs is here."
    shown = {line[9:23].strip(): line[25:] for line in lines[:-2] if line[:2] != "  "}
    assert list(shown) == list(doctor.CHECKS)
    assert f"pyspark {metadata.version('pyspark')}" in shown["Spark"]
    assert str(len(os.sched_getaffinity(0))) in shown["cores"]
    assert sys.executable in shown["Python"]


def test_no_java(healthy, capsys):
    healthy.setattr(doctor.java, "find", lambda: None)
    status, lines = report(capsys)
    assert status == 1
    assert "MISSING  Java            no Java 17 or newer" in lines
    assert lines[-1] == "Missing: Java."


@pytest.mark.parametrize(
    ("versions", "what", "do"),
    [
        ({"pyspark": None, "pandas": None}, "pyspark and pandas not installed", "pip install 'stretch[spark]'"),
        ({"pyspark": "3.5.4", "pandas": "2.3.3"}, "pyspark 3.5.4", "stretch needs 4.1 or newer"),
        ({"pyspark": "4.3.0", "pandas": "3.0.1"}, "pyspark 4.3.0, pandas 3.0.1", "pip install 'pandas<3'"),
    ],
)
def test_spark_that_does_not_fit(healthy, versions, what, do):
    healthy.setattr(doctor, "_version", versions.get)
    found = doctor.CHECKS["Spark"]()
    assert found.what == what
    assert do in found.do


def test_workers_whose_python_has_no_stretch(healthy, tmp_path, capsys):
    program = tmp_path / "python3"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')  # a Python without site packages
    program.chmod(0o755)
    healthy.setenv("PYSPARK_PYTHON", str(program))
    status, lines = report(capsys)
    assert (status, lines[-1]) == (1, "Missing: Spark's Python.")
    assert f"{'':25}do: export PYSPARK_PYTHON={sys.executable}" in lines


def test_workers_of_another_python(healthy, tmp_path):
    program = tmp_path / "python3"
    program.write_text("#!/bin/sh\necho 3.8\n")
    program.chmod(0o755)
    healthy.setenv("PYSPARK_PYTHON", str(program))
    assert "is Python 3.8" in doctor.CHECKS["Spark's Python"]().what
    healthy.setenv("PYSPARK_PYTHON", str(tmp_path / "nothing"))
    assert "does not run" in doctor.CHECKS["Spark's Python"]().what


def test_limits_of_a_container(healthy):
    healthy.setattr(doctor, "_limit", {"cpu.max": [50_000, 100_000], "memory.max": [2**30]}.get)
    assert "of which 0.5 may be used" in doctor.CHECKS["cores"]().what
    memory = doctor.CHECKS["memory"]()
    assert memory.what.startswith("1.0 GiB")
    assert not memory.is_needed


def test_compilation_switched_off(healthy):
    healthy.setattr(doctor, "JIT_ENABLED", False)
    assert "unset NUMBA_DISABLE_JIT" in doctor.CHECKS["Numba"]().do


def test_a_cache_that_cannot_be_written_is_a_note(tmp_path):
    (tmp_path / "file").write_text("")
    settings = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "file"), "PYSPARK_PYTHON": sys.executable}
    settings.pop("STRETCH_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-m", "stretch.cli", "doctor"], capture_output=True, text=True, env=settings)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note     cache           no directory for compiled kernels" in done.stdout
