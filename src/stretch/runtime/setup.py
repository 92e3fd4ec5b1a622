"""`setup`: from an operator to a running job (Paper: both forms of the method setup)."""

from __future__ import annotations

import time as wall_clock
from collections.abc import Callable, Sequence
from typing import Any, get_args

from stretch.controllers import Elastic
from stretch.errors import DefinitionError, JobError, a_kind
from stretch.operator.plan import AnyOperator, check_operator, make_plan
from stretch.operator.spec import as_inputs
from stretch.runtime.arguments import disorder_of, parallelism_of, seconds_of
from stretch.runtime.compiled import CompiledEngine
from stretch.runtime.engine import Engine
from stretch.runtime.job import Job
from stretch.runtime.reference import EngineName, VirtualEngine, chain_engine, make_engine
from stretch.runtime.threads import PythonEngine, chain_python_engine, make_python_engine
from stretch.schema import Schema, whole_number


def setup(
    operator: AnyOperator,
    *,
    upstream: Job | None = None,
    parallelism: int | Elastic = 1,
    max_parallelism: int | None = None,
    inputs: Any = None,
    time: str = "ts",
    sources: int | Sequence[int] = 1,
    watermark: str | int | None = None,
    idle: str | None = None,
    resolution: str | int | None = None,
    engine: EngineName = "reference",
    seed: int = 0,
    clock: Callable[[], float] = wall_clock.monotonic,
) -> Job:
    """Start an operator inside this program; see `Job` for what to do with it.

    - `upstream`: take the output of that job as the input, instead of sources of one's own.
    - `parallelism`, `max_parallelism`: how many instances run at first, and how many there are in the pool; or
      `st.elastic(1, 8)`, and a controller chooses.
    - `inputs`: the schemas of the inputs, where the operator does not declare them; a single input may be left out
      and is then read off the first batch. `time` names the column of event time.
    - `sources`: how many sources feed each input; they are numbered through, input after input.
    - `watermark`: None if each source is sorted by time; how much disorder there is ("10 seconds"); or "explicit" if
      `job.watermark` says it.
    - `idle`: a source silent for so long ("5 seconds" of real time) does not hold back the others; if all are, event
      time goes on to where the furthest of them is.
    - `resolution`: the smallest step of event time, for windows without an advance; default one unit of the column.
    - `engine`: "reference" (the paper's model, step by step), "shared-nothing" (its baseline, with copies), "compiled"
      (on threads, functions compiled), or "python" (on threads, functions as they are); all give the same results.
    """
    check_operator(operator)
    if engine not in get_args(EngineName):
        raise DefinitionError(
            f"engine={engine!r} does not exist",
            why=f"the engines are {', '.join(map(repr, get_args(EngineName)))}",
            do="pass one of them, or leave it out",
        )
    if upstream is not None:
        given = {
            "inputs": inputs is not None,
            "time": time != "ts",
            "sources": sources != 1,
            "watermark": watermark is not None,
            "idle": idle is not None,
            "engine": engine != "reference",
            "seed": seed != 0,
            "clock": clock is not wall_clock.monotonic,
        }
        strangers = [name for name in given if given[name]]
        return _chain(operator, upstream, parallelism, max_parallelism, resolution, strangers)
    running, pool = parallelism_of(parallelism, max_parallelism)
    chosen, counts = _elastic_of(parallelism, engine, operator.name), _source_counts(sources, operator)
    idle_seconds = None if idle is None else seconds_of(idle)

    def start(schemas: Sequence[Schema]) -> Engine:
        plan = make_plan(operator, schemas, time, resolution)
        streams = [stream for stream, count in zip(plan.streams, counts, strict=True) for _ in range(count)]
        disorder = disorder_of(watermark, plan)
        if engine in ("reference", "shared-nothing"):
            return make_engine(engine, plan, streams, running, pool, disorder, idle_seconds, seed, clock)
        make = CompiledEngine if engine == "compiled" else make_python_engine
        return make(plan, streams, running, pool, disorder, idle_seconds, clock)

    declared = [stream.schema for stream in (operator.inputs if inputs is None else as_inputs(inputs))]
    known = [schema for schema in declared if schema is not None]
    if len(known) == len(declared):
        return Job(_never, start(known), None, chosen)
    if len(declared) > 1:
        raise DefinitionError(
            f"{operator.name}: the columns of its {len(declared)} inputs are not declared",
            why="they cannot be read off the first batch, which belongs to one input only",
            do='pass inputs=["ts long, x int", "ts long, a int"] to stretch.setup',
        )
    return Job(lambda schema: start([schema]) if schema is not None else _never(schema), None, None, chosen)


def _elastic_of(parallelism: int | Elastic, engine: EngineName, name: str) -> Elastic | None:
    if not isinstance(parallelism, Elastic):
        return None
    if engine != "compiled":
        raise DefinitionError(
            f"{name}: the engine {engine!r} cannot be elastic",
            why="it does not measure how busy its instances are, which is what controllers decide by",
            do='pass engine="compiled", or a number as parallelism',
        )
    return parallelism


def _chain(
    operator: AnyOperator,
    upstream: Job,
    parallelism: int | Elastic,
    max_parallelism: int | None,
    resolution: str | int | None,
    given: Sequence[str],
) -> Job:
    if not isinstance(upstream, Job):
        raise DefinitionError(
            f"{operator.name}: upstream={upstream!r} is not a job",
            why=f"it is {a_kind(upstream)}",
            do="pass what stretch.setup returned for the operator before this one",
        )
    if given:
        raise DefinitionError(
            f"{operator.name}: a chained job was given {', '.join(given)}",
            why="its input is the output of the upstream job, which brings columns, time, sources, engine and clock",
            do="leave them out here, and pass them where the first job of the chain is set up",
        )
    before = upstream.engine
    if not isinstance(before, (VirtualEngine, CompiledEngine)):
        raise DefinitionError(
            f"{operator.name}: a job of the engine 'shared-nothing' cannot be chained",
            why="the shared-nothing baseline hands its results to one reader",
            do="set up the upstream job with another engine",
        )
    running, pool = parallelism_of(parallelism, max_parallelism)
    result = before.plan.result_schema()
    plan = make_plan(operator, [result], result.names[0], resolution)
    if isinstance(before, CompiledEngine):
        chosen = _elastic_of(parallelism, "compiled", operator.name)
        return Job(_never, CompiledEngine.behind(before, plan, running, pool), upstream, chosen)
    _elastic_of(parallelism, "python" if isinstance(before, PythonEngine) else "reference", operator.name)
    if isinstance(before, PythonEngine):
        return Job(_never, chain_python_engine(before, plan, running, pool), upstream)
    return Job(_never, chain_engine(before, plan, running, pool), upstream)


def _never(schema: Schema | None) -> Engine:
    raise JobError("the job has no engine", why=f"it was made for {schema}", do="please report this")


def _source_counts(sources: int | Sequence[int], operator: AnyOperator) -> list[int]:
    inputs = len(operator.inputs)
    listed = sources if isinstance(sources, Sequence) else [sources] * inputs
    counts = [number for count in listed if (number := whole_number(count)) is not None and number >= 1]
    if len(counts) == len(listed) == inputs:
        return counts
    raise DefinitionError(
        f"{operator.name}: sources={sources!r} is not possible",
        why=f"there are {inputs} input(s), and each needs at least one source",
        do="pass one number for all inputs, or a list with one number per input",
    )
