"""Writing results: rows go from table entries into the staging columns of the worker's output source.

Invariant: what a worker reserved in the output is published before it waits for anything (K3 in `worker`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stretch.epochs.calls import publish_rows, reserve_rows, wait_for_rows
from stretch.epochs.layout import NOW, OK, RESULTS, STOPPED
from stretch.native.jit import specialised
from stretch.native.waiting import WAIT_STOPPED, deadline_after
from stretch.operator.extract import FULL
from stretch.operator.program import Program
from stretch.windows import held
from stretch.windows.held import forget_rows

ROUND_NS = 200_000_000
ROWS_RESERVED = 1024
NOTHING_SKIPPED = -1


def make_report_entries(program: Program, at: Any) -> Callable[..., int]:
    """Compile the writing of rows: the entries of a block, one row each, into the output's staging.

    Entry n is left out if bit n of the words at `skipped` of the heap is set.
    """
    if program.functions is not None:
        return _make_report_instances(program, at)
    shape, write = program.shape, program.write
    load_tables, load_outs, load_out, load_workers = at.tables, at.outs, at.out, at.workers
    load_times, load_ranks = at.out_times, at.out_ranks

    @specialised
    def report_entries(station, worker, group, right, block, count, skipped):  # type: ignore[no-untyped-def]
        out, outs, tables = load_out(station), load_outs(station), load_tables(station)
        times, ranks = load_times(station), load_ranks(station)
        mask = len(times) - 1
        done, written = 0, 0
        while done < count:
            rows = min(count - done, min(ROWS_RESERVED, len(times) // 2))  # more never fit into a small staging
            first = reserve_rows(out, worker, rows)
            if first == FULL:
                if wait_for_rows(out, worker, rows, deadline_after(ROUND_NS)) == WAIT_STOPPED:
                    return STOPPED
                continue
            made = 0
            for number in range(done, done + rows):
                if skipped >= 0 and tables.heap[skipped + (number >> 6)] >> (number & 63) & 1 != 0:
                    continue
                index = (first + made) & mask
                times[index] = right
                ranks[index] = group
                write(outs, tables, block + number * shape.entry_words, index)
                made += 1
            publish_rows(out, worker, made)
            done += rows
            written += made
        load_workers(station)[worker, RESULTS] += written
        return OK

    return report_entries


def _make_reserve(at: Any) -> Callable[..., int]:
    """Compile the wait for room in the output for one row."""
    load_out = at.out

    @specialised
    def reserve(station, worker):  # type: ignore[no-untyped-def]
        """Return the number of the next row, once there is room for it; FULL when stopped."""
        out = load_out(station)
        first = reserve_rows(out, worker, 1)
        while first == FULL:
            if wait_for_rows(out, worker, 1, deadline_after(ROUND_NS)) == WAIT_STOPPED:
                return FULL
            first = reserve_rows(out, worker, 1)
        return first

    return reserve


def _make_report_instances(program: Program, at: Any) -> Callable[..., int]:
    """Compile the report of instances: the rows that their updates made, then those of the user's `output`."""
    shape, functions = program.shape, program.functions
    assert functions is not None
    make, held_at, has_output = functions.make, functions.held_at, functions.output is not None
    write_yielded: Any = _make_write_yielded(program, at) if has_output else None
    write_held = _make_write_held(program, at)
    load_tables, load_workers, load_timing = at.tables, at.workers, at.timing

    @specialised
    def report_instances(station, worker, group, right, block, count, skipped):  # type: ignore[no-untyped-def]
        tables, (size, _, _) = load_tables(station), load_timing(station)
        rows = 0
        for number in range(count):
            if skipped >= 0 and tables.heap[skipped + (number >> 6)] >> (number & 63) & 1 != 0:
                continue
            entry = block + number * shape.entry_words
            if held_at >= 0:
                made = write_held(station, worker, group, right, entry + held_at)
                if made < 0:
                    return STOPPED
                rows += made
            if has_output:
                made = write_yielded(station, worker, group, right, make(tables, entry, right - size, right))
                if made < 0:
                    return STOPPED
                rows += made
        load_workers(station)[worker, RESULTS] += rows
        return OK

    return report_instances


