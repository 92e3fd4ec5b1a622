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

Paper: Algorithms "processVSN", "handleInputTuple", "forwardAndShift".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stretch.epochs.calls import (
    advance,
    join,
    note_next_epoch,
    publish_rows,
    ready_end,
    release_to,
    report_speed,
    reserve_rows,
    switch_epoch,
    wait_for_entries,
    wait_for_rows,
)
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
    STATE_FULL,
    STOPPED,
    SWITCH_AT,
    TOO_MANY_KEYS,
    WAIT_NS,
    WATERMARK,
)
from stretch.native.atomics import load_acquire
from stretch.native.jit import specialised
from stretch.native.outline import field_loaders
from stretch.native.system import now_ns
from stretch.native.waiting import WAIT_STOPPED, deadline_after
from stretch.operator.extract import FULL, Scratch
from stretch.operator.program import Program
from stretch.windows.kernels import (
    HEAP_FULL,
    code_of,
    copy_table,
    create_table,
    drop_table,
    find_or_create,
    give_block,
    record_of,
    take_block,
)
from stretch.windows.layout import BLOCK, CLASS, COUNT, TAG, Tables

BATCH_ENTRIES = 512
WAIT_ROUND_NS = 200_000_000
ROWS_RESERVED = 1024

DATA, CONTROL = 0, 2


class Station(NamedTuple):
    """Everything that a worker works with; `epochs`, `log` and `out` are addresses of view boxes."""

    epochs: int
    log: int
    out: int
    workers: Any  # epochs.workers
    mapping: Any
    stop: Any
    times: Any  # of the log
    refs: Any
    tables: Tables
    inputs: Any
    outs: Any
    out_times: Any
    out_ranks: Any
    scratch: Scratch


