"""A Spark on this machine, for the demo, benches, tests, and a first try."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from stretch.spark import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_session(master: str = "local[*]", **settings: str) -> SparkSession:
    """Start Spark in a Java that it can run on, with workers in this Python, and nothing open to the network.

    `settings` are Spark's, with `__` for a dot: `spark__sql__shuffle__partitions="2"`.
    """
    java.prepare()
    from pyspark.sql import SparkSession

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
    return builder.getOrCreate()
