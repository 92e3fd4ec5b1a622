"""Nodes that share the key groups, and the rows: together they give what one gives, in every order of restarts."""

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from stretch.node import Heard, Node, StateLog
from tests.node.streams import SCHEMA, Model, Tuple, batch, operator, rows_of

SHARES = 2
GROUPS = 64

some_tuples = some.lists(
    some.builds(
        Tuple,
        some.integers(0, 60),
        some.sampled_from(["x", "y", None]),
        some.lists(some.sampled_from(["a", "b", "c", "seventeen letters"]), max_size=3).map(tuple),
        some.integers(-9, 9),
    ),
    max_size=6,
)


def has_key_of(t, share):
    from stretch.windows.groups import hash_key

    return any(hash_key(word) % GROUPS % SHARES == share for word in t.words)


def heard_of(rows, by_device):
    latest = {}
    for t in rows:
        source = t.device if by_device else None
        latest[source] = max(t.ts, latest.get(source, t.ts))
    return [Heard(0, list(latest), list(latest.values()))] if latest else []


@pytest.mark.parametrize("by_device", [False, True])
@given(some.lists(some.tuples(some_tuples, some.booleans()), min_size=1, max_size=4), some.sampled_from([0, 10]))
@settings(max_examples=15)
def test_nodes_that_get_only_their_rows_and_hear_of_the_others_give_what_one_gives(by_device, steps, disorder):
    options = {"disorder": disorder, "source": "device" if by_device else None}
    model = Model(disorder, by_device)
    made = []
    with tempfile.TemporaryDirectory() as folder:
        logs = [StateLog(f"{folder}/{share}") for share in range(SHARES)]
        nodes = [Node(operator(), [SCHEMA], share=(share, SHARES), **options) for share in range(SHARES)]
        try:
            for number, (rows, is_restored) in enumerate(steps):
                model.take(rows, number)
                for share, node in enumerate(nodes):
                    own = [t for t in rows if has_key_of(t, share)]
                    given_rows = [(0, batch(own))] if own else []
                    for results in node.process(number, given_rows, now=number, heard=heard_of(rows, by_device)):
                        made += rows_of([results])
                    node.commit(logs[share], f"attempt {number}")
                    if is_restored:
                        node.stop()
                        restored = Node.restore(
                            logs[share], number, operator(), [SCHEMA], share=(share, SHARES), **options
                        )
                        nodes[share] = restored
        finally:
            for node in nodes:
                node.stop()
    assert sorted(made) == sorted(model.results())
