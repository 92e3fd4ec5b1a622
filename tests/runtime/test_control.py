"""The thread that asks a controller, with counters and changes of a table."""

import logging
import threading
import time

import pytest

import stretch as st
from stretch.controllers import keep, resize
from stretch.metrics import InstanceMetrics, Metrics, Progress, Reconfiguration
from stretch.runtime.control import ControlLoop

INTERVAL = "20 ms"
PATIENCE_SECONDS = 10.0


class Switched(Reconfiguration):
    status_now = "switched"

    def progress(self):
        return Progress(self.status_now)

    def check(self):
        return True


class Target:
    """A job of which instances are busy as told."""

    def __init__(self, busy=1.0, status="switched"):
        self.busy, self.status = busy, status
        self.running = 1
        self.tuples = 0
        self.busy_ns = [0] * 8
        self.asked = []
        self.last = time.monotonic()

    def read(self):
        now = time.monotonic()
        for number in range(self.running):
            self.busy_ns[number] += int(self.busy * (now - self.last) * 1e9)
        self.tuples += 100
        self.last = now
        instances = [
            InstanceMetrics(number < self.running, busy_ns=busy, entries=self.tuples)
            for number, busy in enumerate(self.busy_ns)
        ]
        return Metrics(self.tuples, 0, 0, self.running, 0, 0, read_ns=time.monotonic_ns(), instances=tuple(instances))

    def change(self, parallelism, mapping):
        self.asked.append(parallelism)
        change = Switched(len(self.asked), range(parallelism))
        change.status_now = self.status
        if self.status == "switched":
            self.running = parallelism
        return change


class Doubling:
    def decide(self, load, past):
        wanted = min(2 * load.parallelism, load.maximum)
        return resize(load, wanted, "more is better") if wanted > load.parallelism else keep(load, "enough")


class Failing:
    def decide(self, load, past):
        raise ZeroDivisionError("no luck today")


def until(condition):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


@pytest.fixture
def run():
    loops = []

    def start(target, controller, **replaced):
        elastic = st.elastic(1, 8, controller=controller, interval=INTERVAL)
        loops.append(ControlLoop(elastic, replaced.get("read", target.read), target.change, "Count"))
        loops[-1].start()
        return loops[-1]

    yield start
    for loop in loops:
        loop.stop()
        assert not [thread for thread in threading.enumerate() if thread.name == "stretch-control-Count"]


def test_it_reads_asks_and_changes(run, caplog):
    caplog.set_level(logging.INFO, logger="stretch.control")
    target = Target()
    loop = run(target, Doubling())
    until(lambda: target.running == 8 and len(loop.loads) > 5)
    assert target.asked == [2, 4, 8]
    assert [(one.before, one.parallelism, one.reconfiguration.status) for one in loop.decisions] == [
        (1, 2, "switched"),
        (2, 4, "switched"),
        (4, 8, "switched"),
    ]
    assert {load.parallelism for load in loop.loads} == {1, 2, 4, 8}
    assert all(load.average_busy > 0.9 for load in loop.loads)
    assert "Count: 4 -> 8: more is better" in caplog.text


def test_it_does_not_ask_again_while_a_change_waits_for_input(run):
    target = Target(status="waiting")
    loop = run(target, Doubling())
    until(lambda: len(loop.loads) > 5)
    assert target.asked == [2]


def test_a_controller_that_fails_is_reported_once(run, caplog):
    target = Target()
    loop = run(target, Failing())
    until(lambda: target.tuples > 1000)
    loop.stop()
    reports = [record for record in caplog.records if record.name == "stretch.control"]
    assert len(reports) == 1
    assert "Count: its parallelism stays as it is" in caplog.text
    assert "no luck today" in caplog.text
    assert (target.asked, loop.decisions) == ([], [])


def test_intervals_in_which_somebody_else_changed_something_are_left_out(run):
    target = Target()

    def read():
        target.running = 1 + (target.tuples // 100) % 2
        return target.read()

    loop = run(target, Doubling(), read=read)
    until(lambda: target.tuples > 1000)
    assert loop.loads == []


def test_counters_that_begin_anew_are_left_out(run):
    target = Target()

    def read():
        target.tuples = -target.tuples if target.tuples % 300 == 0 else target.tuples
        return target.read()

    loop = run(target, Doubling(), read=read)
    until(lambda: target.running == 8)
    assert all(load.work.tuples > 0 for load in loop.loads)


def test_a_job_that_has_not_begun_is_left_alone(run):
    target = Target()
    loop = run(target, Doubling(), read=lambda: None)
    time.sleep(0.1)
    assert (loop.loads, target.asked) == ([], [])


def test_it_can_be_stopped_before_it_begins():
    target = Target()
    loop = ControlLoop(st.elastic(1, 8), target.read, target.change, "Count")
    loop.stop()
    loop.stop()
