"""Reporting windows that have ended and dropping what no window needs any more (Paper: forwardAndShift)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stretch.epochs.layout import NOW, OK, STATE_FULL
from stretch.epochs.report import NOTHING_SKIPPED, make_report_entries
from stretch.native.jit import specialised
from stretch.native.literal import not_literal
from stretch.operator.program import Program
from stretch.windows.kernels import (
    copy_table,
    drop_table,
    find_or_create,
    find_slot,
    give_block,
    record_of,
    take_block,
)
from stretch.windows.layout import BLOCK, CLASS, CLASS_MIN, COUNT, DIRECTORY_WORDS, TAG


def make_expire(program: Program, at: Any) -> Callable[..., int]:
    """Compile the report of all windows that end between two watermarks (Paper: forwardAndShift)."""
    shape = program.shape
    has_panes, load_timing = program.has_panes, at.timing
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
        tables, (size, advance_by, step_size) = load_tables(station), load_timing(station)
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
                    status = report_group(station, worker, group, first, last, dropped, left + size)
                    if status != OK:
                        return status
                    for table in range(first, dropped):
                        drop_table(tables, shape, worker, group, table)
            left += advance_by
        return OK

    return expire


def _make_report_group(program: Program, at: Any) -> Callable[..., int]:
    """Compile the report of one window of one group, from its only table or from the merge of several."""
    shape, merge_tables = program.shape, _make_merge_tables(program)
    report_entries = make_report_entries(program, at)
    report_two = _make_report_two(program, at, report_entries)
    load_tables = at.tables

    @specialised
    def report_group(station, worker, group, first, last, dropped, right):  # type: ignore[no-untyped-def]
        tables = load_tables(station)
        found = total = earliest = latest = not_literal(0)
        for table in range(first, last):
            record = record_of(shape, group, table)
            if tables.directory[record + TAG] == table:
                found += 1
                total += tables.directory[record + COUNT]
                if found == 1:
                    earliest = record
                latest = record
        if found == 0:
            return OK
        if found == 1:
            return report_entries(
                station,
                worker,
                group,
                right,
                tables.directory[earliest + BLOCK],
                tables.directory[earliest + COUNT],
                not_literal(NOTHING_SKIPPED),
            )
        if found == 2 and tables.directory[earliest + TAG] < dropped:
            return report_two(station, worker, group, right, earliest, latest)
        merged = (shape.groups * shape.panes + worker) * DIRECTORY_WORDS
        if not merge_tables(tables, worker, group, first, last, total, merged):
            return STATE_FULL
        block, size_class = tables.directory[merged + BLOCK], tables.directory[merged + CLASS]
        count = tables.directory[merged + COUNT]
        status = report_entries(station, worker, group, right, block, count, not_literal(NOTHING_SKIPPED))
        give_block(tables, worker, block, size_class)
        return status

    return report_group


def _make_report_two(program: Program, at: Any, report_entries: Callable[..., int]) -> Callable[..., int]:
    """Compile the report of two panes of which the earlier one is dropped next, so that nothing has to be copied.

    The later pane's entries are merged into the earlier one's; those without a counterpart there are reported from
    where they are, after all others: the order in which the keys came up.
    """
    shape, merge = program.shape, program.merge
    load_tables = at.tables

    @specialised
    def report_two(station, worker, group, right, earlier, later):  # type: ignore[no-untyped-def]
        tables = load_tables(station)
        directory, heap = tables.directory, tables.heap
        block, count = directory[later + BLOCK], directory[later + COUNT]
        size_class = CLASS_MIN
        while (1 << size_class) * 64 < count:
            size_class += 1
        merged = take_block(tables, worker, size_class)
        if merged < 0:
            return STATE_FULL
        for word in range((count + 63) >> 6):
            heap[merged + word] = 0
        into, into_class = directory[earlier + BLOCK], directory[earlier + CLASS]
        for number in range(count):
            other = block + number * shape.entry_words
            key = heap[other]
            second = heap[other + 1] if shape.key_words == 2 else 0
            slot = find_slot(tables, shape, into, into_class, key, second)
            if tables.slots[slot] != 0:
                merge(tables, into + (tables.slots[slot] - 1) * shape.entry_words, other)
                heap[merged + (number >> 6)] |= 1 << (number & 63)
        status = report_entries(
            station, worker, group, right, into, directory[earlier + COUNT], not_literal(NOTHING_SKIPPED)
        )
        if status == OK:
            status = report_entries(station, worker, group, right, block, count, merged)
        give_block(tables, worker, merged, size_class)
        return status

    return report_two


def _make_merge_tables(program: Program) -> Callable[..., bool]:
    """Compile the merge of the panes of a window into a table of its own."""
    shape, merge = program.shape, program.merge

    @specialised
    def merge_tables(tables, worker, group, first, last, total, record):  # type: ignore[no-untyped-def]
        """Merge the tables [first, last) of a group into a new block under `record`, a directory record of its own."""
        size_class = 0
        while ((1 << size_class) - ((1 << size_class) >> shape.index_shift)) // shape.entry_words < total:
            size_class += 1
        size_class = max(size_class, CLASS_MIN)
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
                at = find_or_create(tables, shape, worker, record, key, second)
                merge(tables, at, other)
        return True

    return merge_tables
