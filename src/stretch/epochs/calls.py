"""What a worker's loop calls once per batch or less: kernels of the buffers and of the epoch switch, by address.

They are compiled once per process, while the loop itself is compiled anew for every operator. All arguments are ints:
a view is the address of its `ViewBox`.
"""

from __future__ import annotations

import numpy as np

import stretch.epochs.batches as batches
import stretch.epochs.kernels as kernels
import stretch.epochs.measures as measures
from stretch.buffer import ready_log_kernels as log_kernels
from stretch.buffer.ready_log import ReadyLog, Source
from stretch.buffer.rows import Column
from stretch.epochs.layout import make_epochs
from stretch.native.outline import outlined, view_loader

_log_at = view_loader(ReadyLog([[Column("any", np.int64)]], [Source()], 1, capacity=2, staging=2).view)
_epochs_at = view_loader(make_epochs(1, 1))
_measures_at = view_loader(measures.make_measures(1, 1, 1))


@outlined
def begin_batch(epochs: int, log: int, worker: int) -> int:
    return batches.begin_batch(_epochs_at(epochs), _log_at(log), worker)


@outlined
def end_batch(epochs: int, log: int, out: int, measured: int, worker: int, bound: int, least: int) -> int:
    views = (_epochs_at(epochs), _log_at(log), _log_at(out), _measures_at(measured))
    batches.end_batch(*views, worker, bound, least)
    return 0


@outlined
def switch(epochs: int, log: int, out: int, worker: int, time: int, bound: int) -> int:
    return batches.switch(_epochs_at(epochs), _log_at(log), _log_at(out), worker, time, bound)


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
def note_next_epoch(epochs: int, worker: int, index: int, time: int) -> int:
    kernels.note_next_epoch(_epochs_at(epochs), worker, index, time)
    return 0
