"""One slot of the log: rows of one source come in piece by piece, with the control entries that wait in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stretch.buffer.ready_log import ReadyLog
from stretch.buffer.ready_log_keep import rows_before
from stretch.buffer.ready_log_kernels import admit, advance, stage_control, wait_for_room
from stretch.epochs.layout import control_index
from stretch.epochs.measures import Measures, note_arrival
from stretch.errors import JobError
from stretch.native.waiting import deadline_after
from stretch.operator.plan import Stream
from stretch.runtime.compiled.admission import Encoded, Encoder
from stretch.runtime.compiled.arrivals import times_of
from stretch.windows.spec import Boundaries

PIECE_ROWS = 4096
TRIGGER_ROWS = (
    64  # of a piece that a control entry waits for: an epoch begins at the next tuple, so it should come soon
)
ROUND_NS = 1_000_000  # how long a source that finds no room waits before it looks for control entries again


class Piece(NamedTuple):
    """Some rows of a source, sorted, as arrays."""

    times: npt.NDArray[np.int64]
    encoded: Encoded


class Inlet:
    """A slot of the log, used by one thread at a time; only `controls` may be appended to by any."""

    def __init__(
        self,
        log: ReadyLog,
        measures: Measures,
        number: int,
        stream: Stream,
        encoder: Encoder,
        boundaries: Boundaries,
    ) -> None:
        self._log = log
        self._measures = measures
        self.number = number
        self._time, self._input = stream.time, stream.index
        self._encoder = encoder
        self._boundaries = boundaries
        self.controls: deque[int] = deque()
        """Epochs that wait for the source's next tuple or promise."""

    def go_on_after_load(self) -> None:
        """Number rows behind those that the log has of this input, whose only source this is."""
        self._encoder.rows = rows_before(self._log.view, self._input)

    def pieces(self, batch: pa.RecordBatch) -> Iterator[Piece]:
        """Encode a sorted batch, piece by piece: a piece arrives when it is asked for."""
        size, step = self._boundaries.size, self._boundaries.advance
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, TRIGGER_ROWS if self.controls else PIECE_ROWS)
            start += part.num_rows
            times = np.ascontiguousarray(times_of(part, self._time))
            note_arrival(self._measures, self.number, int(times[0]))
            yield Piece(times, self._encoder.encode(part, times // step * step + size))

    def admit(self, piece: Piece, first: int) -> int:
        """Put rows of a piece into the log, from `first` on, as far as there is room now; return how many."""
        self._send_controls(int(piece.times[first]))
        view, times = self._log.view, piece.times
        done = admit(view, self.number, first, len(times), times.ctypes.data, piece.encoded.addresses)
        if done < 0:
            raise JobError(
                "a tuple does not fit into the buffer",
                where=f"source {self.number}",
                why="one of its lists is longer than half of the buffer's room for list items",
                do="cut the list, or split the tuple",
            )
        return done

    def wait_for_room(self, rows: int) -> None:
        """Wait a short while for room for so many rows."""
        wait_for_room(self._log.view, self.number, rows, deadline_after(ROUND_NS))

    def promise(self, time: int) -> None:
        """Promise that nothing before `time` follows."""
        self._send_controls(time)
        advance(self._log.view, self.number, 2 * time)

    def _send_controls(self, time: int) -> None:
        """Put the epochs that wait into the log, right before what comes at `time` (Paper: addSTRETCH)."""
        while self.controls:
            if stage_control(self._log.view, self.number, time, control_index(0, self.controls[0])) != 0:
                return
            self.controls.popleft()
