"""A Spark on this machine, for the demo, benches, tests, and a first try."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from stretch.errors import DefinitionError
from stretch.spark import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_session(master: str = "local[*]", *, log: Path | None = None, **settings: str) -> SparkSession:
    """Start Spark in a Java that it can run on, with workers in this Python, and nothing open to the network.

    `log` is a file for what Java says, instead of this process's stderr. `settings` are Spark's, with `__` for a dot:
    `spark__sql__shuffle__partitions="2"`.
    """
    java.prepare()
    try:
        from pyspark.sql import SparkSession
    except ImportError as problem:
        raise DefinitionError(
            "Spark is not installed",
            why=str(problem),
            do="pip install 'stretch[spark]'; stretch doctor says what else is missing",
        ) from problem

    os.environ["PYSPARK_PYTHON"] = sys.executable  # Spark's default is whatever `python3` is
    builder = SparkSession.builder.master(master).appName("stretch")
    chosen = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
    }
    for name, value in (chosen | {name.replace("__", "."): value for name, value in settings.items()}).items():
        builder = builder.config(name, value)
    with _stderr_to(log):
        return builder.getOrCreate()


@contextmanager
def _stderr_to(log: Path | None) -> Iterator[None]:
    """Let processes that start meanwhile write their stderr to a file."""
    if log is None:
        yield
        return
    before = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
