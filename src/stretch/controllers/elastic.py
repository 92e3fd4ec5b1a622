"""`st.elastic(1, 8)`: a parallelism that a controller chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stretch.controllers.arguments import seconds_of
from stretch.controllers.decision import Controller
from stretch.controllers.threshold import ThresholdController
from stretch.errors import DefinitionError, a_kind

INTERVAL_SECONDS_MIN = 0.01


@dataclass(frozen=True)
class Elastic:
    """The limits of a parallelism, who chooses within them, and how often; made by `elastic`."""

    minimum: int
    maximum: int
    controller: Controller
    interval: str

    @property
    def seconds(self) -> float:
        """The interval in seconds."""
        return seconds_of(self.interval, "interval", "1 second", INTERVAL_SECONDS_MIN)


def elastic(minimum: int, maximum: int, controller: Controller | None = None, interval: str = "1 second") -> Elastic:
    """Let a controller choose the parallelism while the job runs: `stretch.setup(..., parallelism=st.elastic(1, 8))`.

    It runs with `minimum` instances at first. After every `interval` (of real time) the controller is shown what was
    measured, and may change the parallelism within the limits; `ThresholdController()` unless you pass one.
    """
    numbers = [number for number in (minimum, maximum) if isinstance(number, int) and not isinstance(number, bool)]
    if len(numbers) < 2 or not 1 <= minimum <= maximum:
        raise DefinitionError(
            f"elastic({minimum!r}, {maximum!r}) is not possible",
            why="these are the smallest and the largest number of instances, and at least one has to run",
            do="pass for example st.elastic(1, 8)",
        )
    chosen: Any = ThresholdController() if controller is None else controller
    if isinstance(chosen, type) or not isinstance(chosen, Controller):
        raise DefinitionError(
            f"controller={controller!r} is not a controller",
            why=f"it is {a_kind(controller)} without a method decide(load, past)",
            do="pass st.ThresholdController(), or an object of your own with that method",
        )
    made = Elastic(minimum, maximum, chosen, interval)
    _ = made.seconds  # checks it
    return made
