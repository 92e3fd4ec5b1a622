"""`operator.explain()`: what the compiled engine makes of an operator."""

import pytest

import stretch as st

INPUT = "ts long, user long, tag string, x int"


def test_an_aggregate_says_its_key_state_panes_and_rows():
    counts = st.Aggregate(window=st.sliding(10, 4), keys="tag", n=st.count(), top=st.max("x"))
    said = str(counts.explain(INPUT))
    assert "tag as id (int32)" in said
    assert "key:     a text, by its id, in 1 word(s)" in said
    assert "one table per pane of 2" in said
    assert "may be null: top" in said


def test_functions_say_their_state_and_what_their_key_is():
    def count(w, t):
        w.count += t.user

    sums = st.Operator(
        window=st.tumbling(10),
        keys="tag",
        state="count long",
        update=count,
        output=report,
        schema="tag string, count long",
    )
    said = repr(sums.explain(INPUT))
    assert "state:   count long; an entry has 2 words (16 bytes)" in said
    assert "one table per window" in said


def test_a_join_says_where_its_rows_are():
    joined = st.Join(window=st.tumbling(10), match=lambda l, r: l.x < r.x)
    assert "a join; its rows stay in the shared log" in str(joined.explain([INPUT, INPUT]))


def report(w):
    yield w.key, w.count


def test_a_function_that_cannot_be_compiled_is_named_with_the_engine_that_runs_it():
    def shout(t):
        return t.tag.upper()

    loud = st.Operator(
        window=st.tumbling(10),
        keys=shout,
        state="count long",
        update=lambda w, t: None,
        output=report,
        schema="tag string, count long",
    )
    with pytest.raises(st.DefinitionError, match=r"(?s)keys cannot be compiled.*shout.*test_explain.*python"):
        loud.explain(INPUT)
