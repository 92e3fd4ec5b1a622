"""One Spark session for all tests of a process; it starts when the first test asks for it."""

import sys

import pytest

from stretch.spark.session import local_session


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
        session = local_session(
            "local[2,4]",
            spark__log__level="OFF",
            spark__sql__shuffle__partitions="2",
            spark__ui__showConsoleProgress="false",
            spark__sql__warehouse__dir=str(tmp_path_factory.mktemp("warehouse")),
        )
        session.sparkContext.environment["STRETCH_POOL"] = "tests"
        yield session
        session.stop()
