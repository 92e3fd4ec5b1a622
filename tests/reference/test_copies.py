"""What shared-nothing costs, on cases computed by hand: copies of tuples, and state that moves.

Paper: Theorem "notgeneral" (data duplication), section "VSN Parallelism and Elasticity" (state transfer).
"""

import pickle

import pytest

import stretch as st
from tests.harness.queries import SCHEMA
from tests.harness.run import batch, rows_of
from tests.reference.tweets import TWEETS, tweets


def by_number(window, **options):
    """Count tuples of each number in 0..3, which is its own key group: 0 and 3 go to instance 0, 1 to 1, 2 to 2."""

    def update(w, t):
        w.count += 1

    return st.Operator(
        window=window,
        keys=lambda t: [int(digit) for digit in t.tag],
        groups=4,
        keys_are_groups=True,
        mapping=lambda group, parallelism: group % parallelism,
        state="count long",
        update=update,
        output=lambda w: [(w.key, w.count)],
        schema="key int, count long",
        **options,
    )


def rows(*tags, start=0):
    return batch(tuple((start + n, None, tag, None, 0, None) for n, tag in enumerate(tags)))


@pytest.mark.parametrize(
    ("tag", "parallelism", "copies"),
    [
        ("", 3, 0),
        ("0", 3, 0),
        ("00", 3, 0),
        ("03", 3, 0),
        ("01", 3, 1),
        ("013", 3, 1),
        ("0123", 3, 2),
        ("0123", 4, 3),
        ("0123", 1, 0),
        ("02", 2, 0),
    ],
)
def test_a_tuple_is_copied_for_every_further_instance_that_owns_one_of_its_keys(tag, parallelism, copies):
    engines = {}
    for engine in ("shared-nothing", "reference"):
        with st.setup(by_number(st.tumbling(10)), inputs=SCHEMA, parallelism=parallelism, engine=engine) as job:
            job.add(rows(tag))
            job.finish()
            engines[engine] = job.metrics()
    assert engines["shared-nothing"].copies == engines["reference"].duplicates_avoided == copies
    assert engines["reference"].copies == engines["shared-nothing"].duplicates_avoided == 0


def test_a_join_without_keys_copies_every_tuple_to_every_instance():
    operator = st.Join(window=st.sliding(10), match=lambda l, r: True, groups=4)
    with st.setup(operator, inputs=[SCHEMA] * 2, parallelism=4, engine="shared-nothing") as job:
        job.add(rows("a", "b", "c"), source=0)
        job.add(rows("d", "e"), source=1)
        job.finish()
        assert job.metrics().copies == 5 * (4 - 1)


def test_the_longest_tweet_copies_a_tweet_per_further_hashtag_at_most():
    """With as many instances as needed, a tweet of three hashtags is sent up to three times."""
    with st.setup(st.paper.longest_tweet(), inputs=TWEETS, parallelism=64, engine="shared-nothing") as job:
        job.add(tweets(("09:00", "a", "#one #two #three"), ("09:01", "b", "#one"), ("09:02", "c", "none")))
        plan = job.engine.plan
        instances = {plan.group_of(tag) % 64 for tag in ("one", "two", "three")}
        assert len(instances) == 3, "else the example is a poor one"
        assert job.metrics().copies == 2


# --- state that moves


def moved(job):
    return job.metrics().bytes_moved


def plain_state(*sets):
    """Return what a network would carry: (key, left, rows held, [(fields, tuples)]) of each window instance."""
    return len(pickle.dumps([(key, left, [], [({"count": count}, [])]) for key, left, count in sets]))


def test_a_change_moves_the_state_of_every_group_that_changes_hands():
    """Three instances hold 0 and 3, 1, 2. With two, groups 0 and 2 belong to instance 0, and 1 and 3 to instance 1."""
    with st.setup(by_number(st.tumbling(10)), inputs=SCHEMA, parallelism=3, engine="shared-nothing") as job:
        job.add(rows("0", "0123", "3"))
        assert moved(job) == 0
        job.reconfigure(2)
        # From 0 to 1: group 3. From 2 to 0: group 2. Between the other pairs: nothing.
        assert moved(job) == plain_state((3, 0, 2)) + plain_state((2, 0, 1))
        states = [
            {(each.key, each.instances[0].count) for each in instance.windows}
            for instance in job.engine.operator.instances
        ]
        assert states == [{(0, 2), (2, 1)}, {(1, 1), (3, 2)}, set()]
        assert rows_of(job.finish()) == [(10, 0, 2), (10, 1, 1), (10, 2, 1), (10, 3, 2)]


def test_state_moves_once_for_every_window_that_is_open():
    with st.setup(by_number(st.sliding(10, 5)), inputs=SCHEMA, parallelism=2, engine="shared-nothing") as job:
        job.add(rows("1", start=7))
        job.reconfigure(1)
        assert moved(job) == plain_state((1, 0, 1), (1, 5, 1))


def test_what_stays_where_it_is_does_not_move():
    with st.setup(by_number(st.tumbling(10)), inputs=SCHEMA, parallelism=2, engine="shared-nothing") as job:
        job.add(rows("0", "0123", "3"))
        job.reconfigure(2)
        assert moved(job) == 0


def test_virtual_shared_nothing_moves_nothing():
    with st.setup(by_number(st.tumbling(10)), inputs=SCHEMA, parallelism=3) as job:
        job.add(rows("0", "0123", "3"))
        job.reconfigure(2)
        job.add(rows("0", "0", start=5))
        assert (moved(job), job.metrics().reconfigurations) == (0, 1)
        assert rows_of(job.finish()) == [(10, 0, 4), (10, 1, 1), (10, 2, 1), (10, 3, 2)]


def test_rows_held_and_tuples_stored_move_too():
    """State is more than counters: what `update` made and `slide` still needs goes along."""

    def update(w, t):
        yield w.key, len(w.tuples)
        w.tuples.append(t)

    operator = st.Operator(
        window=st.sliding(10, 5, "single"), keys="tag", update=update, schema="tag string, earlier int", groups=2
    )
    tables = []
    for engine in ("shared-nothing", "reference"):
        with st.setup(operator, inputs=SCHEMA, parallelism=1, max_parallelism=2, engine=engine) as job:
            job.add(rows("red", "pink", "red"))
            for number, instances in enumerate(([1], [0, 1], [1], [0])):
                job.reconfigure(instances=instances)
                job.add(rows("red", "pink", start=3 + 2 * number))
            tables.append(rows_of(job.finish()))
    assert tables[0] == tables[1]
    assert len(tables[0]) == 3 + 4 * 2
