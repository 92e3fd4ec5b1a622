"""Any instance may stand still at any turn while the others go through several epochs: every such pause, one by one.

A leaving instance is the hard case: no later barrier waits for it, so it may go on with a switch that is long over.
"""

import pytest

import stretch as st
from tests.harness.definition import multiset
from tests.harness.queries import SCHEMA
from tests.harness.run import Case, Computed, Cut, Execution, batch, rows_of, start

ROWS = tuple((timestamp, timestamp % 3, None, None, 0, None) for timestamp in range(14))
CASE = Case(Computed(Cut(2, 2), "user", "count", groups=3), (ROWS,), (0,))


class StandStill:
    """All tasks in turn, until one stops for as long as any other can run."""

    def __init__(self, task, after):
        self.task, self.after, self.turn = task, after, 0

    def choice(self, tasks):
        self.turn += 1
        others = [task for task in tasks if task != self.task]
        ready = others if others and self.turn > self.after else tasks
        return ready[self.turn % len(ready)]


@pytest.mark.parametrize(
    "epochs",
    [
        [[0], [1], [0], [1]],
        [[0, 1], [2], [0, 1], [2]],
        [[0, 1, 2], [0], [0, 1, 2], [1]],
        [[0, 1], [1, 2], [2, 0], [0, 1]],
        [[0, 1, 2], [2, 1], [0], [0, 1, 2]],
    ],
    ids=str,
)
def test_an_instance_that_stands_still_harms_nobody(epochs):
    expected = multiset(CASE.expected())
    for straggler in range(3):
        for after in range(80):
            job = start(CASE, Execution(parallelism=len(epochs[0]), pool=3))
            engine = job.engine
            engine.scheduler._choice = StandStill(f"{engine.operator.name}.{straggler}", after)
            for number, row in enumerate(ROWS):
                if number in (2, 5, 8):
                    engine.reconfigure(epochs[number // 3 + 1], None)
                engine.sources.add(batch((row,)), 0)
            rows = multiset(rows_of(job.finish()))
            assert rows == expected, f"instance {straggler} stood still after {after} turns"
            assert engine.operator.output.buffer.sources == set(epochs[-1])
            assert len(engine.operator.switches) == 3


@pytest.mark.parametrize("seed", range(20))
def test_an_instance_that_fails_ends_the_job_with_one_error_though_others_wait_at_the_barrier(seed):
    """The paper's barrier would wait for it for ever."""

    def update(w, t):
        if t.x == 13:
            raise ValueError("unlucky")

    operator = st.Operator(window=st.tumbling(10), keys="x", state="n long", update=update, schema="n long", groups=3)
    job = st.setup(operator, inputs=SCHEMA, parallelism=3, max_parallelism=4, seed=seed)
    job.add(batch(((0, None, None, None, 0, None),)))
    job.reconfigure(4)
    rows = tuple((1 + n, None, None, None, x, None) for n, x in enumerate((1, 13, 2, 3)))
    with pytest.raises(st.FunctionError, match=r"(?s)update for key 13 at timestamp 2.*ValueError: unlucky"):
        job.add(batch(rows))
    with pytest.raises(st.JobError, match="the job has failed"):
        job.results()
