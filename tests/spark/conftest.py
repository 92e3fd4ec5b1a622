"""One Spark session for all tests of a process; it starts when the first test asks for it."""

import sys

import pytest

from stretch.spark import java


def pytest_collection_modifyitems(items):
    """Keep the tests that need Spark in one process, so that it is started once."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(600))  # the first one starts Spark, and a worker that compiles


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A small local Spark whose tasks are tried again; all operators share Python workers, which compile but once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        java.prepare()
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[2,4]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        session.sparkContext.environment["STRETCH_POOL"] = "tests"
        yield session
        session.stop()
