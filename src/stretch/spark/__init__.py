"""Operators on Spark: a DataFrame in, a DataFrame out, exactly once.

The only place that knows Spark, and nothing here imports pyspark before it is needed: `import stretch` works without.

| part | where it runs | what it is |
|---|---|---|
| `java` | driver | finds the Java that Spark needs |
"""
