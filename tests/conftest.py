"""What all tests share: a Spark session, and how many random examples a property gets, and how they are chosen.

Choose a profile with the environment variable HYPOTHESIS_PROFILE:

- `fast`: the default; a few dozen new random examples at every run, so that everyday work explores.
- `ci`: the default where CI is set; the same examples at every run, so that a red build is due to the change.
- `thousand`: 1,000 new random examples per property (`make properties`).

A failure prints a line to paste above the test (`@reproduce_failure(...)`) that replays it.
"""

import os
import sys

import pytest
from hypothesis import HealthCheck, settings

from stretch.spark.session import local_session

settings.register_profile(
    "fast",
    max_examples=60,
    print_blob=True,
    # The speed of a loaded machine is not a property of the code: pytest-timeout ends what hangs.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("fast"), derandomize=True, database=None)
settings.register_profile("thousand", settings.get_profile("fast"), max_examples=1_000)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "fast"))


COMPILING = ("bench", "joins", "node", "runtime")
"""Folders of tests that compile operators."""


def pytest_collection_modifyitems(items):
    """Keep tests in one process that share what takes long to make: Spark, or a file's compiled operators."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(600))  # the first one starts Spark, and a worker that compiles
        elif item.path.parent.name in COMPILING:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}/{item.path.name}"))


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
