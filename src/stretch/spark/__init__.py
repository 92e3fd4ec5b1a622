"""Operators on Spark: a DataFrame in, a DataFrame out, exactly once.

The only place that knows Spark, and nothing here imports pyspark before it is needed: `import stretch` works without.

| part | where it runs | what it is |
|---|---|---|
| `java` | driver | finds the Java that Spark needs |
| `session` | driver | a Spark on this machine |
| `replay` | driver, tasks | the source `stretch-replay`, which plays Parquet files |
| `recording` | driver, tasks | Parquet files as one sequence of rows |
| `on` | driver | `operator.on(df)`: checks everything, and builds the plan |
| `frames` | driver | DataFrames as inputs |
| `queries` | driver | what is known of running queries, and told to their tasks |
| `live_query` | driver | `st.live(query)`: metrics, and changes of parallelism |
| `remaining_rows` | driver, worker | `st.remaining(query)`: the windows that are open when a query ends |
| `work` | both | what the driver tells the tasks |
| `places` | both | where the state is |
| `rows` | both | how rows of several inputs travel as rows of one kind |
| `task` | worker | a micro-batch of one shard |
| `shards` | worker | the nodes that stay in memory |
| `control` | worker | the endpoint that `live_query` asks; controllers |
"""

from __future__ import annotations

from typing import Any

from stretch.operator.frames import Placement, provide


def _run_on(operator: Any, frames: Any, placement: Placement) -> Any:
    """Run an operator on DataFrames; with the first of them, Spark is there."""
    from stretch.spark.on import run_on

    return run_on(operator, frames, placement)


provide(_run_on)


def live(query: Any) -> Any:
    """Look at the operators of a running streaming query, and change their parallelism.

    st.live(query).reconfigure(parallelism=4)  # a Reconfiguration for each shard
    st.live(query).metrics()  # a ShardMetrics for each shard
    """
    from stretch.spark.live_query import live as look_at

    return look_at(query)


def remaining(query: Any, operator: str | None = None) -> Any:
    """Return what the open windows of a query that has ended would give, as a batch DataFrame.

    It reads the state of the last micro-batch and leaves it as it is. `operator` is the name of the one that is meant,
    where the query has several.

        query.awaitTermination()  # a query with trigger(availableNow=True)
        st.remaining(query).write.mode("append").parquet("out/")
    """
    from stretch.spark.remaining_rows import remaining as read

    return read(query, operator)
