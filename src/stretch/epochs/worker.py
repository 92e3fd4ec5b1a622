"""A worker: one instance's loop over the entries of its input (Paper: o_j, processVSN).

What
    `make_worker` compiles the loop for one program. It reads ready entries in order and keeps the keys that are its
    own in scratch arrays until something else has to happen first (a window ends, a pane ends, the epoch switches,
    the batch ends); then they go into the tables, all at once. Finding keys and looking them up are apart, so that
    the misses of many lookups overlap.

Invariants
    K1  When a window is reported or the epoch switches, the scratch arrays are empty.
    K2  A worker that has processed watermark W gives no further result at or before W, and says so (bound).
    K3  What a worker reserved in the output is published before it waits for anything.
    K4  Entries are released after it was promised what they let it promise (B1 in `batches`).

Paper: Algorithms "processVSN", "handleInputTuple", "forwardAndShift".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from stretch.buffer.layout import NO_BOUND
from stretch.epochs.calls import begin_batch, end_batch, note_next_epoch, switch
from stretch.epochs.expire import make_expire
from stretch.epochs.layout import (
    BATCH_FIRST,
    BATCH_LAST,
    EPOCH,
    EPOCHS_MAX,
    HANDLED,
    HAS_WATERMARK,
    IN_POOL,
    NONE,
    NOW,
    OK,
    PENDING,
    POSITION,
    SWITCH_AT,
    TOO_MANY_KEYS,
    WATERMARK,
)
from stretch.epochs.station import Station
from stretch.epochs.update import make_apply_keys, make_find_keys
from stretch.native.jit import kernel, specialised
from stretch.native.literal import not_literal
from stretch.native.outline import field_loaders, type_key
from stretch.operator.extract import FULL
from stretch.operator.program import Program

DATA, CONTROL = 0, 2


def make_worker(program: Program, sample: Station) -> Callable[[int, int], int]:
    """Compile the loop of a program, `run(station, worker)`; it runs until stopped and returns why.

    `station` is the address of a `ViewBox` with a `Station` of the sample's types.
    """
    key = type_key(sample)
    if key not in program.workers:
        program.workers[key] = _make_worker(program, sample)
    return cast("Callable[[int, int], int]", program.workers[key])


def _make_worker(program: Program, sample: Station) -> Callable[[int, int], int]:
    at = field_loaders(sample)
    load_log, load_out, load_epochs, load_workers = at.log, at.out, at.epochs, at.workers
    load_measures, process = at.measures, _make_process(program, at)

    @specialised
    def run(station, worker):  # type: ignore[no-untyped-def]
        """Work until stopped: in the pool, waiting for entries, or on a batch of them."""
        epochs, log, out = load_epochs(station), load_log(station), load_out(station)
        row = load_workers(station)[worker]
        while True:
            status = begin_batch(epochs, log, worker)
            if status == OK:
                status = process(station, worker, row[BATCH_FIRST], row[BATCH_LAST])
            if status != OK:
                return status
            end_batch(epochs, log, out, load_measures(station), worker, promised(row), 1)

    return run


@kernel(inline=True)
def promised(row: Any) -> int:
    """Return the bound of a worker's results: none at or before its watermark (K2)."""
    return 2 * (row[WATERMARK] + 1) if row[HAS_WATERMARK] != 0 else NO_BOUND


def _make_switch(at: Any) -> Callable[..., int]:
    """Compile what a worker does at the entry that begins an epoch."""
    load_log, load_out, load_epochs, load_workers = at.log, at.out, at.epochs, at.workers

    @specialised
    def switch_at(station, worker, position, time):  # type: ignore[no-untyped-def]
        row = load_workers(station)[worker]
        row[POSITION] = position
        return switch(load_epochs(station), load_log(station), load_out(station), worker, time, promised(row))

    return switch_at


def _make_process(program: Program, at: Any) -> Callable[..., int]:
    """Compile the work on a batch of entries."""
    load_epochs, load_mapping, load_workers = at.epochs, at.mapping, at.workers
    load_times, load_refs, load_scratch = at.times, at.refs, at.scratch
    has_panes, load_timing = program.has_panes, at.timing
    find_keys, apply_keys = make_find_keys(program, at), make_apply_keys(program, at)
    expire, switch_at = make_expire(program, at), _make_switch(at)

    @specialised
    def process(station, worker, first, last):  # type: ignore[no-untyped-def]
        """Process the entries [first, last); stop early after a switch that sends this worker to the pool."""
        row, mappings = load_workers(station)[worker], load_mapping(station)
        times, refs, scratch_times = load_times(station), load_refs(station), load_scratch(station).times
        (size, advance_by, step_size), mask = load_timing(station), len(times) - 1
        mapping = mappings[row[EPOCH] % EPOCHS_MAX]
        low, high, count = not_literal(0), not_literal(-1), not_literal(0)
        segment_end = next_right = -(1 << 62)  # no table chosen yet
        for position in range(first, last):
            time, ref = times[position & mask], refs[position & mask]
            if ref & 3 == CONTROL:
                note_next_epoch(load_epochs(station), worker, ref >> 8, time)
                continue
            if row[HAS_WATERMARK] == 0 or time > row[WATERMARK]:
                is_switching = row[PENDING] != NONE and time > row[SWITCH_AT]
                if is_switching or time >= next_right:
                    status = apply_keys(station, worker, low, high, count)
                    count = not_literal(0)
                    if status == OK and is_switching:
                        status = switch_at(station, worker, position, time)
                    mapping = mappings[row[EPOCH] % EPOCHS_MAX]
                    if status == OK and row[EPOCH] != IN_POOL and row[HAS_WATERMARK] != 0:
                        status = expire(station, worker, mapping, row[WATERMARK], time)
                    if status != OK or row[EPOCH] == IN_POOL:
                        return status
                    next_right = ((time - size) // advance_by + 1) * advance_by + size
                row[WATERMARK] = time
                row[HAS_WATERMARK] = 1
            if ref & 3 != DATA:
                continue
            found = FULL if time >= segment_end else find_keys(station, mapping, worker, ref, time, count)
            if found == FULL:
                status = apply_keys(station, worker, low, high, count)
                if status != OK:
                    return status
                high = time // step_size
                low = high if has_panes else (time - size) // advance_by + 1
                segment_end = (high + 1) * step_size if has_panes else min((high + 1) * step_size, next_right)
                count = not_literal(0)
                found = find_keys(station, mapping, worker, ref, time, count)
                if found == FULL:
                    row[NOW] = time
                    return TOO_MANY_KEYS
            row[HANDLED] += found > count
            for index in range(count, found):
                scratch_times[index] = time
            count = found
        status = apply_keys(station, worker, low, high, count)
        row[POSITION] = last
        return status

    return process
