"""The figures of the project, measured: `stretch bench NAME`.

Each bench is a module with `HELP`, two sizes, `FULL` and `QUICK`, and `run(size, say)`, which returns a `Report`. What
they share: `data` makes tweets, `rig` keeps a job warm and plays streams through it, `rivals` asks Polars and DuckDB to
do the same in a process of their own, `report` and `plot` show what came out.

Rivals and ours take turns within one run, and figures are medians, ratios where they can be: speed differs from machine
to machine, and from minute to minute on a shared one.
"""

NAMES = (
    "wordcount",
    "paircount",
    "forward",
    "reconfigure",
    "memory",
    "join",
    "fit",
    "q1",
    "q2",
    "q3",
    "q4",
    "q5",
    "q6",
    "soak",
    "spark",
)
"""The benches: modules of this package."""
