"""The record of a reconfiguration: the same for every engine, which says how far the change is when asked."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Status = Literal["waiting", "switched", "superseded"]

_PAUSE_SECONDS = 0.0001  # between two looks at first; then longer and longer,
_PAUSE_SECONDS_MAX = 0.005  # up to this


class Progress(NamedTuple):
    """How far a change is: when its steps happened, by the monotonic clock; 0 for those that did not (yet)."""

    status: Status
    watermark: int | None = None
    requested_ns: int = 0
    control_ns: int = 0
    barrier_ns: int = 0
    switched_ns: int = 0


@dataclass(frozen=True)
class ReconfigurationRecord:
    """A change of parallelism or mapping as it was at some moment; see `Reconfiguration`."""

    epoch: int
    instances: tuple[int, ...]
    status: Status
    watermark: int | None
    requested_ns: int
    control_ms: float | None
    barrier_ms: float | None
    switched_ms: float | None


class Reconfiguration(ABC):
    """A change of parallelism or mapping, from its request on; `epoch` is the number of the epoch that it begins."""

    def __init__(self, epoch: int, instances: Sequence[int]) -> None:
        self.epoch = epoch
        self.instances = tuple(instances)

    @abstractmethod
    def progress(self) -> Progress:
        """Say how far it is now."""

    @abstractmethod
    def check(self) -> bool:
        """Tell whether the job still runs; raise what it failed with."""

    @property
    def parallelism(self) -> int:
        """The number of instances from then on."""
        return len(self.instances)

    @property
    def status(self) -> Status:
        """Whether it waits for the sources' watermark to go on, took effect, or was overtaken by a later one.

        A request that waits when the job ends has never taken effect, and stays "waiting".
        """
        return self.progress().status

    @property
    def watermark(self) -> int | None:
        """The event time of the tuple or heartbeat at which it took effect."""
        return self.progress().watermark

    @property
    def control_ms(self) -> float | None:
        """Milliseconds from the request until the first instance saw its control tuple."""
        return self._milliseconds(self.progress().control_ns)

    @property
    def barrier_ms(self) -> float | None:
        """Milliseconds from the request until all instances had met, at the tuple that begins the epoch."""
        return self._milliseconds(self.progress().barrier_ns)

    @property
    def switched_ms(self) -> float | None:
        """Milliseconds from the request until every instance went on in the new epoch."""
        return self._milliseconds(self.progress().switched_ns)

    def wait(self, timeout: float = 10.0) -> bool:
        """Wait until it has taken effect, for so many seconds at most; tell whether it has.

        False at once if a later change overtook it, or the job has ended. Somebody else has to send input or
        heartbeats meanwhile, since the change travels with them.
        """
        deadline = time.monotonic() + timeout
        pause = _PAUSE_SECONDS
        while self.status == "waiting" and self.check() and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
        return self.status == "switched"

    def record(self) -> ReconfigurationRecord:
        """Return what can be said now, as plain values."""
        return ReconfigurationRecord(
            self.epoch,
            self.instances,
            self.status,
            self.watermark,
            self.progress().requested_ns,
            self.control_ms,
            self.barrier_ms,
            self.switched_ms,
        )

    def __repr__(self) -> str:
        seen = self.progress()
        at = "" if seen.watermark is None else f" at {seen.watermark}"
        took = self._milliseconds(seen.switched_ns)
        after = "" if took is None else f" after {took:.2f} ms"
        return f"<Reconfiguration: epoch {self.epoch}, parallelism {self.parallelism}, {seen.status}{at}{after}>"

    def _milliseconds(self, moment_ns: int) -> float | None:
        requested_ns = self.progress().requested_ns
        return (moment_ns - requested_ns) / 1e6 if moment_ns and requested_ns else None
