"""Operators on Spark: a DataFrame in, a DataFrame out, exactly once.

The only place that knows Spark, and nothing here imports pyspark before it is needed: `import stretch` works without.

| part | where it runs | what it is |
|---|---|---|
| `java` | driver | finds the Java that Spark needs |
| `session` | driver | a Spark on this machine |
| `replay` | driver, tasks | the source `stretch-replay`, which plays Parquet files |
| `recording` | driver, tasks | Parquet files as one sequence of rows |
| `on` | driver | `operator.on(df)`: checks everything, and builds the plan |
| `queries` | driver | tells the tasks of a query where its checkpoint is |
| `rows` | both | how rows of several inputs travel as rows of one kind |
| `task` | worker | a micro-batch of one shard: finds or restores its node, feeds it, commits |
"""

from __future__ import annotations

from typing import Any

from stretch.operator.frames import Placement, provide


def _run_on(operator: Any, frames: Any, placement: Placement) -> Any:
    """Run an operator on DataFrames; with the first of them, Spark is there."""
    from stretch.spark.on import run_on

    return run_on(operator, frames, placement)


provide(_run_on)
