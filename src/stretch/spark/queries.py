"""What the driver knows of running queries, and tells their tasks, which Spark itself does not tell.

Spark calls its listeners in the thread that will run the query's micro-batches, before the first of them; what is set
there as a local property reaches all of its tasks.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from stretch.spark.work import CHECKPOINT, PROBLEM, Work, task_name

_ATTRIBUTE = "_stretch_listener"

_works: dict[str, Work] = {}  # by the names that plans show


def remember(work: Work, session: SparkSession) -> None:
    """Know an operator when a query of this session runs it."""
    _works[task_name(work)] = work
    if not hasattr(session, _ATTRIBUTE):
        listener = _Starts(session)
        session.streams.addListener(listener)
        setattr(session, _ATTRIBUTE, listener)


def checkpoint_of(query: Any) -> str:
    """Return where the checkpoint of a running query is."""
    return str(query._jsq.streamingQuery().resolvedCheckpointRoot())


def works_of(query: Any) -> list[Work]:
    """Return the operators of a running query, as they stand in its plan."""
    plan = str(query._jsq.streamingQuery().analyzedPlan().toString())
    names = dict.fromkeys(re.findall(r"\bstretch_[\w-]+_[0-9a-f]{8}(?=\()", plan))
    return [_works[name] for name in names if name in _works]


class _Starts(StreamingQueryListener):
    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        query = self._session.streams.get(str(event.id))
        if query is None:
            return
        context = self._session.sparkContext
        context.setLocalProperty(CHECKPOINT, checkpoint_of(query))
        twice = [name for name, times in Counter(work.name for work in works_of(query)).items() if times > 1]
        if twice:
            context.setLocalProperty(PROBLEM, f"two operators of the query are called {twice[0]!r}")

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass
