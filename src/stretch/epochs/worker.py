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
    K4  A worker releases entries of its input after it has promised what they let it promise: who sees that they are
        released by all finds their results in the output.

Paper: Algorithms "processVSN", "handleInputTuple", "forwardAndShift".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from stretch.epochs.calls import (
    advance,
    join,
    note_next_epoch,
    ready_end,
    record_results,
    release_to,
    report_speed,
    switch_epoch,
    wait_for_entries,
)
from stretch.epochs.expire import make_expire
from stretch.epochs.layout import (
    BUSY_NS,
    ENTRIES,
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
    RESULTS,
    STOPPED,
    SWITCH_AT,
    TOO_MANY_KEYS,
    WAIT_NS,
    WATERMARK,
)
from stretch.epochs.station import Station
from stretch.epochs.update import make_apply_keys, make_find_keys
from stretch.native.atomics import load_acquire
from stretch.native.jit import specialised
from stretch.native.literal import not_literal
from stretch.native.outline import field_loaders, type_key
from stretch.native.system import now_ns
from stretch.native.waiting import WAIT_STOPPED, deadline_after
from stretch.operator.extract import FULL
from stretch.operator.program import Program

BATCH_ENTRIES = 512
BATCH_NS = 250_000  # entries are given back once per batch: a part of what flow control lets be pending
WAIT_ROUND_NS = 200_000_000

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
    load_log, load_out, load_epochs = at.log, at.out, at.epochs
    load_workers, load_stop, load_measures = at.workers, at.stop, at.measures
    process = _make_process(program, at)

    @specialised
    def run(station, worker):  # type: ignore[no-untyped-def]
        """Work until stopped: in the pool, waiting for entries, or on a batch of them."""
        log, out, epochs = load_log(station), load_out(station), load_epochs(station)
        row, stop = load_workers(station)[worker], load_stop(station)
        size = BATCH_ENTRIES
        while True:
            # load_acquire: pairs with the store_release of who stops the job.
            if load_acquire(stop, 0) != 0:
                return STOPPED
            if row[EPOCH] == IN_POOL:
                status = join(epochs, worker)
                if status != OK:
                    return status
            first = row[POSITION]
            begun = now_ns()
            if ready_end(log) == first:
                waited = wait_for_entries(log, first, deadline_after(WAIT_ROUND_NS))
                row[WAIT_NS] += now_ns() - begun
                if waited == WAIT_STOPPED:
                    return STOPPED
                continue
            last, results = min(ready_end(log), first + size), row[RESULTS]
            status = process(station, worker, first, last)
            if status != OK:
                return status
            spent = now_ns() - begun
            done = row[POSITION] - first
            # Slow functions get small batches, so that a stop is seen in time, and entries are given back.
            size = max(1, size // 2) if spent > BATCH_NS else min(BATCH_ENTRIES, 2 * size)
            row[BUSY_NS] += spent
            row[ENTRIES] += done
            if row[EPOCH] != IN_POOL:
                if row[HAS_WATERMARK] != 0:
                    advance(out, worker, 2 * (row[WATERMARK] + 1))
                release_to(log, worker, row[POSITION])
                if done > 0:
                    report_speed(log, worker, spent, done)
            if row[RESULTS] > results:
                record_results(load_measures(station), worker, row[NOW], row[RESULTS] - results)

    return run


def _make_switch(at: Any) -> Callable[..., int]:
    """Compile what a worker does at the entry that begins an epoch."""
    load_log, load_out, load_epochs, load_workers = at.log, at.out, at.epochs, at.workers

    @specialised
    def switch(station, worker, position, time):  # type: ignore[no-untyped-def]
        log, out, row = load_log(station), load_out(station), load_workers(station)[worker]
        row[POSITION] = position
        if row[HAS_WATERMARK] != 0:
            # Nobody may wait for this worker's results while it waits at the barrier (K3).
            advance(out, worker, 2 * (row[WATERMARK] + 1))
        release_to(log, worker, position)
        return switch_epoch(load_epochs(station), log, out, worker, position, time)

    return switch


def _make_process(program: Program, at: Any) -> Callable[..., int]:
    """Compile the work on a batch of entries."""
    load_epochs, load_mapping, load_workers = at.epochs, at.mapping, at.workers
    load_times, load_refs, load_scratch = at.times, at.refs, at.scratch
    has_panes, load_timing = program.has_panes, at.timing
    find_keys, apply_keys = make_find_keys(program, at), make_apply_keys(program, at)
    expire, switch = make_expire(program, at), _make_switch(at)

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
                        status = switch(station, worker, position, time)
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
