"""Operators that do the same share compiled code, and no others do."""

import stretch as st
from stretch.operator.fingerprint import fingerprint
from tests.unit.streams import batch

LIMIT = 5


def adder(step):
    def add(w, t):
        w.total += step

    return add


def limited(w, t):
    w.total += LIMIT


def calls_limited(w, t):
    limited(w, t)


def test_closures_over_equal_values_are_alike_and_over_others_not():
    assert fingerprint(adder(1)) == fingerprint(adder(1))
    assert fingerprint(adder(1)) != fingerprint(adder(2))
    assert fingerprint(adder(1)) != fingerprint(adder(1.0))
    assert fingerprint(adder(1)) != fingerprint(adder(True))


def test_a_global_that_compiling_would_freeze_counts_even_where_a_function_calls_another(monkeypatch):
    before = fingerprint(limited), fingerprint(calls_limited)
    monkeypatch.setitem(globals(), "LIMIT", 6)
    after = fingerprint(limited), fingerprint(calls_limited)
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_functions_that_call_themselves_have_one_too():
    def down(n):
        return n and down(n - 1)

    assert fingerprint(down) == fingerprint(down)


def test_windows_of_other_sizes_run_the_same_code_and_other_functions_do_not():
    def programs(window, step):
        def report(w):
            yield w.key, w.total

        operator = st.Operator(
            window=window, keys="x", state="total long", update=adder(step), output=report, schema="x long, total long"
        )
        with st.setup(operator, inputs="ts long, x long", engine="compiled") as job:
            job.add(batch("ts long, x long", (1, 7), (2, 7)))
            return job.engine.program, [row["total"] for row in job.finish().to_pylist()]

    (first, totals), (second, more), (third, double) = (
        programs(st.tumbling(10), 1),
        programs(st.tumbling(1), 1),
        programs(st.tumbling(10), 2),
    )
    assert first.workers is second.workers
    assert first.workers is not third.workers
    assert (totals, more, double) == ([2], [1, 1], [4])
