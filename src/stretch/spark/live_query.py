"""`st.live(query)`: metrics of a running query, and changes of its parallelism, from the driver.

The driver finds the workers through files beside the state (`control` says what is in them). A record of a change asks
the worker each time somebody looks, until the change has taken effect.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stretch import errors
from stretch.errors import DefinitionError, JobError, a_kind
from stretch.metrics import Progress, Reconfiguration
from stretch.spark.control import FILE
from stretch.spark.places import location
from stretch.spark.queries import checkpoint_of, works_of
from stretch.spark.work import Key, Work

_PAUSE_SECONDS = 0.005
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class ShardMetrics:
    """What one shard has done so far."""

    operator: str
    shard: int
    process: int
    """The process that the shard is in."""
    version: int | None
    """The last micro-batch."""
    parallelism: int
    tuples_in: int
    """Rows that were taken, the late ones excepted; in this process, as all counts here."""
    results: int
    late: int
    held: int
    """Rows that wait for the watermark."""
    watermark: int | None
    state_bytes: int
    log_bytes: int
    """What the files of the state take."""
    commit_bytes: int
    """What the last micro-batch has written of it,"""
    commit_seconds: float
    """and how long that took."""
    kept: int
    """Micro-batches that found the state in memory,"""
    caught_up: int
    """or an earlier version of it,"""
    restored: int
    """or nothing; in this process."""
    restore_seconds: float
    decisions: tuple[str, ...]
    """What a controller has changed, and why."""
    engine: dict[str, Any]
    """All counters of the engine, as in `stretch.Metrics`."""


class LiveQuery:
    """A running query; made by `live`."""

    def __init__(self, query: Any, works: Sequence[Work]) -> None:
        self._query = query
        self._shards = [
            _Endpoint(query, work, Key(str(query.id), work.name, number))
            for work in works
            for number in range(work.shards)
        ]

    def metrics(self, timeout: float = 30.0) -> list[ShardMetrics]:
        """Return what each shard has done so far; wait for the first micro-batch if there was none."""
        return [_metrics_of(endpoint, timeout) for endpoint in self._shards]

    def reconfigure(
        self, parallelism: int, *, operator: str | None = None, shard: int | None = None, timeout: float = 30.0
    ) -> list[Reconfiguration]:
        """Change how many threads run, in all shards or one, at any moment; return a record for each.

        The change travels in the stream: it takes effect in the micro-batch that runs, or in the next one.
        """
        chosen = [
            endpoint
            for endpoint in self._shards
            if operator in (None, endpoint.key.operator) and shard in (None, endpoint.key.number)
        ]
        if not chosen:
            raise DefinitionError(
                f"the query has no shard {shard!r} of an operator {operator!r}",
                why="it has " + ", ".join(f"{each.key.number} of {each.key.operator}" for each in self._shards),
                do="leave operator and shard out to change all",
            )
        return [endpoint.reconfigure(parallelism, timeout) for endpoint in chosen]


def live(query: Any) -> LiveQuery:
    """Return a running streaming query as one whose operators can be looked at and changed."""
    if not hasattr(query, "_jsq"):
        raise DefinitionError(
            f"live() got {a_kind(query)}",
            why="only a streaming query is live",
            do="pass what df.writeStream...start() returned",
        )
    if not query.isActive:
        raise JobError(
            "the query has ended", why="nothing of it runs any more", do="start it again, and pass what start() returns"
        )
    works = works_of(query)
    if not works:
        raise DefinitionError(
            "the query has no operator of stretch",
            why="its plan, as far as this process has made it, shows none",
            do="pass the query that writes the result of operator.on(...), in the process that started it",
        )
    return LiveQuery(query, works)


class _Endpoint:
    """The way to one shard, wherever it is now."""

    def __init__(self, query: Any, work: Work, key: Key) -> None:
        self._query = query
        self.key = key
        self._file = Path(location(work, checkpoint_of(query), key)) / FILE

    def ask(self, timeout: float, call: str, **arguments: Any) -> dict[str, Any]:
        """Ask the worker that has the shard, and wait until there is one."""
        deadline = time.monotonic() + timeout
        while True:
            answer = self._try(call, arguments)
            if answer is not None:
                break
            if not self._query.isActive or time.monotonic() > deadline:
                raise JobError(
                    f"no worker answers for shard {self.key.number} of {self.key.operator}",
                    where=str(self._file),
                    why="the query has ended" if not self._query.isActive else "it is not of this machine, or busy",
                    do="ask while the query runs, on the machine where its shards are; or use st.elastic",
                )
            time.sleep(_PAUSE_SECONDS)
        if "error" in answer:
            kind, what, where, why, do = answer["error"]
            raise getattr(errors, kind, JobError)(what, where=where, why=why, do=do)
        return answer

    def reconfigure(self, parallelism: int, timeout: float) -> Reconfiguration:
        """Ask for a change."""
        asked_ns = time.monotonic_ns()
        answer = self.ask(timeout, "reconfigure", parallelism=parallelism)
        return _RemoteChange(self, asked_ns, answer)

    def _try(self, call: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """Ask once; None if nobody who has the shard answers."""
        try:
            said = json.loads(self._file.read_text(encoding="utf-8"))
            query, operator, shard = self.key
            request = {"token": said["token"], "call": call, "query": query, "operator": operator, "shard": shard}
            with socket.create_connection(tuple(said["address"]), _ANSWER_SECONDS) as connection:
                connection.sendall(json.dumps(request | arguments).encode() + b"\n")
                with connection.makefile("rb") as lines:
                    answer: dict[str, Any] = json.loads(lines.readline())
        except (OSError, ValueError, KeyError):
            return None
        return None if "moved" in answer else answer


class _RemoteChange(Reconfiguration):
    """A change in another process; its times count from the driver's call, on the clock that all processes share."""

    def __init__(self, endpoint: _Endpoint, asked_ns: int, answer: dict[str, Any]) -> None:
        super().__init__(answer["epoch"], answer["instances"])
        self._endpoint = endpoint
        self._asked_ns = asked_ns
        self._change = answer["change"]
        self._final: Progress | None = None

    def progress(self) -> Progress:
        if self._final is not None:
            return self._final
        answer = self._endpoint.ask(30.0, "progress", change=self._change)
        seen = Progress(*answer["progress"])._replace(requested_ns=self._asked_ns)
        if seen.status != "waiting":
            self._final = seen
        return seen

    def check(self) -> bool:
        return bool(self._endpoint._query.isActive)


def _metrics_of(endpoint: _Endpoint, timeout: float) -> ShardMetrics:
    answer = endpoint.ask(timeout, "metrics")
    node, counts = answer["node"], answer["counts"]
    engine, commit = node["engine"], counts["commit"] or {}
    return ShardMetrics(
        operator=endpoint.key.operator,
        shard=endpoint.key.number,
        process=answer["process"],
        version=node["version"],
        parallelism=engine["parallelism"],
        tuples_in=engine["tuples_in"] + node["held"],
        results=engine["results"],
        late=node["late"],
        held=node["held"],
        watermark=node["watermark"],
        state_bytes=node["state_bytes"],
        log_bytes=commit.get("log_bytes", 0),
        commit_bytes=commit.get("bytes", 0),
        commit_seconds=commit.get("seconds", 0.0),
        kept=counts["kept"],
        caught_up=counts["caught_up"],
        restored=counts["restored"],
        restore_seconds=counts["restore_seconds"],
        decisions=tuple(answer["decisions"]),
        engine=engine,
    )
