"""What tests on Spark have in common: an operator, rows as files, and what should come out, by the reference engine."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import stretch as st

SCHEMA = "ts timestamp, device string, words array<string>, x int"
MINUTE = 60_000_000


def operator(**changes):
    """Count words, with texts in keys and state."""
    settings = {
        "window": st.sliding("20 minutes", "10 minutes"),
        "keys": "words",
        "n": st.count(),
        "total": st.sum("x"),
        "first": st.first("device"),
    }
    return st.Aggregate(**{**settings, **changes})


def row(minute, device, words, x=1):
    """Return a row of the input."""
    return {"ts": minute * MINUTE, "device": device, "words": words.split(), "x": x}


def write(folder: Path, number: int, rows) -> None:
    """Write rows as a file of Parquet; a file is a micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    types = {"ts": pa.int64(), "device": pa.string(), "words": pa.list_(pa.string()), "x": pa.int32()}
    columns = {name: pa.array([each[name] for each in rows], type_) for name, type_ in types.items()}
    columns["ts"] = columns["ts"].cast(pa.timestamp("us", "UTC"))
    fresh = folder / f".{number:04d}"
    pq.write_table(pa.table(columns), fresh)
    os.utime(fresh, (1_600_000_000 + number,) * 2)  # Spark takes the oldest first
    fresh.rename(folder / f"{number:04d}.parquet")


def read(spark, folder: Path):
    """Return the files as a stream, one after another."""
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return stream.parquet(str(folder))


def run_all(frame, out: Path):
    """Run a query over all that is there, into files; return it when it has ended."""
    writer = frame.writeStream.format("parquet").option("path", str(out))
    query = writer.option("checkpointLocation", f"{out}-checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def rows_of(frame):
    """Return a DataFrame's rows as plain values, sorted."""
    return sorted([tuple(map(_plain, each)) for each in frame.collect()], key=repr)


def written(spark, out: Path):
    """Return what a query has written, sorted."""
    return rows_of(spark.read.parquet(str(out)))


def expected(rows, declared=None, until=None):
    """Return what the reference engine makes of rows, up to a watermark, sorted."""
    rows = sorted(rows, key=lambda each: each["ts"])
    made = st.testing.run(declared or operator(), rows, schemas={"input": SCHEMA})
    plain = [tuple(map(_plain, row.values())) for row in made]
    return sorted([row for row in plain if until is None or row[0] <= until], key=repr)


def _plain(value):
    if isinstance(value, dt.datetime):
        aware = value.replace(tzinfo=value.tzinfo or dt.UTC)
        return int(aware.timestamp() * 1_000_000)
    return value
