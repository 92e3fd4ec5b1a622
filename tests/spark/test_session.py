"""A Spark on this machine: what is said where there is none, and where its Java writes."""

import os
import subprocess
import sys

import pytest

import stretch as st
from stretch.spark import session


def test_no_spark(monkeypatch):
    monkeypatch.setattr(session.java, "prepare", lambda: None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(st.DefinitionError) as error:
        session.local_session()
    assert error.value.what == "Spark is not installed"
    assert "stretch[spark]" in error.value.do


def test_what_processes_say_goes_to_the_log_and_nothing_else_does(tmp_path, capfd):
    log = tmp_path / "spark.log"
    with session._stderr_to(log):
        subprocess.run(["sh", "-c", "echo from Java >&2"], check=True)
    os.write(2, b"from us\n")
    assert log.read_text() == "from Java\n"
    assert capfd.readouterr().err == "from us\n"
