"""`operator.explain()`: what the compiled engine makes of an operator."""

import pytest

import stretch as st

INPUT = "ts long, user long, tag string, x int"


def test_an_aggregate_says_its_key_state_panes_and_rows():
    counts = st.Aggregate(window=st.sliding(10, 4), keys=["user", "tag"], n=st.count(), top=st.max("x"))
    said = str(counts.explain(INPUT))
    assert "tag as id (int32)" in said
    assert "in 4 word(s)" in said, "a hash, two parts, and the bits of those that are None"
    assert "one table per pane of 2" in said
    assert "may be null: user, top" in said


def test_functions_say_their_state_and_what_their_key_is():
    def count(w, t):
        w.count += len(t.tag)

    letters = st.Operator(
        window=st.tumbling(10),
        keys="tag",
        state="count long",
        update=count,
        output=lambda w: (w.key, w.count),
        schema="tag string, count long",
    )
    said = repr(letters.explain(INPUT))
    assert "key:     Text, in 1 word(s)" in said
    assert "state:   count long; an entry has 2 words (16 bytes)" in said
    assert "one table per window" in said


def test_a_function_that_cannot_be_compiled_is_named_with_the_engine_that_runs_it():
    def shout(t):
        return t.tag.upper()

    loud = st.Operator(
        window=st.tumbling(10),
        keys=shout,
        state="n long",
        update=lambda w, t: None,
        output=lambda w: (w.n,),
        schema="n long",
    )
    with pytest.raises(st.DefinitionError, match=r"(?s)keys cannot be compiled.*shout.*test_explain.*python"):
        loud.explain(INPUT)
