"""Arguments that jobs and nodes have in common: what they mean, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stretch.controllers import Elastic
from stretch.duration import duration, ticks_for
from stretch.errors import DefinitionError, ReconfigurationError
from stretch.operator.plan import Plan
from stretch.runtime.engine import Engine
from stretch.runtime.ingress import Disorder
from stretch.schema import whole_number


def parallelism_of(parallelism: int | Elastic, max_parallelism: int | None) -> tuple[int, int]:
    """Return how many instances run at first, and how many there are in the pool."""
    if isinstance(parallelism, Elastic):
        return parallelism_of(parallelism.minimum, max(parallelism.maximum, max_parallelism or 0))
    for name, given in (("parallelism", parallelism), ("max_parallelism", max_parallelism)):
        number = whole_number(given)
        if (number is None or number < 1) and (given is not None or name == "parallelism"):
            raise DefinitionError(
                f"{name}={given!r} is not possible",
                why="it is a number of instances, and at least one has to run",
                do="pass a number from 1 up",
            )
    running = int(parallelism)
    pool = running if max_parallelism is None else int(max_parallelism)
    if pool < running:
        raise DefinitionError(
            f"parallelism={running} is above max_parallelism={pool}",
            why="the pool has to hold all instances that run",
            do="pass a larger max_parallelism; instances in the pool cost next to nothing",
        )
    return running, pool


def disorder_of(watermark: str | int | None, plan: Plan) -> Disorder:
    """Return what sources promise about their order, in ticks of the time column."""
    if watermark is None or watermark == "explicit":
        return None if watermark is None else "explicit"
    first = plan.streams[0]
    ticks = ticks_for(duration(watermark, "watermark"), first.time_type.is_timestamp, "watermark", first.time)
    if ticks < 0:
        raise DefinitionError(
            f"watermark={watermark!r} is below zero",
            why="it says how far back a tuple may be, and 0 is not at all",
            do="pass a number from 0 up; leave it out if the sources are sorted",
        )
    return ticks


def seconds_of(idle: str) -> float:
    """Return a length of real time in seconds."""
    length = duration(idle, "idle")
    if isinstance(idle, str) and length.ticks:
        return length.ticks / 1_000_000
    if isinstance(idle, str):
        raise DefinitionError(
            f"idle={idle!r} is no time at all",
            why="every source would be idle at once, and its tuples late",
            do='pass a longer time, for example idle="5 seconds"',
        )
    raise DefinitionError(
        f"idle={idle!r} does not say its unit",
        why="it is a length of real time, not of event time",
        do=f'write it as text, for example idle="{idle} seconds"',
    )


def instances_of(parallelism: Any, instances: Any, engine: Engine) -> list[int]:
    """Return the instances that a change asks for."""
    wanted = whole_number(engine.parallelism if parallelism is None else parallelism)
    listed = range(wanted or 0) if instances is None else instances
    numbers = [whole_number(number) for number in listed] if isinstance(listed, Iterable) else [None]
    known = [number for number in numbers if number is not None]
    if wanted is None or len(known) < len(numbers):
        raise ReconfigurationError(
            f"parallelism={parallelism!r}, instances={instances!r} is not a number and a list of numbers",
            why="instances are numbered from 0 up, and parallelism is how many of them run",
            do="pass parallelism=4, or instances=[0, 1, 2, 3]",
        )
    _check_instances(known, None if parallelism is None else wanted, engine.max_parallelism)
    return known


def _check_instances(instances: list[int], parallelism: int | None, pool: int) -> None:
    if not instances or (parallelism is not None and parallelism != len(instances)):
        raise ReconfigurationError(
            f"parallelism={parallelism!r} with {len(instances)} instance(s) is not possible",
            why="at least one instance has to run, and both must agree",
            do="pass parallelism=... or instances=..., one is enough",
        )
    strangers = [number for number in instances if not 0 <= number < pool]
    if strangers or len(set(instances)) != len(instances):
        raise ReconfigurationError(
            f"the instances {instances} are not possible",
            why=f"the pool has {pool} instance(s), numbered from 0 to {pool - 1}, each of which runs once",
            do="ask for fewer, or pass a larger max_parallelism to stretch.setup",
        )
