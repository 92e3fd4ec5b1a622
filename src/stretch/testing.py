"""Tests of operators of one's own: rows in, rows out, in milliseconds, without Spark, threads or compilation.

>>> st.testing.run(st.Aggregate(window=st.tumbling(10), keys="user", visits=st.count()),
...                [{"ts": 3, "user": "ana"}, {"ts": 1, "user": "ana"}])
[{'ts': 10, 'user': 'ana', 'visits': 2}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from stretch.errors import DefinitionError
from stretch.operator.plan import AnyOperator, check_operator
from stretch.runtime.setup import setup
from stretch.schema import Schema, parse_schema, schema_of

Row = Mapping[str, Any]


def run(
    operator: AnyOperator,
    inputs: Sequence[Row] | Mapping[str, Sequence[Row]],
    *,
    schemas: Mapping[str, str] | None = None,
    time: str = "ts",
    parallelism: int = 1,
    resolution: str | int | None = None,
) -> list[dict[str, Any]]:
    """Return the results of an operator over all rows of its inputs, on the reference engine.

    - `inputs`: the rows of the only input, or of each by name, in the order in which the operator has them; a row is a
      dict. Rows of an input may be in any order.
    - `schemas`: the columns of inputs by name, as Spark DDL, where neither the operator nor a row shows them.
    """
    check_operator(operator)
    named: Mapping[str, Sequence[Row]] = inputs if isinstance(inputs, Mapping) else {"input": inputs}
    if len(named) != len(operator.inputs):
        raise DefinitionError(
            f"{operator.name} got {len(named)} input(s): {', '.join(named)}",
            why=f"it is declared with {len(operator.inputs)}",
            do='pass the rows of each: stretch.testing.run(operator, {"left": [...], "right": [...]})',
        )
    tables = {
        name: _table(name, rows, declared.schema, (schemas or {}).get(name))
        for (name, rows), declared in zip(named.items(), operator.inputs, strict=True)
    }
    columns = [schema_of(table.schema) for table in tables.values()]
    with setup(operator, inputs=columns, time=time, parallelism=parallelism, resolution=resolution) as job:
        for source, table in enumerate(tables.values()):
            job.add(table.sort_by(time), source)
        return list(job.finish().to_pylist())


def _table(name: str, rows: Sequence[Row], declared: Schema | None, given: str | None) -> pa.Table:
    schema = declared if given is None else parse_schema(given, f"the schema of input {name!r}")
    if schema is not None:
        return pa.Table.from_pylist(list(rows), schema.arrow())
    if not rows:
        raise DefinitionError(
            f"the columns of input {name!r} are not known",
            why="the operator does not declare them, and there is no row to read them off",
            do=f'pass schemas={{"{name}": "ts long, ..."}} to stretch.testing.run',
        )
    return pa.Table.from_pylist(list(rows))
