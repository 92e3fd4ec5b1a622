"""What a `Reconfiguration` says about when its steps happened, and how it is waited for, in every engine."""

import threading
import time

import pytest

from tests.unit.streams import rows, started, visits

ENGINES = ["reference", "compiled"]


def visit(*times):
    return visits(*((time, "a", 1) for time in times))


@pytest.fixture(params=ENGINES)
def job(request):
    with started(max_parallelism=4, engine=request.param) as job:
        yield job


def test_the_steps_happen_in_order(job):
    job.add(visit(1))
    change = job.reconfigure(parallelism=3)
    assert (change.epoch, change.parallelism, change.instances) == (1, 3, (0, 1, 2))
    assert (change.control_ms, change.barrier_ms, change.switched_ms) == (None, None, None)
    job.add(visit(2, 3))
    assert change.wait()
    assert (change.status, change.watermark) == ("switched", 3)
    assert 0 < change.control_ms <= change.barrier_ms <= change.switched_ms
    assert f"{change.switched_ms:.2f} ms" in repr(change)
    assert rows(job.finish()) == [(10, "a", 3)]


def test_waiting_ends_when_the_time_is_up(job):
    job.add(visit(1))
    change = job.reconfigure(2)
    begun = time.monotonic()
    assert not change.wait(0.05)
    assert 0.05 <= time.monotonic() - begun < 5
    assert change.status == "waiting"


def test_waiting_ends_when_a_later_change_overtakes(job):
    job.add(visit(1))
    changes = [job.reconfigure(2), job.reconfigure(3)]
    job.add(visit(2, 3))
    assert changes[1].wait()
    assert not changes[0].wait(60)
    assert [change.status for change in changes] == ["superseded", "switched"]


@pytest.mark.parametrize("end", ["finish", "stop"])
def test_waiting_ends_when_the_job_does(job, end):
    job.add(visit(1))
    change = job.reconfigure(2)
    waited = []
    thread = threading.Thread(target=lambda: waited.append(change.wait(60)))
    thread.start()
    getattr(job, end)()
    thread.join(10)
    assert waited == [False]
    assert change.status == "waiting"


def test_shared_nothing_has_no_steps():
    with started(max_parallelism=4, engine="shared-nothing") as job:
        change = job.reconfigure(2)
        assert change.wait()
        assert (change.control_ms, change.barrier_ms) == (None, None)
        assert change.switched_ms > 0


def test_a_record_is_kept_when_many_changes_follow():
    """The compiled engine has room for 64 epochs at a time."""
    with started(max_parallelism=2, engine="compiled") as job:
        changes = []
        for number in range(100):
            changes.append(job.reconfigure(1 + number % 2))
            job.add(visit(2 * number, 2 * number + 1))
            assert changes[-1].wait()
        assert [change.watermark for change in changes] == [2 * number + 1 for number in range(100)]
        assert len({change.switched_ms for change in changes}) > 1
