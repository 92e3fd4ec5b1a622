"""Rows of two inputs in rings, as a log has them, and the plain nested loop that kernels are compared with."""

from __future__ import annotations

from collections import namedtuple
from functools import cache

import numpy as np

from stretch.joins.layout import COUNT, FULL, PROBE_FIRST, PROBE_LAST, RANGES, begin, make_hits, make_task
from stretch.joins.scan import make_scan
from stretch.operator.columns import Form, Layout
from stretch.operator.join import Join
from stretch.operator.plan import make_plan
from stretch.schema import parse_schema
from stretch.windows.spec import sliding


@cache
def compiled(match, schemas):
    """Return the bound predicate, the streams, the layouts and the scans, once per process."""
    parsed = [parse_schema(f"ts long, {text}", "test") for text in schemas]
    plan = make_plan(Join(match=match, window=sliding(100), inputs=list(parsed)), parsed)
    layouts = (Layout(), Layout())
    bound = plan.operator.pairing.match
    return bound, plan.streams, layouts, make_scan(bound, plan.streams, layouts, "test")


class Sides:
    """Two inputs in rings of `capacity` rows: `values[side][name]` by row number, from `first[side]` on."""

    def __init__(self, match, schemas, values, *, capacity, first=(0, 0)):
        self.match, _, self.layouts, self.scans = compiled(match, schemas)
        self.values, self.first, self.capacity = values, first, capacity
        self.inputs = tuple(self._columns(side) for side in (0, 1))

    def _columns(self, side):
        made = []
        for column in self.layouts[side].columns:
            given = self.values[side][column.name]
            ring = np.zeros(self.capacity, column.dtype)
            missing = np.array([value is None for value in given], bool)
            plain = np.array([0 if value is None else value for value in given])
            places = (np.arange(len(given)) + self.first[side]) & (self.capacity - 1)
            ring[places] = ~missing if column.form is Form.VALID else plain
            made.append(ring)
        return tuple(made)

    def row(self, side, number):
        names = list(self.values[side])
        index = number - self.first[side]
        values = [self.values[side][name][index] for name in names]
        stamp = self.values[side]["ts"][index] if "ts" in names else 0
        made = namedtuple("Tuple", ["timestamp", *names])
        return made(stamp, *[each.item() if hasattr(each, "item") else each for each in values])

    def expected(self, side, probes, lows, highs, ranges):
        found = []
        for probe, low, high in zip(range(*probes), lows, highs, strict=True):
            t = self.row(side, probe)
            for first, last in ranges:
                for number in range(max(low, first), min(high, last)):
                    other = self.row(1 - side, number)
                    if self.match(*((t, other) if side == 0 else (other, t))):
                        found.append((probe, number))
        return found

    def found(self, side, probes, lows, highs, ranges, room):
        task, hits = make_task(probes[1] - probes[0], len(ranges), self.capacity), make_hits(room)
        task.cells[[PROBE_FIRST, PROBE_LAST, RANGES]] = *probes, len(ranges)
        task.lows[:], task.highs[:] = lows, highs
        task.firsts[:], task.lasts[:] = np.array(ranges, np.int64).reshape(-1, 2).T
        begin(task)
        pairs, status = [], FULL
        while status == FULL:
            status = self.scans[side](self.inputs, task, hits)
            count = hits.cells[COUNT]
            assert count > 0 or status != FULL
            pairs += zip(hits.probes[:count].tolist(), hits.rows[:count].tolist(), strict=True)
        return pairs
