"""Small streams for the unit tests."""

import pyarrow as pa

import stretch as st
from stretch.schema import parse_schema, rows_to_table

VISITS = "ts long, user string, pages long"


def batch(ddl, *rows):
    """Build a record batch with the columns of a DDL string; timestamps are ints, microseconds since 1970."""
    table = rows_to_table(rows, parse_schema(ddl).arrow())
    return pa.record_batch([column.combine_chunks() for column in table.itercolumns()], schema=table.schema)


def visits(*rows):
    """Build a batch of visits: (ts, user, pages)."""
    return batch(VISITS, *rows)


def counting(**settings):
    """Count the visits of each user in windows of ten."""
    return st.Aggregate(**{"window": st.tumbling(10), "keys": "user", "visits": st.count(), **settings})


def started(operator=None, **settings):
    """Set up a job over visits."""
    return st.setup(operator or counting(), **{"inputs": VISITS, **settings})


def result_of(operator, *batches, **settings):
    """Run an operator over batches of one source; return its results as rows."""
    with st.setup(operator, **settings) as job:
        for each in batches:
            job.add(each)
        return rows(job.finish())


def rows(table: pa.Table):
    """Return the rows of a table as tuples, timestamps as ints."""
    plain = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.itercolumns()
    ]
    return list(zip(*(column.to_pylist() for column in plain), strict=True))
