"""`operator.on(df)`: checks everything, and builds the plan of the query.

    each input: select its columns -> union of all inputs, as travelling rows (`rows`)
    -> a copy for each shard -> one partition per shard -> mapInArrow (`task`)

The rows of a streaming shard are processed in a pool of Python workers of its own: Spark has one per set of environment
variables. Otherwise the worker with the shard's memory might be busy with somebody else's rows.

Spark leaves out parts of a plan that have no rows in a micro-batch, and then there would be no task, and no version in
the state log; it keeps those that count their rows, so each input is observed.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's custom

from stretch.controllers import Elastic
from stretch.errors import DefinitionError
from stretch.operator.frames import Placement
from stretch.operator.plan import AnyOperator, Plan, make_plan
from stretch.operator.program import compile_plan
from stretch.runtime.arguments import disorder_of, parallelism_of, seconds_of
from stretch.schema import Schema
from stretch.spark.frames import check_frames, check_shards, ddl_of, schema_of
from stretch.spark.places import checked_state
from stretch.spark.queries import remember
from stretch.spark.route import SHARD, make_route
from stretch.spark.rows import INPUT, NOW, Layout, make_layout
from stretch.spark.task import make_router, make_task
from stretch.spark.work import Results, Work

POOL_VARIABLE = "STRETCH_POOL"  # tells pools of Python workers apart


def run_on(operator: AnyOperator, frames: Sequence[Any], placement: Placement) -> DataFrame:
    """Return the DataFrame of the results; see `OnFrames.on`."""
    check_frames(operator, frames)
    check_shards(placement.shards, frames)
    schemas = [schema_of(frame, number, operator) for number, frame in enumerate(frames)]
    plan = make_plan(operator, schemas, placement.time, placement.resolution)
    work = _work(operator, plan, schemas, frames, placement)
    session = frames[0].sparkSession
    results = ", ".join(_result_columns(plan, work))
    rows = _by_shard(_together(frames, work), work, plan, placement)
    if not work.is_streaming:
        return rows.mapInArrow(make_task(work), results)
    remember(work, session)
    with _pool_of_its_own(session.sparkContext, work.token):
        return rows.mapInArrow(make_task(work), results)


def _work(
    operator: AnyOperator, plan: Plan, schemas: Sequence[Schema], frames: Sequence[DataFrame], placement: Placement
) -> Work:
    """Return what the tasks have to know."""
    elastic = placement.parallelism if isinstance(placement.parallelism, Elastic) else None
    running, pool = (placement.parallelism, placement.max_parallelism)
    if elastic is not None:
        running, pool = elastic.minimum, max(elastic.maximum, placement.max_parallelism or 1)
    _check_options(placement, plan, running, pool)
    is_streaming = frames[0].isStreaming
    reads = _columns_read(plan, schemas, frames, placement)
    types = [{field.name: ddl_of(field.dataType) for field in frame.schema} for frame in frames]
    columns = [[(name, types[number][name]) for name in names] for number, names in enumerate(reads)]
    travelling = [
        Schema(tuple((name, schema[name]) for name in names if name in schema))
        for schema, names in zip(schemas, reads, strict=True)
    ]
    late = tuple(_late_schema(schema, plan).arrow() for schema in travelling) if placement.late else ()
    return Work(
        operator=operator,
        inputs=tuple(travelling),
        result_columns=plan.result_schema().columns,
        layout=make_layout(
            columns,
            has_input=len(frames) > 1 or placement.shards > 1,
            has_now=is_streaming and placement.idle is not None,
        ),
        results=Results(plan.result_schema().arrow(), late),
        name=_name_of(operator, frames),
        token=uuid.uuid4().hex,
        is_streaming=is_streaming,
        state=checked_state(placement.state),
        min_versions=max(2, int(frames[0].sparkSession.conf.get("spark.sql.streaming.minBatchesToRetain") or 100)),
        shards=placement.shards,
        options={
            "time": placement.time,
            "source": placement.source,
            "disorder": placement.watermark if is_streaming else None,
            "idle": placement.idle if is_streaming else None,
            "resolution": placement.resolution,
        },
        parallelism=running,
        max_parallelism=pool,
        elastic=elastic,
    )


def _by_shard(rows: DataFrame, work: Work, plan: Plan, placement: Placement) -> DataFrame:
    """Return a partition per shard, with the rows that it has a key of, or all of them: each takes what is its own."""
    if work.shards == 1:
        return rows.repartition(1)
    route = None if placement.late else make_route(plan, work.layout, placement.source, work.shards)
    if route is None:
        numbers = F.explode(F.array(*map(F.lit, range(work.shards)))).alias(SHARD)
        addressed = rows.select("*", numbers)
    else:
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema)
        addressed = rows.mapInArrow(make_router(work, route), f"{columns}, {SHARD} int")
    copies = F.count_if(F.col(INPUT) >= 0).alias("copies")
    observed = addressed.observe(f"copies of {_observed_name(work)}", copies)
    return observed.repartitionById(work.shards, SHARD).drop(SHARD)


def _observed_name(work: Work) -> str:
    return f"{work.name} {work.token[:8]}"


def _together(frames: Sequence[DataFrame], work: Work) -> DataFrame:
    """Return all inputs as travelling rows."""
    parts = [_travelling(frame, number, work.layout) for number, frame in enumerate(frames)]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionAll(part)
    return whole.observe(f"rows of {_observed_name(work)}", F.count(F.lit(1)).alias("rows"))


def _travelling(frame: DataFrame, number: int, layout: Layout) -> DataFrame:
    column_in = {slot: frame[f"`{name}`"] for name, slot in layout.columns[number]}
    first = [F.lit(number).cast("tinyint").alias(INPUT)] if layout.has_input else []
    now = [F.unix_micros(F.current_timestamp()).alias(NOW)] if layout.has_now else []
    slots = [
        column_in.get(slot, F.lit(None).cast(type_)).alias(f"slot{slot}") for slot, type_ in enumerate(layout.slots)
    ]
    return frame.select(*first, *now, *slots)


def _result_columns(plan: Plan, work: Work) -> Iterator[str]:
    """Yield the columns of the results, as DDL."""
    for name, type_ in work.result_columns:
        yield f"`{name}` {type_}"
    for name, schema in zip(work.results.late_names, work.inputs, strict=bool(work.results.late)):
        fields = ", ".join(f"`{column}`: {type_}" for column, type_ in _late_schema(schema, plan).columns)
        yield f"`{name}` struct<{fields}>"


def _late_schema(schema: Schema, plan: Plan) -> Schema:
    """Return the columns of late rows: the time comes first."""
    first = plan.streams[0]
    return Schema(((first.time, first.time_type), *schema.payload(first.time).columns))


def _columns_read(
    plan: Plan, schemas: Sequence[Schema], frames: Sequence[DataFrame], placement: Placement
) -> list[list[str]]:
    """Return the columns of each input that have to travel: the time, the source, and what the operator reads."""
    program = compile_plan(plan)
    reads = []
    for stream, layout, schema, frame in zip(plan.streams, program.layouts, schemas, frames, strict=True):
        first = [stream.time] if placement.source in (None, stream.time) else [stream.time, placement.source]
        for name in first:
            if name not in frame.columns:
                raise DefinitionError(
                    f"{plan.name}: the source column {name!r} does not exist",
                    where=f"input {stream.index}",
                    why=f"its columns are {', '.join(frame.columns)}",
                    do="name one of them, or leave source out",
                )
        wanted = set(schema.names) if placement.late else {column.name for column in layout.columns}
        reads.append([str(name) for name in [*first, *sorted(wanted - set(first))]])
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
    base = re.sub(r"\W", "-", operator.name)
    name, number = base, 1
    while f"stretch_{name}_" in plans:
        number += 1
        name = f"{base}-{number}"
    return name


def _check_options(placement: Placement, plan: Plan, parallelism: Any, max_parallelism: int | None) -> None:
    """Find what a node would complain of, before there is a query."""
    parallelism_of(parallelism, max_parallelism)
    if not isinstance(disorder_of(placement.watermark, plan), int | None):
        raise DefinitionError(
            f"watermark={placement.watermark!r} is not a length of event time",
            why="on Spark, watermarks follow from the rows",
            do='pass for example watermark="10 seconds"',
        )
    if placement.idle is not None:
        seconds_of(placement.idle)
