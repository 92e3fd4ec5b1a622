"""Where the state of a shard is, and what is wrong with such a place."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.fs as pafs

from stretch.errors import DefinitionError, StateError
from stretch.node import StateLog
from stretch.spark.work import Key, Work

_HADOOP = {"s3a": "s3", "s3n": "s3"}
"""Hadoop's names for filesystems, and those of pyarrow."""


def checked_state(state: Any) -> str | None:
    """Check that state can be kept in a directory that a user has named."""
    if state is None:
        return None
    try:
        root = _plain(str(state))
        if "://" in root:
            pafs.FileSystem.from_uri(root)
        elif not state:
            raise ValueError("it is empty")
    except (pa.ArrowInvalid, OSError, ValueError) as problem:
        raise DefinitionError(
            f"state={state!r} is no place for state",
            why=str(problem).splitlines()[0],
            do="name a directory that every executor reaches, by a path, or as pyarrow.fs does: s3://, gs://, hdfs://",
        ) from problem
    return str(state)


def location(work: Work, checkpoint: str | None, key: Key) -> str:
    """Return where the state of a shard is."""
    root = work.state or checkpoint
    if root is None:
        raise DefinitionError(
            f"{work.name}: where to keep the state is not known",
            why="Spark did not tell where the checkpoint of the query is",
            do='pass a directory that every executor reaches: operator.on(..., state="hdfs://...")',
        )
    return f"{_plain(root)}/stretch/{key.query}/{key.operator}/{key.number}-of-{work.shards}"


def open_log(work: Work, checkpoint: str | None, key: Key) -> StateLog:
    """Return the state log of a shard."""
    place = location(work, checkpoint, key)
    try:
        return StateLog(place, min_versions=work.min_versions)
    except (pa.ArrowInvalid, OSError) as problem:
        raise StateError(
            f"{work.name}: state cannot be kept in the checkpoint",
            where=place,
            why=str(problem).splitlines()[0],
            do='pass a directory that pyarrow.fs reaches: operator.on(..., state="s3://...")',
        ) from problem


def check_state(work: Work, log: StateLog, batch_id: int) -> None:
    """Say what is wrong if there is no state at all and there has to be some."""
    if batch_id > 0 and not log.versions():
        raise StateError(
            f"{work.name}: there is no state to go on with at micro-batch {batch_id}",
            where=log.location,
            why="the operator is new in the query, or has another name or number of shards, or its state was moved",
            do="take the change back; or start with a new checkpoint, which begins with empty state",
        )


def _plain(root: str) -> str:
    """Return a local directory as a path, and others under the names that pyarrow has for them."""
    parsed = urlparse(root)
    if parsed.scheme == "file":
        return unquote(parsed.path).rstrip("/")
    if parsed.scheme in _HADOOP:
        root = _HADOOP[parsed.scheme] + root[len(parsed.scheme) :]
    return root.rstrip("/")
