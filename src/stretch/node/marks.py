"""The sources of one input: the latest time of each, and when it was heard of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

LOWEST = -(1 << 62)


class Marks:
    """Arrays by place; a source is known by its value."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.latest: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.heard: npt.NDArray[np.float64] = np.empty(0)
        self.last_heard: float | None = None
        """When any source of the input was heard of; at first, when the node began."""
        self._places: dict[Any, int] = {}

    def note(self, values: Sequence[Any], latest: npt.NDArray[np.int64], now: float) -> None:
        """Note the latest times of some sources, known or not."""
        new = [value for value in values if value not in self._places]
        self._places.update((value, len(self.values) + n) for n, value in enumerate(new))
        self.values += new
        self.latest = np.append(self.latest, np.full(len(new), LOWEST))
        self.heard = np.append(self.heard, np.full(len(new), now))
        places = np.fromiter((self._places[value] for value in values), np.int64, len(values))
        self.latest[places] = np.maximum(self.latest[places], latest)
        self.heard[places] = now
        self.last_heard = now

    def reached(self, since: float) -> int | None:
        """Return what all sources that were heard of after `since` have reached; None if there is nobody to wait for.

        An input of which no source is known is waited for until `since` passes the node's beginning.
        """
        if self.values:
            waited_for = self.latest[self.heard > since]
            return int(waited_for.min()) if len(waited_for) else None
        return LOWEST if self.last_heard is None or self.last_heard > since else None

    def furthest(self) -> int:
        """Return the latest time of any source."""
        return int(self.latest.max()) if self.values else LOWEST

    def forget(self, since: float, time: int) -> None:
        """Forget sources that were not heard of after `since` and have not come beyond `time`."""
        stay = (self.heard > since) | (self.latest > time)
        if not stay.all():
            self.values = [self.values[place] for place in np.flatnonzero(stay)]
            self.latest, self.heard = self.latest[stay], self.heard[stay]
            self._places = {value: place for place, value in enumerate(self.values)}

    def state(self) -> dict[str, Any]:
        """Return all of it as plain values, for `load`."""
        return {
            "values": self.values,
            "latest": self.latest.tolist(),
            "heard": self.heard.tolist(),
            "last_heard": self.last_heard,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Become what `state` was taken of."""
        self.__init__()  # type: ignore[misc]
        if state["values"]:
            self.note(state["values"], np.array(state["latest"], np.int64), 0.0)
        self.heard = np.array(state["heard"], np.float64)
        self.last_heard = state["last_heard"]
