"""Declarations and errors cross process boundaries: Spark pickles both."""

import pickle

import pytest

import stretch as st
from stretch.duration import duration
from stretch.schema import parse_schema
from tests.unit.streams import batch, counting, result_of

DDL = "ts long, user string, text string, pages long"
ROWS = [(1, "a", "#one #two", 2), (2, "b", "#two", 3), (12, "a", None, 4)]


def copied(value):
    return pickle.loads(pickle.dumps(value))


def add_one(w, t):
    w.n += 1


def report(w):
    yield w.key, w.n


def split(t):
    for word in (t.text or "").split():
        yield word, t.pages


def is_same(l, r):
    return l.user == r.user


PLAIN = {
    "duration": duration("1 hour", "size"),
    "window": st.sliding("1 hour", "30 minutes"),
    "schema": parse_schema(DDL),
    "aggregate function": st.max("pages"),
    "words": st.words("text"),
    "pairs": st.pairs("text", 3),
    "hashtags": st.hashtags("text"),
    "input": st.input(DDL, keys="user"),
    "metrics": st.Metrics(1, 2, 3, 4, 5, 6),
}


@pytest.mark.parametrize("value", PLAIN.values(), ids=PLAIN)
def test_plain_parts_are_equal_after_a_journey(value):
    assert copied(value) == value


OPERATORS = {
    "aggregate": counting(),
    "aggregate by words": counting(keys=st.hashtags("text"), most=st.max("pages")),
    "operator": st.Operator(
        window=st.tumbling(10), keys="user", state="n long", update=add_one, output=report, schema="user string, n long"
    ),
    "map": st.Map(split, schema="word string, pages long"),
}


@pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)
def test_operators_of_importable_functions_give_the_same_results_after_a_journey(operator):
    stream = batch(DDL, *ROWS)
    expected = result_of(operator, stream)
    assert expected
    assert result_of(copied(operator), stream) == expected


def test_joins_travel_too():
    join = st.Join(window=st.sliding(5), match=is_same, inputs=[DDL, DDL], groups=7)

    def result(operator):
        with st.setup(operator) as job:
            for source in (0, 1):
                job.add(batch(DDL, *ROWS), source)
            return job.finish()

    assert result(join).num_rows == 3
    assert result(copied(join)) == result(join)


ERRORS = [st.StretchError, st.DefinitionError, st.InputError, st.FunctionError, st.JobError, st.ReconfigurationError]


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("where", [None, "update at timestamp 5"])
def test_errors_keep_their_parts(kind, where):
    error = kind("what", where=where, why="why", do="do")
    found = copied(error)
    assert type(found) is kind
    assert str(found) == str(error)
    assert (found.what, found.where, found.why, found.do) == ("what", where, "why", "do")


def test_all_errors_are_stretch_errors_of_up_to_four_lines():
    assert all(issubclass(kind, st.StretchError) for kind in ERRORS)
    error = st.InputError("what", where="where", why="why", do="do")
    assert str(error) == "what\n  where: where\n  why:   why\n  do:    do"
    assert str(st.InputError("what", why="why", do="do")) == "what\n  why:   why\n  do:    do"
