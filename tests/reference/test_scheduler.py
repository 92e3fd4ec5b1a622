"""The scheduler: one seed, one interleaving."""

import pytest

import stretch as st
from stretch.reference.scheduler import Scheduler, Turn


def note(log, name, turns):
    for turn in range(turns):
        log.append((name, turn))
        yield Turn.RAN


def interleaving(seed):
    scheduler, log = Scheduler(seed), []
    for name in "abc":
        scheduler.spawn(name, note(log, name, 5))
    scheduler.run()
    return log


def test_a_seed_is_replayed():
    assert interleaving(7) == interleaving(7)


def test_seeds_differ_and_each_task_runs_in_its_own_order():
    logs = [interleaving(seed) for seed in range(20)]
    assert len({str(log) for log in logs}) == 20
    for log in logs:
        for name in "abc":
            assert [turn for who, turn in log if who == name] == list(range(5))


def test_every_interleaving_of_two_short_tasks_comes_up():
    """Two tasks of two steps have six interleavings."""
    seen = set()
    for seed in range(200):
        scheduler, log = Scheduler(seed), []
        for name in "ab":
            scheduler.spawn(name, note(log, name, 2))
        scheduler.run()
        seen.add("".join(name for name, _ in log))
    assert seen == {"aabb", "abab", "abba", "baab", "baba", "bbaa"}


def test_idle_tasks_look_again_when_another_did_something():
    """A waits for B, as at a barrier; nobody spins once all wait."""
    scheduler, log = Scheduler(0), []

    def wait():
        while "b" not in log:
            log.append("looked")
            yield Turn.IDLE
        log.append("went on")
        yield Turn.RAN

    def act():
        for name in ("x", "y", "b"):
            log.append(name)
            yield Turn.RAN

    scheduler.spawn("a", wait())
    scheduler.spawn("b", act())
    scheduler.run()
    assert log[-1] == "went on"
    assert log.count("looked") <= 4


def test_a_run_ends_when_all_tasks_are_idle_and_goes_on_when_woken():
    scheduler, box = Scheduler(0), []

    def take():
        while True:
            if box:
                box.pop()
                yield Turn.RAN
            else:
                yield Turn.IDLE

    scheduler.spawn("taker", take())
    scheduler.run()
    box.extend("abc")
    assert not scheduler.step(), "nobody said that something changed"
    scheduler.run()
    assert box == []


def test_a_task_that_never_rests_is_reported_with_the_seed():
    def spin():
        while True:
            yield Turn.RAN

    scheduler = Scheduler(seed=42)
    scheduler.spawn("spinner", spin())
    with pytest.raises(st.JobError, match="scheduler seed 42"):
        scheduler.run(turns_max=100)


def test_a_failing_task_ends_the_run():
    def fail():
        yield Turn.RAN
        raise ValueError("no")

    scheduler = Scheduler(0)
    scheduler.spawn("failing", fail())
    with pytest.raises(ValueError, match="no"):
        scheduler.run()
