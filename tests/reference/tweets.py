"""The tweets of the paper's examples, with times written as it writes them."""

from __future__ import annotations

import pyarrow as pa

MINUTE = 60_000
HOUR = 60 * MINUTE
TWEETS = "ts long, user string, text string"

B = ("09:50", "B", "hello #pink")
C = ("09:58", "C", "hi #red #pink")


def time(clock: str) -> int:
    """Return "09:58" as milliseconds."""
    hours, minutes = clock.split(":")
    return int(hours) * HOUR + int(minutes) * MINUTE


def clock(timestamp: int) -> str:
    """Return milliseconds as "09:58"."""
    return f"{timestamp // HOUR:02}:{timestamp % HOUR // MINUTE:02}"


def tweets(*rows: tuple[str, str, str]) -> pa.RecordBatch:
    """Return tweets as a batch."""
    schema = pa.schema([("ts", pa.int64()), ("user", pa.string()), ("text", pa.string())])
    columns = list(zip(*((time(at), user, text) for at, user, text in rows), strict=True))
    return pa.record_batch([pa.array(column) for column in columns], schema=schema)
