"""The state log: versions of a node's state as files, one per micro-batch (DESIGN section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs as pafs


@dataclass(frozen=True)
class CommitRecord:
    """What a commit has written."""

    version: int
    kind: str
    """"delta": what the micro-batch changed; "snapshot": that, and the whole state beside it."""
    bytes: int
    seconds: float
    log_bytes: int
    """What all files of the log take now."""


class StateLog:
    """The log of one shard: a directory of its own on any filesystem that pyarrow.fs reaches.

    `location` is a path, or a URI such as "hdfs://..." or "s3://..."; or a path with its `filesystem`. The directory is
    made when something is written. `min_versions` is how many of the latest versions can be restored, as Spark's
    `spark.sql.streaming.minBatchesToRetain`; what none of them needs is deleted by later commits.
    """

    def __init__(
        self, location: str | Path, *, filesystem: pafs.FileSystem | None = None, min_versions: int = 100
    ) -> None:
        raise NotImplementedError

    def versions(self) -> list[int]:
        """Return the versions that can be restored, in order."""
        raise NotImplementedError
