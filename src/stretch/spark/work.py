"""What the driver tells the tasks of an operator; it travels in the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from stretch.controllers import Elastic
from stretch.operator.plan import AnyOperator
from stretch.schema import Schema, Type
from stretch.spark.rows import Layout

CHECKPOINT = "stretch.checkpoint"  # a local property of Spark: where the query's checkpoint is
PROBLEM = "stretch.problem"  # another one: why the query must not run


class Key(NamedTuple):
    """Which shard of which operator of which query."""

    query: str
    operator: str
    number: int


@dataclass(frozen=True)
class Results:
    """What leaves: the results, and late rows where they were asked for, each null where the other is."""

    rows: pa.Schema
    late: tuple[pa.Schema, ...] = ()
    """The columns of late rows, by input; none where nobody asked for them."""

    @property
    def late_names(self) -> list[str]:
        """The names of the columns that hold late rows."""
        return ["late"] if len(self.late) == 1 else [f"late_{number}" for number in range(len(self.late))]

    def of(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return results as they leave."""
        if not self.late:
            return rows
        nothing = [pa.nulls(rows.num_rows, pa.struct(list(schema))) for schema in self.late]
        return pa.RecordBatch.from_arrays([*rows.columns, *nothing], names=[*self.rows.names, *self.late_names])

    def of_late(self, tables: Sequence[pa.Table]) -> list[pa.RecordBatch]:
        """Return late rows of each input as they leave; the time column has their own time."""
        made = []
        for number, table in enumerate(tables):
            for rows in table.to_batches():
                columns = [rows.column(0), *(pa.nulls(rows.num_rows, field.type) for field in list(self.rows)[1:])]
                for other, schema in enumerate(self.late):
                    if other == number:
                        columns.append(pa.StructArray.from_arrays(rows.columns, fields=list(schema)))
                    else:
                        columns.append(pa.nulls(rows.num_rows, pa.struct(list(schema))))
                names = [*self.rows.names, *self.late_names]
                made.append(pa.RecordBatch.from_arrays(columns, names=names))
        return made


@dataclass(frozen=True)
class Work:
    """What all tasks of an operator know."""

    operator: AnyOperator
    inputs: tuple[Schema, ...]
    result_columns: tuple[tuple[str, Type], ...]
    layout: Layout
    results: Results
    name: str
    """Tells the operators of a query apart; the same after a restart."""
    token: str
    """Made anew wherever `on` is called."""
    is_streaming: bool
    state: str | None
    min_versions: int
    shards: int
    options: dict[str, Any]
    """Of the node."""
    parallelism: int
    max_parallelism: int | None
    elastic: Elastic | None

    @property
    def has_late(self) -> bool:
        """Tell whether late rows leave with the results."""
        return bool(self.results.late)


def task_name(work: Work) -> str:
    """Return what the plan of a query shows of an operator."""
    return f"stretch_{work.name}_{work.token[:8]}"
