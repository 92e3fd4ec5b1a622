"""Schemas as Spark DDL strings, and values as their types hold them."""

import math

import numpy as np
import pyarrow as pa
import pytest

import stretch as st
from stretch.schema import Schema, Type, fits, parse_schema, zero_of

SCALARS = ["boolean", "byte", "short", "int", "long", "float", "double", "string", "timestamp", "timestamp_ntz"]
ALIASES = {
    "bool": "boolean",
    "tinyint": "byte",
    "smallint": "short",
    "integer": "int",
    "bigint": "long",
    "real": "float",
}


def only_column(ddl):
    (column,) = parse_schema(ddl).columns
    return column


@pytest.mark.parametrize("name", SCALARS)
def test_scalars_and_lists_of_them(name):
    assert only_column(f"x {name}") == ("x", Type(name))
    assert only_column(f"x array<{name}>") == ("x", Type(name, is_list=True))


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_aliases(alias, name):
    assert only_column(f"x {alias}") == ("x", Type(name))
    assert only_column(f"x array<{alias}>") == ("x", Type(name, is_list=True))


FORMS = [
    "x INT",
    "x: int",
    "x:int",
    "`x` int",
    "  x   int  ",
    "x int NOT NULL",
    "x int not null",
    "x int COMMENT 'the position, in metres'",
    "x int NOT NULL COMMENT 'it\\'s (x'",
    'x int comment "in <metres"',
]


@pytest.mark.parametrize("ddl", FORMS)
def test_forms_that_spark_writes(ddl):
    assert only_column(ddl) == ("x", Type("int"))


def test_columns_keep_their_order_and_their_case():
    schema = parse_schema("User string, hashtags ARRAY < STRING >, ts timestamp")
    assert schema.names == ("User", "hashtags", "ts")
    assert str(schema) == "User string, hashtags array<string>, ts timestamp"
    assert parse_schema(str(schema)) == schema
    assert parse_schema(schema) is schema


def test_a_schema_is_a_small_mapping():
    schema = parse_schema("ts long, x int")
    assert len(schema) == 2
    assert "x" in schema
    assert "y" not in schema
    assert schema["x"] == Type("int")
    assert schema.payload("ts") == Schema((("x", Type("int")),))


@pytest.mark.parametrize(
    "ddl", ["", "  ", "x", "x int,", ", x int", "x int y int", "x int 'a'", "x int, x long", "x array<int", 5]
)
def test_anything_else_is_refused(ddl):
    with pytest.raises(st.DefinitionError):
        parse_schema(ddl)


UNSUPPORTED = ["date", "decimal(10,2)", "map<int,int>", "struct<a: int, b: array<string>>", "array<array<int>>"]


@pytest.mark.parametrize("type_", UNSUPPORTED)
def test_types_of_spark_that_are_not_supported_are_named_in_full(type_):
    with pytest.raises(st.DefinitionError) as error:
        parse_schema(f"ts long, price {type_} NOT NULL COMMENT 'a, b', x int")
    assert error.value.what.endswith(f"has the column 'price' of type {type_!r}")
    assert error.value.why == "that type is not supported"


def test_names_in_backticks_may_be_anything():
    assert parse_schema("`a, b` int, `c:d` long").names == ("a, b", "c:d")


ARROW = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


@pytest.mark.parametrize(("name", "arrow"), ARROW.items())
def test_arrow_types_are_those_of_spark(name, arrow):
    assert Type(name).arrow == arrow
    assert Type(name, is_list=True).arrow == pa.list_(arrow)


# --- values


HELD = [
    ("boolean", True, True),
    ("byte", 127, 127),
    ("byte", 128, -128),
    ("byte", -129, 127),
    ("short", 1 << 15, -(1 << 15)),
    ("int", 1 << 31, -(1 << 31)),
    ("int", -(1 << 31) - 1, (1 << 31) - 1),
    ("long", 1 << 63, -(1 << 63)),
    ("long", (1 << 64) + 5, 5),
    ("long", True, 1),
    ("float", 0.1, 0.10000000149011612),
    ("float", 3, 3.0),
    ("double", 0.1, 0.1),
    ("double", 3, 3.0),
    ("string", "å", "å"),
    ("timestamp", -1, -1),
    ("array<byte>", (1, 200, None), [1, -56, None]),
    ("array<string>", [], []),
    ("boolean", np.True_, True),
    ("byte", np.int64(128), -128),
    ("long", np.uint64((1 << 64) - 1), -1),
    ("float", np.float32(0.5), 0.5),
    ("double", np.float64(0.5), 0.5),
    ("double", np.int16(3), 3.0),
    ("string", np.str_("a"), "a"),
    ("timestamp", np.int64(5), 5),
    ("array<int>", np.array([1, 2]), [1, 2]),
]


@pytest.mark.parametrize(("ddl", "value", "held"), HELD, ids=[f"{ddl} {value!r}" for ddl, value, _ in HELD])
def test_values_are_held_as_machines_hold_them(ddl, value, held):
    _, type_ = only_column(f"x {ddl}")
    found = type_.coerce(value)
    assert found == held
    assert type(found) is type(held)


@pytest.mark.parametrize("name", SCALARS)
def test_null_is_a_value_of_every_type(name):
    assert Type(name).coerce(None) is None
    assert Type(name, is_list=True).coerce(None) is None


def test_floats_that_are_no_numbers():
    for name in ("float", "double"):
        assert Type(name).coerce(math.inf) == math.inf
        assert math.isnan(Type(name).coerce(math.nan))


REFUSED = [
    ("long", 1.0),
    ("long", "1"),
    ("string", 1),
    ("boolean", 1),
    ("double", "1"),
    ("timestamp", True),
    ("timestamp", 1.5),
    ("array<int>", 1),
    ("array<int>", ["1"]),
    ("array<string>", "text"),
    ("long", np.float64(2)),
    ("boolean", np.int64(1)),
    ("timestamp", np.True_),
    ("long", np.array([1])),
]


@pytest.mark.parametrize(("ddl", "value"), REFUSED)
def test_values_of_other_types_are_refused(ddl, value):
    _, type_ = only_column(f"x {ddl}")
    with pytest.raises(TypeError):
        type_.coerce(value)


@pytest.mark.parametrize("name", [name for name in SCALARS if name != "string"])
def test_state_starts_at_zero(name):
    zero = zero_of(Type(name))
    assert not zero
    assert Type(name).coerce(zero) == zero


@pytest.mark.parametrize("type_", [Type("string"), Type("int", is_list=True)])
def test_state_has_a_fixed_size(type_):
    with pytest.raises(TypeError):
        zero_of(type_)


FITS = [
    ("int", "long", True),
    ("long", "int", True),  # value by value
    ("byte", "double", True),
    ("int", "double", True),
    ("long", "double", False),  # not exact beyond 2**53
    ("float", "double", True),
    ("double", "float", False),
    ("timestamp", "timestamp_ntz", True),
    ("timestamp", "long", False),
    ("long", "timestamp", False),
    ("string", "long", False),
    ("boolean", "int", False),
    ("array<int>", "array<long>", True),
    ("array<int>", "int", False),
    ("int", "array<int>", False),
    ("array<string>", "array<long>", False),
]


@pytest.mark.parametrize(("found", "declared", "does"), FITS)
def test_which_columns_may_be_read_as_which(found, declared, does):
    assert fits(only_column(f"x {found}")[1], only_column(f"x {declared}")[1]) is does
