"""A worker that fails: one clear error, nobody hangs, and the job stops in bounded time."""

import threading
import time

import pytest

import stretch as st
from stretch.runtime.compiled import memory
from tests.runtime.test_stop import report, wide
from tests.unit.streams import started, visits


def fail_on_seven(w, t):
    if t.pages == 7:
        raise ValueError("seven pages")
    w.x += t.pages


FAILING = st.Operator(
    window=st.tumbling(10),
    keys="user",
    state="x long",
    update=fail_on_seven,
    output=report,
    schema="user string, x long",
)


def failing(**settings):
    return started(FAILING, engine="compiled", **{"parallelism": 2, "max_parallelism": 4, **settings})


@pytest.mark.parametrize("parallelism", [1, 4])
def test_one_error_names_instance_and_reason(parallelism):
    job = failing(parallelism=parallelism)
    job.add(visits((1, "a", 1), (2, "a", 7), (3, "b", 1)))
    with pytest.raises(st.FunctionError) as error:
        job.results()
    assert "ValueError: seven pages" in str(error.value)
    assert "instance" in error.value.where
    for call in (job.results, job.finish, lambda: job.add(visits((4, "a", 1))), lambda: job.reconfigure(2)):
        with pytest.raises(st.JobError, match="has failed"):
            call()
    begun = time.monotonic()
    job.stop()
    assert time.monotonic() - begun < 2
    assert not any(thread.is_alive() for thread in job.engine._workers._threads)


def test_who_waits_at_the_barrier_is_not_left_there():
    """An instance fails before it comes to the barrier at which others wait."""
    job = failing(parallelism=3)
    job.add(visits((1, "a", 1)))
    change = job.reconfigure(4)
    job.add(visits((2, "a", 7), (2, "b", 1), (2, "c", 1)))
    with pytest.raises(st.FunctionError):
        job.results()
    with pytest.raises(st.StretchError):
        change.wait(30)
    begun = time.monotonic()
    job.stop()
    assert time.monotonic() - begun < 2


def test_a_source_that_waits_for_room_learns_of_the_failure(monkeypatch):
    monkeypatch.setattr(memory, "CAPACITY", 64)
    monkeypatch.setattr(memory, "STAGING", 64)
    job = failing(sources=2)
    errors = []

    def add():
        try:
            job.add(wide(0, 5_000), 0)  # not ready: the other source has said nothing
            job.add(wide(5_000, 5_000), 0)
        except st.StretchError as error:
            errors.append(error)

    thread = threading.Thread(target=add)
    thread.start()
    time.sleep(0.05)
    job.add(visits((0, "a", 7), (1, "a", 7), (2, "a", 7)), 1)
    thread.join(10)
    assert not thread.is_alive()
    assert isinstance(errors[0], st.FunctionError)
    job.stop()


def test_a_stop_while_the_output_is_full(monkeypatch):
    monkeypatch.setattr(memory, "CAPACITY", 64)
    monkeypatch.setattr(memory, "STAGING", 64)
    job = started(engine="compiled", parallelism=2)
    job.add(wide(0, 9_500))  # more than fits into the output: instances wait for their reader
    job.engine.check_idle()
    job.watermark(10)
    time.sleep(0.05)
    begun = time.monotonic()
    job.stop()
    assert time.monotonic() - begun < 2
    assert not any(thread.is_alive() for thread in job.engine._workers._threads)


def test_a_stop_while_instances_are_at_the_barrier():
    """Some wait for one that is busy for long: they do not wait any more."""
    from tests.runtime.test_stop import A_MILLISECOND, SPINNING

    job = started(SPINNING, engine="compiled", parallelism=4, max_parallelism=4)
    job.add(visits((1, "a", 1)))
    job.reconfigure(2)
    job.add(visits((2, "a", 300 * A_MILLISECOND), (3, "b", 1)))
    time.sleep(0.05)
    begun = time.monotonic()
    job.stop()
    assert time.monotonic() - begun < 3
    assert not any(thread.is_alive() for thread in job.engine._workers._threads)
