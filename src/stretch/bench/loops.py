"""The loops of joins by themselves: the limit program in C++, the nested loop, and the index, over the same streams."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stretch.bench.pairs import Streams
from stretch.errors import JobError
from stretch.joins import layout
from stretch.joins.index import make_index
from stretch.joins.layout import COUNT, FULL, PROBE_FIRST, PROBE_LAST, RANGES, begin, make_hits, make_task
from stretch.joins.match import bands_of
from stretch.joins.scan import make_scan
from stretch.operator.columns import Form, Layout
from stretch.operator.join import Join
from stretch.operator.plan import make_plan
from stretch.operator.spec import Operator

_SOURCE = Path(__file__).with_name("limit.cpp")
_PROBES = 2048  # at once, so that what Python does in between is little
_HITS = 1 << 16

Rows = npt.NDArray[np.int64]


class Found(NamedTuple):
    """What comparing some steps gave: how long it took, how many pairs, and a checksum of them."""

    seconds: float
    pairs: int
    checksum: int


class LimitProgram:
    """The program in C++, built for this machine."""

    def __init__(self, compiler: str) -> None:
        with tempfile.TemporaryDirectory() as directory:  # once it is loaded nobody needs the file
            built = Path(directory) / "limit.so"
            command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", str(_SOURCE), "-o", str(built)]
            subprocess.run(command, check=True, capture_output=True)
            self._join = ctypes.CDLL(str(built)).join
        self._join.restype = ctypes.c_int64

    def run(self, streams: Streams, window: int, start: int, stop: int) -> Found:
        """Join the steps [start, stop)."""
        sides = [each[side::2].copy() for side in (0, 1) for each in (streams.firsts, streams.seconds)]
        probes, rows = np.zeros(_HITS + window, np.int64), np.zeros(_HITS + window, np.int64)
        arrays = [ctypes.c_void_p(each.ctypes.data) for each in (*sides, probes, rows)]
        numbers = [ctypes.c_int64(each) for each in (start, stop, window, _HITS)]
        begun = time.perf_counter()
        count = self._join(*arrays[:4], *numbers[:3], *arrays[4:], numbers[3])
        seconds = time.perf_counter() - begun
        if count < 0:
            raise JobError("too many pairs", why="the room for pairs is bounded", do="measure fewer steps")
        return Found(seconds, count, _checksum(probes[:count] & 1, probes[:count] >> 1, rows[:count]))


def compiler() -> str | None:
    """Return the C++ compiler of this machine, None if there is none."""
    return shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")


class Kernels:
    """The compiled loops of a join; windows of any size share them."""

    def __init__(self, join: Join) -> None:
        plan = make_plan(join, [each.schema for each in join.inputs if each.schema is not None])
        assert isinstance(plan.operator, Operator) and plan.operator.pairing is not None
        match = plan.operator.pairing.match
        assert match is not None
        self.layouts = (Layout(), Layout())
        self.scans = make_scan(match, plan.streams, self.layouts, plan.name)
        self.index = make_index(match, plan.streams, self.layouts, plan.name, bands_of(match, plan.streams))


class Loops:
    """Kernels over two streams that lie in memory; row s of either side is that of step s."""

    def __init__(self, kernels: Kernels, streams: Streams, window: int) -> None:
        self._scans, self._index = kernels.scans, kernels.index
        self._capacity = 1 << (len(streams.times) // 2 - 1).bit_length()
        self._inputs = tuple(self._columns(streams, kernels.layouts[side], side) for side in (0, 1))
        self._stripes = self._index.allocate(self._capacity)
        self._mapping = np.zeros(1000, np.int64)
        self._window = window
        self._task, self._hits = make_task(_PROBES, 1, self._capacity), make_hits(_HITS)

    def fill(self, stop: int) -> None:
        """Put the steps before `stop` into the index."""
        for side in (0, 1):
            self._insert(side, 0, stop, 0)

    def nested(self, start: int, stop: int) -> Found:
        """Compare with all rows of the windows."""

        def scan(side: int) -> int:
            return int(self._scans[side](self._inputs, self._task, self._hits))

        return self._compare(start, stop, scan)

    def indexed(self, start: int, stop: int) -> Found:
        """Keep the steps in the index, and look them up."""

        def scan(side: int) -> int:
            arguments = (self._inputs, self._stripes[1 - side], self._task, self._hits, self._mapping, 0)
            return int(self._index.scan[side](*arguments))

        return self._compare(start, stop, scan, keep=True)

    def _compare(self, start: int, stop: int, scan: Callable[[int], int], keep: bool = False) -> Found:
        task, hits, window = self._task, self._hits, self._window
        pairs = checksum = 0
        begun = time.perf_counter()
        for first in range(start, stop, _PROBES):
            last = min(stop, first + _PROBES)
            steps = np.arange(first, last)
            for side in (0, 1) if keep else ():
                self._insert(side, first, last, first - window)
            task.cells[[PROBE_FIRST, PROBE_LAST, RANGES]] = first, last, 1
            task.firsts[0], task.lasts[0] = 0, last
            task.lows[: last - first] = np.maximum(0, steps + 1 - window)
            for side in (0, 1):
                task.highs[: last - first] = steps + side
                begin(task)
                status = FULL
                while status == FULL:
                    status = scan(side)
                    count = int(hits.cells[COUNT])
                    pairs += count
                    checksum += _checksum(np.full(count, side), hits.probes[:count], hits.rows[:count])
        return Found(time.perf_counter() - begun, pairs, checksum % 2**64)

    def _insert(self, side: int, first: int, last: int, expired: int) -> None:
        rows = (first, last, expired, self._capacity - 1)
        status = self._index.insert[side](self._inputs, self._stripes[side], *rows, self._mapping, 0)
        if status != layout.OK:
            raise JobError("the index is full", why="rows did not expire", do="look at the window")

    def _columns(self, streams: Streams, of: Layout, side: int) -> tuple[Any, ...]:
        made = []
        names = (("x", "y"), ("a", "b"))[side]
        for column in of.columns:
            array = np.ones(self._capacity, column.dtype)
            if column.form is Form.VALUE:
                values = streams.firsts if column.name == names[0] else streams.seconds
                array[: len(values[side::2])] = values[side::2]
            made.append(array)
        return tuple(made)


def _checksum(sides: Rows, probes: Rows, rows: Rows) -> int:
    """Sum up a hash of each pair, so that their order does not matter."""
    with np.errstate(over="ignore"):
        words = (probes * 2 + sides).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + rows.astype(np.uint64)
        words = (words ^ (words >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        return int((words ^ (words >> np.uint64(32))).sum(dtype=np.uint64))
