"""The control endpoint of a Python worker: other processes of this machine ask for metrics, and change the parallelism.

What
    One thread listens on the loopback interface. A request is a line of JSON, and so is its answer; nothing else is
    read from the wire. A request has the token of its query, which is in a file beside the state that only the owner
    can read; with it come the address and the process. So only who may read the state may change how it is made.

Who writes what
    `_served`: the thread that processes micro-batches. Threads of the endpoint only read it, and call methods of nodes
    that any thread may call.
"""

from __future__ import annotations

import hmac
import itertools
import json
import os
import secrets
import socketserver
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from stretch.errors import StretchError
from stretch.metrics import Reconfiguration
from stretch.runtime.control import ControlLoop

if TYPE_CHECKING:
    from stretch.spark.shards import Shard

FILE = "control.json"
LOOPBACK = "127.0.0.1"
CHANGES_MAX = 256
REQUEST_BYTES_MAX = 1 << 20

_served: dict[tuple[str, str, int], Shard] = {}
_changes: dict[int, Reconfiguration] = {}
_numbers = itertools.count()
_tokens: dict[str, str] = {}  # by query
_server: list[socketserver.ThreadingTCPServer] = []


def announce(shard: Shard, location: str) -> None:
    """Answer for a shard from now on, and say in its directory where; elsewhere than in local files, only answer."""
    _served[shard.key] = shard
    if urlparse(location).scheme not in ("", "file"):
        return
    if not _server:
        _server.append(_start())
    token = _tokens.setdefault(shard.key.query, secrets.token_hex(16))
    said = {"address": list(_server[0].server_address), "token": token, "process": os.getpid()}
    os.makedirs(location, exist_ok=True)
    fresh = f"{location}/{FILE}.{os.getpid()}"
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        json.dump(said, file)
    os.replace(fresh, f"{location}/{FILE}")


def forget(shard: Shard) -> None:
    """Answer no longer for a shard."""
    if _served.get(shard.key) is shard:
        del _served[shard.key]


def start_loop(shard: Shard) -> ControlLoop | None:
    """Let the controller of an elastic operator work beside its engine."""
    if shard.work.elastic is None:
        return None
    loop = ControlLoop(
        shard.work.elastic, lambda: shard.node.metrics().engine, shard.node.reconfigure, shard.key.operator
    )
    loop.start()
    return loop


class _Handler(socketserver.StreamRequestHandler):
    """Answers requests of one connection."""

    disable_nagle_algorithm = True

    def handle(self) -> None:
        while line := self.rfile.readline(REQUEST_BYTES_MAX):
            try:
                answer = _answer(json.loads(line))
            except StretchError as problem:
                answer = {"error": [type(problem).__name__, problem.what, problem.where, problem.why, problem.do]}
            except Exception as problem:
                answer = {"error": ["JobError", "the request failed", None, repr(problem), "look at the worker's log"]}
            self.wfile.write(json.dumps(answer).encode() + b"\n")


def _start() -> socketserver.ThreadingTCPServer:
    server = socketserver.ThreadingTCPServer((LOOPBACK, 0), _Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="stretch-endpoint", daemon=True).start()
    return server


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    query, operator, number = str(request["query"]), str(request["operator"]), int(request["shard"])
    token = _tokens.get(query)
    if token is None or not hmac.compare_digest(token, str(request["token"])):
        return {"moved": True}  # says no more to who must not know
    shard = _served.get((query, operator, number))
    if shard is None:
        return {"moved": True}
    if request["call"] == "metrics":
        return _metrics(shard)
    if request["call"] == "reconfigure":
        mapping = request.get("mapping")
        change = shard.node.reconfigure(request.get("parallelism"), mapping=mapping)
        asked = next(_numbers)
        _changes[asked] = change
        _changes.pop(asked - CHANGES_MAX, None)
        return {"change": asked, "epoch": change.epoch, "instances": list(change.instances)}
    return {"progress": list(_changes[int(request["change"])].progress())}


def _metrics(shard: Shard) -> dict[str, Any]:
    decisions = [] if shard.loop is None else [str(decision) for decision in shard.loop.decisions]
    return {
        "process": os.getpid(),
        "node": asdict(shard.node.metrics()),
        "counts": asdict(shard.counts),
        "decisions": decisions,
    }
