"""What the loop of a join's worker calls for each tile, by address: compiled once for all joins."""

from __future__ import annotations

import numpy as np

from stretch.buffer.ready_log import ReadyLog, Source
from stretch.buffer.rows import Column
from stretch.epochs.layout import make_epochs
from stretch.epochs.measures import make_measures
from stretch.joins import results, tiles
from stretch.joins.station import (
    COPY_CELLS,
    PLACE_CELLS,
    TILE_CELLS,
    Alone,
    JoinStation,
    Timing,
    make_handed,
    make_pairs,
    make_side,
)
from stretch.native.outline import outlined, view_loader


def _sample() -> JoinStation:
    """Return a station of the type that all have."""
    cells = np.zeros(1, np.int64)
    addresses = (0, 0, 0, 0, 0)
    state = (np.zeros(PLACE_CELLS, np.int64), np.zeros(TILE_CELLS, np.int64), make_pairs(), make_handed(), cells)
    copies = np.zeros((1, COPY_CELLS), np.int64)
    sides = (make_side(2, cells, cells, np.zeros(1, np.uint8)), make_side(2, cells, cells, np.zeros(1, np.uint8)))
    staging = (copies, cells, cells, cells)
    return JoinStation(*addresses, *sides, *state, *staging, Timing(0, 0, 1, 1, 0, 0, 0, 0), Alone(cells, *staging))


_log_at = view_loader(ReadyLog([[Column("any", np.int64)]], [Source()], 1, capacity=2, staging=2).view)
_epochs_at = view_loader(make_epochs(1, 1))
_measures_at = view_loader(make_measures(1, 1, 1))
_station_at = view_loader(_sample())


@outlined
def next_tile(station: int, epochs: int, log: int, out: int, measures: int, worker: int) -> int:
    views = (_epochs_at(epochs), _log_at(log), _log_at(out), _measures_at(measures))
    return tiles.next_tile(_station_at(station), *views, worker)


@outlined
def choose_pairs(station: int, epochs: int, out: int, worker: int) -> int:
    return results.choose_pairs(_station_at(station), _epochs_at(epochs), _log_at(out), worker)


@outlined
def copy_columns(station: int, count: int) -> int:
    view = _station_at(station)
    results.copy_columns(view.copies, view.pairs, count)
    return 0


@outlined
def publish_pairs(epochs: int, out: int, worker: int, count: int) -> int:
    results.publish_pairs(_epochs_at(epochs), _log_at(out), worker, count)
    return 0
