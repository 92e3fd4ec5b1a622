"""A worker of a join: one instance's way through the entries of its input (Paper: o_j, Operator "ScaleJoin").

What
    `make_join_worker` compiles the loop for one program: take a tile, scan the worker's blocks of rows for each of its
    probes until the hits are full, write the pairs in the order of the probes, and so on. All but the comparisons and
    the user's `output` is compiled once for all joins (`calls`).

Invariants
    K1  When the epoch switches, the pairs of all entries before are written.
    K2  A worker that stands at a position gives no further result of an entry before it, and says so (bound).
    K3  What a worker reserved in the output is published before it waits for anything.
    K4  Entries are released after it was promised what they let it promise (B1 in `epochs.batches`).
    K5  Before rows are given back, the worker's place is where no later tuple looks back beyond.

Paper: Algorithms "processVSN" and Operator "ScaleJoin"; keys are blocks of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from stretch.epochs.layout import OK, STOPPED
from stretch.joins.calls import choose_pairs, copy_columns, next_tile, publish_pairs
from stretch.joins.program import JoinProgram
from stretch.joins.station import LEFT, NEXT, RIGHT, SCANNED, WANTS, Columns, JoinStation
from stretch.native.jit import specialised
from stretch.native.outline import field_loaders, type_key


def make_join_worker(program: JoinProgram, sample: JoinStation, columns: Columns) -> Callable[[int, int], int]:
    """Compile the loop of a program, `run(station, worker)`; it runs until stopped and returns why."""
    key = type_key(columns)
    if key not in program.workers:
        program.workers[key] = _make_run(program, field_loaders(sample), field_loaders(columns))
    return cast("Callable[[int, int], int]", program.workers[key])


def _make_run(program: JoinProgram, at: Any, columns_at: Any) -> Callable[[int, int], int]:
    load_epochs, load_log, load_out, load_measures = at.epochs, at.log, at.out, at.measures
    load_tile, load_columns, load_inputs = at.tile, at.columns, columns_at.inputs
    load_left, load_right = at.left, at.right
    scan_left, scan_right = program.scans
    write = _copy_columns if program.write is None else _make_write(program.write, at, columns_at)

    @specialised
    def run(station, worker):  # type: ignore[no-untyped-def]
        epochs, log, out, measures = load_epochs(station), load_log(station), load_out(station), load_measures(station)
        tile, columns = load_tile(station), load_columns(station)
        left, right = load_left(station), load_right(station)
        while True:
            status = next_tile(station, epochs, log, out, measures, worker)
            if status != OK:
                return status
            while True:
                if tile[WANTS + LEFT] != 0:
                    tile[SCANNED + LEFT] = scan_left(load_inputs(columns), left.task, left.hits)
                    tile[NEXT + LEFT] = 0
                if tile[WANTS + RIGHT] != 0:
                    tile[SCANNED + RIGHT] = scan_right(load_inputs(columns), right.task, right.hits)
                    tile[NEXT + RIGHT] = 0
                count = choose_pairs(station, epochs, out, worker)
                if count < 0:
                    return STOPPED
                if count > 0:
                    write(station, count)
                    publish_pairs(epochs, out, worker, count)
                elif tile[WANTS + LEFT] == 0 and tile[WANTS + RIGHT] == 0:
                    break

    return run


@specialised
def _copy_columns(station, count):  # type: ignore[no-untyped-def]
    copy_columns(station, count)


def _make_write(write: Callable[..., None], at: Any, columns_at: Any) -> Callable[..., None]:
    """Compile the writing of rows that a function of the user makes."""
    load_columns, load_pairs, load_inputs, load_outs = at.columns, at.pairs, columns_at.inputs, columns_at.outs

    @specialised
    def write_pairs(station, count):  # type: ignore[no-untyped-def]
        columns, pairs = load_columns(station), load_pairs(station)
        inputs, outs = load_inputs(columns), load_outs(columns)
        for k in range(count):
            write(inputs, outs, pairs.lefts[k], pairs.rights[k], pairs.indices[k])

    return write_pairs
