"""`operator.on(df)`: checks everything, and builds the plan of the query.

    each input: select its columns -> union of all inputs, as travelling rows (`rows`)
    -> one partition per shard -> mapInArrow (`task`)

The rows of a streaming shard are processed in a pool of Python workers of its own: Spark has one per set of environment
variables. Otherwise the worker with the shard's memory might be busy with somebody else's rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's custom
from pyspark.sql.types import ArrayType, DataType, StructType

from stretch.errors import DefinitionError, a_kind
from stretch.operator.frames import Placement
from stretch.operator.plan import AnyOperator, Plan, make_plan
from stretch.operator.program import compile_plan
from stretch.runtime.arguments import disorder_of, parallelism_of, seconds_of
from stretch.schema import Schema, Type, fits, parse_schema, whole_number
from stretch.spark.queries import listen
from stretch.spark.rows import TAG, Layout, make_layout
from stretch.spark.task import Work, make_task

POOL_VARIABLE = "STRETCH_POOL"  # tells pools of Python workers apart


def run_on(operator: AnyOperator, frames: Sequence[Any], placement: Placement) -> DataFrame:
    """Return the DataFrame of the results; see `OnFrames.on`."""
    _check_frames(operator, frames)
    _check_shards(placement.shards)
    schemas = [_schema_of(frame, number, operator) for number, frame in enumerate(frames)]
    plan = make_plan(operator, schemas, placement.time, placement.resolution)
    reads = _columns_read(plan, frames, placement)
    _check_options(placement, plan)
    types = [{field.name: _ddl_of(field.dataType) for field in frame.schema} for frame in frames]
    layout = make_layout([[(name, types[n][name]) for name in names] for n, names in enumerate(reads)])
    session = frames[0].sparkSession
    is_streaming = frames[0].isStreaming
    if is_streaming:
        listen(session)
    declared = [
        Schema(tuple((name, schema[name]) for name in names if name in schema))
        for schema, names in zip(schemas, reads, strict=True)
    ]
    work = Work(
        operator=operator,
        inputs=tuple(declared),
        layout=layout,
        name=_name_of(operator, frames),
        token=uuid.uuid4().hex,
        is_streaming=is_streaming,
        state=placement.state,
        min_versions=int(session.conf.get("spark.sql.streaming.minBatchesToRetain", "100") or 100),
        options={
            "time": placement.time,
            "source": placement.source,
            "disorder": placement.watermark if is_streaming else None,
            "idle": placement.idle,
            "resolution": placement.resolution,
        },
        parallelism=placement.parallelism,
        max_parallelism=placement.max_parallelism,
    )
    rows = _together(frames, layout).repartition(1)
    results = ", ".join(f"`{name}` {type_}" for name, type_ in plan.result_schema().columns)
    if not is_streaming:
        return rows.mapInArrow(make_task(work), results)
    with _pool_of_its_own(session.sparkContext, work.token):
        return rows.mapInArrow(make_task(work), results)


def _together(frames: Sequence[DataFrame], layout: Layout) -> DataFrame:
    """Return all inputs as travelling rows."""
    parts = [_travelling(frame, number, layout) for number, frame in enumerate(frames)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole


def _travelling(frame: DataFrame, number: int, layout: Layout) -> DataFrame:
    column_in = {slot: frame[f"`{name}`"] for name, slot in layout.columns[number]}
    slots = [
        column_in.get(slot, F.lit(None).cast(type_)).alias(f"slot{slot}") for slot, type_ in enumerate(layout.slots)
    ]
    return frame.select(*([F.lit(number).cast("tinyint").alias(TAG)] if layout.has_tag else []), *slots)


def _columns_read(plan: Plan, frames: Sequence[DataFrame], placement: Placement) -> list[list[str]]:
    """Return the columns of each input that have to travel: the time, the source, and what the operator reads."""
    program = compile_plan(plan)
    reads = []
    for stream, layout, frame in zip(plan.streams, program.layouts, frames, strict=True):
        first = [stream.time] if placement.source in (None, stream.time) else [stream.time, placement.source]
        for name in first:
            if name not in frame.columns:
                raise DefinitionError(
                    f"{plan.name}: the source column {name!r} does not exist",
                    why=f"input {stream.index} has the columns {', '.join(frame.columns)}",
                    do="name one of them, or leave source out",
                )
        rest = sorted({column.name for column in layout.columns} - set(first))
        reads.append([str(name) for name in [*first, *rest]])
    return reads


@contextmanager
def _pool_of_its_own(context: SparkContext, token: str) -> Iterator[None]:
    """Let what is planned meanwhile run in Python workers that nobody else uses; unless a pool was chosen already."""
    before = dict(context.environment)
    context.environment.setdefault(POOL_VARIABLE, token)
    try:
        yield
    finally:
        context.environment.clear()
        context.environment.update(before)


def _name_of(operator: AnyOperator, frames: Sequence[DataFrame]) -> str:
    """Return a name for the operator that is its own among those before it, and the same after a restart."""
    plans = "".join(frame._jdf.queryExecution().analyzed().toString() for frame in frames)
    base = "".join(letter if letter.isalnum() else "-" for letter in operator.name)
    name, number = base, 1
    while f"stretch_{name}(" in plans:
        number += 1
        name = f"{base}-{number}"
    return name


def _schema_of(frame: DataFrame, number: int, operator: AnyOperator) -> Schema:
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
        return parse_schema(f"x {_ddl_of(spark)}")["x"]
    except DefinitionError:
        return None


def _ddl_of(spark: DataType) -> str:
    written = spark.simpleString()
    return "string" if written.startswith(("varchar", "char", "string")) else written


def _check_frames(operator: AnyOperator, frames: Sequence[Any]) -> None:
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


def _check_shards(shards: Any) -> None:
    number = whole_number(shards)
    if number is None or number < 1:
        raise DefinitionError(
            f"shards={shards!r} is not possible",
            why="it is a number of Spark tasks, and at least one has to run",
            do="pass a number from 1 up",
        )


def _check_options(placement: Placement, plan: Plan) -> None:
    """Find what a node would complain of, before there is a query."""
    parallelism_of(placement.parallelism, placement.max_parallelism)
    disorder_of(placement.watermark, plan)
    if placement.idle is not None:
        seconds_of(placement.idle)