def _make_write_yielded(program: Program, at: Any) -> Callable[..., int]:
    """Compile the writing of the rows of one call of `output`; it returns how many, or FULL when stopped."""
    assert program.functions is not None
    output: Any = program.functions.output
    write: Any = program.functions.write
    load_outs, load_times, load_ranks = at.outs, at.out_times, at.out_ranks
    load_out, reserve = at.out, _make_reserve(at)

    @specialised
    def write_yielded(station, worker, rank, time, w):  # type: ignore[no-untyped-def]
        out, outs, times, ranks = load_out(station), load_outs(station), load_times(station), load_ranks(station)
        rows = 0
        for made in output(w):
            first = reserve(station, worker)
            if first == FULL:
                return FULL
            index = first & (len(times) - 1)
            times[index] = time
            ranks[index] = rank
            write(outs, made, index)
            publish_rows(out, worker, 1)
            rows += 1
        return rows

    return write_yielded


def _make_write_held(program: Program, at: Any) -> Callable[..., int]:
    """Compile the writing of held rows, which are freed; it returns how many there were, or FULL when stopped."""
    assert program.functions is not None
    release, row_words = program.functions.release, program.functions.held_words
    load_outs, load_times, load_ranks = at.outs, at.out_times, at.out_ranks
    load_tables, load_out, reserve = at.tables, at.out, _make_reserve(at)

    @specialised
    def write_held(station, worker, rank, time, place):  # type: ignore[no-untyped-def]
        tables, out, outs = load_tables(station), load_out(station), load_outs(station)
        times, ranks = load_times(station), load_ranks(station)
        rows = 0
        block = tables.heap[place] - 1
        while block >= 0:
            for number in range(tables.heap[block + held.COUNT]):
                first = reserve(station, worker)
                if first == FULL:
                    return FULL
                index = first & (len(times) - 1)
                times[index] = time
                ranks[index] = rank
                release(outs, tables, block + held.HEADER + number * row_words, index)
                publish_rows(out, worker, 1)
                rows += 1
            block = tables.heap[block + held.NEXT] - 1
        forget_rows(tables, worker, place)
        return rows

    return write_held


def make_emit(program: Program, at: Any) -> Callable[..., int]:
    """Compile what a Map does with the tuples in scratch: their rows leave at once, with the tuples' own times.

    Their rank is the place of the tuple in the order of the input, which all instances agree on.
    """
    assert program.mapped is not None
    emit = _emit_of_input(program, at, 0)
    load_workers, load_scratch = at.workers, at.scratch

    @specialised
    def emit_all(station, worker, low, high, count):  # type: ignore[no-untyped-def]
        scratch = load_scratch(station)
        rows = 0
        for index in range(count):
            load_workers(station)[worker, NOW] = scratch.times[index]
            made = emit(station, worker, index)
            if made < 0:
                return STOPPED
            rows += made
        load_workers(station)[worker, RESULTS] += rows
        return OK

    return emit_all


def _emit_of_input(program: Program, at: Any, number: int) -> Callable[..., int]:
    """Compile the rows of one tuple, by the input that it came from."""
    assert program.mapped is not None
    call, write = program.mapped.calls[number], program.mapped.writes[number]
    load_outs, load_times, load_ranks, load_out = at.outs, at.out_times, at.out_ranks, at.out
    load_inputs, load_tables, load_scratch, reserve = at.inputs, at.tables, at.scratch, _make_reserve(at)

    @specialised
    def emit(station, worker, index):  # type: ignore[no-untyped-def]
        scratch, out, outs = load_scratch(station), load_out(station), load_outs(station)
        times, ranks, time = load_times(station), load_ranks(station), scratch.times[index]
        rows = 0
        for made in call(load_inputs(station), load_tables(station), scratch.rows[index], time):
            first = reserve(station, worker)
            if first == FULL:
                return FULL
            place = first & (len(times) - 1)
            times[place] = time
            ranks[place] = scratch.places[index]
            write(outs, made, place)
            publish_rows(out, worker, 1)
            rows += 1
        return rows

    if number + 1 == len(program.mapped.calls):
        return emit
    others = _emit_of_input(program, at, number + 1)

    @specialised
    def this_or_others(station, worker, index):  # type: ignore[no-untyped-def]
        if load_scratch(station).inputs[index] == number:
            return emit(station, worker, index)
        return others(station, worker, index)

    return this_or_others
