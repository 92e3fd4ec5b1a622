"""Operators on Spark: a DataFrame in, a DataFrame out, exactly once.

The only place that knows Spark, and nothing here imports pyspark before it is needed: `import stretch` works without.

| part | where it runs | what it is |
|---|---|---|
| `java` | driver | finds the Java that Spark needs |
| `session` | driver | a Spark on this machine |
| `replay` | driver, tasks | the source `stretch-replay`, which plays Parquet files |
| `recording` | driver, tasks | Parquet files as one sequence of rows |
"""
