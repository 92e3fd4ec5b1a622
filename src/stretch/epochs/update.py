"""From entries to tables: find the keys of a row that are this worker's own, and update their entries.

Finding keys and looking them up are apart, so that the misses of many lookups overlap.

Paper: Algorithm "processVSN", handleInputTuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stretch.epochs.layout import OK, STATE_FULL
from stretch.native.jit import specialised
from stretch.operator.program import Program
from stretch.windows.kernels import HEAP_FULL, create_table, find_or_create, prefetch_entry, prefetch_slot, record_of
from stretch.windows.layout import TAG

# How many keys ahead memory is asked for: what a search finds no processor can foresee, so without it each search
# waits for the memory of its own key only.
SLOTS_AHEAD, ENTRIES_AHEAD = 16, 8


def make_find_keys(program: Program, at: Any) -> Callable[..., int]:
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


def make_apply_keys(program: Program, at: Any) -> Callable[..., int]:
    """Compile the update of tables `low` to `high` with the keys in scratch."""
    shape, step = program.shape, program.step
    load_inputs, load_tables, load_scratch, load_updates = at.inputs, at.tables, at.scratch, at.updates

    @specialised(inline=True)
    def look_ahead(tables, scratch, table, index, count):  # type: ignore[no-untyped-def]
        if index + SLOTS_AHEAD < count:
            ahead = index + SLOTS_AHEAD
            record = record_of(shape, scratch.groups[ahead], table)
            prefetch_slot(tables, shape, record, table, scratch.keys[ahead], scratch.seconds[ahead])
        if index + ENTRIES_AHEAD < count:
            ahead = index + ENTRIES_AHEAD
            record = record_of(shape, scratch.groups[ahead], table)
            prefetch_entry(tables, shape, record, table, scratch.keys[ahead], scratch.seconds[ahead])

    @specialised
    def apply_keys(station, worker, low, high, count):  # type: ignore[no-untyped-def]
        inputs, tables, scratch = load_inputs(station), load_tables(station), load_scratch(station)
        updates = load_updates(station)
        for table in range(low, high + 1):
            for index in range(count):
                look_ahead(tables, scratch, table, index, count)
                group = scratch.groups[index]
                record = record_of(shape, group, table)
                is_there = tables.directory[record + TAG] == table
                if not is_there and not create_table(tables, shape, worker, group, table):
                    return STATE_FULL
                entry = find_or_create(tables, shape, worker, record, scratch.keys[index], scratch.seconds[index])
                if entry == HEAP_FULL:
                    return STATE_FULL
                step(inputs, tables, entry, scratch.rows[index], scratch.times[index])
                updates[group] += 1
        return OK

    return apply_keys
