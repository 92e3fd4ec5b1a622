"""What controllers are made with: fractions and lengths of real time, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from stretch.duration import duration
from stretch.errors import DefinitionError

_SECOND = 1_000_000  # microseconds


def seconds_of(value: Any, name: str, example: str, at_least: float = 0.0) -> float:
    """Return a length of real time, written as text, in seconds."""
    length = duration(value, name)
    if not isinstance(value, str):
        raise DefinitionError(
            f"{name}={value!r} does not say its unit",
            why="it is a length of real time, not of event time",
            do=f'write it as text, for example {name}="{example}"',
        )
    if length.ticks < at_least * _SECOND:
        raise DefinitionError(
            f"{name}={value!r} is too short",
            why=f"less than {at_least * 1000:g} ms of a job's work cannot be measured well",
            do=f'pass a longer time, for example {name}="{example}"',
        )
    return length.ticks / _SECOND


def check_rising(name: str, **limits: Any) -> None:
    """Check that limits are fractions, each above the one before."""
    before = 0.0
    for limit, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not before < value <= 1:
            listed = " < ".join(limits)
            raise DefinitionError(
                f"{name}: {limit}={value!r} is not possible",
                why=f"limits are parts of the time that instances work, with 0 < {listed} <= 1",
                do="write 70 % as 0.7",
            )
        before = value


def check_step(name: str, step: Any) -> None:
    """Check a cap per step."""
    if step is None or (isinstance(step, int) and not isinstance(step, bool) and step >= 1):
        return
    raise DefinitionError(
        f"{name}: step={step!r} is not possible",
        why="it is how many instances one decision may add or remove",
        do="pass a number from 1 up, or None for no limit",
    )
