"""Two operators in a row, both reconfigured while they run (Paper: the second form of setup)."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as some

import stretch as st
from stretch.reference.scheduler import Turn
from tests.harness.definition import Cut, Row, Tuple, mapped, results
from tests.harness.queries import FUNCTIONS, NAMED, fold, window
from tests.harness.run import Uneven, control, feed, rows_of, start
from tests.harness.scenarios import Execution, Scenario, computed, cuts, elastic, executions

Named = namedtuple("Named", "name value")

# Without first and last: they depend on the order of results with equal times, on which the definition is silent.
SECOND_AGGREGATES = (("count", None), ("sum", "value"), ("min", "value"), ("max", "name"))


def shout(t: Any) -> list[Row]:
    """Two rows of some, one of others."""
    return [(t.name.upper(), t.value), (t.name, 0)][: 1 + (t.value or 0) % 2]


@dataclass(frozen=True)
class Second:
    """An operator over the results of another: an `Aggregate`, or a `Map` if it has no windows."""

    cut: Cut | None
    keys: str | None = "name"
    groups: int = 1024

    def operator(self) -> Any:
        if self.cut is None:
            return st.Map(shout, schema=NAMED)
        made = {
            f"a{n}": getattr(st, kind)(column) if column else st.count()
            for n, (kind, column) in enumerate(SECOND_AGGREGATES)
        }
        return st.Aggregate(window=window(self.cut), keys=self.keys, groups=self.groups, **made)

    def expected(self, rows: Sequence[Row]) -> list[Row]:
        """Apply the definition to rows `(timestamp, name, value)`."""
        tuples = [Tuple(row[0], 0, n, 0, Named(*row[1:])) for n, row in enumerate(rows)]
        if self.cut is None:
            return mapped(tuples, shout)

        def row(key: Any, group: list[Tuple]) -> list[Row]:
            folded = [fold(kind, column, group, 1) for kind, column in SECOND_AGGREGATES]
            return [(*([] if self.keys is None else [key]), *folded)]

        return results(tuples, self.cut, lambda t: [t.row.name if self.keys else ()], on_output=row)


@dataclass(frozen=True)
class Chain:
    """A scenario of the first operator, and the second one with an execution of its own."""

    first: Scenario
    second: Second
    execution: Execution

    def expected(self) -> list[Row]:
        """Apply the definition twice."""
        return self.second.expected(self.first.case.expected())


@some.composite
def chains(draw: Any) -> Chain:
    names = [name for name, functions in FUNCTIONS.items() if functions.told["schema"] == NAMED]
    first = draw(elastic(computed(functions=names)))
    second = draw(
        some.builds(Second, some.none() | cuts(), some.sampled_from(["name", None]), some.sampled_from([1, 5]))
    )
    return Chain(first, second, draw(executions(first.case, 1, 4, second.groups if second.cut else 1024)))


def run_chain(chain: Chain, first: Execution | None = None, second: Execution | None = None) -> list[Row]:
    """Run both in one scheduler, with the sources and a controller for each, and return what the second gives."""
    case, first, second = chain.first.case, first or chain.first.execution, second or chain.execution
    upstream = start(case, first)
    job = st.setup(
        chain.second.operator(), upstream=upstream, parallelism=second.parallelism, max_parallelism=second.pool
    )
    engine: Any = job.engine
    scheduler, rows = engine.scheduler, []
    if first.is_uneven:
        scheduler._choice = Uneven(first.seed)

    def read() -> Iterator[Turn]:
        while True:
            taken = engine.take_rows()
            rows.extend(taken)
            yield Turn.RAN if taken else Turn.IDLE

    for source in range(len(case.sources)):
        scheduler.spawn(f"source {source}", feed(upstream.engine.sources, case, first, source))
    scheduler.spawn("controller 1", control(upstream.engine.reconfigure, first))
    scheduler.spawn("controller 2", control(engine.reconfigure, second))
    scheduler.spawn("reader", read())
    scheduler.run()
    return rows + rows_of(job.finish())
