"""Run a scenario through an engine: as a user would, or step by step through every interleaving.

A failing test prints a line, made by `replay`, that runs the very same interleaving again:

    PYTHONPATH=src python -c "from tests.harness.run import *; print(interleave(Scenario(...)).rows)"

All chance is in the scenario's seed: write another number there to see another interleaving of the same calls.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import inf, nan
from typing import Any

import pyarrow as pa
from hypothesis import currently_in_test_context, note

import stretch as st
from stretch.reference.scheduler import Turn
from tests.harness.definition import Cut, Cutless, Row
from tests.harness.queries import SCHEMA, Aggregated, Columns, Computed, Forwarded, Joined, Mapped
from tests.harness.scenarios import Case, Change, Execution, Scenario, Step
from tests.harness.trace import Trace

__all__ = [
    "ENGINES",
    "INTERPRETED",
    "Aggregated",
    "Case",
    "Change",
    "Columns",
    "Computed",
    "Cut",
    "Cutless",
    "Execution",
    "Forwarded",
    "Joined",
    "Mapped",
    "Run",
    "Scenario",
    "Step",
    "inf",
    "interleave",
    "nan",
    "replace",
    "replay",
    "run",
]

INTERPRETED = ("reference", "shared-nothing")
"""Engines that run any function, of any query, as it is."""

ENGINES = (*INTERPRETED, "compiled")
"""Every engine that has to give the results of the definition."""

_ARROW = pa.schema(
    [
        ("ts", pa.int64()),
        ("user", pa.int64()),
        ("tag", pa.string()),
        ("tags", pa.list_(pa.string())),
        ("x", pa.int64()),
        ("y", pa.float64()),
    ]
)


def batch(rows: tuple[Row, ...], schema: pa.Schema = _ARROW) -> pa.RecordBatch:
    """Return rows as Arrow data."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(table: pa.Table) -> list[Row]:
    """Return a table as rows, in order; lists become tuples."""
    columns = [column.to_pylist() for column in table.columns]
    plain = [[tuple(v) if isinstance(v, list) else v for v in column] for column in columns]
    return list(zip(*plain, strict=True))


def start(case: Case, execution: Execution, engine: str = "reference") -> Any:
    """Set up a job for a case."""
    inputs = case.query.inputs
    return st.setup(
        _operator(case.query),
        inputs=[SCHEMA] * inputs,
        sources=[case.feeding.count(n) for n in range(inputs)],
        parallelism=execution.parallelism,
        max_parallelism=execution.pool,
        engine=engine,
        seed=execution.seed,
    )


@cache
def _operator(query: Any) -> Any:
    return query.operator()


def feed(port: Any, case: Case, execution: Execution, source: int) -> Iterator[Turn]:
    """Send what a source has, a step per turn; `port` is a job, or the sources of an engine."""
    rows = case.sources[source]
    steps = execution.steps[source] if source < len(execution.steps) else ()
    for step in steps:
        taken, rows = rows[: step.rows], rows[step.rows :]
        if taken:
            port.add(batch(taken), source)
            yield Turn.RAN
        if step.heartbeat is not None:
            port.watermark(step.heartbeat, source)
            yield Turn.RAN
    for row in rows:
        port.add(batch((row,)), source)
        yield Turn.RAN
    if source in execution.closed:
        port.close(source)
    yield Turn.RAN


def control(reconfigure: Any, execution: Execution) -> Iterator[Turn]:
    """Ask for one change after the other, each after a while, without waiting for what was asked before."""
    for change in execution.changes:
        for _ in range(change.wait):
            yield Turn.RAN
        reconfigure(list(change.instances), change.mapping)
        yield Turn.RAN


def run(scenario: Scenario, engine: str, execution: Execution | None = None) -> list[Row]:
    """Run a scenario through any engine by its public interface; calls of sources and controller mix by the seed."""
    return run_job(scenario, engine, execution)[0]


def run_job(scenario: Scenario, engine: str, execution: Execution | None = None) -> tuple[list[Row], Any]:
    """Do the same, and return the finished job too."""
    case, execution = scenario.case, execution or scenario.execution
    choice = random.Random(execution.seed)
    with start(case, execution, engine) as job:
        tasks = [feed(job, case, execution, source) for source in range(len(case.sources))]
        tasks.append(control(lambda given, mapping: job.reconfigure(instances=given, mapping=mapping), execution))
        tables = []
        while tasks:
            task = choice.choice(tasks)
            if next(task, None) is None:
                tasks.remove(task)
            if choice.random() < 0.2:
                tables.append(job.results())
        tables.append(job.finish())
    return rows_of(pa.concat_tables(tables)), job


class Uneven:
    """A choice of the next task by rank; ranks change now and then, so that some tasks fall far behind.

    A fair choice hardly ever lets one instance stand still while the others go through two epochs.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._ranks: dict[str, float] = {}

    def choice(self, tasks: list[str]) -> str:
        if self._random.random() < 0.03:
            self._ranks[self._random.choice(tasks)] = self._random.random()
        return max(tasks, key=lambda task: self._ranks.setdefault(task, self._random.random()))


@dataclass
class Run:
    """What came of an interleaved run: the rows in order, and what happened inside."""

    rows: list[Row]
    trace: Trace
    job: Any


def interleave(scenario: Scenario, execution: Execution | None = None) -> Run:
    """Run a scenario through the reference engine with sources, controller and reader of results as tasks.

    They go into the same seeded scheduler as the instances, so that a tuple, a request or a look at the results may
    come between any two steps of any instance.
    """
    case, execution = scenario.case, execution or scenario.execution
    if currently_in_test_context():
        note(f"to replay it: {replay(replace(scenario, execution=execution))}")
    job = start(case, execution)
    engine, rows = job.engine, []
    trace = Trace(engine.operator)
    if execution.is_uneven:
        engine.scheduler._choice = Uneven(execution.seed)

    def read() -> Iterator[Turn]:
        while True:
            taken = engine.take_rows()
            rows.extend(taken)
            yield Turn.RAN if taken else Turn.IDLE

    for source in range(len(case.sources)):
        engine.scheduler.spawn(f"source {source}", feed(engine.sources, case, execution, source))
    engine.scheduler.spawn("controller", control(engine.reconfigure, execution))
    engine.scheduler.spawn("reader", read())
    engine.scheduler.run()
    rows.extend(rows_of(job.finish()))
    return Run([_plain(row) for row in rows], trace, job)


def replay(scenario: Scenario) -> str:
    """Return a shell command that runs an interleaving again."""
    return f'PYTHONPATH=src python -c "from tests.harness.run import *; print(interleave({scenario}).rows)"'


def _plain(row: Row) -> Row:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)
