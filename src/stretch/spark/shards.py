"""The nodes of shards in this Python worker, which Spark keeps from one micro-batch to the next.

Invariants
    M1  A node is in `_kept` only between micro-batches, at a version that is in the state log. Who uses it takes it out
        before anything is changed, and gives it back when its version is committed. So nothing that a failed attempt
        has done to memory is ever seen again.
    M2  A node that was kept is used if the version in the log that it stands for is its own, not one that another
        attempt has written since; what others have committed after it is processed from the log. Otherwise the node is
        restored. So the memory of a worker is worth something even if the shard was elsewhere meanwhile.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from stretch.node import CommitRecord, Node, StateLog
from stretch.spark import control
from stretch.spark.places import check_state
from stretch.spark.work import Key, Work

KEPT_MAX = 8
"""Nodes that a worker keeps; the one used longest ago goes first."""


@dataclass
class Counts:
    """What a worker has done for a shard."""

    kept: int = 0
    """Micro-batches that found the node in memory, at the version before,"""
    caught_up: int = 0
    """or at an earlier one,"""
    restored: int = 0
    """or not at all."""
    restore_seconds: float = 0.0
    """What the last restore, or catching up, took."""
    seconds: float = 0.0
    """What the last micro-batch took, with what others did with its results meanwhile."""
    commit: CommitRecord | None = None
    """What the last micro-batch has written."""


@dataclass
class Shard:
    """A node at work."""

    key: Key
    work: Work
    node: Node
    counts: Counts
    loop: Any = None
    """What asks the controller; None where there is none."""


_kept: OrderedDict[Key, Shard] = OrderedDict()


def take(work: Work, key: Key, log: StateLog, batch_id: int) -> Shard:
    """Return the shard at the version before; nobody else has it from now on (M1)."""
    shard = _kept.pop(key, None)
    counts = Counts() if shard is None else shard.counts
    begun = time.perf_counter()
    if shard is not None and _is_usable(shard, work, log, batch_id):
        counts.restore_seconds = time.perf_counter() - begun
        return shard
    if shard is not None:
        drop(shard)
    if batch_id == 0:
        node = new_node(work, key.number)
    else:
        check_state(work, log, batch_id)
        node = restored(work, key.number, log, batch_id - 1)
        counts.restored += 1
        counts.restore_seconds = time.perf_counter() - begun
    shard = Shard(key, work, node, counts)
    shard.loop = control.start_loop(shard)
    control.announce(shard, log.location)
    return shard


def give_back(shard: Shard, record: CommitRecord, seconds: float) -> None:
    """Keep a shard whose version is committed."""
    shard.counts.commit, shard.counts.seconds = record, seconds
    _kept[shard.key] = shard
    while len(_kept) > KEPT_MAX:
        drop(_kept.popitem(last=False)[1])


def drop(shard: Shard) -> None:
    """Stop a shard."""
    control.forget(shard)
    if shard.loop is not None:
        shard.loop.stop()
    shard.node.stop()


def new_node(work: Work, number: int) -> Node:
    """Return a node without state."""
    return Node(
        work.operator,
        list(work.inputs),
        parallelism=work.parallelism,
        max_parallelism=work.max_parallelism,
        share=(number, work.shards),
        **work.options,
    )


def _is_usable(shard: Shard, work: Work, log: StateLog, batch_id: int) -> bool:
    """Bring a node that was kept to the version before, and tell whether that was possible (M2)."""
    if shard.work.token != work.token or shard.node.version is None:
        return False
    is_behind = shard.node.version < batch_id - 1
    if not shard.node.catch_up(log, batch_id - 1):
        return False
    if is_behind:
        shard.counts.caught_up += 1
    else:
        shard.counts.kept += 1
    return True


def restored(work: Work, number: int, log: StateLog, version: int) -> Node:
    """Return the node that committed a version; its parallelism is the one asked for last, in this run of the query."""
    is_same_run = str(log.header(version).get("attempt", "")).startswith(f"{work.token}:")
    return Node.restore(
        log,
        version,
        work.operator,
        list(work.inputs),
        parallelism=None if is_same_run else work.parallelism,
        max_parallelism=work.max_parallelism,
        share=(number, work.shards),
        **work.options,
    )
