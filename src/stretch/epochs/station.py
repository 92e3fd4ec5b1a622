"""What one worker works with: addresses and views of everything that it touches."""

from __future__ import annotations

from typing import Any, NamedTuple

from stretch.operator.extract import Scratch
from stretch.windows.layout import Tables


class Station(NamedTuple):
    """Everything that a worker works with; `epochs`, `log`, `out` and `measures` are addresses of view boxes."""

    epochs: int
    log: int
    out: int
    measures: int
    workers: Any  # epochs.workers
    mapping: Any
    stop: Any
    updates: Any  # by key group, of this worker: its row in measures
    times: Any  # of the log
    refs: Any
    tables: Tables
    inputs: Any
    outs: Any
    out_times: Any
    out_ranks: Any
    scratch: Scratch
    timing: Any  # (size, advance, step) of the program, so that they are data
