"""Sends rows to the shards that have one of their keys, and tells every shard how far each source has come.

What
    A task before the shuffle. A row leaves once for each shard that has one of its keys, with the number of the shard;
    one without keys goes to the first, which counts it. Watermarks follow from all rows, so at its end a task sends a
    *mark* to every shard for each source: a row that has an input below zero, a time, a source, and nothing else.

Invariants
    R1  Where a key goes is what the node of the shard takes for its own: key group % shards (`Plan.share`). Rows whose
        keys are not known here (functions make them, or null) go to all shards, which is always right.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.native.jit import kernel
from stretch.operator.keys import KeyColumns
from stretch.operator.plan import Plan
from stretch.spark.rows import Layout
from stretch.strings.hashes import hash_ints, hash_texts

SHARD = "shard"
SHARDS_MAX = 64
"""With more, all rows go to all shards: who has a key is a bit of a word."""

Masks = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Route:
    """Where the keys of each input are."""

    layout: Layout
    keys: tuple[tuple[int, bool, bool], ...]
    """The slot of the key column of each input, whether it is a list, and whether it is text."""
    times: tuple[int, ...]
    """The slot of the time of each input."""
    sources: tuple[int | None, ...]
    groups: int
    shards: int


def make_route(plan: Plan, layout: Layout, source: str | None, shards: int) -> Route | None:
    """Return how rows can be routed; None if they go to all shards."""
    keys = []
    for stream, columns in zip(plan.streams, layout.columns, strict=True):
        slot_of = dict(columns)
        made = stream.keys
        if not isinstance(made, KeyColumns) or len(made.names) != 1 or shards > SHARDS_MAX:
            return None
        type_ = stream.schema[made.names[0]]
        keys.append((slot_of[made.names[0]], type_.is_list, type_.name == "string"))
    slots = [dict(columns) for columns in layout.columns]
    return Route(
        layout,
        tuple(keys),
        tuple(slot[stream.time] for slot, stream in zip(slots, plan.streams, strict=True)),
        tuple(None if source is None else slot[source] for slot in slots),
        plan.group_count,
        shards,
    )


def send(route: Route, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition with the shards that they go to, then the marks."""
    heard: dict[tuple[int, Any], int] = {}
    now, schema = 0, None
    for batch in batches:
        schema = batch.schema
        if not batch.num_rows:
            continue
        if route.layout.has_now:
            now = batch.column(1)[0].as_py()
        masks = np.zeros(batch.num_rows, np.uint64)
        inputs = batch.column(0).to_numpy()
        for number in np.unique(inputs):
            places = np.flatnonzero(inputs == number)
            rows = batch if len(places) == batch.num_rows else batch.take(pa.array(places))
            masks[places] = _masks(route, int(number), rows)
            _hear(route, int(number), rows, heard)
        for shard in range(route.shards):
            places = np.flatnonzero(masks >> np.uint64(shard) & np.uint64(1))
            if len(places):
                yield _addressed(batch.take(pa.array(places)), shard)
    if heard and schema is not None:
        marks = _marks(route, heard, now, schema)
        yield from (_addressed(marks, shard) for shard in range(route.shards))


def _masks(route: Route, number: int, rows: pa.RecordBatch) -> Masks:
    """Return for each row the shards that have one of its keys, as bits."""
    slot, is_list, is_text = route.keys[number]
    column = rows.column(route.layout.first_slot + slot)
    hash_of = hash_texts if is_text else hash_ints
    everyone = np.uint64((1 << route.shards) - 1)
    masks = np.zeros(len(column), np.uint64)
    if not is_list:
        with np.errstate(over="ignore"):
            masks[:] = np.uint64(1) << (hash_of(column) % np.uint64(route.groups) % np.uint64(route.shards))
        masks[column.is_null().to_numpy(zero_copy_only=False)] = everyone
        return masks
    items = column.flatten()  # without those of null lists
    lengths = np.array(column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False), np.int64)
    bits = np.uint64(1) << (hash_of(items) % np.uint64(route.groups) % np.uint64(route.shards))
    bits[items.is_null().to_numpy(zero_copy_only=False)] = everyone
    _gather(bits, lengths, masks)
    masks[masks == 0] = np.uint64(1)
    return masks


@kernel
def _gather(bits: Masks, lengths: npt.NDArray[np.int64], masks: Masks) -> None:
    """Put together the bits of each row's keys."""
    at = 0
    for row in range(len(lengths)):
        for _ in range(lengths[row]):
            masks[row] |= bits[at]
            at += 1


def _hear(route: Route, number: int, rows: pa.RecordBatch, heard: dict[tuple[int, Any], int]) -> None:
    """Note the latest time of each source."""
    first, source = route.layout.first_slot, route.sources[number]
    times = rows.column(first + route.times[number]).cast(pa.int64())
    table = pa.table({"time": times, "source": pa.nulls(len(times)) if source is None else rows.column(first + source)})
    latest = table.group_by("source").aggregate([("time", "max")])
    for value, time in zip(latest.column("source").to_pylist(), latest.column("time_max").to_pylist(), strict=True):
        if time is not None:
            heard[number, value] = max(time, heard.get((number, value), time))


def _marks(route: Route, heard: dict[tuple[int, Any], int], now: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return the marks of all sources as travelling rows."""
    parts, first = [], route.layout.first_slot
    for number, (time_slot, source_slot) in enumerate(zip(route.times, route.sources, strict=True)):
        own = {value: time for (input_, value), time in heard.items() if input_ == number}
        columns = [pa.nulls(len(own), field.type) for field in schema]
        columns[0] = pa.array([-1 - number] * len(own), schema.field(0).type)
        if route.layout.has_now:
            columns[1] = pa.array([now] * len(own), schema.field(1).type)
        time_type = schema.field(first + time_slot).type
        columns[first + time_slot] = pa.array(list(own.values()), pa.int64()).cast(time_type)
        if source_slot is not None:
            columns[first + source_slot] = pa.array(list(own), schema.field(first + source_slot).type)
        parts.append(pa.RecordBatch.from_arrays(columns, schema=schema))
    return pa.concat_batches(parts)


def _addressed(rows: pa.RecordBatch, shard: int) -> pa.RecordBatch:
    return rows.append_column(SHARD, pa.array(np.full(rows.num_rows, shard, np.int32)))
