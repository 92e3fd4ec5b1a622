"""Several shards on a real cluster of several executors give what one shard gives, also if an executor is killed."""

import subprocess
import sys
import time

import pytest

from tests.harness import query
from tests.harness.cluster import Cluster
from tests.harness.processes import kill_with_descendants

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("cluster")]

FILES, ROWS = 12, 400
SECONDS_MAX = 600


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), workers=2, cores=1) as running:
        yield running


@pytest.fixture
def running(cluster, tmp_path):
    """Start the query of a folder on the cluster; give its process and the folder."""
    query.prepare(tmp_path, query.Settings(master=cluster.url, shards=2), FILES, ROWS)
    with (tmp_path / "query.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.query", str(tmp_path)],
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            yield process, tmp_path
        finally:
            kill_with_descendants(process.pid)
            process.wait()


def check(process, folder):
    assert process.wait(SECONDS_MAX) == 0, (folder / "query.log").read_text()[-3_000:]
    assert query.written(folder) == query.expected(folder)
    assert query.batches(folder) >= FILES


def shards_in(folder):
    """Return the names of the shards that have state."""
    return {path.name for path in (folder / "checkpoint" / "stretch").glob("*/*/*") if path.is_dir()}


def test_two_shards_on_two_executors_give_what_has_to_come_out(cluster, running):
    process, folder = running
    while query.batches(folder) < 2 and process.poll() is None:
        time.sleep(0.05)
    assert len(cluster.executors()) == 2
    check(process, folder)
    assert shards_in(folder) == {"0-of-2", "1-of-2"}


def test_an_executor_is_killed_in_mid_run(cluster, running):
    process, folder = running
    while query.batches(folder) < 4 and process.poll() is None:
        time.sleep(0.05)
    killed = cluster.kill_executor()
    assert process.poll() is None
    check(process, folder)
    assert query.batches(folder) > 4
    assert killed not in cluster.executors()
