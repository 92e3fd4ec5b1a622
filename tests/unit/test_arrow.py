"""Arrow in and out: functions see plain values whatever Arrow type a column has; results have Spark's types."""

import datetime as dt

import pyarrow as pa
import pytest

import stretch as st
from stretch.schema import parse_schema, read_column, rows_to_table, schema_of, to_python
from tests.unit.streams import batch, result_of, rows

NOON = 43_200_000_000
"""Microseconds."""


def seen_by_functions(column, ddl_type=None):
    """Return the values of a column as functions see them."""
    (_, type_), *_ = schema_of(pa.schema([("x", column.type)])).columns
    declared = type_ if ddl_type is None else parse_schema(f"x {ddl_type}")["x"]
    return to_python(read_column(pa.record_batch({"x": column}), "x", declared, "here"), declared)


TEXTS = {
    "string": pa.array(["a", None, "b", "a"]),
    "large string": pa.array(["a", None, "b", "a"], pa.large_string()),
    "string view": pa.array(["a", None, "b", "a"], pa.string_view()),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "dictionary of large strings": pa.array(["a", None, "b", "a"], pa.large_string()).dictionary_encode(),
}


@pytest.mark.parametrize("column", TEXTS.values(), ids=TEXTS)
def test_text(column):
    assert seen_by_functions(column) == ["a", None, "b", "a"]
    assert schema_of(pa.schema([("x", column.type)])) == parse_schema("x string")


@pytest.mark.parametrize("arrow", [pa.int8(), pa.int16(), pa.int32(), pa.int64()])
@pytest.mark.parametrize("declared", [None, "byte", "short", "int", "long"])
def test_ints_of_any_width(arrow, declared):
    assert seen_by_functions(pa.array([-128, None, 127], arrow), declared) == [-128, None, 127]


def test_an_int_that_does_not_fit_is_refused():
    with pytest.raises(st.InputError, match="does not fit byte"):
        seen_by_functions(pa.array([128], pa.int64()), "byte")


@pytest.mark.parametrize("arrow", [pa.float32(), pa.int8(), pa.int32()])
def test_what_widens_to_double(arrow):
    assert seen_by_functions(pa.array([1, None, 2], arrow), "double") == [1.0, None, 2.0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Stockholm"])
def test_timestamps_of_any_unit_and_zone_count_microseconds(unit, zone):
    in_seconds = pa.array([NOON // 1_000_000, None, -1]).cast(pa.timestamp("s", tz=zone))
    column = in_seconds.cast(pa.timestamp(unit, tz=zone))
    assert seen_by_functions(column) == [NOON, None, -1_000_000]
    name = "timestamp_ntz" if zone is None else "timestamp"
    assert schema_of(pa.schema([("x", column.type)])) == parse_schema(f"x {name}")


def test_nanoseconds_that_would_be_lost_are_refused():
    with pytest.raises(st.InputError, match="would lose data"):
        seen_by_functions(pa.array([1_001]).cast(pa.timestamp("ns")))


LISTS = {
    "list of strings": (pa.array([["a", None], None, []]), [["a", None], None, []]),
    "large list": (pa.array([["a"], None, []], pa.large_list(pa.string())), [["a"], None, []]),
    "list of large strings": (pa.array([["a"], None], pa.list_(pa.large_string())), [["a"], None]),
    "list of narrow ints": (pa.array([[1], [2, 3]], pa.list_(pa.int8())), [[1], [2, 3]]),
    "list of timestamps": (
        pa.array([[1, None]], pa.list_(pa.int64())).cast(pa.list_(pa.timestamp("ms"))),
        [[1_000, None]],
    ),
}


@pytest.mark.parametrize(("column", "values"), LISTS.values(), ids=LISTS)
def test_lists(column, values):
    assert seen_by_functions(column) == values


def test_a_list_may_be_declared_wider():
    assert seen_by_functions(pa.array([[1], None], pa.list_(pa.int8())), "array<long>") == [[1], None]


def test_columns_of_other_types_are_left_out():
    arrow = pa.schema([("ts", pa.int64()), ("price", pa.decimal128(10, 2)), ("day", pa.date32()), ("raw", pa.binary())])
    assert schema_of(arrow) == parse_schema("ts long")


def test_who_asks_for_a_column_of_another_type_is_told_its_type():
    stream = pa.record_batch({"ts": pa.array([1]), "price": pa.array([1], pa.uint32())})
    with pytest.raises(st.DefinitionError, match=r"column that is uint32\n"):
        result_of(st.Aggregate(window=st.tumbling(10), most=st.max("price")), stream)
    with pytest.raises(st.FunctionError, match="the column 'price' is uint32; that type is not supported"):
        result_of(st.Map(lambda t: t.price, schema="x int"), stream)


def test_columns_are_found_by_name_and_others_ignored():
    shuffled = pa.record_batch({"note": pa.array(["?"]), "user": pa.array(["a"]), "ts": pa.array([3])})
    operator = st.Aggregate(window=st.tumbling(10), keys="user", visits=st.count())
    assert result_of(operator, shuffled, inputs="ts long, user string") == [(10, "a", 1)]


# --- results


def test_results_have_the_types_of_their_schema():
    ddl = "a boolean, b byte, c short, d int, e long, f float, g double, h string, i timestamp, j array<long>"
    row = (True, 1, 2, 3, 4, 0.5, 0.25, "x", NOON, [1, None])
    table = result_table(st.Map(lambda t: [row, (None,) * 10], schema=ddl))
    assert table.schema == parse_schema(f"ts long, {ddl}").arrow()
    first, second = table.to_pylist()
    noon = dt.datetime(1970, 1, 1, 12, tzinfo=dt.UTC)
    assert tuple(first.values()) == (1, True, 1, 2, 3, 4, 0.5, 0.25, "x", noon, [1, None])
    assert tuple(second.values()) == (1, *(None,) * 10)


@pytest.mark.parametrize("ddl", ["timestamp", "timestamp_ntz", "long"])
def test_the_time_of_results_has_the_type_of_the_input(ddl):
    table = result_table(st.Map(lambda t: [t.x], schema="x int"), f"ts {ddl}, x int", (7, 1))
    assert table.schema == parse_schema(f"ts {ddl}, x int").arrow()
    assert rows(table) == [(7, 1)]


def test_an_int_time_column_gives_long():
    assert result_table(st.Map(lambda t: [t.ts], schema="x int"), "ts int", (7,)).schema.field("ts").type == pa.int64()


def test_no_results_is_a_table_without_rows():
    table = result_table(st.Map(lambda t: [], schema="x int"))
    assert table.num_rows == 0
    assert table.schema == parse_schema("ts long, x int").arrow()


def test_lists_of_timestamps_go_out_as_such():
    table = rows_to_table([([0, None],), (None,)], parse_schema("x array<timestamp>").arrow())
    assert table["x"].to_pylist() == [[dt.datetime(1970, 1, 1, tzinfo=dt.UTC), None], None]


def result_table(operator, ddl="ts long", row=(1,)):
    with st.setup(operator, inputs=ddl) as job:
        job.add(batch(ddl, row))
        return job.finish()
