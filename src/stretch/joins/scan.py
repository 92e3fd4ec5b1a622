"""The nested loop: probes of one input against rows of the other (Paper: Operator "ScaleJoin", f_J).

What
    `make_scan` compiles, for each input, the kernel whose probes come from it. A call compares until its task is done
    or the hits are full.

Invariants
    J1 and J2 of `layout`. A scan reads rows of the task only, and writes nothing but what `layout` says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stretch.joins.layout import (
    COMPARISONS,
    COUNT,
    FROM_THE_START,
    FULL,
    MASK,
    NEXT_PROBE,
    NEXT_ROW,
    OK,
    PROBE_FIRST,
    PROBE_LAST,
    RANGES,
)
from stretch.joins.match import Matches, compile_matches
from stretch.native.jit import specialised
from stretch.operator.bands import Match
from stretch.operator.columns import Layout
from stretch.operator.plan import Stream

Scan = Callable[..., int]


def make_scan(
    match: Match | None, streams: Sequence[Stream], layouts: Sequence[Layout], operator: str
) -> tuple[Scan, Scan]:
    """Compile `scan(inputs, task, hits)`, for probes of the left input and for probes of the right one.

    Asks the layouts for the columns that it reads. `inputs` are the columns of both inputs, by place.
    """
    matches = compile_matches(match, streams, layouts, operator)
    return _make_scan(matches, True), _make_scan(matches, False)


def _make_scan(matches: Matches, is_left: bool) -> Scan:
    @specialised
    def scan(inputs, task, hits):  # type: ignore[no-untyped-def]
        cells = task.cells
        count, room = 0, len(hits.probes)
        first, mask = cells[PROBE_FIRST], cells[MASK]
        start = cells[NEXT_ROW]
        for probe in range(cells[NEXT_PROBE], cells[PROBE_LAST]):
            place = probe & mask
            low, high = max(task.lows[probe - first], start), task.highs[probe - first]
            for k in range(cells[RANGES]):
                for row in range(max(low, task.firsts[k]), min(high, task.lasts[k])):
                    other = row & mask
                    if matches(inputs, place, other) if is_left else matches(inputs, other, place):
                        if count == room:
                            cells[NEXT_PROBE], cells[NEXT_ROW] = probe, row
                            hits.cells[COUNT] = count
                            return FULL
                        hits.probes[count] = probe
                        hits.rows[count] = row
                        count += 1
                cells[COMPARISONS] += max(0, min(high, task.lasts[k]) - max(low, task.firsts[k]))
            start = FROM_THE_START
        cells[NEXT_PROBE] = cells[PROBE_LAST]
        hits.cells[COUNT] = count
        return OK

    return scan
