"""Silent sources, with a clock that the test moves."""

import stretch as st
from tests.unit.streams import VISITS, counting, rows, visits


class Clock:
    """Seconds of real time."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def started(clock, sources=2, idle="5 seconds"):
    return st.setup(counting(), inputs=VISITS, sources=sources, idle=idle, clock=clock)


def test_without_a_timeout_a_silent_source_holds_back_the_others():
    clock = Clock()
    with started(clock, idle=None) as job:
        job.add(visits((1, "a", 1), (25, "a", 1)), 0)
        clock.now += 10**9
        assert rows(job.results()) == []


def test_a_source_is_idle_after_the_timeout_and_not_before():
    clock = Clock()
    with started(clock) as job:
        clock.now += 4
        job.add(visits((1, "a", 1), (25, "a", 1)), 0)
        clock.now += 0.9
        assert rows(job.results()) == []
        clock.now += 0.1
        assert rows(job.results()) == [(10, "a", 1)]


def test_adding_looks_for_idle_sources_too():
    clock = Clock()
    with started(clock) as job:
        clock.now += 5
        job.add(visits((1, "a", 1), (25, "a", 1)), 0)
        clock.now = 0  # results() itself finds nobody idle
        assert rows(job.results()) == [(10, "a", 1)]


def test_a_heartbeat_is_a_sign_of_life():
    clock = Clock()
    with started(clock) as job:
        clock.now += 4
        job.watermark(2, source=1)
        job.add(visits((1, "a", 1), (25, "a", 1)), 0)
        clock.now += 4
        job.watermark(26, source=0)
        assert rows(job.results()) == []


def test_an_idle_source_may_go_on_and_what_it_missed_is_late():
    clock = Clock()
    with started(clock) as job:
        clock.now += 5
        job.add(visits((1, "a", 1), (25, "a", 1)), 0)
        job.add(visits((24, "late", 1), (25, "b", 1), (31, "b", 1)), 1)
        assert rows(job.late(1)) == [(24, "late", 1)]
        assert rows(job.results()) == [(10, "a", 1)]
        assert rows(job.finish()) == [(30, "a", 1), (30, "b", 1), (40, "b", 1)]


def test_several_idle_sources_follow_the_slowest_of_the_others():
    clock = Clock()
    with started(clock, sources=4) as job:
        clock.now += 4
        job.watermark(1, source=0)
        job.watermark(12, source=1)
        clock.now += 4
        job.add(visits((1, "a", 1), (25, "a", 1)), 0)
        assert rows(job.results()) == [(10, "a", 1)]
        assert job.metrics().late == 0
        job.add(visits((11, "late", 1), (12, "b", 1)), 3)
        assert rows(job.late(3)) == [(11, "late", 1)]


def test_when_all_are_idle_all_follow_the_furthest():
    clock = Clock()
    with started(clock, sources=3) as job:
        job.add(visits((1, "a", 1), (25, "a", 1)), 0)
        job.watermark(30, source=1)
        clock.now += 5
        assert rows(job.results()) == [(10, "a", 1), (30, "a", 1)]
        job.add(visits((29, "late", 1), (30, "b", 1)), 2)
        assert job.metrics().late == 1


def test_when_all_are_idle_and_nothing_came_nothing_happens():
    clock = Clock()
    with started(clock) as job:
        clock.now += 5
        assert rows(job.results()) == []


def test_a_closed_source_is_not_waited_for():
    with started(Clock(), idle=None) as job:
        job.add(visits((1, "a", 1), (25, "a", 1)), 0)
        job.close(1)
        assert rows(job.results()) == [(10, "a", 1)]
