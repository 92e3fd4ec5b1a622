"""Operators in a row share buffers, and each is reconfigured by itself (Paper: `setup` in both forms)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

import stretch as st
from tests.harness.chain import chains, run_chain
from tests.harness.definition import Cut, exact, multiset
from tests.harness.queries import Computed
from tests.harness.run import Case, Execution, batch, rows_of, start

ROWS = tuple((timestamp, None, tag, None, timestamp % 5, None) for timestamp in range(40) for tag in ("red", "pink"))
CASE = Case(Computed(Cut(4, 2), "tag", "count"), (ROWS,), (0,))


@given(chain=chains())
def test_a_chain_equals_the_definition_applied_twice(chain):
    assert multiset(run_chain(chain)) == multiset(chain.expected())


@given(chain=chains(), seed=some.integers(0, 2**32 - 1))
def test_the_output_of_a_chain_is_the_same_for_any_execution_of_either_operator(chain, seed):
    plain = Execution(seed=seed)
    assert exact(run_chain(chain)) == exact(run_chain(chain, first=plain, second=plain))


@given(chain=chains(), seed=some.integers(0, 2**32 - 1))
def test_results_of_equal_times_reach_the_second_operator_in_the_same_order(chain, seed):
    """Seen by functions that depend on it."""
    groups = chain.second.groups if chain.second.cut else 1024
    ordered = replace(chain, second=Ordered(chain.second.cut or Cut(10, 5), groups))
    plain = Execution(seed=seed, parallelism=3, pool=3)
    assert exact(run_chain(ordered)) == exact(run_chain(ordered, first=plain, second=Execution()))


class Ordered:
    """First and last of the results in a window."""

    def __init__(self, cut, groups):
        self.cut, self.groups = cut, groups

    def operator(self):
        window = st.sliding(self.cut.size, self.cut.advance, self.cut.kind)
        return st.Aggregate(window=window, first=st.first("value"), last=st.last("name"), groups=self.groups)


def test_three_operators_in_a_row_are_reconfigured_while_they_run():
    first = start(CASE, Execution(parallelism=1, pool=3))
    second = st.setup(st.Map(lambda t: [(t.name, t.value)] * 2, schema="name string, value long"), upstream=first)
    third = st.setup(
        st.Aggregate(window=st.tumbling(8), keys="name", total=st.sum("value")), upstream=second, max_parallelism=4
    )
    tables, changes = [], []
    for start_row in range(0, len(ROWS), 8):
        first.add(batch(ROWS[start_row : start_row + 8]))
        parallelism = 1 + start_row // 8 % 3
        changes += [job.reconfigure(parallelism) for job in (first, third)]
        tables.append(third.results())
    tables.append(third.finish())
    rows = [row for table in tables for row in rows_of(table)]
    counts = CASE.expected()
    starts = sorted({row[0] // 8 * 8 for row in counts})
    expected = [
        (left + 8, name, 2 * sum(row[2] for row in counts if row[1] == name and left <= row[0] < left + 8))
        for left in starts
        for name in ("'red'", "'pink'")
    ]
    assert multiset(rows) == multiset(expected)
    assert [change.status for change in changes].count("switched") > len(changes) / 2
    assert third.metrics().parallelism > 1 or first.metrics().reconfigurations > 2


def test_a_downstream_reconfiguration_travels_with_the_results_of_the_upstream_operator():
    first = start(CASE, Execution())
    second = st.setup(st.Aggregate(window=st.tumbling(8), n=st.count()), upstream=first, max_parallelism=2)
    first.add(batch(ROWS[:20]))
    change = second.reconfigure(2)
    assert change.status == "waiting"
    first.add(batch(ROWS[20:40]))
    assert change.status == "switched"
    assert 10 <= change.watermark <= 20
    assert second.metrics().parallelism == 2
    assert first.metrics().parallelism == 1


def test_several_operators_read_the_results_of_one():
    """Paper: "our results hold also if more D operators invoke get"."""

    def count():
        return st.Aggregate(window=st.tumbling(8), keys="name", n=st.count())

    first = start(CASE, Execution(parallelism=2, pool=2))
    readers = [st.setup(count(), upstream=first, max_parallelism=3) for _ in range(3)]
    first.add(batch(ROWS[:40]))
    readers[1].reconfigure(3)
    first.add(batch(ROWS[40:]))
    tables = [exact(rows_of(job.finish())) for job in readers]
    assert tables[0] == tables[1] == tables[2]
    assert len(tables[0]) == 12


def test_the_first_form_of_setup_gives_a_job_that_is_read_and_the_second_reads_it_too():
    """Results of the first operator stay readable while the second reads them."""
    first = start(CASE, Execution())
    second = st.setup(st.Map(lambda t: [(t.value,)], schema="value long"), upstream=first)
    first.add(batch(ROWS))
    seen = rows_of(first.results())
    assert [(row[0], row[2]) for row in seen] == rows_of(second.results())
    assert len(second.finish()) == len(first.results()) > 0


@pytest.mark.parametrize("order", [(8, 100), (100, 8)])
def test_readers_of_one_operator_finish_in_any_order_whatever_their_windows(order):
    """Ending the first operator for one reader must not cut short the windows of another."""
    first = start(CASE, Execution())
    readers = {
        size: st.setup(st.Aggregate(window=st.tumbling(size), n=st.count()), upstream=first) for size in (8, 100)
    }
    first.add(batch(ROWS))
    finished = {size: rows_of(readers[size].finish()) for size in order}
    results = CASE.expected()
    assert finished[100] == [(100, len(results))]
    assert sum(row[1] for row in finished[8]) == len(results)


def test_the_second_operator_completes_its_windows_after_the_first_was_finished_by_itself():
    first = start(CASE, Execution())
    second = st.setup(st.Aggregate(window=st.tumbling(100), n=st.count()), upstream=first)
    first.add(batch(ROWS))
    assert first.finish().num_rows == len(CASE.expected())
    assert rows_of(second.finish()) == [(100, len(CASE.expected()))]
