"""Random scenarios: a question (query and streams), and how it is run (parallelism, batches, heartbeats, changes)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as some

from tests.harness.definition import Cut, Cutless, Row, Tuple
from tests.harness.queries import (
    FUNCTIONS,
    KEYS,
    MATCHES,
    Aggregated,
    Columns,
    Computed,
    Forwarded,
    Joined,
    Mapped,
    Query,
)

POOL_MAX = 6


@dataclass(frozen=True)
class Case:
    """What is computed: a query over sources of sorted rows `(ts, ...)`; `feeding[n]` is the input of source n."""

    query: Query
    sources: tuple[tuple[Row, ...], ...]
    feeding: tuple[int, ...]

    def tuples(self) -> list[Tuple]:
        """Return the whole input as the definition takes it."""
        return [
            Tuple(row[0], source, sequence, self.feeding[source], Columns(*row[1:]))
            for source, rows in enumerate(self.sources)
            for sequence, row in enumerate(rows)
        ]

    def expected(self) -> list[Row]:
        return self.query.expected(self.tuples())


@dataclass(frozen=True)
class Step:
    """What a source does next: add so many rows in one batch, then promise `heartbeat`, if any."""

    rows: int
    heartbeat: int | None = None


@dataclass(frozen=True)
class Change:
    """A reconfiguration: who runs, and who has which key group (None: dealt round robin)."""

    instances: tuple[int, ...]
    mapping: tuple[int, ...] | None = None
    wait: int = 0
    """How many turns its task waits before it asks."""


@dataclass(frozen=True)
class Execution:
    """How a case is run. Everything that is not laid down here follows from the seed."""

    seed: int = 0
    parallelism: int = 1
    pool: int = 1
    steps: tuple[tuple[Step, ...], ...] = ()
    """For each source; what they leave over is added row by row."""
    changes: tuple[Change, ...] = ()
    closed: tuple[int, ...] = ()
    """Sources that end before the job does."""
    is_uneven: bool = False
    """Whether some tasks stand still for long while others run (interleaved runs only)."""


@dataclass(frozen=True)
class Scenario:
    """A case and two executions of it, since most theorems compare."""

    case: Case
    execution: Execution
    other: Execution = Execution()


# --- queries

SIZES = some.sampled_from([(1, 1), (4, 4), (10, 10), (4, 2), (10, 5), (7, 3), (10, 4), (5, 1), (3, 2)])
KINDS = some.sampled_from(["multi", "single"])
GROUPS = some.sampled_from([1, 2, 5, 16, 1024])
AGGREGATES = some.sampled_from(
    [
        *[("count", None), ("count", "x"), ("count", "tag"), ("sum", "x"), ("sum", "y"), ("mean", "x"), ("mean", "y")],
        *[("min", "x"), ("min", "y"), ("min", "tag"), ("max", "x"), ("max", "y"), ("max", "tag")],
        *[("first", "x"), ("first", "tag"), ("last", "x"), ("last", "y"), ("last", "tag")],
    ]
)
REPORTED_KEYS = [name for name, keys in KEYS.items() if keys.columns or name == "one for all"]


def cuts(kinds: Any = KINDS) -> Any:
    return some.builds(lambda size, kind: Cut(*size, kind), SIZES, kinds)


def aggregated(kinds: Any = KINDS) -> Any:
    return some.builds(
        Aggregated,
        cuts(kinds),
        some.sampled_from(REPORTED_KEYS),
        some.lists(AGGREGATES, min_size=1, max_size=4).map(tuple),
        some.booleans(),
        GROUPS,
    )


@some.composite
def computed(draw: Any, kinds: Any = KINDS, functions: Any = None) -> Any:
    name = draw(some.sampled_from(functions or [*FUNCTIONS, "sides"]))
    kind = draw(kinds) if name == "sides" else draw(kinds.filter(lambda kind: kind in FUNCTIONS[name].kinds))
    cut = draw(cuts(some.just(kind)))
    inputs = draw(some.integers(2, 3)) if name == "sides" else 1
    return Computed(cut, draw(some.sampled_from(list(KEYS))), name, draw(some.booleans()), draw(GROUPS), inputs)


INTERVALS = some.builds(Cutless, some.sampled_from([0, 1, 4, 10]), some.sampled_from([0, 1, 4, 10]))


def joined(kinds: Any = KINDS) -> Any:
    """Joins of all forms; tuples that met nobody are reported where windows do not overlap as kind "multi"."""
    matches = some.sampled_from(list(MATCHES))
    keys = some.sampled_from(list(KEYS)[1:])
    keyless = some.builds(Joined, cuts(kinds) | INTERVALS, matches, some.none(), some.sampled_from([1, 2, 3, 7]))
    keyed = some.builds(Joined, cuts(kinds) | INTERVALS, matches, keys, GROUPS)
    single = cuts(some.just("single")) | some.sampled_from([Cut(4, 4), Cut(10, 10)]) | INTERVALS
    outer = some.builds(
        Joined, single, matches, some.none() | keys, GROUPS, some.sampled_from(["left", "right", "full"])
    )
    return keyless | keyed | outer


def windowed() -> Any:
    """All operators with windows."""
    forwarded = some.builds(Forwarded, some.integers(1, 4))
    choices = [aggregated(), aggregated(), computed(), computed(), joined(), joined(), forwarded]
    return some.sampled_from(choices).flatmap(lambda choice: choice)


def queries() -> Any:
    """All operators."""
    choices = [windowed()] * 8 + [some.builds(Mapped, some.integers(1, 2))]
    return some.sampled_from(choices).flatmap(lambda choice: choice)


SHAPES = {
    "counts by text": Aggregated(Cut(1, 1), "tag", (("count", None), ("count", "x")), groups=16),
    "sums by list of text": Aggregated(
        Cut(1, 1), "tags", (("sum", "x"), ("sum", "y"), ("mean", "y"), ("last", "tag")), groups=5
    ),
    "extremes of all": Aggregated(
        Cut(1, 1), "one for all", (("min", "x"), ("max", "y"), ("min", "y"), ("first", "tag")), occurrences=True
    ),
}
"""Queries for engines that compile: few, since each is compiled once; their windows are data."""


def shaped(shape: str) -> Any:
    """A query of a shape, over windows of any size."""
    return some.builds(lambda cut: replace(SHAPES[shape], cut=cut), cuts(some.just(SHAPES[shape].cut.kind)))


# --- streams

STARTS = some.sampled_from([0, 0, 0, -7, -40, 3])
GAPS = some.sampled_from([0, 0, 1, 1, 1, 2, 3, 5, 9, 10, 35, 10**12])
TAGS = some.none() | some.sampled_from(["red", "pink", "blue"])
NUMBERS = some.integers(-3, 6) | some.sampled_from([2**63 - 1, -(2**63)])
FLOATS = some.none() | some.sampled_from([0.1, 0.2, 0.7, -0.0, 0.0, 1e16, -2.5, float("nan"), float("inf")])
PAYLOADS = some.tuples(
    some.none() | some.integers(0, 3),
    TAGS,
    some.none() | some.lists(TAGS, max_size=3).map(tuple),
    NUMBERS,
    FLOATS,
)


@some.composite
def streams(draw: Any, rows_max: int) -> tuple[Row, ...]:
    """One sorted source; times repeat, leap and may be negative."""
    now, rows = draw(STARTS), []
    rows_min = draw(some.sampled_from([0, 1, rows_max // 2, rows_max]))  # left alone, lists stay short
    for gap, payload in draw(some.lists(some.tuples(GAPS, PAYLOADS), min_size=rows_min, max_size=rows_max)):
        now += gap
        rows.append((now, *payload))
    return tuple(rows)


@some.composite
def cases(draw: Any, queries: Any = queries(), rows_max: int = 10) -> Case:  # noqa: B008 - strategies are values
    query = draw(queries)
    feeding = [n for n in range(query.inputs) for _ in range(draw(some.sampled_from([1, 1, 2, 3])))]
    rows_max = max(3, rows_max * 2 // (1 + len(feeding)))
    sources = tuple(draw(streams(rows_max)) for _ in feeding)
    return Case(query, sources, tuple(feeding))


# --- executions


@some.composite
def steps(draw: Any, rows: tuple[Row, ...]) -> tuple[Step, ...]:
    """Cut the rows of a source into batches, with heartbeats that hold: nothing before them follows."""
    cut, sent = [], 0
    for size in draw(some.lists(some.integers(0, 4), max_size=5)):
        sent = min(len(rows), sent + size)
        reach = draw(some.sampled_from([None, 1, 20, 10**13]))
        following = [row[0] for row in rows[sent : sent + 1]]
        reached = [row[0] + reach for row in rows[:sent][-1:] if reach is not None]
        cut.append(Step(size, min(reached + following) if reached else None))
    return tuple(cut)


@some.composite
def changes(draw: Any, pool: int, groups: int) -> Change:
    instances = tuple(draw(some.lists(some.integers(0, pool - 1), min_size=1, unique=True)))
    mapping = None
    if groups <= 16 and draw(some.booleans()):
        mapping = tuple(draw(some.lists(some.sampled_from(instances), min_size=groups, max_size=groups)))
    return Change(instances, mapping, draw(some.sampled_from([0, 0, 1, 3, 10, 40])))


@some.composite
def executions(
    draw: Any, case: Case, changes_min: int = 0, changes_max: int = 4, groups: int | None = None
) -> Execution:
    parallelism = draw(some.integers(1, 5))
    pool = draw(some.integers(parallelism, POOL_MAX))
    wanted = some.lists(changes(pool, groups or case.query.groups), min_size=changes_min, max_size=changes_max)
    return Execution(
        seed=draw(some.integers(0, 2**32 - 1)),
        parallelism=parallelism,
        pool=pool,
        steps=tuple(draw(steps(rows)) for rows in case.sources),
        changes=tuple(draw(wanted)),
        closed=tuple(n for n in range(len(case.sources)) if draw(some.integers(0, 3)) == 0),
        is_uneven=draw(some.booleans()),
    )


@some.composite
def scenarios(draw: Any, queries: Any = queries(), rows_max: int = 10) -> Scenario:  # noqa: B008
    case = draw(cases(queries, rows_max))
    return Scenario(case, draw(executions(case)), draw(executions(case)))


@some.composite
def elastic(draw: Any, queries: Any = queries()) -> Scenario:  # noqa: B008
    """Scenarios with two reconfigurations or more, many of which overlap."""
    case = draw(cases(queries, rows_max=16))
    return Scenario(case, draw(executions(case, 2, 6)))
