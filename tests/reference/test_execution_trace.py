"""The paper's execution trace, literally (appendix "Example for Theorem generalizationworks").

A+ with windows of an hour every half hour, in the state after B's tweet; then C's tweet, step by step.
"""

import pytest

import stretch as st
from stretch.buffer.api import Entry, EntryKind
from stretch.operator.plan import make_plan
from stretch.reference.process import Counts, Processor
from stretch.reference.store import WindowStore
from stretch.schema import parse_schema
from tests.reference.tweets import TWEETS, B, C, clock, time, tweets

INITIAL = {(11, "09:00", "pink"), (11, "09:30", "pink")}

# The trace takes the keys one by one, and each through both windows; the algorithm that it traces (L forwin, L forkey)
# has the loops the other way round, as we do. The state after each step that changes it:
STEPS = {
    "check&Create red 09:00": {(11, "09:00", "pink"), (0, "09:00", "red"), (11, "09:30", "pink")},
    "set red 09:00": {(11, "09:00", "pink"), (13, "09:00", "red"), (11, "09:30", "pink")},
    "check&Create red 09:30": {
        *[(11, "09:00", "pink"), (13, "09:00", "red")],
        *[(11, "09:30", "pink"), (0, "09:30", "red")],
    },
    "set red 09:30": {
        *[(11, "09:00", "pink"), (13, "09:00", "red")],
        *[(11, "09:30", "pink"), (13, "09:30", "red")],
    },
    "set pink 09:00": {
        *[(13, "09:00", "pink"), (13, "09:00", "red")],
        *[(11, "09:30", "pink"), (13, "09:30", "red")],
    },
    "set pink 09:30": {
        *[(13, "09:00", "pink"), (13, "09:00", "red")],
        *[(13, "09:30", "pink"), (13, "09:30", "red")],
    },
}
FINAL = STEPS["set pink 09:30"]


class Traced(WindowStore):
    """A store that notes the state after each creation; `process` stops after each update, so tests note that one."""

    def __init__(self, plan):
        super().__init__(plan)
        self.log = []
        self.touched = ""

    def check_and_create(self, key, left):
        before = len(self)
        windows = super().check_and_create(key, left)
        self.touched = f"{key} {clock(left)}"
        if len(self) > before:
            self.log.append((f"check&Create {self.touched}", state(self)))
        return windows

    def note_update(self):
        self.log.append((f"set {self.touched}", state(self)))


def state(store):
    """Return the store as the paper writes it: <state, left boundary, key>."""
    return {(each.instances[0].chars, clock(each.left), each.key) for each in store}


def entry(at, user, text, sequence):
    return Entry((time(at), 0, sequence), EntryKind.DATA, (user, text))


def plan_of_longest_tweet():
    return make_plan(st.paper.longest_tweet(), [parse_schema(TWEETS)])


@pytest.fixture
def processor():
    plan = plan_of_longest_tweet()
    made = Processor(plan, Traced(plan), Counts(), emit=lambda result: pytest.fail(f"{result} is not due yet"))
    list(made.process(entry(*B, sequence=0), owns=lambda group: True))
    made.windows.log.clear()
    return made


def test_the_state_before(processor):
    """Only instances from 09:00 on: the tuple before was at 09:50."""
    assert state(processor.windows) == INITIAL


def test_the_windows_that_the_tuple_falls_into(processor):
    boundaries = processor.plan.boundaries
    assert clock(boundaries.earliest_left(time("09:58"))) == "09:00"
    assert clock(boundaries.latest_left(time("09:58"))) == "09:30"


def test_the_states_of_the_trace_key_by_key(processor):
    """In the printed order, as by an instance that owns red and then one that owns pink: the store is shared."""
    for tag in ("red", "pink"):
        group_of_tag = processor.plan.group_of(tag)
        for _ in processor.process(entry(*C, sequence=1), owns=lambda group, only=group_of_tag: group == only):
            processor.windows.note_update()
    assert processor.windows.log == list(STEPS.items())


def test_the_state_after_whatever_the_order(processor):
    """As the algorithm has it: all keys of the earliest window, then all of the next."""
    for _ in processor.process(entry(*C, sequence=1), owns=lambda group: True):
        processor.windows.note_update()
    assert [name for name, _ in processor.windows.log] == [
        *["check&Create red 09:00", "set red 09:00", "set pink 09:00"],
        *["check&Create red 09:30", "set red 09:30", "set pink 09:30"],
    ]
    assert state(processor.windows) == FINAL


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_the_trace_inside_a_running_job(parallelism):
    """The same state in the store that the instances share."""
    with st.setup(st.paper.longest_tweet(), inputs=TWEETS, parallelism=parallelism) as job:
        job.add(tweets(B))
        assert state(job.engine.operator.windows) == INITIAL
        job.add(tweets(C))
        assert state(job.engine.operator.windows) == FINAL


def test_state_of_shared_nothing_is_the_same_divided():
    with st.setup(st.paper.longest_tweet(), inputs=TWEETS, parallelism=3, engine="shared-nothing") as job:
        job.add(tweets(B))
        job.add(tweets(C))
        states = [state(instance.windows) for instance in job.engine.operator.instances]
        assert set.union(*states) == FINAL
        assert sum(map(len, states)) == len(FINAL)
