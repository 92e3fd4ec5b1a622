"""DataFrames as inputs of operators: what their columns are to us, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, StructType

from stretch.errors import DefinitionError, a_kind
from stretch.operator.plan import AnyOperator
from stretch.schema import Schema, Type, fits, parse_schema, whole_number


def schema_of(frame: DataFrame, number: int, operator: AnyOperator) -> Schema:
    """Return the columns of an input: those that the operator declares, or all that we have a type for."""
    types = [(field.name, _type_of(field.dataType)) for field in frame.schema]
    known = Schema(
        tuple((name, type_) for name, type_ in types if type_ is not None),
        tuple(
            (field.name, field.dataType.simpleString()) for field in frame.schema if _type_of(field.dataType) is None
        ),
    )
    declared = operator.inputs[number].schema
    if declared is None:
        return known
    for name, type_ in declared.columns:
        if name not in known:
            missing = known.missing(name)
            raise DefinitionError(
                f"{operator.name}: the column {name!r} {missing.predicate}",
                where=f"input {number}",
                why=missing.why,
                do=missing.do,
            )
        if not fits(known[name], type_):
            raise DefinitionError(
                f"{operator.name}: the column {name!r} is {known[name]}",
                where=f"input {number}",
                why=f"it was declared as {type_}, and cannot be read so without loss",
                do=f"cast the column to {type_}, or declare the input differently",
            )
    return declared


def _type_of(spark: DataType) -> Type | None:
    """Return our type for one of Spark's; None if there is none."""
    if isinstance(spark, ArrayType):
        item = _type_of(spark.elementType)
        return None if item is None or item.is_list else Type(item.name, True)
    if isinstance(spark, StructType):
        return None
    try:
        return parse_schema(f"x {ddl_of(spark)}")["x"]
    except DefinitionError:
        return None


def ddl_of(spark: DataType) -> str:
    written = spark.simpleString()
    return "string" if written.startswith(("varchar", "char", "string")) else written


def check_frames(operator: AnyOperator, frames: Sequence[Any]) -> None:
    for frame in frames:
        if not hasattr(frame, "mapInArrow"):
            raise DefinitionError(
                f"{operator.name}.on() got {a_kind(frame)}",
                why="an operator runs on DataFrames of Spark",
                do="pass one DataFrame per input; without Spark, use stretch.setup",
            )
    if len(frames) != len(operator.inputs):
        raise DefinitionError(
            f"{operator.name}.on() got {len(frames)} DataFrame(s)",
            why=f"the operator is declared with {len(operator.inputs)} input(s)",
            do="pass one DataFrame per input",
        )
    if len({frame.isStreaming for frame in frames}) > 1:
        raise DefinitionError(
            f"{operator.name}.on() got a streaming DataFrame and a batch one",
            why="rows of one never end, and those of the other are there at once",
            do="read both with spark.readStream, or both with spark.read",
        )


def check_shards(shards: Any, frames: Sequence[Any]) -> None:
    number = whole_number(shards)
    if number is None or number < 1:
        raise DefinitionError(
            f"shards={shards!r} is not possible",
            why="it is a number of Spark tasks, and at least one has to run",
            do="pass a number from 1 up",
        )
    if number > 1 and not hasattr(frames[0], "repartitionById"):
        raise DefinitionError(
            f"shards={number} is not possible with this version of PySpark",
            why="rows are sent to shards with DataFrame.repartitionById, which 4.1 brought",
            do="use PySpark 4.1 or newer, or one shard with a higher parallelism",
        )
