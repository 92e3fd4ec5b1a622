"""What a worker's loop calls once per batch or less: kernels of the buffers and of the epoch switch, by address.

They are compiled once per process, while the loop itself is compiled anew for every operator. All arguments are ints:
a view is the address of its `ViewBox`.
"""

from __future__ import annotations

import numpy as np

from stretch.buffer import ready_log_kernels as log_kernels
from stretch.buffer.ready_log import ReadyLog, Source
from stretch.buffer.rows import Column
from stretch.epochs import kernels, measures
from stretch.epochs.layout import make_epochs
from stretch.native.outline import outlined, view_loader

_log_at = view_loader(ReadyLog([[Column("any", np.int64)]], [Source()], 1, capacity=2, staging=2).view)
_epochs_at = view_loader(make_epochs(1, 1))
_measures_at = view_loader(measures.make_measures(1, 1, 1))


@outlined
def ready_end(log: int) -> int:
    return log_kernels.ready_end(_log_at(log))


@outlined
def release_to(log: int, reader: int, position: int) -> int:
    log_kernels.release_to(_log_at(log), reader, position)
    return 0


@outlined
def wait_for_entries(log: int, position: int, deadline_ns: int) -> int:
    return log_kernels.wait_for_entries(_log_at(log), position, deadline_ns)


@outlined
def report_speed(log: int, reader: int, spent_ns: int, entries: int) -> int:
    log_kernels.report_speed(_log_at(log), reader, spent_ns / entries)
    return 0


@outlined
def advance(log: int, source: int, bound: int) -> int:
    log_kernels.advance(_log_at(log), source, bound)
    return 0


@outlined
def reserve_rows(log: int, source: int, count: int) -> int:
    return log_kernels.reserve_rows(_log_at(log), source, count)


@outlined
def publish_rows(log: int, source: int, count: int) -> int:
    log_kernels.publish_rows(_log_at(log), source, count)
    return 0


@outlined
def wait_for_rows(log: int, source: int, count: int, deadline_ns: int) -> int:
    return log_kernels.wait_for_rows(_log_at(log), source, count, deadline_ns)


@outlined
def note_next_epoch(epochs: int, worker: int, epoch: int, time: int) -> int:
    kernels.note_next_epoch(_epochs_at(epochs), worker, epoch, time)
    return 0


@outlined
def switch_epoch(epochs: int, log: int, out: int, worker: int, position: int, time: int) -> int:
    return kernels.switch_epoch(_epochs_at(epochs), _log_at(log), _log_at(out), worker, position, time)


@outlined
def record_results(measured: int, worker: int, time: int, count: int) -> int:
    measures.record_results(_measures_at(measured), worker, time, count)
    return 0


@outlined
def join(epochs: int, worker: int) -> int:
    return kernels.join(_epochs_at(epochs), worker)
