"""Tells the tasks of a streaming query where its checkpoint is, which Spark itself does not.

Spark calls its listeners in the thread that will run the query's micro-batches, before the first of them; what is set
there as a local property reaches all of its tasks.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from stretch.spark.task import CHECKPOINT

_ATTRIBUTE = "_stretch_listener"


def listen(session: SparkSession) -> None:
    """Tell the tasks of all queries that this session starts from now on."""
    if not hasattr(session, _ATTRIBUTE):
        listener = _Starts(session)
        session.streams.addListener(listener)
        setattr(session, _ATTRIBUTE, listener)


def checkpoint_of(query: Any) -> str:
    """Return where the checkpoint of a running query is."""
    return str(query._jsq.streamingQuery().resolvedCheckpointRoot())


class _Starts(StreamingQueryListener):
    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        query = self._session.streams.get(str(event.id))
        if query is not None:
            self._session.sparkContext.setLocalProperty(CHECKPOINT, checkpoint_of(query))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass
