"""Writing results: rows go from table entries into the staging columns of the worker's output source.

Invariant: what a worker reserved in the output is published before it waits for anything (K3 in `worker`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stretch.epochs.calls import publish_rows, reserve_rows, wait_for_rows
from stretch.epochs.layout import OK, RESULTS, STOPPED
from stretch.native.jit import specialised
from stretch.native.waiting import WAIT_STOPPED, deadline_after
from stretch.operator.extract import FULL
from stretch.operator.program import Program

ROUND_NS = 200_000_000
ROWS_RESERVED = 1024
NOTHING_SKIPPED = -1


def make_report_entries(program: Program, at: Any) -> Callable[..., int]:
    """Compile the writing of rows: the entries of a block, one row each, into the output's staging.

    Entry n is left out if bit n of the words at `skipped` of the heap is set.
    """
    if program.output is not None:
        return _make_report_yielded(program, at)
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


def _make_report_yielded(program: Program, at: Any) -> Callable[..., int]:
    """Compile the writing of the rows that the user's `output` yields for each entry of a block."""
    shape, write, output = program.shape, program.write, program.output
    assert output is not None
    load_tables, load_outs, load_out, load_workers = at.tables, at.outs, at.out, at.workers
    load_times, load_ranks = at.out_times, at.out_ranks

    @specialised
    def reserve(out, worker):  # type: ignore[no-untyped-def]
        """Return the number of the next row, once there is room for it; FULL when stopped."""
        first = reserve_rows(out, worker, 1)
        while first == FULL:
            if wait_for_rows(out, worker, 1, deadline_after(ROUND_NS)) == WAIT_STOPPED:
                return FULL
            first = reserve_rows(out, worker, 1)
        return first

    @specialised
    def report_yielded(station, worker, group, right, block, count, skipped):  # type: ignore[no-untyped-def]
        out, outs, tables = load_out(station), load_outs(station), load_tables(station)
        times, ranks = load_times(station), load_ranks(station)
        mask = len(times) - 1
        rows = 0
        for number in range(count):
            if skipped >= 0 and tables.heap[skipped + (number >> 6)] >> (number & 63) & 1 != 0:
                continue
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
