"""What a `Reconfiguration` reports; that results do not change is shown in tests/semantics."""

import re

import pytest

import stretch as st
from stretch.windows.groups import GROUP_COUNT, hash_key
from tests.unit.streams import rows, started, visits


def visit(timestamp):
    return visits((timestamp, "a", 1))


def test_it_waits_for_the_next_tuples_and_says_when_it_took_effect():
    with started(max_parallelism=4) as job:
        job.add(visit(1))
        change = job.reconfigure(parallelism=3)
        assert (change.epoch, change.parallelism) == (1, 3)
        assert (change.status, change.watermark) == ("waiting", None)
        job.add(visit(2))  # carries the request
        assert change.status == "waiting"
        assert job.metrics().parallelism == 1
        job.add(visit(3))  # the first watermark beyond it
        assert (change.status, change.watermark) == ("switched", 3)
        assert job.metrics().parallelism == 3


def test_heartbeats_carry_it_too():
    with started(max_parallelism=4) as job:
        job.add(visit(1))
        change = job.reconfigure(parallelism=2)
        job.watermark(2)
        job.watermark(3)
        assert (change.status, change.watermark) == ("switched", 3)


def test_what_the_end_overtakes_stays_waiting():
    with started(max_parallelism=4) as job:
        job.add(visit(1))
        change = job.reconfigure(parallelism=2)
        assert rows(job.finish()) == [(10, "a", 1)]
        assert (change.status, change.watermark) == ("waiting", None)


@pytest.mark.parametrize("engine", ["reference", "shared-nothing"])
def test_it_shows_itself_in_a_line(engine):
    with started(max_parallelism=4, engine=engine) as job:
        change = job.reconfigure(3)
        job.add(visits((2, "a", 1), (3, "a", 1)))
        at = " at 3" if engine == "reference" else ""
        assert re.fullmatch(
            rf"<Reconfiguration: epoch 1, parallelism 3, switched{at} after \d+\.\d\d ms>", repr(change)
        )


def test_a_tuple_may_follow_at_the_time_of_the_heartbeat_before():
    with started(max_parallelism=4) as job:
        job.watermark(5)
        job.reconfigure(2)
        job.reconfigure(3)
        job.add(visits((5, "a", 1), (6, "a", 1)))
        assert rows(job.finish()) == [(10, "a", 2)]


IMPOSSIBLE = {
    "a mapping that is text": {"mapping": "0" * GROUP_COUNT},
    "a mapping that is a number": {"mapping": 3},
    "a mapping to text": {"mapping": ["0"] * GROUP_COUNT},
    "a mapping that fails": {"mapping": lambda group: 0},
    "half an instance": {"parallelism": 0.5},
    "yes": {"parallelism": True},
    "one instance without a list": {"instances": 0},
    "instances as text": {"instances": "01"},
}


@pytest.mark.parametrize("asked", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_is_not_possible_is_refused_and_the_job_goes_on(asked):
    with started(max_parallelism=4) as job:
        with pytest.raises(st.ReconfigurationError):
            job.reconfigure(**asked)
        assert job.reconfigure(2).epoch == 1
        job.add(visits((1, "a", 1)))
        assert rows(job.finish()) == [(10, "a", 1)]


def test_of_several_requests_the_last_wins():
    with started(max_parallelism=4) as job:
        job.add(visit(1))
        skipped, wins = job.reconfigure(parallelism=2), job.reconfigure(parallelism=3)
        job.add(visits((2, "a", 1), (3, "a", 1)))
        assert (skipped.status, skipped.watermark) == ("superseded", None)
        assert (wins.status, wins.watermark, wins.epoch) == ("switched", 3, 2)
        assert job.metrics().reconfigurations == 1


def test_one_after_the_other():
    with started(max_parallelism=4) as job:
        statuses = []
        for step, parallelism in enumerate([4, 2, 1, 3]):
            change = job.reconfigure(parallelism=parallelism)
            job.add(visits((10 * step + 1, "a", 1), (10 * step + 2, "b", 1)))
            statuses.append((change.epoch, change.status, change.watermark, job.metrics().parallelism))
        assert statuses == [
            (1, "switched", 2, 4),
            (2, "switched", 12, 2),
            (3, "switched", 22, 1),
            (4, "switched", 32, 3),
        ]


def test_instances_may_be_named_and_groups_mapped():
    with started(max_parallelism=4) as job:
        replaced = job.reconfigure(instances=[2, 3])
        job.add(visits((1, "a", 1), (2, "b", 1)))
        rebalanced = job.reconfigure(instances=[2, 3], mapping=lambda group, parallelism: 3)
        job.add(visits((3, "a", 1), (4, "b", 1)))
        assert [replaced.status, rebalanced.status] == ["switched", "switched"]
        assert rows(job.finish()) == [(10, "a", 2), (10, "b", 2)]


def test_without_a_number_it_keeps_the_latest_one_asked_for():
    with started(max_parallelism=4) as job:
        job.reconfigure(parallelism=3)
        assert job.reconfigure(mapping=lambda group, parallelism: group % parallelism).parallelism == 3


def test_shared_nothing_changes_at_once():
    with started(engine="shared-nothing", max_parallelism=4) as job:
        job.add(visit(1))
        change = job.reconfigure(parallelism=3)
        assert (change.epoch, change.parallelism, change.status, change.watermark) == (1, 3, "switched", None)
        assert job.metrics().parallelism == 3


USERS = sorted("abcdefgh", key=lambda user: hash_key(user) % GROUP_COUNT)  # in the order of results: by key group


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("before", "after"), [(4, [0]), (4, [1, 2]), (2, [0, 1, 2, 3]), (3, [3, 1])])
def test_every_schedule_of_instances_switches(before, after, seed):
    with started(parallelism=before, max_parallelism=4, seed=seed) as job:
        change = job.reconfigure(instances=after)
        job.add(visits(*((n, user, 1) for n, user in enumerate(USERS))))
        assert (change.status, change.watermark) == ("switched", 1)
        assert rows(job.finish()) == [(10, user, 1) for user in USERS]