def make_worker(program: Program, sample: Station) -> Callable[[int, int], int]:
    """Compile the loop of a program, `run(station, worker)`; it runs until stopped and returns why.

    `station` is the address of a `ViewBox` with a `Station` of the sample's types.
    """
    at = field_loaders(sample)
    load_log, load_out, load_epochs, load_mapping = at.log, at.out, at.epochs, at.mapping
    load_workers, load_times, load_refs, load_stop = at.workers, at.times, at.refs, at.stop
    load_scratch = at.scratch
    size, advance_by, step_size, has_panes = program.timing
    apply_keys = _make_apply_keys(program, at)
    expire = _make_expire(program, at)
    find_keys = _make_find_keys(program, at)

    @specialised
    def process(station, worker, first, last):  # type: ignore[no-untyped-def]
        """Process the entries [first, last); stop early after a switch that sends this worker to the pool."""
        log, out, epochs = load_log(station), load_out(station), load_epochs(station)
        row, mappings = load_workers(station)[worker], load_mapping(station)
        times, refs, scratch_times = load_times(station), load_refs(station), load_scratch(station).times
        mask = len(times) - 1
        mapping = mappings[row[EPOCH] % EPOCHS_MAX]
        low, high, count = 0, -1, 0
        segment_end = -(1 << 62)  # no table chosen yet
        next_right = -(1 << 62)
        for position in range(first, last):
            time, ref = times[position & mask], refs[position & mask]
            if ref & 3 == CONTROL:
                note_next_epoch(epochs, worker, ref >> 8, time)
                continue
            if row[HAS_WATERMARK] == 0 or time > row[WATERMARK]:
                if row[PENDING] != NONE and time > row[SWITCH_AT]:
                    status = apply_keys(station, worker, low, high, count)
                    count = 0
                    if status != OK:
                        return status
                    release_to(log, worker, position)
                    row[POSITION] = position
                    if row[HAS_WATERMARK] != 0:
                        # Nobody may wait for this worker's results while it waits at the barrier (K3).
                        advance(out, worker, 2 * (row[WATERMARK] + 1))
                    status = switch_epoch(epochs, log, out, worker, position, time)
                    if status != OK or row[EPOCH] == IN_POOL:
                        return status
                    mapping = mappings[row[EPOCH] % EPOCHS_MAX]
                    next_right = -(1 << 62)
                if time >= next_right:
                    status = apply_keys(station, worker, low, high, count)
                    count = 0
                    if status == OK and row[HAS_WATERMARK] != 0:
                        status = expire(station, worker, mapping, row[WATERMARK], time)
                    if status != OK:
                        return status
                    next_right = ((time - size) // advance_by + 1) * advance_by + size
                row[WATERMARK] = time
                row[HAS_WATERMARK] = 1
            if ref & 3 != DATA:
                continue
            if time >= segment_end:
                status = apply_keys(station, worker, low, high, count)
                count = 0
                if status != OK:
                    return status
                high = time // step_size
                low = high if has_panes else (time - size) // advance_by + 1
                segment_end = (high + 1) * step_size if has_panes else min((high + 1) * step_size, next_right)
            found = find_keys(station, mapping, worker, ref, time, count)
            if found == FULL:
                status = apply_keys(station, worker, low, high, count)
                if status != OK:
                    return status
                found = find_keys(station, mapping, worker, ref, time, 0)
                count = 0
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

    @specialised
    def run(station, worker):  # type: ignore[no-untyped-def]
        """Work until stopped: in the pool, waiting for entries, or on a batch of them."""
        log, out, epochs = load_log(station), load_out(station), load_epochs(station)
        row, stop = load_workers(station)[worker], load_stop(station)
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
            last = min(ready_end(log), first + BATCH_ENTRIES)
            status = process(station, worker, first, last)
            if status != OK:
                return status
            spent = now_ns() - begun
            done = row[POSITION] - first
            row[BUSY_NS] += spent
            row[ENTRIES] += done
            if row[EPOCH] == IN_POOL:
                continue
            release_to(log, worker, row[POSITION])
            if row[HAS_WATERMARK] != 0:
                advance(out, worker, 2 * (row[WATERMARK] + 1))
            if done > 0:
                report_speed(log, worker, spent, done)

    return run


def _make_find_keys(program: Program, at: Any) -> Callable[..., int]:
    """Compile the extraction of keys, for the input that an entry names."""
    load_inputs, load_tables, load_scratch = at.inputs, at.tables, at.scratch

    def for_input(number: int) -> Callable[..., int]:
        extract = program.extracts[number]

        @specialised
        def last_input(station, mapping, worker, ref, time, count):  # type: ignore[no-untyped-def]
            return extract(
                load_inputs(station),
                load_tables(station),
                mapping,
                worker,
                ref >> 8,
                time,
                load_scratch(station),
                count,
            )

        if number + 1 == len(program.extracts):
            return last_input
        others = for_input(number + 1)

        @specialised
        def this_or_others(station, mapping, worker, ref, time, count):  # type: ignore[no-untyped-def]
            if (ref >> 2) & 63 == number:
                return last_input(station, mapping, worker, ref, time, count)
            return others(station, mapping, worker, ref, time, count)

        return this_or_others

    return for_input(0)


def _make_apply_keys(program: Program, at: Any) -> Callable[..., int]:
    """Compile the update of tables `low` to `high` with the keys in scratch."""
    shape, step = program.shape, program.step
    load_inputs, load_tables, load_scratch = at.inputs, at.tables, at.scratch

    @specialised
    def apply_keys(station, worker, low, high, count):  # type: ignore[no-untyped-def]
        inputs, tables, scratch = load_inputs(station), load_tables(station), load_scratch(station)
        for table in range(low, high + 1):
            for index in range(count):
                group = scratch.groups[index]
                record = record_of(shape, group, table)
                if tables.directory[record + TAG] != table:
                    if not create_table(tables, shape, worker, group, table):
                        return STATE_FULL
                entry = find_or_create(
                    tables, shape, worker, record, scratch.keys[index], scratch.seconds[index], scratch.codes[index]
                )
                if entry == HEAP_FULL:
                    return STATE_FULL
                step(inputs, tables, entry, scratch.rows[index], scratch.times[index])
        return OK

    return apply_keys


def _make_expire(program: Program, at: Any) -> Callable[..., int]:
    """Compile the report of all windows that end between two watermarks (Paper: forwardAndShift)."""
    shape = program.shape
    size, advance_by, step_size, has_panes = program.timing
    report_group = _make_report_group(program, at)
    load_tables, load_workers = at.tables, at.workers

    @specialised
    def earliest_table(tables, mapping, worker):  # type: ignore[no-untyped-def]
        """Return the first table of the worker's groups, or a huge number if there is none."""
        earliest = 1 << 62
        for group in range(shape.groups):
            if mapping[group] == worker:
                for pane in range(shape.panes):
                    record = record_of(shape, group, pane)
                    tag = tables.directory[record + TAG]
                    if tag != -(1 << 63) and tag < earliest:
                        earliest = tag
        return earliest

    @specialised
    def expire(station, worker, mapping, before, watermark):  # type: ignore[no-untyped-def]
        tables = load_tables(station)
        left = ((before - size) // advance_by + 1) * advance_by
        while left + size <= watermark:
            earliest = earliest_table(tables, mapping, worker)
            if earliest == 1 << 62:
                return OK
            # Jump over windows in which nothing lies: a silent year costs nothing.
            begin = earliest * step_size
            left = max(left, ((begin - size) // advance_by + 1) * advance_by if has_panes else begin)
            if left + size > watermark:
                return OK
            load_workers(station)[worker, NOW] = left + size
            first = left // step_size
            last = first + (size // step_size if has_panes else 1)
            dropped = first + (advance_by // step_size if has_panes else 1)
            for group in range(shape.groups):
                if mapping[group] == worker:
                    status = report_group(station, worker, group, first, last, left + size)
                    if status != OK:
                        return status
                    for table in range(first, dropped):
                        drop_table(tables, shape, worker, group, table)
            left += advance_by
        return OK

    return expire


def _make_report_group(program: Program, at: Any) -> Callable[..., int]:
    """Compile the report of one window of one group, from its only table or from the merge of several."""
    shape, merge = program.shape, program.merge
    report_entries = _make_report_entries(program, at)
    load_tables = at.tables

    @specialised
    def merge_tables(tables, worker, group, first, last, total, record):  # type: ignore[no-untyped-def]
        """Merge the tables [first, last) of a group into a new block under `record`, a directory record of its own."""
        size_class = 0
        while ((1 << size_class) - ((1 << size_class) >> shape.index_shift)) // shape.entry_words < total:
            size_class += 1
        size_class = max(size_class, 5)
        block = take_block(tables, worker, size_class)
        if block < 0:
            return False
        directory = tables.directory
        directory[record + BLOCK], directory[record + CLASS] = block, size_class
        is_first = True
        for table in range(first, last):
            source = record_of(shape, group, table)
            if directory[source + TAG] != table:
                continue
            if is_first:
                copy_table(tables, shape, directory[source + BLOCK], directory[source + COUNT], block, size_class)
                directory[record + COUNT] = directory[source + COUNT]
                is_first = False
                continue
            for number in range(directory[source + COUNT]):
                other = directory[source + BLOCK] + number * shape.entry_words
                key, second = tables.heap[other], 0
                if shape.key_words == 2:
                    second = tables.heap[other + 1]
                code = code_of(tables, shape, key, second)
                at = find_or_create(tables, shape, worker, record, key, second, code)
                merge(tables, at, other)
        return True

    @specialised
    def report_group(station, worker, group, first, last, right):  # type: ignore[no-untyped-def]
        tables = load_tables(station)
        found, total, only = 0, 0, 0
        for table in range(first, last):
            record = record_of(shape, group, table)
            if tables.directory[record + TAG] == table:
                found += 1
                total += tables.directory[record + COUNT]
                only = record
        if found == 0:
            return OK
        if found == 1:
            return report_entries(
                station, worker, group, right, tables.directory[only + BLOCK], tables.directory[only + COUNT]
            )
        merged = (shape.groups * shape.panes + worker) * 4
        if not merge_tables(tables, worker, group, first, last, total, merged):
            return STATE_FULL
        block, size_class = tables.directory[merged + BLOCK], tables.directory[merged + CLASS]
        status = report_entries(station, worker, group, right, block, tables.directory[merged + COUNT])
        give_block(tables, worker, block, size_class)
        return status

    return report_group


def _make_report_entries(program: Program, at: Any) -> Callable[..., int]:
    """Compile the writing of rows: the entries of a block, one row each, into the output's staging."""
    if program.output is not None:
        return _make_report_yielded(program, at)
    shape, write = program.shape, program.write
    load_tables, load_outs, load_out, load_workers = at.tables, at.outs, at.out, at.workers
    load_times, load_ranks = at.out_times, at.out_ranks

    @specialised
    def report_entries(station, worker, group, right, block, count):  # type: ignore[no-untyped-def]
        out, outs, tables = load_out(station), load_outs(station), load_tables(station)
        times, ranks = load_times(station), load_ranks(station)
        mask = len(times) - 1
        done = 0
        while done < count:
            rows = min(count - done, ROWS_RESERVED)
            first = reserve_rows(out, worker, rows)
            if first == FULL:
                if wait_for_rows(out, worker, rows, deadline_after(WAIT_ROUND_NS)) == WAIT_STOPPED:
                    return STOPPED
                continue
            for number in range(rows):
                index = (first + number) & mask
                times[index] = right
                ranks[index] = group
                write(outs, tables, block + (done + number) * shape.entry_words, index)
            publish_rows(out, worker, rows)
            done += rows
        load_workers(station)[worker, RESULTS] += count
        return OK

    return report_entries


def _make_report_yielded(program: Program, at: Any) -> Callable[..., int]:
    """Compile the writing of the rows that the user's `output` yields for each entry of a block."""
    shape, write, output = program.shape, program.write, program.output
    load_tables, load_outs, load_out, load_workers = at.tables, at.outs, at.out, at.workers
    load_times, load_ranks = at.out_times, at.out_ranks

    @specialised
    def reserve(out, worker):  # type: ignore[no-untyped-def]
        """Return the number of the next row, once there is room for it; FULL when stopped."""
        first = reserve_rows(out, worker, 1)
        while first == FULL:
            if wait_for_rows(out, worker, 1, deadline_after(WAIT_ROUND_NS)) == WAIT_STOPPED:
                return FULL
            first = reserve_rows(out, worker, 1)
        return first

    @specialised
    def report_yielded(station, worker, group, right, block, count):  # type: ignore[no-untyped-def]
        out, outs, tables = load_out(station), load_outs(station), load_tables(station)
        times, ranks = load_times(station), load_ranks(station)
        mask = len(times) - 1
        rows = 0
        for number in range(count):
            for made in output(tables.records[block // shape.entry_words + number]):
                first = reserve(out, worker)
                if first == FULL:
                    return STOPPED
                index = first & mask
                times[index] = right
                ranks[index] = group
                write(outs, made, index)
                publish_rows(out, worker, 1)
                rows += 1
        load_workers(station)[worker, RESULTS] += rows
        return OK

    return report_yielded
